//! Memory that the allocator has before it is asked for, and keeps.

use super::calm::usage;
use super::files;
use super::holders::Holders;
use super::outcome::Refusal;
use crate::stacks::page_size;
use libc::c_void;
use std::ptr;

/// In bytes: what the allocator is asked for at a time. Its memory for threads comes in parts that one large block would not fit.
const BLOCK: usize = 1 << 20;

/// In bytes. Smaller blocks are kept apart when they are freed, and would stay for ever where this one was.
const PIN: usize = 4096;

/// In bytes: what each block begins with.
const LINK: usize = size_of::<*mut c_void>();

static HOLDERS: Holders<()> = Holders::new();

/// What the allocator keeps.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: usize,
    /// It stays in use behind all that was freed: what lies at an end is what allocators give back, told otherwise or not.
    pin: Blocks,
}

/// Lets the allocator have so much memory, faulted in, for the calling thread, and looks whether it keeps it.
pub(super) fn keep(bytes: usize) -> Result<Kept, Refusal> {
    if bytes == 0 {
        return Err(Refusal::new(
            libc::EINVAL,
            "cannot fault in 0 bytes: ask for as many as the thread allocates",
        ));
    }
    let failed = |why: &str| Refusal::new(libc::ENOMEM, format!("cannot fault in {bytes} bytes: {why}"));
    // Beyond that the kernel would invoke the OOM killer.
    if let Some(there) = files::available().filter(|there| *there < bytes) {
        return Err(failed(&format!("{there} are available; ask for less, or end others")));
    }
    HOLDERS.enter(|| (), policy::keep)?;
    let kept = fault_in(bytes)
        .ok_or_else(|| failed("the allocator has not so much; raise the limits (ulimit -v, -d, -l)"));
    let kept = kept.and_then(|(kept, again)| match again {
        few if few <= bytes.div_ceil(page_size()) / 64 => Ok(kept),
        _ => Err(Refusal::new(
            libc::ENOTSUP,
            format!(
                "cannot keep {bytes} bytes: the allocator gave them back ({again} faults); run with glibc's, and none of its \
                 own settings (LD_PRELOAD, GLIBC_TUNABLES)"
            ),
        )),
    });
    if kept.is_err() {
        leave();
    }
    kept
}

/// The allocator gives back what it does not need, as it does by itself.
pub(super) fn release(kept: Kept) {
    drop(kept.pin);
    leave();
}

fn leave() {
    HOLDERS.leave(|()| policy::usual());
}

/// Uses that much twice, and gives the page faults of the second time. None: there is not so much.
fn fault_in(bytes: usize) -> Option<(Kept, usize)> {
    let first = Blocks::new(bytes)?;
    let kept = Kept { bytes, pin: Blocks::pin()? };
    drop(first);
    let before = faults();
    drop(Blocks::new(bytes)?);
    Some((kept, faults() - before))
}

/// Blocks of the allocator, each with a link to the one before. Freed when dropped.
#[derive(Debug)]
struct Blocks(*mut c_void);

impl Blocks {
    /// That much at once, each page of it written to. None: there is not so much.
    fn new(bytes: usize) -> Option<Blocks> {
        let (mut blocks, mut rest) = (Blocks(ptr::null_mut()), bytes);
        while rest > 0 {
            let length = rest.min(BLOCK);
            blocks.add(length)?;
            for at in (LINK..length).step_by(page_size()).chain((length > LINK).then_some(length - 1)) {
                // SAFETY: within a block of that length, and behind the link.
                unsafe { blocks.0.cast::<u8>().add(at).write_volatile(0) };
            }
            rest -= length;
        }
        Some(blocks)
    }

    /// A small one where a large one was last found room.
    fn pin() -> Option<Blocks> {
        let mut pin = Blocks(ptr::null_mut());
        pin.add(BLOCK)?;
        // SAFETY: it is ours; should it move, the old one is gone. The link in it is null, and stays.
        let smaller = unsafe { libc::realloc(pin.0, PIN) };
        if !smaller.is_null() {
            pin.0 = smaller;
        }
        Some(pin)
    }

    fn add(&mut self, length: usize) -> Option<()> {
        // SAFETY: it only asks.
        let block = unsafe { libc::malloc(length.max(LINK)) };
        if block.is_null() {
            return None;
        }
        // SAFETY: it is ours, aligned for all types, and has room for a link.
        unsafe { block.cast::<*mut c_void>().write(self.0) };
        self.0 = block;
        Some(())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: a block of ours, in which the link to the one before was written.
            let before = unsafe { self.0.cast::<*mut c_void>().read() };
            // SAFETY: no thread uses it any more.
            unsafe { libc::free(self.0) };
            self.0 = before;
        }
    }
}

fn faults() -> usize {
    let usage = usage();
    usize::try_from(usage.ru_minflt + usage.ru_majflt).unwrap_or_default()
}

/// What glibc's allocator gives back.
#[cfg(target_env = "gnu")]
mod policy {
    use super::Refusal;
    use libc::c_int;

    /// As `mallopt(3)` says: it is never given back.
    const NEVER: c_int = -1;

    /// What these are unless they were changed, by the same page; the allocator does not tell what they are.
    const USUAL_MAPPINGS: c_int = 65536;
    const USUAL_TRIM: c_int = 128 << 10;

    /// In bytes: less than what would be a mapping, more than what is kept for quick use.
    const SOME_SIZE: usize = 100 << 10;

    fn set(mappings: c_int, trim: c_int) -> bool {
        // SAFETY: numbers only.
        unsafe {
            libc::mallopt(libc::M_MMAP_MAX, mappings) == 1 && libc::mallopt(libc::M_TRIM_THRESHOLD, trim) == 1
        }
    }

    /// Nothing is given back, and large blocks are no mappings of their own, which would be.
    pub(super) fn keep() -> Result<(), Refusal> {
        if set(0, NEVER) {
            return Ok(());
        }
        Err(Refusal::new(libc::ENOTSUP, "cannot tell the allocator to keep its memory: mallopt refuses"))
    }

    pub(super) fn usual() {
        set(USUAL_MAPPINGS, USUAL_TRIM);
        // SAFETY: it gives back what is free, and frees a block that is unused.
        unsafe {
            libc::malloc_trim(0);
            // The end of a thread's memory goes only when a block of some size is freed in that thread.
            libc::free(libc::malloc(SOME_SIZE));
        }
    }
}

/// Other allocators cannot be told: they are looked at.
#[cfg(not(target_env = "gnu"))]
mod policy {
    use super::Refusal;

    pub(super) fn keep() -> Result<(), Refusal> {
        Ok(())
    }

    pub(super) fn usual() {}
}
