//! Page faults that wait for a disk, on the machine that runs the tests. A thread reads or executes pages of its own file that
//! are not in the page cache. Its sleep then counts as data fault or text fault, and as no other state. On a file system that
//! keeps its pages in memory there is no disk wait, and the test is skipped.

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

/// Indices of states in the account.
const TEXT_FAULT: usize = 2;
const DATA_FAULT: usize = 3;
const ASLEEP: usize = 5;

/// Machine code of a function that returns immediately. Empty on architectures where it is not defined.
const RETURN: &[u8] = if cfg!(target_arch = "x86_64") {
    &[0xc3]
} else if cfg!(target_arch = "aarch64") {
    &[0xc0, 0x03, 0x5f, 0xd6]
} else if cfg!(target_arch = "riscv64") {
    &[0x67, 0x80, 0x00, 0x00]
} else {
    &[]
};

/// A mapping of a temporary file whose pages are not in memory.
struct Mapped {
    at: *mut c_void,
    page: usize,
    _file: File,
}

impl Mapped {
    /// Every page begins with `head`. The file is in the build directory, which is on a disk more often than the directory for
    /// temporary files.
    ///
    /// # Errors
    /// Why its pages cannot be read from a disk here.
    fn new(head: &[u8], protection: ProtFlags) -> Result<Mapped, String> {
        let page = rustix::param::page_size();
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let mut file = tempfile::tempfile_in(beside).map_err(|error| error.to_string())?;
        file.write_all(&vec![0; PAGES * page]).map_err(|error| error.to_string())?;
        (0..PAGES).for_each(|n| file.write_all_at(head, (n * page) as u64).unwrap());
        fsync(&file).map_err(|error| error.to_string())?;
        fadvise(&file, 0, None, FileAdvice::DontNeed).map_err(|error| error.to_string())?;
        // SAFETY: a new mapping at an address that the kernel chooses. No other process has the file, and its length does not
        // change.
        let at = unsafe { mmap(null_mut(), PAGES * page, protection, MapFlags::PRIVATE, &file, 0) };
        let mapped = Mapped { at: at.map_err(|error| error.to_string())?, page, _file: file };
        // SAFETY: the range is the whole of our mapping.
        unsafe { madvise(mapped.at, PAGES * page, Advice::Random) }.map_err(|error| error.to_string())?;
        match mapped.resident() {
            0 => Ok(mapped),
            kept => Err(format!("the file system keeps {kept} of {PAGES} pages in memory")),
        }
    }

    /// Number of its pages that are in memory.
    fn resident(&self) -> usize {
        let mut pages = [0u8; PAGES];
        // SAFETY: the kernel writes one byte per page of our mapping, and `pages` has that many bytes.
        let told = unsafe { libc::mincore(self.at, PAGES * self.page, pages.as_mut_ptr()) };
        assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    fn pages(&self) -> impl Iterator<Item = *const u8> {
        let (first, page) = (self.at.cast::<u8>().cast_const(), self.page);
        // SAFETY: each offset is within the mapping.
        (0..PAGES).map(move |n| unsafe { first.add(n * page) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this is our mapping, and no address of it is used afterwards.
        let _ = unsafe { munmap(self.at, PAGES * self.page) };
    }
}

/// Voluntary context switches of this thread.
fn sleeps() -> u64 {
    // SAFETY: the structure has only integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes the structure, which is ours.
    let told = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
    u64::try_from(usage.ru_nvcsw).unwrap()
}

/// Time that a thread spent, by state, while it touched each page once. `None`, with a message, where the test is skipped.
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
            // Keeps the mapping until the reading is done.
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
            // SAFETY: the first byte of a page of a mapped file whose length does not change.
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
            // SAFETY: the page holds a function without arguments and result that returns. The page is executable, and nothing
            // writes to it.
            let function = unsafe { std::mem::transmute::<*const u8, extern "C" fn()>(page) };
            function();
        }
    };
    let executable = ProtFlags::READ.union(ProtFlags::EXEC);
    let Some(spent) = spent_using(name, (RETURN, executable), call) else { return };
    assert!(spent[TEXT_FAULT] > spent[DATA_FAULT] && spent[ASLEEP] == 0, "{spent:?}");
}
