//! Pre-faulted memory that the allocator keeps.

use super::calm::usage;
use super::files;
use super::holders::Holders;
use super::outcome::Refusal;
use crate::stacks::page_size;
use libc::c_void;
use std::ptr;

/// Size of an allocation, in bytes. The allocator's arenas of threads are too small for one large block.
const BLOCK: usize = 1 << 20;

/// Size of the pin, in bytes. glibc caches smaller freed blocks, which would then hold their place for ever.
const PIN: usize = 4096;

/// Size of the link at the start of each block, in bytes.
const LINK: usize = size_of::<*mut c_void>();

static HOLDERS: Holders<()> = Holders::new();

/// Memory that the allocator keeps.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) bytes: usize,
    /// An allocated block after all freed ones. Allocators return free memory at an end, even if configured not to.
    pin: Blocks,
}

/// Makes the allocator hold `bytes`, pre-faulted, for the calling thread, and verifies that it keeps them.
pub(super) fn keep(bytes: usize) -> Result<Kept, Refusal> {
    if bytes == 0 {
        return Err(Refusal::new(
            libc::EINVAL,
            "cannot fault in 0 bytes: ask for as many as the thread allocates",
        ));
    }
    let failed = |why: &str| Refusal::new(libc::ENOMEM, format!("cannot fault in {bytes} bytes: {why}"));
    // With more than that the kernel would invoke the OOM killer.
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

/// Lets the allocator return unused memory, as it does by default.
pub(super) fn release(kept: Kept) {
    drop(kept.pin);
    leave();
}

fn leave() {
    HOLDERS.leave(|()| policy::usual());
}

/// Allocates `bytes` twice, and returns the page faults of the second time. `None`: out of memory.
fn fault_in(bytes: usize) -> Option<(Kept, usize)> {
    let first = Blocks::new(bytes)?;
    let kept = Kept { bytes, pin: Blocks::pin()? };
    drop(first);
    let before = faults();
    drop(Blocks::new(bytes)?);
    Some((kept, faults() - before))
}

/// A list of allocated blocks, each with a link to the previous one. Dropping it frees them.
#[derive(Debug)]
struct Blocks(*mut c_void);

impl Blocks {
    /// Allocates `bytes` and writes to each page. `None`: out of memory.
    fn new(bytes: usize) -> Option<Blocks> {
        let (mut blocks, mut rest) = (Blocks(ptr::null_mut()), bytes);
        while rest > 0 {
            let length = rest.min(BLOCK);
            blocks.add(length)?;
            for at in (LINK..length).step_by(page_size()).chain((length > LINK).then_some(length - 1)) {
                // SAFETY: within a block of that length, after the link.
                unsafe { blocks.0.cast::<u8>().add(at).write_volatile(0) };
            }
            rest -= length;
        }
        Some(blocks)
    }

    /// Allocates a small block at the place of the last large one.
    fn pin() -> Option<Blocks> {
        let mut pin = Blocks(ptr::null_mut());
        pin.add(BLOCK)?;
        // SAFETY: it is this function's block. If it moves, the old one is freed. Its link is null, and is preserved.
        let smaller = unsafe { libc::realloc(pin.0, PIN) };
        if !smaller.is_null() {
            pin.0 = smaller;
        }
        Some(pin)
    }

    fn add(&mut self, length: usize) -> Option<()> {
        // SAFETY: the call allocates memory only.
        let block = unsafe { libc::malloc(length.max(LINK)) };
        if block.is_null() {
            return None;
        }
        // SAFETY: the block is this function's, aligned for all types, and has room for a link.
        unsafe { block.cast::<*mut c_void>().write(self.0) };
        self.0 = block;
        Some(())
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: a block of this list, with a link to the previous one.
            let before = unsafe { self.0.cast::<*mut c_void>().read() };
            // SAFETY: it is not used any more.
            unsafe { libc::free(self.0) };
            self.0 = before;
        }
    }
}

fn faults() -> usize {
    let usage = usage();
    usize::try_from(usage.ru_minflt + usage.ru_majflt).unwrap_or_default()
}

/// Settings of glibc's allocator.
#[cfg(target_env = "gnu")]
mod policy {
    use super::Refusal;
    use libc::c_int;

    /// Never return memory: the value of `mallopt(3)`.
    const NEVER: c_int = -1;

    /// Default values, by the same page. The allocator does not report the current ones.
    const USUAL_MAPPINGS: c_int = 65536;
    const USUAL_TRIM: c_int = 128 << 10;

    /// A block size in bytes: below the mapping threshold, and above the cached sizes.
    const SOME_SIZE: usize = 100 << 10;

    fn set(mappings: c_int, trim: c_int) -> bool {
        // SAFETY: integer arguments only.
        unsafe {
            libc::mallopt(libc::M_MMAP_MAX, mappings) == 1 && libc::mallopt(libc::M_TRIM_THRESHOLD, trim) == 1
        }
    }

    /// Returns no memory, and uses no mappings for large blocks, because those would be returned when freed.
    pub(super) fn keep() -> Result<(), Refusal> {
        if set(0, NEVER) {
            return Ok(());
        }
        Err(Refusal::new(libc::ENOTSUP, "cannot tell the allocator to keep its memory: mallopt refuses"))
    }

    pub(super) fn usual() {
        set(USUAL_MAPPINGS, USUAL_TRIM);
        // SAFETY: it returns free memory, and frees an unused block.
        unsafe {
            libc::malloc_trim(0);
            // A thread's arena is trimmed only when that thread frees a block of some size.
            libc::free(libc::malloc(SOME_SIZE));
        }
    }
}

/// Other allocators have no such settings: only the result is verified.
#[cfg(not(target_env = "gnu"))]
mod policy {
    use super::Refusal;

    pub(super) fn keep() -> Result<(), Refusal> {
        Ok(())
    }

    pub(super) fn usual() {}
}
