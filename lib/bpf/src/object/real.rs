//! Objects loaded through libbpf.

use crate::{Image, MappedWords, Refused};
use libbpf_rs::btf::{
    Btf,
    types::{Func, Struct},
};
use libbpf_rs::{
    ErrorKind, Iter, Link, MapCore, MapFlags, MapHandle, ObjectBuilder, OpenObject, PrintLevel, ProgramMut,
    RingBuffer, RingBufferBuilder,
};
use miniz_oxide::inflate::decompress_to_vec;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// libbpf's messages during a load. Its print callback is global to the process.
static SAID: Mutex<String> = Mutex::new(String::new());
/// Held while loading or attaching, so that each caller gets only its own messages.
static LISTENING: Mutex<()> = Mutex::new(());

fn hear(_: PrintLevel, words: String) {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&words);
}

/// Runs `work`, and adds libbpf's messages to an error.
fn listening<R>(work: impl FnOnce() -> Result<R, libbpf_rs::Error>) -> Result<R, Refused> {
    let said = || -> MutexGuard<'static, String> { SAID.lock().unwrap_or_else(PoisonError::into_inner) };
    let _turn = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    said().clear();
    libbpf_rs::set_print(Some((PrintLevel::Info, hear)));
    let done = work();
    libbpf_rs::set_print(None);
    done.map_err(|error| Refused::of(&system(&error), std::mem::take(&mut *said())))
}

/// The system's error inside a libbpf error.
fn system(error: &libbpf_rs::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        if let Some(number) = now.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        cause = now.source();
    }
    // Most libbpf errors do not expose the number, but their text has it.
    let text = format!("{error:#}");
    let number = text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    if let Some(number) = number {
        return io::Error::from_raw_os_error(number);
    }
    match error.kind() {
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
        ErrorKind::NotFound => io::ErrorKind::NotFound.into(),
        _ => io::Error::other(error.to_string()),
    }
}

/// An object before it is loaded.
#[derive(Debug)]
pub struct Opened<'a> {
    object: &'a mut OpenObject,
}

impl Opened<'_> {
    /// Sets the number of a map's entries.
    pub fn set_entries(&mut self, map: &str, entries: u32) {
        for mut found in self.object.maps_mut().filter(|found| found.name() == map) {
            // Fails only for existing maps; none exists yet.
            let _ = found.set_max_entries(entries);
        }
    }

    /// Sets all constants of the program (`const volatile` words, in order).
    pub fn set_constants(&mut self, words: &[u64]) {
        let is_rodata = |name: &OsStr| name.to_string_lossy().ends_with(".rodata");
        for mut found in self.object.maps_mut().filter(|found| is_rodata(found.name())) {
            if let Some(bytes) = found.initial_value_mut() {
                for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(words) {
                    place.copy_from_slice(&word.to_ne_bytes());
                }
            }
        }
    }

    /// Sets a word in the operations of a scheduler, or in another structure of callbacks, at a byte offset. 0 removes a callback.
    pub fn set_operation(&mut self, map: &str, at: usize, word: u64) {
        for mut found in self.object.maps_mut().filter(|found| found.name() == map) {
            if let Some(place) = found.initial_value_mut().and_then(|bytes| bytes.get_mut(at..at + 8)) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
        }
    }

    /// Uses a map that another object pinned at this path, if it exists and has the same shape.
    pub fn reuse(&mut self, map: &str, path: &Path) {
        for mut found in self.object.maps_mut().filter(|found| found.name() == map) {
            let _ = found.reuse_pinned_map(path);
        }
    }

    /// Does not load a program.
    pub fn leave_out(&mut self, program: &str) {
        for mut found in self.object.progs_mut().filter(|found| found.name() == program) {
            found.set_autoload(false);
        }
    }
}

/// A loaded object. Dropping it detaches its programs.
#[derive(Debug)]
pub struct Object {
    object: libbpf_rs::Object,
    links: Vec<Link>,
}

impl Object {
    /// Loads an object; the kernel verifies all its programs.
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects them.
    pub fn open(image: Image, prepare: impl FnOnce(&mut Opened<'_>)) -> Result<Object, Refused> {
        let object = listening(|| {
            let object = decompress_to_vec(image.packed)
                .map_err(|_| io::Error::other("the packed object is damaged"))?;
            let mut opened = ObjectBuilder::default().name(image.name)?.open_memory(&object)?;
            prepare(&mut Opened { object: &mut opened });
            opened.load()
        })?;
        Ok(Object { object, links: Vec::new() })
    }

    /// Whether the running kernel has a function of this name, by its BTF.
    #[must_use]
    pub fn kernel_has(function: &str) -> bool {
        let types = listening(Btf::from_vmlinux);
        types.is_ok_and(|types| types.type_by_name::<Func<'_>>(function).is_some())
    }

    /// Members of a structure of the kernel that runs, by its own description.
    #[must_use]
    pub fn members_of(structure: &str) -> Vec<String> {
        let Ok(types) = listening(Btf::from_vmlinux) else { return Vec::new() };
        let found = types.type_by_name::<Struct<'_>>(structure);
        let names = found.iter().flat_map(|found| found.iter().filter_map(|member| member.name));
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Attaches a program where its section says.
    ///
    /// # Errors
    /// [`Refused`] if the kernel has no such place, or the object has no such program.
    pub fn attach(&mut self, program: &str) -> Result<(), Refused> {
        let found = self.find(program)?;
        let link = listening(|| found.attach())?;
        self.links.push(link);
        Ok(())
    }

    /// Attaches a structure of callbacks, by the name of its map.
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects it.
    pub fn attach_operations(&mut self, map: &str) -> Result<(), Refused> {
        let mut found =
            self.object.maps_mut().find(|found| found.name() == map).ok_or(Refused::NoSuchPlace)?;
        let link = listening(|| found.attach_struct_ops())?;
        self.links.push(link);
        Ok(())
    }

    /// Pins a map at a path of the BPF file system, where it outlives the object.
    ///
    /// # Errors
    /// [`Refused`] without such a map or such a file system.
    pub fn pin_map(&mut self, map: &str, path: &Path) -> Result<(), Refused> {
        let mut found =
            self.object.maps_mut().find(|found| found.name() == map).ok_or(Refused::NoSuchPlace)?;
        listening(|| found.pin(path))
    }

    /// Pins a program at a path of the BPF file system.
    ///
    /// # Errors
    /// As [`Object::pin_map`].
    pub fn pin_program(&mut self, program: &str, path: &Path) -> Result<(), Refused> {
        let mut found = self.find(program)?;
        listening(|| found.pin(path))
    }

    /// The descriptor of a program.
    ///
    /// # Errors
    /// [`Refused`] without such a program.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>, Refused> {
        let found = self.find(name)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&found.as_fd());
        // SAFETY: the descriptor belongs to the object, which stays borrowed.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Runs an iterator (`iter/…`) and appends its output to `into`.
    ///
    /// # Errors
    /// [`Refused`] if it cannot be attached or read.
    pub fn iterate(&self, program: &str, into: &mut Vec<u8>) -> Result<(), Refused> {
        let found = self.find(program)?;
        let mut iterator = listening(|| Iter::new(&found.attach()?))?;
        let refuse = |error: io::Error| Refused::Kernel { why: error.to_string(), log: String::new() };
        iterator.read_to_end(into).map(drop).map_err(refuse)
    }

    fn find(&self, program: &str) -> Result<ProgramMut<'_>, Refused> {
        self.object.progs_mut().find(|found| found.name() == program).ok_or(Refused::NoSuchPlace)
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Refused> {
        self.object.maps().find(|found| found.name() == name).ok_or(Refused::NoSuchPlace)
    }

    /// Maps the first words of an array that permits mapping.
    ///
    /// # Errors
    /// [`Refused`] if the map does not exist or cannot be mapped.
    pub fn words(&self, map: &str, count: usize) -> Result<MappedWords, Refused> {
        MappedWords::map(self.map(map)?.as_fd(), count).map_err(|error| Refused::of(&error, String::new()))
    }

    /// The entries of a map of words.
    ///
    /// # Errors
    /// [`Refused`] without such a map.
    pub fn entries(&self, map: &str) -> Result<Entries, Refused> {
        let map = self.map(map)?;
        listening(|| Ok(Entries { map: MapHandle::try_from(&map)? }))
    }

    /// A program that runs on request.
    ///
    /// # Errors
    /// [`Refused`] without such a program.
    pub fn callable(&self, program: &str) -> Result<Callable, Refused> {
        let program = self.program(program)?.try_clone_to_owned();
        Ok(Callable { program: program.map_err(|error| Refused::of(&error, String::new()))? })
    }

    /// Reads a ring: [`Ring::take`] and [`Ring::poll`] call `heard` with the words of each record.
    ///
    /// # Errors
    /// [`Refused`] without such a ring.
    pub fn ring<'cb>(&self, map: &str, mut heard: impl FnMut(&[u64]) + 'cb) -> Result<Ring<'cb>, Refused> {
        let map = self.map(map)?;
        let mut words = Vec::new();
        listening(|| {
            let mut builder = RingBufferBuilder::new();
            builder.add(&map, move |bytes| {
                words.clear();
                words.extend(to_words(bytes));
                heard(&words);
                0
            })?;
            Ok(Ring { ring: builder.build()? })
        })
    }
}

fn to_words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(size_of::<u64>()).map(|chunk| u64::from_ne_bytes(chunk.try_into().unwrap_or_default()))
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Keys of arrays have 32 bits.
fn key_words(bytes: &[u8]) -> Vec<u64> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(half) => vec![u64::from(u32::from_ne_bytes(half))],
        Err(_) => to_words(bytes).collect(),
    }
}

/// The entries of a map whose keys and values are made of words.
#[derive(Debug)]
pub struct Entries {
    map: MapHandle,
}

impl Entries {
    /// The entries of a pinned map.
    ///
    /// # Errors
    /// [`Refused`] if nothing is pinned there.
    pub fn at(path: &Path) -> Result<Entries, Refused> {
        listening(|| Ok(Entries { map: MapHandle::from_pinned_path(path)? }))
    }

    /// Maps the first words, if the map permits it.
    ///
    /// # Errors
    /// [`Refused`] if it cannot be mapped.
    pub fn words(&self, count: usize) -> Result<MappedWords, Refused> {
        MappedWords::map(self.map.as_fd(), count).map_err(|error| Refused::of(&error, String::new()))
    }

    /// The map's capacity.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.map.max_entries()
    }

    /// All keys with their values. Concurrent changes may or may not be included.
    pub fn all(&self) -> Vec<(Vec<u64>, Vec<u64>)> {
        const BATCH: u32 = 1024;
        if let Ok(batch) = self.map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY) {
            return batch.map(|(key, value)| (key_words(&key), to_words(&value).collect())).collect();
        }
        self.map
            .keys()
            .filter_map(|key| {
                let value = self.map.lookup(&key, MapFlags::ANY).ok().flatten()?;
                Some((key_words(&key), to_words(&value).collect()))
            })
            .collect()
    }

    fn key(&self, words: &[u64]) -> Vec<u8> {
        match words.first().map(|word| u32::try_from(*word)) {
            Some(Ok(half)) if self.map.key_size() == 4 => half.to_ne_bytes().to_vec(),
            _ => to_bytes(words),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u64]) -> Option<Vec<u64>> {
        self.map.lookup(&self.key(key), MapFlags::ANY).ok().flatten().map(|value| to_words(&value).collect())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`Refused`] if the map is full.
    pub fn put(&self, key: &[u64], value: &[u64]) -> Result<(), Refused> {
        let done = self.map.update(&self.key(key), &to_bytes(value), MapFlags::ANY);
        done.map_err(|error| Refused::of(&system(&error), String::new()))
    }

    /// Removes a key, if present.
    pub fn remove(&self, key: &[u64]) {
        let _ = self.map.delete(&self.key(key));
    }
}

/// A program that runs on request (`syscall`).
#[derive(Debug)]
pub struct Callable {
    program: OwnedFd,
}

impl Callable {
    /// A pinned program.
    ///
    /// # Errors
    /// [`Refused`] if nothing is pinned there.
    pub fn at(path: &Path) -> Result<Callable, Refused> {
        listening(|| Ok(Callable { program: libbpf_rs::Program::fd_from_pinned_path(path)? }))
    }

    /// Runs the program. `words` are its arguments and its results.
    ///
    /// # Errors
    /// [`Refused`] if the kernel does not run it.
    pub fn call(&self, words: &mut [u64]) -> Result<(), Refused> {
        let size = u32::try_from(size_of_val(words)).unwrap_or(u32::MAX);
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            ctx_in: words.as_mut_ptr().cast(),
            ctx_size_in: size,
            ..Default::default()
        };
        // SAFETY: the kernel reads and writes `ctx_size_in` bytes at `ctx_in`, which stay borrowed for the call.
        let done = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        if done == 0 { Ok(()) } else { Err(Refused::of(&io::Error::from_raw_os_error(-done), String::new())) }
    }
}

/// A ring that programs write records into.
#[derive(Debug)]
pub struct Ring<'cb> {
    ring: RingBuffer<'cb>,
}

impl Ring<'_> {
    /// Processes all pending records, with or without a wake-up; does not wait.
    ///
    /// # Errors
    /// If the ring cannot be read.
    pub fn take(&self) -> io::Result<()> {
        self.ring.consume().map_err(|error| system(&error))
    }

    /// Processes pending records; waits at most `patience` for the first.
    ///
    /// # Errors
    /// If a signal interrupts the wait.
    pub fn poll(&self, patience: Duration) -> io::Result<()> {
        self.ring.poll(patience).map_err(|error| system(&error))
    }
}
