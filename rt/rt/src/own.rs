//! A thread-local word for code inside an allocator.
//!
//! Access to a thread-local variable of a shared library may call the allocator: the C library looks the variable up and allocates memory for it, if
//! other libraries were loaded meanwhile. So this word uses the initial-exec TLS model: the loader fixes its place when it loads the library.
//! Stable Rust has no way to request that model. The word is declared in assembly, and read and written by instructions of the known
//! architectures. It is zero when a thread begins, and has no destructor.

/// Defines `get() -> *mut u8` and `set(*mut u8)` for the calling thread's word of that name. The name is unique in the program.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
macro_rules! word_of_thread {
    ($name:literal) => {
        std::arch::global_asm!(
            concat!(".pushsection .tbss.", $name, ", \"awT\", %nobits"),
            ".balign 8",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", %object"),
            concat!(".size ", $name, ", 8"),
            concat!($name, ":"),
            ".zero 8",
            ".popsection",
        );

        #[inline(always)]
        fn get() -> *mut u8 {
            let word;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: eight bytes of this thread are read; the loader has stored their offset from the thread pointer in the GOT.
            unsafe {
                std::arch::asm!(
                    concat!("mov {at}, qword ptr [rip + ", $name, "@GOTTPOFF]"),
                    "mov {word}, qword ptr fs:[{at}]",
                    at = out(reg) _,
                    word = lateout(reg) word,
                    options(nostack, preserves_flags, readonly),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            unsafe {
                std::arch::asm!(
                    concat!("adrp {at}, :gottprel:", $name),
                    concat!("ldr {at}, [{at}, :gottprel_lo12:", $name, "]"),
                    "mrs {word}, tpidr_el0",
                    "ldr {word}, [{word}, {at}]",
                    at = out(reg) _,
                    word = out(reg) word,
                    options(nostack, preserves_flags, readonly),
                );
            }
            word
        }

        #[inline(always)]
        fn set(word: *mut u8) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, but they are written.
            unsafe {
                std::arch::asm!(
                    concat!("mov {at}, qword ptr [rip + ", $name, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{at}], {word}",
                    at = out(reg) _,
                    word = in(reg) word,
                    options(nostack, preserves_flags),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            unsafe {
                std::arch::asm!(
                    concat!("adrp {at}, :gottprel:", $name),
                    concat!("ldr {at}, [{at}, :gottprel_lo12:", $name, "]"),
                    "mrs {base}, tpidr_el0",
                    "str {word}, [{base}, {at}]",
                    at = out(reg) _,
                    base = out(reg) _,
                    word = in(reg) word,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

/// The same by the standard library, for architectures without assembly here.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
macro_rules! word_of_thread {
    ($name:literal) => {
        thread_local! {
            static WORD: std::cell::Cell<*mut u8> = const { std::cell::Cell::new(std::ptr::null_mut()) };
        }

        fn get() -> *mut u8 {
            WORD.get()
        }

        fn set(word: *mut u8) {
            WORD.set(word);
        }
    };
}

pub(crate) use word_of_thread;
