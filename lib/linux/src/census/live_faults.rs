//! Faults that wait for a disk, on the machine that runs the tests: a thread reads pages of a file of its own, or executes them, that are no longer in
//! memory. Its sleep then is that of faults, of data or of text, and no other. Where a file system keeps its pages all the same, as one in memory does,
//! there is nothing to wait for, and the test is skipped.

use super::live::{between, listed, own_number, watching};
use rustix::fs::{Advice as FileAdvice, fadvise, fsync};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;
use std::sync::mpsc;

const PAGES: usize = 256;

/// The states of the account.
const TEXT_FAULT: usize = 2;
const DATA_FAULT: usize = 3;
const ASLEEP: usize = 5;

/// A function that only returns, in the machine's own words. Empty where nobody wrote it down.
const RETURN: &[u8] = if cfg!(target_arch = "x86_64") {
    &[0xc3]
} else if cfg!(target_arch = "aarch64") {
    &[0xc0, 0x03, 0x5f, 0xd6]
} else if cfg!(target_arch = "riscv64") {
    &[0x67, 0x80, 0x00, 0x00]
} else {
    &[]
};

/// A file of ours in memory that is not there.
struct Mapped {
    at: *mut c_void,
    page: usize,
    _file: File,
}

impl Mapped {
    /// Every page begins with `head`. It lies where the tests were built, which is on a disk more often than the place for temporary files.
    ///
    /// # Errors
    /// Why its pages cannot be fetched from a disk here.
    fn new(head: &[u8], protection: ProtFlags) -> Result<Mapped, String> {
        let page = rustix::param::page_size();
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let mut file = tempfile::tempfile_in(beside).map_err(|error| error.to_string())?;
        file.write_all(&vec![0; PAGES * page]).map_err(|error| error.to_string())?;
        (0..PAGES).for_each(|n| file.write_all_at(head, (n * page) as u64).unwrap());
        fsync(&file).map_err(|error| error.to_string())?;
        fadvise(&file, 0, None, FileAdvice::DontNeed).map_err(|error| error.to_string())?;
        // SAFETY: a new mapping where the kernel finds room for it; nobody else has the file, whose length stays.
        let at = unsafe { mmap(null_mut(), PAGES * page, protection, MapFlags::PRIVATE, &file, 0) };
        let mapped = Mapped { at: at.map_err(|error| error.to_string())?, page, _file: file };
        // SAFETY: the whole of our mapping.
        unsafe { madvise(mapped.at, PAGES * page, Advice::Random) }.map_err(|error| error.to_string())?;
        match mapped.resident() {
            0 => Ok(mapped),
            kept => Err(format!("the file system keeps {kept} of {PAGES} pages in memory")),
        }
    }

    /// How many of its pages are in memory.
    fn resident(&self) -> usize {
        let mut pages = [0u8; PAGES];
        // SAFETY: the kernel writes a byte for each page of our mapping, for which there is room.
        let told = unsafe { libc::mincore(self.at, PAGES * self.page, pages.as_mut_ptr()) };
        assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    fn pages(&self) -> impl Iterator<Item = *const u8> {
        let (first, page) = (self.at.cast::<u8>().cast_const(), self.page);
        // SAFETY: each is within the mapping.
        (0..PAGES).map(move |n| unsafe { first.add(n * page) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our mapping, of which nobody keeps an address.
        let _ = unsafe { munmap(self.at, PAGES * self.page) };
    }
}

/// How often this thread gave up its CPU because it had to wait.
fn sleeps() -> u64 {
    // SAFETY: numbers only, of which zero is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure, which is ours.
    let told = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
    u64::try_from(usage.ru_nvcsw).unwrap()
}

/// What a thread spent, by state, while it used each page once; `None` where that was skipped, which is told.
fn spent_using(
    name: &str,
    (head, protection): (&[u8], ProtFlags),
    using: fn(&mut dyn Iterator<Item = *const u8>),
) -> Option<[u64; 8]> {
    let skip = |why: &str| println!("skipped: census::live_faults::{name}: {why}");
    let mut watching = watching(&format!("live_faults::{name}"), false)?;
    if let Err(why) = watching.sees_faults() {
        skip(&format!("faults are not seen here: {why}"));
        return None;
    }
    let (tell, hear) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let (spent, slept) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mapped = Mapped::new(head, protection);
            tell.send(mapped.as_ref().map(|_| u64::from(own_number())).map_err(Clone::clone)).unwrap();
            let Ok(mapped) = mapped else { return };
            wait.recv().unwrap();
            let before = sleeps();
            using(&mut mapped.pages());
            tell.send(Ok(sleeps() - before)).unwrap();
            // The mapping stays until it was looked at.
            let _ = wait.recv();
        });
        let tid = u32::try_from(hear.recv().unwrap()?).unwrap();
        let before = listed(&mut watching);
        go.send(()).unwrap();
        let slept = hear.recv().unwrap()?;
        let after = listed(&mut watching);
        go.send(()).unwrap();
        Ok::<_, String>((between(&before, &after, tid), slept))
    })
    .map_err(|why| skip(&why))
    .ok()?;
    if slept == 0 {
        skip("no page had to be waited for");
        return None;
    }
    Some(spent)
}

#[test]
fn who_waits_for_pages_of_data_is_found_in_a_fault_of_data() {
    let name = "who_waits_for_pages_of_data_is_found_in_a_fault_of_data";
    let read = |pages: &mut dyn Iterator<Item = *const u8>| {
        for page in pages {
            // SAFETY: the first byte of a page of a file that stays as long as it is.
            assert_eq!(unsafe { page.read_volatile() }, 7);
        }
    };
    let Some(spent) = spent_using(name, (&[7], ProtFlags::READ), read) else { return };
    assert!(spent[DATA_FAULT] > spent[TEXT_FAULT] && spent[ASLEEP] == 0, "{spent:?}");
}

#[test]
fn who_waits_for_pages_of_text_is_found_in_a_fault_of_text() {
    let name = "who_waits_for_pages_of_text_is_found_in_a_fault_of_text";
    if RETURN.is_empty() {
        println!("skipped: census::live_faults::{name}: nobody wrote down how a function returns here");
        return;
    }
    let call = |pages: &mut dyn Iterator<Item = *const u8>| {
        for page in pages {
            // SAFETY: there stands a function that takes nothing, gives nothing and returns; it may be executed, and nobody writes to it.
            let function = unsafe { std::mem::transmute::<*const u8, extern "C" fn()>(page) };
            function();
        }
    };
    let executable = ProtFlags::READ.union(ProtFlags::EXEC);
    let Some(spent) = spent_using(name, (RETURN, executable), call) else { return };
    assert!(spent[TEXT_FAULT] > spent[DATA_FAULT] && spent[ASLEEP] == 0, "{spent:?}");
}
