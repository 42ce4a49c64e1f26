//! The program and its libraries, as mapped by the dynamic linker: the module of a place, and its call frame information.

use super::bytes::Image;
use super::row::Row;
use super::stack::can_read;
use super::{index, program};
use libc::{Elf64_Ehdr, Elf64_Phdr, c_int, c_void, dl_phdr_info, size_t};
use std::mem::MaybeUninit;
use std::slice;

/// The smallest possible page size.
const PAGE: usize = 4096;

/// A module with call frame information. It stays loaded while one of its functions is on the caller's stack.
#[derive(Debug)]
pub(super) struct Module {
    /// Its address range.
    pub(super) begin: usize,
    pub(super) end: usize,
    /// A hash of its addresses and its build ID (or its table, if it has none), which differs for another module at the same addresses.
    pub(super) identity: u64,
    /// The segment that contains the section below.
    image: Image<'static>,
    /// Address of `.eh_frame_hdr`.
    section: usize,
}

impl Module {
    pub(super) fn of(place: usize) -> Option<Module> {
        match address_of_find_object() {
            0 => by_iteration(place),
            address => by_question(address, place),
        }
    }

    /// The row for a place in it.
    pub(super) fn row(&self, place: usize) -> Option<Row> {
        let entry = index::find(self.image, self.section, place)?;
        program::row(self.image, entry, place)
    }
}

/// The address of `_dl_find_object`; zero: this C library does not have it.
///
/// `dlsym` allocates when it finds nothing (the text for `dlerror`). Stable Rust has no weak references, but assembly has. The code reads an entry of
/// the global offset table, which the linker fills before any code runs. It works in static programs, too. The reference has a name of its own
/// (`.weakref`), and is defined once, even if the compiler duplicates these lines.
fn address_of_find_object() -> usize {
    let address: usize;
    // SAFETY: it reads an entry of the global offset table.
    unsafe {
        core::arch::asm!(
            ".ifndef millpond_unwind_dl_find_object",
            ".weakref millpond_unwind_dl_find_object, _dl_find_object",
            ".endif",
            "mov {0}, qword ptr [rip + millpond_unwind_dl_find_object@GOTPCREL]",
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    address
}

/// By `_dl_find_object` (glibc 2.35), which takes no lock.
fn by_question(address: usize, place: usize) -> Option<Module> {
    /// `struct dl_find_object` of glibc's manual, with room for extensions.
    #[repr(C)]
    struct Found {
        flags: u64,
        begin: usize,
        end: usize,
        link_map: usize,
        section: usize,
        more: [u64; 27],
    }
    type Find = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;
    let mut found = MaybeUninit::<Found>::zeroed();
    // SAFETY: it is the function of that name. It does not access memory at the address that it looks up, and writes one record, for which all zeros
    // are valid, too. A link map begins with the load bias of the module.
    let (found, bias) = unsafe {
        let find = std::mem::transmute::<*const (), Find>(std::ptr::with_exposed_provenance(address));
        if find(std::ptr::without_provenance_mut(place), found.as_mut_ptr()) != 0 {
            return None;
        }
        let found = found.assume_init();
        let link_map = std::ptr::with_exposed_provenance::<usize>(found.link_map);
        (found, if link_map.is_null() { 0 } else { link_map.read() })
    };
    // The program headers are in the first page of the module. The range begins there unless there are gaps between the segments.
    let is_it = |module: &Module| module.section == found.section;
    by_first_page(found.begin, place)
        .filter(is_it)
        .or_else(|| by_first_page(bias, place).filter(is_it))
        .or_else(|| of_program(place).filter(is_it))
        .or_else(|| by_iteration(place))
}

/// The module that may begin at a page.
fn by_first_page(page: usize, place: usize) -> Option<Module> {
    if page == 0 || page != page_of(page) || !can_read(page) {
        return None;
    }
    // SAFETY: the page is readable, and its beginning is sufficiently aligned. Any bytes are a valid header.
    let header = unsafe { &*std::ptr::with_exposed_provenance::<Elf64_Ehdr>(page) };
    let (at, count) = (usize::try_from(header.e_phoff).ok()?, usize::from(header.e_phnum));
    let is_there = header.e_ident.starts_with(b"\x7fELF\x02\x01")
        && usize::from(header.e_phentsize) == size_of::<Elf64_Phdr>()
        && at.is_multiple_of(align_of::<Elf64_Phdr>())
        && at.checked_add(count.checked_mul(size_of::<Elf64_Phdr>())?)? <= PAGE;
    if !is_there {
        return None;
    }
    // SAFETY: these headers are within that page, as checked above, and aligned.
    let headers =
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance::<Elf64_Phdr>(page + at), count) };
    let first = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
    module(page.wrapping_sub(page_of(usize::try_from(first.p_vaddr).ok()?)), headers, place)
}

/// The program itself, whose headers are in the auxiliary vector.
fn of_program(place: usize) -> Option<Module> {
    // SAFETY: the calls have no effect.
    let (at, count, size) = unsafe {
        (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM), libc::getauxval(libc::AT_PHENT))
    };
    let (at, count) = (usize::try_from(at).ok()?, usize::try_from(count).ok()?);
    if at == 0 || !at.is_multiple_of(align_of::<Elf64_Phdr>()) || size != size_of::<Elf64_Phdr>() as u64 {
        return None;
    }
    // SAFETY: there are that many headers of that size.
    let headers =
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance::<Elf64_Phdr>(at), count) };
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR)?;
    module(at.wrapping_sub(usize::try_from(own.p_vaddr).ok()?), headers, place)
}

/// By `dl_iterate_phdr`, which exists everywhere and takes the dynamic linker's lock.
fn by_iteration(place: usize) -> Option<Module> {
    struct Search {
        place: usize,
        found: Option<Module>,
    }
    /// # Safety
    /// `info` is from the dynamic linker, and `search` is the search below.
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, search: *mut c_void) -> c_int {
        // SAFETY: by the caller's promise; the headers are the module's own.
        let (search, bias, headers) = unsafe {
            let (search, info) = (&mut *search.cast::<Search>(), &*info);
            if info.dlpi_phdr.is_null() {
                return 0;
            }
            let headers = slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            (search, info.dlpi_addr, headers)
        };
        let Ok(bias) = usize::try_from(bias) else { return 0 };
        search.found = module(bias, headers, search.place);
        c_int::from(search.found.is_some())
    }
    let mut search = Search { place, found: None };
    // SAFETY: the callback gets its search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// The module with these headers, if it contains the place.
fn module(bias: usize, headers: &'static [Elf64_Phdr], place: usize) -> Option<Module> {
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let begin = loaded().filter_map(|header| range(bias, header)).map(|(begin, _)| page_of(begin)).min()?;
    let end = loaded().filter_map(|header| range(bias, header)).map(|(_, end)| end).max()?;
    let end = page_of(end.checked_add(PAGE - 1)?);
    if !(begin..end).contains(&place) {
        return None;
    }
    let section = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let (section, _) = range(bias, section)?;
    let readable = |address: usize| {
        let segment = loaded().find(|header| {
            let range = range(bias, header);
            header.p_flags & libc::PF_R != 0 && range.is_some_and(|(from, to)| (from..to).contains(&address))
        });
        let (begin, end) = range(bias, segment?)?;
        // SAFETY: the dynamic linker has mapped the segment readable, and it stays while the module does. No thread writes to the bytes that are
        // read.
        let bytes = unsafe {
            slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(begin), end.checked_sub(begin)?)
        };
        Some(Image { address: begin, bytes })
    };
    let image = readable(section)?;
    let mut identity = Identity::new();
    [begin, end, section].iter().for_each(|number| identity.add(&number.to_le_bytes()));
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    let is_named = notes.filter_map(|header| range(bias, header)).any(|(from, to)| {
        let id = readable(from).and_then(|image| build_id(image, from, to));
        id.map(|id| identity.add(id)).is_some()
    });
    if !is_named && let Some(table) = image.from(section) {
        // Samples from the whole section and the bytes after it.
        let step = (table.rest.len() / 64).max(1);
        table.rest.iter().step_by(step).for_each(|byte| identity.add(&[*byte]));
    }
    Some(Module { begin, end, identity: identity.0, image, section })
}

/// The address range of a header.
fn range(bias: usize, header: &Elf64_Phdr) -> Option<(usize, usize)> {
    let begin = bias.wrapping_add(usize::try_from(header.p_vaddr).ok()?);
    Some((begin, begin.checked_add(usize::try_from(header.p_memsz).ok()?)?))
}

fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// The build ID in the notes between two addresses.
fn build_id(image: Image<'_>, from: usize, to: usize) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    let mut notes = image.from(from)?.take(to.checked_sub(from)?)?;
    loop {
        let (name, content, kind) = (notes.length()?, notes.length()?, notes.u32()?);
        let name = notes.take(name.checked_next_multiple_of(4)?)?.rest;
        let content = notes.take(content.checked_next_multiple_of(4)?)?.rest;
        if kind == BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
    }
}

/// A hash of bytes (FNV-1a).
#[derive(Debug)]
struct Identity(u64);

impl Identity {
    fn new() -> Identity {
        Identity(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_a_module_finds_the_same() {
        // Places in the program, in the C library, and in the dynamic linker.
        let c = libc::gnu_get_libc_version as *const () as usize;
        // SAFETY: the call has no effect.
        let linker = usize::try_from(unsafe { libc::getauxval(libc::AT_BASE) }).unwrap() + PAGE;
        let own = every_way_to_a_module_finds_the_same as *const () as usize;
        for place in [own, c, linker] {
            let Some(expected) = by_iteration(place) else {
                println!("skipped: every_way_to_a_module_finds_the_same: there is no dynamic linker here");
                continue;
            };
            let same = |module: Module| {
                assert_eq!((module.begin, module.end), (expected.begin, expected.end));
                assert_eq!((module.section, module.identity), (expected.section, expected.identity));
                assert_eq!(module.image.address, expected.image.address);
                assert_eq!(module.row(place), expected.row(place));
            };
            same(Module::of(place).unwrap());
            same(by_first_page(expected.begin, place).unwrap());
            assert!((expected.begin..expected.end).contains(&place));
        }
        assert_eq!(of_program(own).unwrap().identity, by_iteration(own).unwrap().identity);
        assert!(of_program(c).is_none());
    }

    #[test]
    fn what_is_in_no_module_has_none() {
        let local = 0_u8;
        for place in [0, 1, PAGE, (&raw const local).addr(), usize::MAX >> 17] {
            assert!(Module::of(place).is_none() && by_iteration(place).is_none(), "{place:#x}");
        }
    }

    #[test]
    fn a_page_that_begins_no_module_is_none() {
        let own = a_page_that_begins_no_module_is_none as *const () as usize;
        let begin = by_iteration(own).unwrap().begin;
        for page in [0, 1, begin + 8, page_of(own), 1 << 46, PAGE] {
            assert!(by_first_page(page, own).is_none(), "{page:#x}");
        }
        // The place is in another module.
        assert!(by_first_page(begin, libc::gnu_get_libc_version as *const () as usize).is_none());
    }

    #[test]
    fn a_build_id_is_found_among_notes_and_nowhere_else() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut bytes = Vec::new();
            for length in [name.len(), content.len()] {
                bytes.extend(u32::try_from(length).unwrap().to_le_bytes());
            }
            bytes.extend(kind.to_le_bytes());
            for part in [name, content] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let find = |bytes: Vec<u8>| {
            let image = Image { address: 0x1000, bytes: &bytes };
            build_id(image, 0x1000, 0x1000 + bytes.len()).map(<[u8]>::to_vec)
        };
        let (other, id) = (note(1, b"GNU\0", &[9; 16]), note(3, b"GNU\0", &[1, 2, 3, 4]));
        assert_eq!(find([other.clone(), id.clone()].concat()), Some(vec![1, 2, 3, 4]));
        assert_eq!(find([note(3, b"Go\0", &[5; 4]), id.clone()].concat()), Some(vec![1, 2, 3, 4]));
        assert_eq!(find(other), None);
        assert_eq!(find(Vec::new()), None);
        for length in 0..id.len() {
            assert_eq!(find(id[..length].to_vec()), None);
        }
        let mut endless = id;
        endless[..4].copy_from_slice(&[0xff; 4]);
        assert_eq!(find(endless), None);
    }
}
