//! A one-word lock for data of this library: with priority inheritance, and usable inside an allocator.
//!
//! The word is the ID of the thread that holds it, in the format of the kernel's PI futexes (`FUTEX_LOCK_PI`); 0 is free. Without contention,
//! taking and releasing are one atomic operation each. With contention, the kernel sets a bit in the word, boosts the holder to the priority of
//! the first waiter, and hands the word over itself.
//!
//! It allocates nothing, registers nothing, and needs no call before its first use. The holder must leave the data consistent. So a critical section
//! calls no foreign code and contains no cancellation point. Two errors cannot be handled by a caller and end the program with a message: the
//! holder locks again (an allocator is called in a signal handler), and the holder does not exist (a child that was forked without handlers).
//!
//! Under loom the words are loom's and the kernel is a model (`model.rs`): a waiting thread is blocked, and none spins.
//!
//! # Fork
//! No action is needed before a fork. In the child, the thread has another ID. It calls [`renew_thread_number`] and then [`Word::after_fork`] on each
//! word, which returns its holder. It does so in a fork handler, or when it meets a contended word, whichever comes first (`child.rs`).

#[cfg(not(loom))]
mod child;
#[cfg(not(loom))]
mod kernel;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod thread;
#[cfg(not(loom))]
pub(crate) use child::{expect_children, is_to_be_mended};
#[cfg(not(loom))]
pub(crate) use thread::{number as thread_number, renew as renew_thread_number};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
use model::thread;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Not held.
const FREE: u32 = 0;

/// A one-word lock. See the head of this file.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32, #[cfg(loom)] model::Kernel);

/// The holder of a [`Word`] in the parent at the time of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Free,
    /// The thread that forked, in a signal handler. It still holds the word in the child.
    Own,
    /// A thread that does not exist in the child.
    Gone,
}

/// Holds a [`Word`] until dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Word);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl Word {
    /// A free word.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Word {
        Word(AtomicU32::new(FREE))
    }

    /// A free word. Loom's atomics have no const constructor.
    #[cfg(loom)]
    pub(crate) fn new() -> Word {
        Word(AtomicU32::new(FREE), model::Kernel::default())
    }

    /// Takes it. Dropping the result releases it.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }

    pub(crate) fn lock(&self) {
        if !self.try_lock() {
            self.wait();
        }
    }

    /// Takes it if it is free.
    #[must_use]
    pub(crate) fn try_lock(&self) -> bool {
        let number = thread::number();
        if self.0.compare_exchange(FREE, number, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // A signal handler forked after the number was read, and this is the child: no other thread has written the word.
        let now = thread::number();
        if now != number {
            self.0.store(now, Ordering::Relaxed);
        }
        true
    }

    /// Releases it. The calling thread must hold it.
    pub(crate) fn unlock(&self) {
        if self.0.compare_exchange(thread::number(), FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }

    /// For the only thread of a child, whose ID was `before` in the parent. Afterwards the word is free, or held by the calling thread.
    pub(crate) fn after_fork(&self, before: u32) -> Left {
        let holder = self.0.load(Ordering::Acquire) & libc::FUTEX_TID_MASK;
        let left = match holder {
            FREE => Left::Free,
            own if own == before => Left::Own,
            _ => Left::Gone,
        };
        // In the child no other thread waits for it.
        self.0.store(if left == Left::Own { thread::number() } else { FREE }, Ordering::Release);
        left
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::Barrier;

    fn value(word: &Word) -> u32 {
        word.0.load(Ordering::Relaxed)
    }

    #[test]
    fn the_word_is_the_number_of_its_holder() {
        static WORD: Word = Word::new();
        let held = WORD.hold();
        // SAFETY: the call has no effect.
        assert_eq!(i64::from(value(&WORD)), unsafe { libc::syscall(libc::SYS_gettid) });
        assert!(!WORD.try_lock());
        drop(held);
        assert_eq!(value(&WORD), FREE);
        assert!(WORD.try_lock());
        WORD.unlock();
        assert_eq!(value(&WORD), FREE);
    }

    struct Shared {
        word: Word,
        count: UnsafeCell<u64>,
    }

    // SAFETY: the count is accessed under the word only.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn add(&self) {
            let _held = self.word.hold();
            // SAFETY: the word is held.
            unsafe { *self.count.get() += 1 };
        }
    }

    #[test]
    fn of_many_threads_one_is_in_at_a_time() {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 20_000;
        let shared = Shared { word: Word::new(), count: UnsafeCell::new(0) };
        let together = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    (0..ROUNDS).for_each(|_| shared.add());
                });
            }
        });
        assert_eq!(shared.count.into_inner(), ROUNDS * THREADS as u64);
        assert_eq!(value(&shared.word), FREE);
    }

    #[test]
    fn who_waits_in_the_kernel_is_handed_the_word() {
        let word = Word::new();
        let held = word.hold();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let _held = word.hold();
                value(&word)
            });
            while value(&word) & libc::FUTEX_WAITERS == 0 {
                std::thread::yield_now();
            }
            let before = value(&word) & libc::FUTEX_TID_MASK;
            drop(held);
            let after = waiter.join().unwrap() & libc::FUTEX_TID_MASK;
            assert_ne!(before, after);
        });
        assert_eq!(value(&word), FREE);
    }

    /// Runs `body` in a forked child. The status is that of `waitpid`.
    fn child(body: impl FnOnce()) -> i32 {
        // SAFETY: the child uses this thread's memory only, and exits below.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            body();
            // SAFETY: without clean-up, so that nothing of the parent is cleaned up twice.
            unsafe { libc::_exit(0) }
        }
        let mut status = 0;
        // SAFETY: the child is this process's.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    }

    #[test]
    fn in_a_child_words_of_others_are_free_and_its_own_have_the_childs_number() {
        let (own, free) = (Word::new(), Word::new());
        // As if a thread waited for it.
        let others = Word(AtomicU32::new(libc::FUTEX_TID_MASK | libc::FUTEX_WAITERS));
        own.lock();
        let before = thread::number();
        let status = child(|| {
            renew_thread_number();
            let left = [&own, &free, &others].map(|word| word.after_fork(before));
            // SAFETY: the call has no effect.
            let is_so = left == [Left::Own, Left::Free, Left::Gone]
                && value(&own).cast_signed() == unsafe { libc::getpid() };
            own.unlock();
            let all = [&own, &free, &others].map(|word| word.hold());
            drop(all);
            // SAFETY: it ends the child.
            unsafe { libc::_exit(if is_so { 7 } else { 1 }) }
        });
        assert_eq!(libc::WEXITSTATUS(status), 7);
        own.unlock();
    }

    #[test]
    fn who_wants_it_twice_or_from_nobody_ends_with_a_sentence() {
        let word = Word::new();
        let is_aborted = |status| libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
        assert!(is_aborted(child(|| {
            word.lock();
            word.lock();
        })));
        // A thread ID beyond the kernel's maximum.
        let abandoned = Word(AtomicU32::new(libc::FUTEX_TID_MASK));
        assert!(is_aborted(child(|| abandoned.lock())));
        assert!(is_aborted(child(|| abandoned.unlock())));
    }

    /// A signal handler that forks after each instruction of lock and unlock, by single-stepping the CPU.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    mod steps {
        use super::*;
        use std::sync::atomic::{AtomicUsize, compiler_fence};

        static WORD: Word = Word::new();
        static STEPS: AtomicUsize = AtomicUsize::new(0);
        static FORK_AT: AtomicUsize = AtomicUsize::new(usize::MAX);
        static CHILD: AtomicU32 = AtomicU32::new(0);
        /// The trap flag: the CPU stops after each instruction.
        const TRAP: i64 = 0x100;

        extern "C" fn after_an_instruction(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            if STEPS.fetch_add(1, Ordering::Relaxed) != FORK_AT.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the child uses this thread's memory only; the context is the kernel's.
            unsafe {
                let before = thread::number();
                let child = libc::fork();
                if child == 0 {
                    renew_thread_number();
                    WORD.after_fork(before);
                    (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
                }
                CHILD.store(if child == 0 { u32::MAX } else { child.cast_unsigned() }, Ordering::Relaxed);
            }
        }

        /// Whether the thread holds the word, read within one process.
        fn is_mine() -> bool {
            loop {
                let number = thread::number();
                compiler_fence(Ordering::SeqCst);
                let seen = value(&WORD);
                compiler_fence(Ordering::SeqCst);
                if thread::number() == number {
                    return seen == number;
                }
            }
        }

        /// Takes and releases the word, stopping after each instruction. Whether the thread held it in between, and it is free afterwards.
        #[inline(never)]
        fn stepped() -> bool {
            STEPS.store(0, Ordering::Relaxed);
            // SAFETY: only the flag changes, and the pushed value is popped.
            unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
            WORD.lock();
            let is_mine = is_mine();
            WORD.unlock();
            // SAFETY: as above.
            unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
            is_mine && value(&WORD) == FREE
        }

        #[test]
        fn a_child_that_is_forked_after_any_instruction_goes_on() {
            // SAFETY: the handler lives as long as the program; traps are delivered to this thread, which causes them.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = after_an_instruction as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
            }
            // The first run reads the thread's ID from the kernel.
            stepped();
            stepped();
            let all = STEPS.load(Ordering::Relaxed);
            assert!(all > 10, "{all} steps: the CPU did not stop");
            for at in 0..all {
                FORK_AT.store(at, Ordering::Relaxed);
                let is_well = stepped();
                let child = CHILD.swap(0, Ordering::Relaxed);
                // SAFETY: the calls end and reap a child.
                unsafe {
                    let is_so = is_well && thread::number().cast_signed() == libc::gettid();
                    if child == u32::MAX {
                        libc::_exit(if is_so { 7 } else { 1 });
                    }
                    assert!(is_so && child != 0, "step {at} of {all}");
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child.cast_signed(), &raw mut status, 0), child.cast_signed());
                    assert!(
                        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
                        "step {at} of {all}: {status:x}"
                    );
                }
            }
        }
    }
}

/// Every interleaving of the threads: `RUSTFLAGS="--cfg loom" cargo test -p millpond-rt --test loom word`.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Shared {
        word: Word,
        count: UnsafeCell<u32>,
    }

    impl Shared {
        fn add(&self) {
            let _held = self.word.hold();
            // SAFETY: the word is held; loom checks it.
            self.count.with_mut(|count| unsafe { *count += 1 });
        }
    }

    #[test]
    fn one_is_in_at_a_time_in_any_order() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let shared = Arc::new(Shared { word: Word::new(), count: UnsafeCell::new(0) });
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || shared.add())
                })
                .collect();
            shared.add();
            for other in others {
                other.join().unwrap();
            }
            let _held = shared.word.hold();
            // SAFETY: as above.
            assert_eq!(shared.count.with(|count| unsafe { *count }), 3);
        });
    }
}
