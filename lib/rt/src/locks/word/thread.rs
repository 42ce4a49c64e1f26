//! The calling thread's number, kept for each thread.
//!
//! An allocator asks for it, and the C library's way to a thread's variables may call the allocator: for a shared library it looks them up, and makes room for
//! them, when others were loaded meanwhile. So the variable is one whose place the loader fixes (the initial-exec model), which the compiler has
//! no word for: on processors whose instructions for that we know it is read by these.

use place::{get, set};

/// As the kernel knows it; asked once.
pub(crate) fn number() -> u32 {
    match get() {
        0 => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> u32 {
    // SAFETY: it only asks.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    let number = u32::try_from(number).unwrap_or_default();
    set(number);
    number
}

/// It has become another one.
pub(super) fn forget() {
    set(0);
}

#[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod place {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.millpond_rt_thread_number, \"awT\", %nobits",
        ".balign 4",
        ".globl millpond_rt_thread_number",
        ".hidden millpond_rt_thread_number",
        ".type millpond_rt_thread_number, %object",
        ".size millpond_rt_thread_number, 4",
        "millpond_rt_thread_number:",
        ".zero 4",
        ".popsection",
    );

    /// Where the calling thread has it.
    #[cfg(target_arch = "x86_64")]
    fn place() -> *mut u32 {
        let place: *mut u32;
        // SAFETY: fs:0 has its own address, the thread pointer; the loader has put the distance of the variable from it into the table.
        unsafe {
            asm!(
                "mov {place}, qword ptr fs:[0]",
                "add {place}, qword ptr [rip + millpond_rt_thread_number@GOTTPOFF]",
                place = out(reg) place,
                options(pure, readonly, nostack),
            );
        }
        place
    }

    /// As above.
    #[cfg(target_arch = "aarch64")]
    fn place() -> *mut u32 {
        let place: *mut u32;
        // SAFETY: the register has the thread pointer; the loader has put the distance of the variable from it into the table.
        unsafe {
            asm!(
                "mrs {place}, tpidr_el0",
                "adrp {distance}, :gottprel:millpond_rt_thread_number",
                "ldr {distance}, [{distance}, :gottprel_lo12:millpond_rt_thread_number]",
                "add {place}, {place}, {distance}",
                place = out(reg) place,
                distance = out(reg) _,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        place
    }

    pub(super) fn get() -> u32 {
        // SAFETY: four bytes of this thread's own, which begin as zero and which nobody else has a pointer to.
        unsafe { place().read() }
    }

    pub(super) fn set(number: u32) {
        // SAFETY: as above.
        unsafe { place().write(number) }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod place {
    use std::cell::Cell;

    thread_local! {
        // Nothing to be made at first use and nothing to be cleaned up: an allocator uses it in threads that are about to end.
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn get() -> u32 {
        NUMBER.get()
    }

    pub(super) fn set(number: u32) {
        NUMBER.set(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_number_and_asks_again_when_it_forgot() {
        // SAFETY: it only asks.
        let kernels = || u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap();
        let mine = number();
        assert_eq!(mine, kernels());
        std::thread::spawn(move || {
            assert_eq!((get(), number()), (0, kernels()));
            assert_ne!(number(), mine);
            forget();
            assert_eq!((get(), number()), (0, kernels()));
        })
        .join()
        .unwrap();
        assert_eq!(get(), mine);
    }
}
