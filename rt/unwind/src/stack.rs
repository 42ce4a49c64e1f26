//! Reads words of a stack without faults.
//!
//! The upper end of a thread's own stack is known. The C library's record of the thread (`pthread_self`) is there, and the kernel's random bytes
//! (`AT_RANDOM`) are above the frames of the main stack. From the stack pointer up to there is one mapping, unless the stack pointer is in another
//! stack below. So every page in between is probed once for a thread, and the readable range is cached. It only grows downwards.
//!
//! All other stacks (`makecontext`, `sigaltstack`, runtimes with threads of their own) are probed page by page every time, because their owner may
//! unmap them.
//!
//! A stack directly below a thread's own, without an unreadable page between them, counts as a part of it. Reading there would fault if a part of it
//! was unmapped and another stack used the same place. The C library puts a guard below each of its stacks, the kernel a gap below the main stack.
//!
//! A probe is a system call, which takes some 100 ns and never faults.

use std::cell::Cell;

/// The smallest possible page size.
const PAGE: usize = 4096;

/// Maximum distance between a stack pointer and the words that are read.
const FAR: usize = 64 << 20;

/// Maximum distance below the stack pointer at which an interrupted function may have stored data: the red zone.
const BELOW: usize = 128;

/// The probed part of the calling thread's own stack.
#[derive(Debug, Clone, Copy)]
struct Own {
    /// Beginning of the readable range, which ends at `top`. Equal to `top`: nothing was probed.
    low: usize,
    /// End of the stack; zero: unknown yet.
    top: usize,
    /// An unreadable page below `low`; zero: none is known.
    hole: usize,
}

thread_local! {
    // Const initialisation and no destructor.
    static OWN: Cell<Own> = const { Cell::new(Own { low: 0, top: 0, hole: 0 }) };
}

/// A stack whose words are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    /// The readable range: address and size, both multiples of a word.
    low: usize,
    room: usize,
    /// For other stacks than the thread's own: the address at which reading began.
    other: Option<usize>,
}

impl Stack {
    /// The stack that contains a stack pointer. `is_live`: it is the caller's own, so its page is readable.
    #[inline]
    pub(super) fn at(pointer: usize, is_live: bool) -> Stack {
        let own = OWN.get();
        let room = own.top.wrapping_sub(own.low);
        if pointer.wrapping_sub(own.low) < room {
            Stack { low: own.low, room, other: None }
        } else {
            Stack::beyond(pointer, is_live)
        }
    }

    /// The word at an address. `None`: it is not readable or not aligned.
    #[inline(always)]
    pub(super) fn word(&mut self, address: usize) -> Option<usize> {
        if address.wrapping_sub(self.low) >= self.room {
            *self = self.reaching(address)?;
        }
        if !address.is_multiple_of(8) {
            return None;
        }
        // SAFETY: an aligned word within the readable range, whose end is aligned, too.
        Some(unsafe { read(address) })
    }

    /// Extends the range of the thread's own stack, or begins another stack.
    #[cold]
    #[inline(never)]
    fn beyond(pointer: usize, is_live: bool) -> Stack {
        let mut own = OWN.get();
        if own.top == 0 {
            let top = top() & !7;
            own = Own { low: top, top, hole: 0 };
        }
        let is_behind_hole = own.hole != 0 && pointer < own.hole;
        let mut is_own = pointer < own.low && own.low - pointer < FAR && !is_behind_hole;
        if is_own {
            let first = if is_live { page_of(pointer) + PAGE } else { page_of(pointer) };
            match (first..own.low).step_by(PAGE).find(|page| !can_read(*page)) {
                Some(hole) => {
                    own.hole = hole;
                    is_own = false;
                }
                None => own.low = page_of(pointer),
            }
        }
        OWN.set(own);
        if is_own {
            return Stack { low: own.low, room: own.top - own.low, other: None };
        }
        let room = if is_live { PAGE } else { 0 };
        Stack { low: page_of(pointer), room, other: Some(pointer.saturating_sub(BELOW)) }
    }

    /// Moves the range to the page of an address. `None`: it is not readable.
    #[cold]
    #[inline(never)]
    fn reaching(self, address: usize) -> Option<Stack> {
        let is_near = self.other.is_some_and(|began| address.wrapping_sub(began) < FAR);
        if is_near && can_read(page_of(address)) {
            Some(Stack { low: page_of(address), room: PAGE, other: self.other })
        } else {
            None
        }
    }
}

/// Reads a word. It is assembly, because the word is no object of the language, and sanitizers must not check it.
///
/// # Safety
/// The address is readable.
#[inline(always)]
unsafe fn read(address: usize) -> usize {
    let word;
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!("mov {}, qword ptr [{}]", lateout(reg) word, in(reg) address, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("ldr {}, [{}]", lateout(reg) word, in(reg) address, options(nostack, readonly, preserves_flags));
    }
    word
}

fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// The upper end of the calling thread's own stack.
fn top() -> usize {
    // SAFETY: the calls have no effect.
    let (is_main, random, record) = unsafe {
        let is_main = libc::syscall(libc::SYS_gettid) == libc::syscall(libc::SYS_getpid);
        (is_main, libc::getauxval(libc::AT_RANDOM), libc::pthread_self())
    };
    usize::try_from(if is_main { random } else { record }).unwrap_or_default()
}

/// Whether the page at an address is readable. It changes nothing, not even errno.
pub(super) fn can_read(page: usize) -> bool {
    can_be_readied(page).unwrap_or_else(|| is_read_by_the_kernel(page))
}

/// Probes a page by `MADV_POPULATE_READ`. `None`: the kernel does not support it (before 5.14).
fn can_be_readied(page: usize) -> Option<bool> {
    const POPULATE_READ: usize = 22;
    // SAFETY: it has no effect that is visible to a program.
    let ask = |page| unsafe { call(libc::SYS_madvise, [page, PAGE, POPULATE_READ, 0]) };
    if ask(page) == 0 {
        return Some(true);
    }
    // The error is the same for an unreadable page and for an unsupported operation. So probe a page that is readable.
    let local = 0_u8;
    if ask(page_of((&raw const local).addr())) == 0 { Some(false) } else { None }
}

/// Probes a page by `rt_sigprocmask` with an invalid operation, for which the kernel reads a signal set there. Valgrind reports it as an error.
fn is_read_by_the_kernel(page: usize) -> bool {
    const NO_OPERATION: usize = usize::MAX;
    const SET_BYTES: usize = 8;
    // SAFETY: it changes nothing.
    let answer = unsafe { call(libc::SYS_rt_sigprocmask, [NO_OPERATION, page, 0, SET_BYTES]) };
    answer == -i64::from(libc::EINVAL)
}

/// Makes a system call. Returns its result, or the negated errno.
///
/// # Safety
/// Those of the system call.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: i64, [first, second, third, fourth]: [usize; 4]) -> i64 {
    let answer;
    // SAFETY: by the caller's promise; the kernel changes the named registers only.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    answer
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: i64, [first, second, third, fourth]: [usize; 4]) -> i64 {
    let answer;
    // SAFETY: by the caller's promise; the kernel changes the named register only.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => answer,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            options(nostack),
        );
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn both_ways_to_try_a_page_tell_what_can_be_read() {
        let map = |access| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping.
            let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, flags, -1, 0) };
            assert_ne!(page, libc::MAP_FAILED);
            page.expose_provenance()
        };
        let local = 0_u64;
        let own = page_of((&raw const local).addr());
        let code = page_of(page_of as *const () as usize);
        let none = map(libc::PROT_NONE);
        let pages = [
            (own, true),
            (code, true),
            (map(libc::PROT_READ), true),
            (map(libc::PROT_READ | libc::PROT_WRITE), true),
            (none, false),
            (PAGE, false),
            (page_of(usize::MAX >> 17), false),
            (page_of(usize::MAX), false),
        ];
        for (page, expected) in pages {
            assert_eq!(is_read_by_the_kernel(page), expected, "{page:#x}");
            assert!(can_be_readied(page).is_none_or(|answer| answer == expected), "{page:#x}");
            assert_eq!(can_read(page), expected, "{page:#x}");
        }
        // SAFETY: the mapping is this test's, and no thread uses it.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(none), PAGE) };
        assert!(!can_read(none) && !is_read_by_the_kernel(none));
    }

    #[test]
    fn words_are_read_from_the_own_stack_without_asking_again() {
        // A sanitizer may move the variables: use a word of the caller's frame, which does not change while this runs.
        let at = (stack_pointer() + 64) & !7;
        let mut stack = Stack::at(at, true);
        assert!(stack.other.is_none(), "it is the thread's own");
        // SAFETY: the address is on this stack.
        let expected = unsafe { read(at) };
        assert_eq!(stack.word(at), Some(expected));
        assert_eq!([1, 4, 7].map(|offset| stack.word(at + offset)), [None; 3], "no word begins there");
        let own = OWN.get();
        assert!(own.low <= at && at < own.top && own.hole == 0);
        assert_eq!((stack.word(own.top), stack.word(own.low - 8), stack.word(0)), (None, None, None));
        assert!(stack.word(own.top - 8).is_some());
        assert_eq!((Stack::at(at, true).low, OWN.get().low), (own.low, own.low));
    }

    fn stack_pointer() -> usize {
        let pointer;
        // SAFETY: it reads a register.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        }
        pointer
    }

    #[test]
    fn another_stack_is_tried_page_by_page_and_never_far() {
        let words = vec![7_usize; 4 * PAGE / 8];
        let first = page_of(words.as_ptr().addr() + PAGE - 1);
        let mut stack = Stack::at(first + 16, false);
        assert!(stack.other.is_some() && stack.room == 0, "nothing is known of it");
        for at in [first + 16, first + PAGE, first, first + 2 * PAGE - 8] {
            assert_eq!(stack.word(at), Some(7));
        }
        assert_eq!(stack.word(first - PAGE), None, "below, and more than a red zone");
        assert_eq!(stack.word(first + 16 + FAR), None);
    }
}
