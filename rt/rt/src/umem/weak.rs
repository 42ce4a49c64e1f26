//! Weak references: functions that may exist or not, resolved by the linker.
//!
//! `dlsym` allocates when it finds nothing (the text for `dlerror`), which would be a recursion while the allocator is initialised. Stable Rust has
//! no weak references, but assembly has. The code reads an entry of the global offset table, which the linker fills before any code runs: zero if the
//! function does not exist. It works in static programs, too.
//!
//! The reference has a name of its own (`.weakref`), because with link-time optimisation the program may define the function in the same compilation
//! unit. It is defined once, even if the compiler duplicates these lines.

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

/// The address of a function by its name, a literal; zero: it does not exist.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
macro_rules! address_of_weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: it reads an entry of the global offset table.
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

/// Other architectures have no hooks.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
macro_rules! address_of_weak {
    ($name:literal) => {
        0_usize
    };
}

pub(crate) use address_of_weak;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
pub(crate) use load_entry;
