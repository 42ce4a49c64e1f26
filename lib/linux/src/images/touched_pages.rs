//! The written pages of a process, from the kernel's page table. Reading only these avoids touching further pages.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Flags in `pagemap`: the page is in memory; it is swapped out; it belongs to a file.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILES: u64 = 1 << 61;

/// Number of `pagemap` entries per read.
const ENTRIES: u64 = 1 << 15;

/// Argument of `PAGEMAP_SCAN` (kernel 6.7).
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Result of `PAGEMAP_SCAN`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
/// Maximal number of regions per call.
const REGIONS: usize = 512;

/// The written parts of a private mapping, ascending and joined where adjacent; `None` if unknown.
pub(super) fn written(pagemap: &File, begin: u64, end: u64, page: u64) -> Option<Vec<(u64, u64)>> {
    scan(pagemap, begin, end).or_else(|| read(pagemap, begin, end, page))
}

fn add(parts: &mut Vec<(u64, u64)>, (begin, end): (u64, u64)) {
    match parts.last_mut() {
        Some(last) if last.1 == begin => last.1 = end,
        _ => parts.push((begin, end)),
    }
}

/// With `PAGEMAP_SCAN`: the kernel walks the page table and skips missing pages.
fn scan(pagemap: &File, begin: u64, end: u64) -> Option<Vec<(u64, u64)>> {
    let mut parts = Vec::new();
    let mut regions = [Region::default(); REGIONS];
    let mut at = begin;
    while at < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end,
            vec: regions.as_mut_ptr().expose_provenance() as u64,
            vec_len: REGIONS as u64,
            // Not a page of the file, and present or swapped out.
            category_inverted: IS_FILE,
            category_mask: IS_FILE,
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: IS_PRESENT,
            ..Scan::default()
        };
        // SAFETY: the request reads and writes `scan`, and writes at most `vec_len` regions to `regions`. Both are ours and
        // outlive the call.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let found = usize::try_from(found).ok()?;
        regions.get(..found)?.iter().for_each(|region| add(&mut parts, (region.start, region.end)));
        if scan.walk_end <= at {
            return None;
        }
        at = scan.walk_end;
    }
    Some(parts)
}

/// With one `pagemap` word per page.
fn read(pagemap: &File, begin: u64, end: u64, page: u64) -> Option<Vec<(u64, u64)>> {
    let mut parts = Vec::new();
    let (mut number, last) = (begin / page, end.div_ceil(page));
    while number < last {
        let count = (last - number).min(ENTRIES);
        let mut bytes = vec![0; usize::try_from(count * 8).ok()?];
        pagemap.read_exact_at(&mut bytes, number * 8).ok()?;
        for (number, entry) in (number..).zip(bytes.chunks_exact(8)) {
            let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
            if entry & (PRESENT | SWAPPED) != 0 && entry & FILES == 0 {
                add(&mut parts, (number * page, (number + 1) * page));
            }
        }
        number += count;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_there() {
        let Ok(pagemap) = File::open("/proc/self/pagemap") else {
            println!("skipped: images::touched_pages: /proc/self/pagemap cannot be opened");
            return;
        };
        let page = rustix::param::page_size();
        let bytes = 64 * page;
        // SAFETY: a new mapping at an address that the kernel chooses. Only its own pages are written.
        let base = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0).cast::<u8>();
            assert!(base.cast() != libc::MAP_FAILED);
            libc::madvise(base.cast(), bytes, libc::MADV_NOHUGEPAGE);
            for at in [3, 4, 60] {
                base.add(at * page).write_volatile(1);
            }
            base
        };
        let (begin, page) = (base.expose_provenance() as u64, page as u64);
        let expected = [(begin + 3 * page, begin + 5 * page), (begin + 60 * page, begin + 61 * page)];
        assert_eq!(read(&pagemap, begin, begin + bytes as u64, page).unwrap(), expected);
        if let Some(parts) = scan(&pagemap, begin, begin + bytes as u64) {
            assert_eq!(parts, expected);
        } else {
            println!("skipped: images::touched_pages::scan: this kernel has no PAGEMAP_SCAN");
        }
        // SAFETY: this value mapped the range, and nothing uses it any more.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}
