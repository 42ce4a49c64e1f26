//! Functions that may be there or not: looked up by the linker.
//!
//! `dlsym` allocates when it finds nothing (the text for `dlerror`), which in an allocator that is just being made is a call of itself. Stable Rust
//! has no weak references; assemblers have. What is read is the entry of the global offset table, which the linker fills before any code runs: zero
//! where there is no such function. It works in static programs, too.
//!
//! The reference has a name of its own (`.weakref`), because the program may define the function where this is compiled: with optimisation of
//! the whole program. It is made once, however often the compiler repeats these lines.

/// Loads an entry of the global offset table into the register `{0}`.
#[cfg(target_arch = "x86_64")]
macro_rules! load_entry {
    ($symbol:expr) => {
        concat!("mov {0}, qword ptr [rip + ", $symbol, "@GOTPCREL]")
    };
}

/// As above.
#[cfg(target_arch = "aarch64")]
macro_rules! load_entry {
    ($symbol:expr) => {
        concat!("adrp {0}, :got:", $symbol, "\nldr {0}, [{0}, :got_lo12:", $symbol, "]")
    };
}

/// The address of a function by its name, a literal; zero: there is none.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
macro_rules! address_of_weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: an entry of the global offset table is read.
        unsafe {
            core::arch::asm!(
                concat!(".ifndef millpond_weak", $name),
                concat!(".weakref millpond_weak", $name, ", ", $name),
                ".endif",
                $crate::umem::weak::load_entry!(concat!("millpond_weak", $name)),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}

/// Elsewhere nothing is looked up.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! address_of_weak {
    ($name:literal) => {
        0_usize
    };
}

pub(crate) use address_of_weak;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) use load_entry;
