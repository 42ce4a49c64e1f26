//! A word that each thread has for itself, for code inside an allocator.
//!
//! The C library's way to a thread's variables may call the allocator: for a shared library it looks them up, and makes room for them, when others were
//! loaded meanwhile. So the word is one whose place the loader fixes when it loads the library (the initial-exec model), for which stable Rust has no
//! word: it is declared in assembly, and read and written by the instructions for that of the architectures that we know. The word is zero when a thread begins, and
//! nothing is done when it ends.

/// Makes `get() -> *mut u8` and `set(*mut u8)` of the calling thread's word with that name, which nothing else in a program has.
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
            // SAFETY: eight bytes of this thread's own are read; the loader has put their distance from the thread pointer into the table.
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
            // SAFETY: as above; they are written.
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

/// The same by the standard library, where there is no assembly for it.
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
