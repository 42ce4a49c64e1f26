//! A core file: the memory of a process that has ended.

use super::elf::{self, CORE, Elf, LOAD, NOTE, NoElf, Segment, number};
use super::symbols::Symbols;
use super::{Arch, FLOATING, GENERAL, TLS, VECTORS};
use crate::files::open_plain;
use crate::messages::reason;
use millpond_machine::facets::{Image, Mapping, StoppedThread, Symbol};
use millpond_machine::{Absent, Refusal};
use millpond_model::{Nanos, printable};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

/// Note types: process state, auxiliary vector, mapped files.
const PROCESS: i32 = 3;
const AUXILIARY: i32 = 6;
const FILES: i32 = 0x4649_4c45;
/// Entry of the auxiliary vector: the address of 16 random bytes, which are on the main stack.
const AT_RANDOM: u64 = 25;

/// Maximal size of the notes that are read, in bytes.
const NOTES_MAX: u64 = 1 << 28;

/// Opens a core file.
///
/// # Errors
/// What is wrong with the file, and a remedy.
pub fn open_core(path: &Path) -> Result<Box<dyn Image>, Absent> {
    let core = Core::open(path)?;
    Ok(Box::new(core))
}

/// The core file.
struct Core {
    file: File,
    name: String,
    /// Memory segments, ascending.
    segments: Vec<Segment>,
    mappings: Vec<Mapping>,
    threads: Vec<StoppedThread>,
    symbols: Symbols,
    /// Mapped files, for memory that was not dumped.
    others: RefCell<HashMap<String, Option<Rc<File>>>>,
}

impl Core {
    fn open(path: &Path) -> Result<Core, Absent> {
        const NAMES: &str =
            "a process is named by its number, a core by its file; coredumpctl dump, or gcore, writes one";
        let file = open_plain(path, u64::MAX).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Absent::with_help(reason(&error), NAMES),
            _ => Absent::because(reason(&error)),
        })?;
        let metadata = file.metadata().map_err(|error| Absent::because(reason(&error)))?;
        let elf = Elf::read(&file).map_err(|why| {
            if why == NoElf::Magic {
                Absent::with_help(why.to_string(), NAMES)
            } else {
                Absent::because(why.to_string())
            }
        })?;
        if elf.kind != CORE {
            return Err(Absent::with_help(
                "it is a program or a library, and no core",
                "start it and name the process by its number, or name a core that it left",
            ));
        }
        let arch = Arch::of_elf(elf.machine).ok_or_else(|| {
            let why = format!("it is of another architecture (machine {} of ELF)", elf.machine);
            Absent::with_help(why, "cores of x86_64 and aarch64 can be read")
        })?;
        let ends = elf.segments.iter().map(|segment| segment.offset.saturating_add(segment.in_file));
        let wanted = ends.max().unwrap_or(0);
        if wanted > metadata.len() {
            let why = format!("it is truncated: it should have {wanted} bytes, and has {}", metadata.len());
            return Err(Absent::with_help(
                why,
                "ulimit -c unlimited lifts the limit for the next one; and look for room on the disk",
            ));
        }
        let notes = Notes::read(&file, &elf, arch);
        let mut segments: Vec<Segment> =
            elf.segments.iter().filter(|segment| segment.kind == LOAD).copied().collect();
        segments.retain(|segment| {
            segment.in_memory > 0 && segment.address.checked_add(segment.in_memory).is_some()
        });
        segments.sort_by_key(|segment| segment.address);
        segments.extend(notes.left_out(&segments));
        segments.sort_by_key(|segment| segment.address);
        let mappings = segments.iter().map(|segment| notes.mapping(segment)).collect();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let of = notes.process.map(|(pid, comm)| format!(" of process {pid} ({comm})")).unwrap_or_default();
        Ok(Core {
            file,
            name: format!("core {name}{of}"),
            segments,
            mappings,
            threads: notes.threads,
            symbols: Symbols::of_core(),
            others: RefCell::default(),
        })
    }

    fn segment(&self, address: u64) -> Option<(usize, &Segment)> {
        let after = self.segments.partition_point(|segment| segment.address <= address);
        let place = after.checked_sub(1)?;
        let segment = &self.segments[place];
        (address - segment.address < segment.in_memory).then_some((place, segment))
    }

    /// The length that one read at this address can return; `None` if no memory is there.
    fn piece(&self, address: u64, into: &mut [u8]) -> Option<usize> {
        let (place, segment) = self.segment(address)?;
        let from = address - segment.address;
        let fit = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        if from < segment.in_file {
            let count = fit(segment.in_file - from);
            return self.file.read_exact_at(&mut into[..count], segment.offset + from).ok().map(|()| count);
        }
        let mapping = &self.mappings[place];
        let other = self.other(&mapping.file)?;
        let count = fit(segment.in_memory - from);
        let read = other.read_at(&mut into[..count], mapping.offset.checked_add(from)?).ok()?;
        (read > 0).then_some(read)
    }

    fn other(&self, path: &str) -> Option<Rc<File>> {
        if !path.starts_with('/') {
            return None;
        }
        let mut others = self.others.borrow_mut();
        // The path comes from the core and is untrusted.
        let open = || open_plain(Path::new(path), u64::MAX).ok().map(Rc::new);
        others.entry(path.to_owned()).or_insert_with(open).clone()
    }
}

impl Image for Core {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Refusal> {
        Ok(self.mappings.clone())
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut read = 0;
        while read < into.len() {
            let Some(at) = address.checked_add(read as u64) else { break };
            let Some(count) = self.piece(at, &mut into[read..]) else { break };
            read += count;
        }
        read
    }

    fn written(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let dumped = self
            .segments
            .iter()
            .map(|segment| (segment.address, segment.address + segment.in_file.min(segment.in_memory)));
        let parts = dumped.map(|(from, to)| (from.max(begin), to.min(end)));
        parts.filter(|(from, to)| from < to).collect()
    }

    fn stop(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn go_on(&self) -> Option<Nanos> {
        None
    }

    fn threads(&self) -> Vec<StoppedThread> {
        self.threads.clone()
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.symbols.name(&self.mappings, address)
    }

    fn now(&self) -> Option<Nanos> {
        None
    }
}

/// The mapping of a file.
struct MappedFile {
    begin: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// The parsed notes.
#[derive(Default)]
struct Notes {
    threads: Vec<StoppedThread>,
    process: Option<(u64, String)>,
    files: Vec<MappedFile>,
    /// An address on the main stack.
    on_stack: Option<u64>,
}

impl Notes {
    fn read(file: &File, elf: &Elf, arch: Arch) -> Notes {
        let mut notes = Notes::default();
        for segment in
            elf.segments.iter().filter(|segment| segment.kind == NOTE && segment.in_file <= NOTES_MAX)
        {
            let bytes = elf::bytes(file, segment.offset, segment.in_file).unwrap_or_default();
            notes.parse(&bytes, arch);
        }
        notes
    }

    /// A note is: name length, body length, type, name, body. Name and body are padded to four bytes.
    fn parse(&mut self, bytes: &[u8], arch: Arch) {
        let mut rest = bytes;
        while rest.len() >= 12 {
            let length = |at| usize::try_from(number::<4>(rest, at)).unwrap_or(usize::MAX);
            let kind = i32::try_from(number::<4>(rest, 8)).unwrap_or(-1);
            let body = 12_usize.saturating_add(length(0).saturating_add(3) & !3);
            let end = body.saturating_add(length(4));
            let Some(description) = rest.get(body..end) else { return };
            self.note(kind, description, arch);
            rest = rest.get(end.saturating_add(3) & !3..).unwrap_or_default();
        }
    }

    fn note(&mut self, kind: i32, body: &[u8], arch: Arch) {
        let words =
            |bytes: &[u8]| -> Vec<u64> { bytes.chunks_exact(8).map(|word| number::<8>(word, 0)).collect() };
        match kind {
            GENERAL => {
                // The signal and the times precede the registers; a flag follows them.
                let count = if arch == Arch::X86_64 { 27 } else { 34 };
                let registers = body.get(112..112 + count * 8).unwrap_or_default();
                let tid = u32::try_from(number::<4>(body, 32)).unwrap_or(0);
                self.threads.push(arch.thread(tid, words(registers)));
            }
            FLOATING | VECTORS => {
                if let Some(thread) = self.threads.last_mut() {
                    thread.words.extend(words(body));
                }
            }
            TLS => {
                if let Some(thread) = self.threads.last_mut() {
                    thread.thread_pointer = Some(number::<8>(body, 0)).filter(|own| *own != 0);
                }
            }
            PROCESS => {
                let comm =
                    body.get(40..56).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
                let comm = printable(&String::from_utf8_lossy(comm)).into_owned();
                self.process = Some((number::<4>(body, 24), comm));
            }
            AUXILIARY => {
                let pairs = body.chunks_exact(16).map(|pair| (number::<8>(pair, 0), number::<8>(pair, 8)));
                self.on_stack = pairs.into_iter().find(|(key, _)| *key == AT_RANDOM).map(|(_, value)| value);
            }
            FILES => self.files(body),
            _ => {}
        }
    }

    /// The body has: count, unit of offsets; for each file its begin, end and offset; then all paths.
    fn files(&mut self, body: &[u8]) {
        let (count, unit) = (number::<8>(body, 0), number::<8>(body, 8));
        let Some(paths) =
            usize::try_from(count).ok().and_then(|count| count.checked_mul(24)?.checked_add(16))
        else {
            return;
        };
        let ranges = body.get(16..paths).unwrap_or_default().chunks_exact(24);
        let paths = body.get(paths..).unwrap_or_default().split(|byte| *byte == 0);
        self.files.extend(ranges.zip(paths).map(|(range, path)| MappedFile {
            begin: number::<8>(range, 0),
            end: number::<8>(range, 8),
            offset: number::<8>(range, 16).saturating_mul(unit),
            path: String::from_utf8_lossy(path).into_owned(),
        }));
    }

    /// Mapped files without a segment: gdb leaves out memory that equals its file. Segments are ascending.
    fn left_out(&self, segments: &[Segment]) -> Vec<Segment> {
        let gap = |from: u64, to: u64| Segment {
            kind: LOAD,
            flags: 4,
            offset: 0,
            address: from,
            in_file: 0,
            in_memory: to - from,
        };
        let mut ranges: Vec<_> = self.files.iter().map(|file| (file.begin, file.end)).collect();
        ranges.sort_unstable();
        let (mut gaps, mut at) = (Vec::new(), 0);
        let mut segments = segments.iter().peekable();
        for (begin, end) in ranges {
            at = begin.max(at);
            while at < end {
                while segments.next_if(|segment| segment.address + segment.in_memory <= at).is_some() {}
                let next = segments.peek().map_or(end, |segment| segment.address.min(end));
                if at < next {
                    gaps.push(gap(at, next));
                }
                at = segments.peek().map_or(end, |segment| (segment.address + segment.in_memory).min(end));
            }
        }
        gaps
    }

    fn mapping(&self, segment: &Segment) -> Mapping {
        let (begin, end) = (segment.address, segment.address + segment.in_memory);
        let file = self.files.iter().find(|file| (file.begin..file.end).contains(&begin));
        let is_stack = self.on_stack.is_some_and(|address| (begin..end).contains(&address));
        Mapping {
            begin,
            end,
            readable: segment.flags & 4 != 0,
            writable: segment.flags & 2 != 0,
            shared: false,
            offset: file.map_or(0, |file| file.offset.saturating_add(begin - file.begin)),
            file: file.map_or(if is_stack { "[stack]" } else { "" }, |file| &file.path).to_owned(),
        }
    }
}
