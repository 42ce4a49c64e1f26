//! Location of a lock in a process: what its address belongs to in the memory map (`/proc/PID/maps`).
//!
//! An allocator's locks are recognised by the mapping that holds them: the data of an allocator library (`libjemalloc`,
//! `libtcmalloc`, `libmimalloc`, …), the data of the C library, or the head of a glibc arena. Each further glibc arena begins at
//! a multiple of 64 MiB with a heap header, followed by the arena with its lock. The lock of the first arena and the lock of the
//! arena list are in the C library's own data; the locks of streams follow in unnamed memory. A statically linked program has all
//! of these in its own data, where they cannot be distinguished.

use crate::images::parse_maps;
use millpond_model::LockPlace;

/// Alignment of further glibc arenas.
const ARENA: u64 = 64 << 20;
/// The lock of an arena lies within this distance of its beginning.
const HEAD: u64 = 4096;

/// Substring of the names of allocator mappings: libraries, and arenas where the C library names them.
const MALLOC: &str = "malloc";
/// Prefixes of the file names of C libraries. musl's C library is its dynamic linker.
const C_LIBRARIES: [&str; 3] = ["libc.", "libc-", "ld-musl-"];

/// Location of an address; `None` when nothing is mapped there.
pub(super) fn place(maps: &str, address: u64) -> Option<LockPlace> {
    let mapping = parse_maps(maps).into_iter().find(|mapping| mapping.contains(address))?;
    let module = mapping.module();
    let name = if module.starts_with('[') { module.trim_matches(['[', ']']) } else { module };
    if name.is_empty() {
        let of_allocator = address % ARENA < HEAD;
        let name = if of_allocator { "an arena of malloc" } else { "memory without a name" };
        return Some(LockPlace { name: name.to_owned(), of_allocator });
    }
    let of_allocator = name.contains(MALLOC) || C_LIBRARIES.iter().any(|known| name.starts_with(known));
    Some(LockPlace { name: name.to_owned(), of_allocator })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 rw-p 00003000 fe:00 1234       /usr/bin/server worker
55d0c2000000-55d0c2021000 rw-p 00000000 00:00 0          [heap]
7f2a08000000-7f2a08021000 rw-p 00000000 00:00 0 
7f2a0e1d0000-7f2a0e1d2000 rw-p 001d0000 fe:00 1701       /usr/lib/x86_64-linux-gnu/libc.so.6
7f2a0e1d2000-7f2a0e1df000 rw-p 00000000 00:00 0 
7f2a0e300000-7f2a0e301000 rw-p 00000000 fe:00 99         /usr/lib/libjemalloc.so.2
7f2a0f001000-7f2a0f002000 rw-p 00000000 00:00 0          []
";

    fn found(address: u64) -> Option<(String, bool)> {
        place(MAPS, address).map(|place| (place.name, place.of_allocator))
    }

    #[test]
    fn allocators_are_known_by_their_places() {
        let expected = [
            (0x7f2a_0800_0030, "an arena of malloc", true),
            (0x7f2a_0e1d_1c60, "libc.so.6", true),
            (0x7f2a_0e30_0040, "libjemalloc.so.2", true),
            (0x55d0_c000_0010, "server worker", false),
            (0x55d0_c200_2000, "heap", false),
            (0x7f2a_0802_0fff, "memory without a name", false),
            (0x7f2a_0e1d_3000, "memory without a name", false),
            (0x7f2a_0f00_1008, "memory without a name", false),
        ];
        for (address, name, of_allocator) in expected {
            assert_eq!(found(address), Some((name.to_owned(), of_allocator)), "{address:x}");
        }
        assert_eq!(found(0x7f2a_0802_1000), None);
        assert_eq!(found(0), None);
    }

    #[test]
    fn fuzz_maps() {
        millpond_fuzz::check_text("linux-maps", &[MAPS], |text| {
            if let Some(place) = place(text, 0x7f2a_0800_0030) {
                assert!(!place.name.is_empty());
            }
        });
    }
}
