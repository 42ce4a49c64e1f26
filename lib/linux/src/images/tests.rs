//! Tests with the memory of a child process, its core, and files that are not cores.

use super::core::open_core;
use super::live::ProcessImage;
use crate::Root;
use millpond_machine::Reason;
use millpond_machine::facets::{Image, Mapping};
use millpond_model::Pid;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

fn root() -> Root {
    Root::live(PathBuf::from("/nonexistent"))
}

/// A child that sleeps until it is dropped, and may write a core into a directory.
struct Sleeper(Child);

impl Sleeper {
    fn start(dir: &Path) -> Sleeper {
        let mut command = Command::new("sleep");
        command.arg("1000").env("MILLPOND_TEST_MARK", "still water").current_dir(dir);
        let unlimited = || {
            let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the call only reads the limit, which is ours.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
            Ok(())
        };
        // SAFETY: the closure makes one system call.
        let child = unsafe { command.pre_exec(unlimited) }.spawn().unwrap();
        let sleeper = Sleeper(child);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", sleeper.0.id())).unwrap();
        while !stat().contains("(sleep) S") {
            std::thread::yield_now();
        }
        sleeper
    }

    fn state(&self) -> char {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn of<'a>(mappings: &'a [Mapping], file: &str) -> &'a Mapping {
    mappings.iter().find(|mapping| mapping.module() == file).unwrap()
}

/// The contents of the main stack of an image.
fn stack(image: &dyn Image) -> Vec<u8> {
    let mappings = image.mappings().unwrap();
    let stack = of(&mappings, "[stack]");
    let mut bytes = vec![0; usize::try_from(stack.end - stack.begin).unwrap()];
    assert_eq!(image.read(stack.begin, &mut bytes), bytes.len());
    bytes
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn a_process_is_read_stopped_and_let_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::start(dir.path());
    let image = match ProcessImage::open(&root(), Pid(sleeper.0.id())) {
        Ok(image) => image,
        Err(refusal) => return println!("skipped: images::a_process_is_read: {refusal}"),
    };
    assert_eq!(image.name(), format!("process {} (sleep)", sleeper.0.id()));
    assert!(holds(&stack(&image), b"MILLPOND_TEST_MARK=still water"));
    assert_eq!((image.threads().len(), image.go_on()), (0, None));
    image.stop().unwrap();
    image.stop().unwrap();
    assert_eq!(sleeper.state(), 't');
    let threads = image.threads();
    let mappings = image.mappings().unwrap();
    assert_eq!(threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(), [sleeper.0.id()]);
    assert!(of(&mappings, "[stack]").contains(threads[0].stack_pointer), "{threads:x?}");
    assert!(
        threads[0].thread_pointer.is_some_and(|own| mappings.iter().any(|m| m.contains(own) && m.writable))
    );
    assert!(image.go_on().is_some_and(|pause| pause.0 > 0));
    assert_eq!(image.go_on(), None);
    assert_ne!(sleeper.state(), 't');
    // A process that is stopped when its image is dropped continues, too.
    image.stop().unwrap();
    drop(image);
    assert_ne!(sleeper.state(), 't');
}

#[test]
fn what_cannot_be_read_ends_a_reading_and_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::start(dir.path());
    let Ok(image) = ProcessImage::open(&root(), Pid(sleeper.0.id())) else {
        return println!("skipped: images::what_cannot_be_read: no process may be looked into here");
    };
    let mappings = image.mappings().unwrap();
    let gap = mappings.windows(2).find(|pair| pair[0].readable && pair[0].end < pair[1].begin).unwrap();
    let mut bytes = [0; 0x2000];
    assert_eq!(image.read(gap[0].end - 0x1000, &mut bytes), 0x1000);
    assert_eq!(image.read(gap[0].end - 3, &mut bytes), 3);
    assert_eq!(image.read(0, &mut bytes), 0);
    assert_eq!(image.read(u64::MAX - 4, &mut bytes), 0);
    // The written part of the stack ends with the stack and has the same contents.
    let stack = of(&mappings, "[stack]");
    let written = image.written(stack.begin, stack.end);
    assert_eq!(written.last().unwrap().1, stack.end);
    assert_eq!(image.written(0x1000, 0x2000), []);
}

#[test]
fn names_come_from_files_that_are_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::start(dir.path());
    let Ok(image) = ProcessImage::open(&root(), Pid(sleeper.0.id())) else {
        return println!("skipped: images::names_come: no process may be looked into here");
    };
    let mappings = image.mappings().unwrap();
    let Some(library) = mappings.iter().find(|m| m.module().starts_with("libc.so") && m.offset > 0) else {
        return println!("skipped: images::names_come: sleep has no libc.so here");
    };
    // A symbol found somewhere in the library's code is also found at its own begin.
    let found = (library.begin..library.end)
        .step_by(4096)
        .find_map(|at| image.symbol(at).filter(|s| !s.name.is_empty()));
    let symbol = found.unwrap();
    assert!(symbol.module.starts_with("libc.so"), "{symbol}");
    assert_eq!(image.symbol(of(&mappings, "[stack]").begin), None);
    assert_eq!(image.symbol(1), None);
}

#[test]
fn who_cannot_be_looked_into_is_told_why() {
    let refused = |pid| ProcessImage::open(&root(), Pid(pid)).err().map(|refusal| refusal.reason);
    assert_eq!(refused(u32::MAX - 1), Some(Reason::NoSuchProcess));
    // Process 2 is the kernel's kthreadd, where it is visible.
    if std::fs::read_to_string("/proc/2/stat").is_ok_and(|text| text.contains("(kthreadd)")) {
        assert_eq!(refused(2), Some(Reason::KernelThread));
    }
    let own = ProcessImage::open(&root(), Pid(std::process::id())).unwrap();
    let said = own.stop().unwrap_err().to_string();
    assert!(said.ends_with("a program cannot stop itself and look"), "{said}");
}

#[test]
fn a_core_is_the_memory_that_the_process_had() {
    let dir = tempfile::tempdir().unwrap();
    let mut sleeper = Sleeper::start(dir.path());
    let pid = sleeper.0.id();
    let Ok(image) = ProcessImage::open(&root(), Pid(pid)) else {
        return println!("skipped: images::a_core: no process may be looked into here");
    };
    image.stop().unwrap();
    let (mappings, threads) = (image.mappings().unwrap(), image.threads());
    let library =
        mappings.iter().find(|m| m.module().starts_with("libc.so") && !m.writable && m.offset > 0).cloned();
    let code = library.map(|library| {
        let mut bytes = vec![0; 4096];
        assert_eq!(image.read(library.begin, &mut bytes), 4096);
        (library, bytes)
    });
    image.go_on();
    // SAFETY: the process is our live child.
    unsafe { libc::kill(libc::pid_t::try_from(pid).unwrap(), libc::SIGABRT) };
    sleeper.0.wait().unwrap();
    let left = std::fs::read_dir(dir.path()).unwrap().next();
    let Some(path) = left.map(|entry| entry.unwrap().path()) else {
        return println!("skipped: images::a_core: cores are not left in the working directory here");
    };
    let core = open_core(&path).unwrap();
    assert!(core.name().ends_with(&format!(" of process {pid} (sleep)")), "{}", core.name());
    assert!(holds(&stack(&*core), b"MILLPOND_TEST_MARK=still water"));
    assert_eq!(core.threads()[0].tid, pid);
    assert_eq!(core.threads()[0].thread_pointer, threads[0].thread_pointer);
    let again = core.mappings().unwrap();
    let stack = of(&again, "[stack]");
    assert!(stack.writable && stack.contains(core.threads()[0].stack_pointer));
    if let Some((library, bytes)) = code {
        // Code is not dumped. It is read from the file.
        let mut read = vec![0; 4096];
        assert_eq!(core.read(library.begin, &mut read), 4096);
        assert!(read == bytes, "another text");
        assert_eq!(core.symbol(library.begin + 64).unwrap().module, library.module());
        assert_eq!(core.written(library.begin + 0x1000, library.end), []);
    }
    assert_eq!((core.stop(), core.go_on(), core.now()), (Ok(()), None, None));
    // The core truncated, and the core of another architecture.
    let bytes = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        let path = dir.path().join("other");
        std::fs::write(&path, bytes).unwrap();
        open_core(&path).err().map(|absent| absent.why).unwrap_or_default()
    };
    let said = refused(&bytes[..bytes.len() / 2]);
    assert!(said.starts_with("it is truncated: it should have "), "{said}");
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        refused(&bytes)
    };
    assert_eq!(with(18, 243), "it is of another architecture (machine 243 of ELF)");
    assert_eq!(with(4, 1), "it is of a 32-bit program, and only 64-bit ones have object caches");
    assert_eq!(with(5, 2), "it is of another architecture, whose bytes are the other way round");
    assert_eq!(with(16, 2), "it is a program or a library, and no core");
    assert_eq!(with(54, 1), "its head is invalid");
}

#[test]
fn files_that_are_no_cores_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path| open_core(path).err().map(|absent| absent.why).unwrap_or_default();
    assert_eq!(said(dir.path()), "it is no file");
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(said(&fifo), "it is no file");
    assert_eq!(said(Path::new("/dev/zero")), "it is no file");
    assert_eq!(said(&dir.path().join("missing")), "No such file or directory");
    let path = dir.path().join("text");
    std::fs::write(&path, "not a core\n").unwrap();
    assert_eq!(said(&path), "it is no ELF file");
    assert_eq!(said(Path::new("/proc/self/exe")), "it is a program or a library, and no core");
}

/// A core with a note about a mapped file, as gdb writes it: offsets are in bytes, and the only memory segment is another one.
fn core_of_gdb(file: &Mapping) -> Vec<u8> {
    let mut note = Vec::new();
    [5_u32, 0, 0x4649_4c45].iter().for_each(|word| note.extend(word.to_le_bytes()));
    note.extend(b"CORE\0\0\0\0");
    [1, 1, file.begin, file.end, file.offset].iter().for_each(|word| note.extend(word.to_le_bytes()));
    note.extend(file.file.as_bytes());
    note.push(0);
    let body = u32::try_from(note.len() - 20).unwrap();
    note[4..8].copy_from_slice(&body.to_le_bytes());
    note.resize(note.len().next_multiple_of(4), 0);
    let notes = note.len() as u64;
    let mut core = b"\x7fELF\x02\x01\x01".to_vec();
    core.resize(16, 0);
    let mut put = |bytes: &[u8]| core.extend_from_slice(bytes);
    put(&4_u16.to_le_bytes());
    put(&(if cfg!(target_arch = "x86_64") { 62_u16 } else { 183 }).to_le_bytes());
    put(&[1, 0, 0, 0]);
    [0_u64, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    put(&[0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    for (kind, flags, words) in
        [(4_u32, 0_u32, [176, 0, 0, notes, 0, 4]), (1, 6, [176 + notes, 0x1000, 0, 4, 0x1000, 1])]
    {
        put(&kind.to_le_bytes());
        put(&flags.to_le_bytes());
        words.iter().for_each(|word: &u64| put(&word.to_le_bytes()));
    }
    put(&note);
    put(b"data");
    core
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn millpond_a_function_that_a_core_names() -> u32 {
    std::hint::black_box(7)
}

#[test]
fn code_that_a_core_leaves_out_comes_from_its_file() {
    assert_eq!(millpond_a_function_that_a_core_names(), 7);
    let place = (millpond_a_function_that_a_core_names as extern "C" fn() -> u32) as usize as u64;
    let own = ProcessImage::open(&root(), Pid(std::process::id())).unwrap().mappings().unwrap();
    let code = own.iter().find(|mapping| mapping.contains(place)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    std::fs::write(&path, core_of_gdb(code)).unwrap();
    let core = open_core(&path).unwrap();
    let symbol = core.symbol(place + 1).unwrap();
    assert_eq!((symbol.name.as_str(), symbol.offset), ("millpond_a_function_that_a_core_names", 1));
    assert_eq!(symbol.module, code.module());
    let mappings = core.mappings().unwrap();
    assert_eq!(mappings.len(), 2);
    let there = &mappings[1];
    assert_eq!((there.begin, there.end, there.offset), (code.begin, code.end, code.offset));
    assert!(there.readable && !there.writable);
    let mut read = [0; 4];
    assert_eq!(core.read(place, &mut read), 4);
    let there = usize::try_from(place).unwrap();
    // SAFETY: the four bytes belong to a function of this program.
    assert_eq!(read, unsafe { std::ptr::with_exposed_provenance::<[u8; 4]>(there).read() });
    assert_eq!(core.written(code.begin, code.end), []);
}

#[test]
fn fuzz_cores() {
    // Header, a notes segment with a file, a memory segment.
    let mut core = b"\x7fELF\x02\x01\x01".to_vec();
    core.resize(16, 0);
    let mut put = |bytes: &[u8]| core.extend_from_slice(bytes);
    put(&4_u16.to_le_bytes());
    put(&62_u16.to_le_bytes());
    put(&[1, 0, 0, 0]);
    [0_u64, 64, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    put(&[0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    for (kind, flags, words) in
        [(4_u32, 0_u32, [176_u64, 0, 0, 84, 0, 4]), (1, 6, [260, 0x1000, 0, 12, 0x1000, 1])]
    {
        put(&kind.to_le_bytes());
        put(&flags.to_le_bytes());
        words.iter().for_each(|word| put(&word.to_le_bytes()));
    }
    [5_u32, 56, 0x4649_4c45].iter().for_each(|word| put(&word.to_le_bytes()));
    put(b"CORE\0\0\0\0");
    [1_u64, 4096, 0x1000, 0x2000, 0].iter().for_each(|word| put(&word.to_le_bytes()));
    put(b"/etc/hostname\0\0\0");
    put(&[0; 8]);
    put(b"some memory.");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core");
    std::fs::write(&path, &core).unwrap();
    let sound = open_core(&path).unwrap();
    assert_eq!(sound.mappings().unwrap()[0].file, "/etc/hostname");
    let mut text = [0; 12];
    assert_eq!((sound.read(0x1000, &mut text), &text), (12, b"some memory."));
    millpond_fuzz::check("linux-core", &[&core], move |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let Ok(core) = open_core(&path) else { return };
        let mappings = core.mappings().unwrap();
        assert!(mappings.windows(2).all(|pair| pair[0].begin <= pair[1].begin));
        for mapping in mappings.iter().take(8) {
            assert!(mapping.begin < mapping.end);
            let _ = (core.symbol(mapping.begin), core.read(mapping.begin, &mut [0; 64]));
            let _ = core.written(mapping.begin, mapping.end);
        }
    });
}
