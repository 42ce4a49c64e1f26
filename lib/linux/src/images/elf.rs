//! 64-bit ELF files, as far as cores and symbol names need them. All input is untrusted and bounds-checked.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// ELF type of a core.
pub(super) const CORE: u16 = 4;
/// Segment types: memory, notes.
pub(super) const LOAD: u32 = 1;
pub(super) const NOTE: u32 = 4;

/// Limits for the number of segments and sections, and for the bytes of a table.
const HEADERS_MAX: u64 = 1 << 20;
const TABLE_MAX: u64 = 1 << 29;

/// Section types of symbol tables: all symbols, dynamic symbols.
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoElf {
    #[error("it is no ELF file")]
    Magic,
    #[error("it is of a 32-bit program, and only 64-bit ones have object caches")]
    Narrow,
    #[error("it is of another architecture, whose bytes are the other way round")]
    BigEndian,
    #[error("its head is invalid")]
    Head,
}

/// A segment: a part of a file that is, or was, a part of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) in_file: u64,
    pub(super) in_memory: u64,
}

/// The ELF header and its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Elf {
    pub(super) kind: u16,
    pub(super) machine: u16,
    pub(super) segments: Vec<Segment>,
    sections: (u64, u64),
}

/// The symbol of a function or variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) name: String,
}

/// A range of a file; `None` if the file is shorter.
pub(super) fn bytes(file: &File, offset: u64, count: u64) -> Option<Vec<u8>> {
    // The length is untrusted: check it against the file before allocating.
    let length = file.metadata().ok()?.len();
    if count > TABLE_MAX || offset.checked_add(count)? > length {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(count).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// A little-endian number of `N` bytes; zero beyond the end.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = at.checked_add(N).and_then(|end| bytes.get(at..end)) {
        word[..N].copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

fn small<const N: usize, T: TryFrom<u64> + Default>(bytes: &[u8], at: usize) -> T {
    T::try_from(number::<N>(bytes, at)).unwrap_or_default()
}

impl Elf {
    /// Reads the header and the segments.
    pub(super) fn read(file: &File) -> Result<Elf, NoElf> {
        let ident = bytes(file, 0, 16).filter(|ident| ident.starts_with(b"\x7fELF")).ok_or(NoElf::Magic)?;
        match (ident[4], ident[5]) {
            (2, 1) => {}
            (1, _) => return Err(NoElf::Narrow),
            (2, 2) => return Err(NoElf::BigEndian),
            _ => return Err(NoElf::Head),
        }
        let head = bytes(file, 0, 64).ok_or(NoElf::Head)?;
        let (segments_at, sections_at) = (number::<8>(&head, 32), number::<8>(&head, 40));
        let (segment_size, section_size) = (number::<2>(&head, 54), number::<2>(&head, 58));
        let (mut segments, mut sections) = (number::<2>(&head, 56), number::<2>(&head, 60));
        // If there are more than fit into the header, the first section has the numbers.
        if (segments == 0xffff || sections == 0) && sections_at != 0 && section_size >= 64 {
            let first = bytes(file, sections_at, 64).unwrap_or_default();
            sections = if sections == 0 { number::<8>(&first, 32) } else { sections };
            segments = if segments == 0xffff { number::<4>(&first, 44) } else { segments };
        }
        if segments > HEADERS_MAX || (segments > 0 && segment_size != 56) {
            return Err(NoElf::Head);
        }
        let table = bytes(file, segments_at, segments * 56).ok_or(NoElf::Head)?;
        let segment = |entry: &[u8]| Segment {
            kind: small::<4, _>(entry, 0),
            flags: small::<4, _>(entry, 4),
            offset: number::<8>(entry, 8),
            address: number::<8>(entry, 16),
            in_file: number::<8>(entry, 32),
            in_memory: number::<8>(entry, 40),
        };
        let sections = if section_size == 64 { sections.min(HEADERS_MAX) } else { 0 };
        Ok(Elf {
            kind: small::<2, _>(&head, 16),
            machine: small::<2, _>(&head, 18),
            segments: table.chunks_exact(56).map(segment).collect(),
            sections: (sections_at, sections),
        })
    }

    /// The address of a byte of the file, before relocation.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let loaded = self.segments.iter().filter(|segment| segment.kind == LOAD);
        let mut inside = loaded.filter_map(|segment| {
            let from = offset.checked_sub(segment.offset).filter(|from| *from < segment.in_file.max(1))?;
            segment.address.checked_add(from)
        });
        inside.next()
    }

    /// Symbols of functions and variables, ascending by address.
    pub(super) fn names(&self, file: &File) -> Vec<Named> {
        let (at, count) = self.sections;
        let table = bytes(file, at, count * 64).unwrap_or_default();
        let sections: Vec<&[u8]> = table.chunks_exact(64).collect();
        let mut names = Vec::new();
        for section in &sections {
            if matches!(small::<4, u32>(section, 4), SYMTAB | DYNSYM) {
                let texts =
                    usize::try_from(number::<4>(section, 40)).ok().and_then(|link| sections.get(link));
                let body = |section: &[u8]| bytes(file, number::<8>(section, 24), number::<8>(section, 32));
                let (entries, texts) = (body(section), texts.and_then(|texts| body(texts)));
                add_names(&entries.unwrap_or_default(), &texts.unwrap_or_default(), &mut names);
            }
        }
        // Of several symbols at one address, take the first. Symbols of the full table precede dynamic symbols.
        names.sort_by_key(|named| named.address);
        names.dedup_by_key(|named| named.address);
        names
    }
}

fn add_names(entries: &[u8], texts: &[u8], names: &mut Vec<Named>) {
    for entry in entries.chunks_exact(24) {
        let (kind, section) = (entry[4] & 0xf, number::<2>(entry, 6));
        // Variables, functions and indirect functions (ifunc); no undefined symbols.
        if !matches!(kind, 1 | 2 | 10) || section == 0 {
            continue;
        }
        let at: usize = small::<4, _>(entry, 0);
        let text = texts.get(at..).and_then(|text| text.split(|byte| *byte == 0).next()).unwrap_or_default();
        let name = String::from_utf8_lossy(text).into_owned();
        if !name.is_empty() && !name.contains(char::is_control) {
            names.push(Named { address: number::<8>(entry, 8), size: number::<8>(entry, 16), name });
        }
    }
}
