//! The program and its libraries, as the dynamic linker has mapped them: which one a place of code is in, and where its call frame information is.

use super::bytes::Image;
use super::row::Row;
use super::{index, program};
use crate::umem::weak::address_of_weak;
use libc::{Elf64_Ehdr, Elf64_Phdr, c_int, c_void, dl_phdr_info, size_t};
use std::mem::MaybeUninit;
use std::slice;

/// The smallest page that there is: what is mapped is mapped in these.
const PAGE: usize = 4096;

/// A module with call frame information. It stays as long as one of its functions is on the stack of whoever asks.
#[derive(Debug)]
pub(super) struct Module {
    /// What it takes of the address space.
    pub(super) begin: usize,
    /// As above.
    pub(super) end: usize,
    /// A number that another module in its place would not have: made of where things are and of its build id, or of its table when it has none.
    pub(super) identity: u64,
    /// The segment that the section below is in.
    image: Image<'static>,
    /// Where `.eh_frame_hdr` begins.
    section: usize,
}

impl Module {
    /// The module that a place is in.
    pub(super) fn of(place: usize) -> Option<Module> {
        match address_of_weak!("_dl_find_object") {
            0 => by_iteration(place),
            address => by_question(address, place),
        }
    }

    /// How to find the caller from a place of it.
    pub(super) fn row(&self, place: usize) -> Option<Row> {
        let entry = index::find(self.image, self.section, place)?;
        program::row(self.image, entry, place)
    }
}

/// By `_dl_find_object` (glibc 2.35), which takes no lock.
fn by_question(address: usize, place: usize) -> Option<Module> {
    /// What glibc's manual says of `struct dl_find_object`, and room for what may be added to it.
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
    // SAFETY: it is the function of that name; it reads no memory at the address that it is asked for, and writes one record, which may be all
    // zeros as well.
    let found = unsafe {
        let find = std::mem::transmute::<*const (), Find>(std::ptr::with_exposed_provenance(address));
        if find(std::ptr::without_provenance_mut(place), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    // The first page of a module holds what its file begins with.
    let header = std::ptr::with_exposed_provenance::<Elf64_Ehdr>(found.begin);
    // SAFETY: the module is mapped from there, a page at the least, and beginnings of pages are aligned for all.
    let header = unsafe { header.as_ref() }?;
    let (at, count) = (usize::try_from(header.e_phoff).ok()?, usize::from(header.e_phnum));
    let size = count.checked_mul(size_of::<Elf64_Phdr>())?;
    let is_there = header.e_ident.starts_with(b"\x7fELF\x02\x01")
        && usize::from(header.e_phentsize) == size_of::<Elf64_Phdr>()
        && at.is_multiple_of(align_of::<Elf64_Phdr>())
        && at.checked_add(size)? <= PAGE.min(found.end.checked_sub(found.begin)?);
    if !is_there {
        return None;
    }
    // SAFETY: these headers are within that first page, as was just seen, and aligned.
    let headers = unsafe {
        slice::from_raw_parts(std::ptr::with_exposed_provenance::<Elf64_Phdr>(found.begin + at), count)
    };
    let first = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
    let bias = found.begin.wrapping_sub(page_of(usize::try_from(first.p_vaddr).ok()?));
    module(bias, headers, place)
}

/// By `dl_iterate_phdr`, which is everywhere and takes the dynamic linker's lock.
fn by_iteration(place: usize) -> Option<Module> {
    struct Search {
        place: usize,
        found: Option<Module>,
    }
    /// # Safety
    /// The record is one of the dynamic linker's, and `search` is the search below.
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, search: *mut c_void) -> c_int {
        // SAFETY: our caller promises it; the headers are the module's own.
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
    // SAFETY: the callback is given to what it is for, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

/// The module of these headers, if the place is in it.
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
        // SAFETY: the dynamic linker has mapped the segment to be read, and it stays while the module does. Nobody writes to what is looked at.
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
        // A few bytes from everywhere in the section and what follows it.
        let step = (table.rest.len() / 64).max(1);
        table.rest.iter().step_by(step).for_each(|byte| identity.add(&[*byte]));
    }
    Some(Module { begin, end, identity: identity.0, image, section })
}

/// Where a header says that something is.
fn range(bias: usize, header: &Elf64_Phdr) -> Option<(usize, usize)> {
    let begin = bias.wrapping_add(usize::try_from(header.p_vaddr).ok()?);
    Some((begin, begin.checked_add(usize::try_from(header.p_memsz).ok()?)?))
}

fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// The build id among the notes between two addresses.
fn build_id(image: Image<'static>, from: usize, to: usize) -> Option<&'static [u8]> {
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

/// A sum of bytes in order (FNV-1a).
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
