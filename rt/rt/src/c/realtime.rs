//! The set-up of real-time threads, and calm sections, for programs in C.

use super::{fail, fill};
use crate::realtime::{
    Calm, CpuMask, Disturbances, Item, MigrationSource, ORDER, Outcome, Realtime, RealtimeError,
    SchedulingClass, Setup, Want,
};
use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

/// The bits of all items.
const ALL: c_uint = 0x7f;

/// The bit of an item. Items are in the order of the header.
fn bit(item: Item) -> c_uint {
    1 << item as c_uint
}

/// Layout of the header.
#[repr(C)]
struct WantedSetup {
    required: c_uint,
    wished: c_uint,
    cpu_list: *const c_char,
    cpu_mask: *const c_void,
    cpu_bytes: size_t,
    heap_bytes: size_t,
    idle_latency_us: u32,
    policy: c_int,
    priority: c_int,
    nice: c_int,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    timer_slack_ns: u64,
}

impl WantedSetup {
    /// # Safety
    /// Pointers of the wanted items are null or readable.
    unsafe fn read(&self) -> Option<Setup> {
        let named = self.required | self.wished;
        if named & !ALL != 0 || self.required & self.wished != 0 {
            return None;
        }
        let mut setup = Setup::new();
        for item in ORDER.into_iter().filter(|item| named & bit(*item) != 0) {
            let want = match item {
                // SAFETY: our caller promises it.
                Item::Cpus => Want::Cpus(unsafe { self.cpus() }),
                Item::Memory => Want::Memory,
                Item::Heap => Want::Heap(self.heap_bytes),
                Item::Stack => Want::Stack,
                Item::IdleLatency => Want::IdleLatency(Duration::from_micros(self.idle_latency_us.into())),
                Item::TimerSlack => Want::TimerSlack(Duration::from_nanos(self.timer_slack_ns)),
                Item::Class => Want::Class(self.class()?),
            };
            setup = if self.required & bit(item) != 0 { setup.require(want) } else { setup.wish(want) };
        }
        Some(setup)
    }

    /// An invalid list or mask becomes an empty one. That is refused, and reported with the outcomes.
    ///
    /// # Safety
    /// The list is null or a zero-terminated string; the mask is null or has `cpu_bytes` readable bytes.
    unsafe fn cpus(&self) -> CpuMask {
        const WORD: usize = size_of::<u64>();
        if !self.cpu_list.is_null() {
            // SAFETY: our caller promises it.
            let list = unsafe { CStr::from_ptr(self.cpu_list) };
            return list.to_str().ok().and_then(|list| list.parse().ok()).unwrap_or_default();
        }
        if self.cpu_mask.is_null() || !self.cpu_bytes.is_multiple_of(WORD) {
            return CpuMask::new();
        }
        let words = (0..self.cpu_bytes / WORD).map(|at| {
            // SAFETY: our caller promises that many bytes; alignment is not required.
            unsafe { self.cpu_mask.cast::<u64>().add(at).read_unaligned() }
        });
        CpuMask::from_words(words).unwrap_or_default()
    }

    /// `None`: an unsupported policy.
    fn class(&self) -> Option<SchedulingClass> {
        // A negative priority becomes 0, which is invalid, too, and refused with the message for priorities.
        let priority = u32::try_from(self.priority).unwrap_or_default();
        let [runtime, deadline, period] =
            [self.runtime_ns, self.deadline_ns, self.period_ns].map(Duration::from_nanos);
        match self.policy {
            libc::SCHED_FIFO => Some(SchedulingClass::Fifo { priority }),
            libc::SCHED_RR => Some(SchedulingClass::RoundRobin { priority }),
            libc::SCHED_DEADLINE => Some(SchedulingClass::Deadline { runtime, deadline, period }),
            libc::SCHED_OTHER => Some(SchedulingClass::Other { nice: self.nice }),
            _ => None,
        }
    }
}

/// The set-up of a thread, or why it failed.
struct Handle {
    begun: Option<Realtime>,
    told: Vec<Told>,
}

/// An outcome as strings for C.
struct Told {
    item: c_uint,
    is_required: bool,
    error: c_int,
    wanted: CString,
    had: CString,
    reason: Option<CString>,
}

impl Told {
    fn new(outcome: &Outcome) -> Told {
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let reason = outcome.refusal.as_ref().map(|refusal| refusal.reason.as_str());
        Told {
            item: bit(outcome.item),
            is_required: outcome.is_required,
            error: outcome.refusal.as_ref().map_or(0, |refusal| refusal.errno),
            wanted: text(&outcome.wanted),
            had: text(&outcome.had),
            reason: reason.or(outcome.note.as_deref()).map(text),
        }
    }
}

/// Runs `body` with thread cancellation disabled. A panic becomes an error, because it must not cross into C.
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    const DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: it writes to `before`.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| fail(libc::ENOTRECOVERABLE));
    // SAFETY: a null pointer is allowed; errno is preserved.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    answer
}

/// Whether there is memory for the texts of the report. A later failure could not be reported.
fn has_memory() -> bool {
    const FOR_TEXTS: usize = 16 << 10;
    Vec::<u8>::new().try_reserve_exact(FOR_TEXTS).is_ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_setup_begin(setup: *const WantedSetup, handle: *mut *mut Handle) -> c_int {
    if handle.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: it is not null, and our caller promises the rest.
    unsafe { handle.write(ptr::null_mut()) };
    // SAFETY: null, or our caller promises it.
    let Some(setup) = (unsafe { setup.as_ref() }) else { return fail(libc::EINVAL) };
    guarded(|| {
        if !has_memory() {
            return fail(libc::ENOMEM);
        }
        // SAFETY: our caller promises it.
        let Some(setup) = (unsafe { setup.read() }) else { return fail(libc::EINVAL) };
        let told = |outcomes: &[Outcome]| outcomes.iter().map(Told::new).collect();
        let (answer, made) = match setup.begin() {
            Ok(begun) => (Ok(()), Handle { told: told(begun.outcomes()), begun: Some(begun) }),
            Err(error) => (Err(error.errno()), Handle { told: told(error.outcomes()), begun: None }),
        };
        // SAFETY: as above.
        unsafe { handle.write(Box::into_raw(Box::new(made))) };
        answer.map_or_else(fail, |()| 0)
    })
}

/// Layout of the header.
#[repr(C)]
struct ToldOutcome {
    item: c_uint,
    required: c_int,
    error: c_int,
    wanted: *const c_char,
    had: *const c_char,
    reason: *const c_char,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_setup_report(
    handle: *const Handle,
    outcomes: *mut ToldOutcome,
    count: c_int,
) -> c_int {
    // SAFETY: null, or our caller promises it.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return fail(libc::EINVAL) };
    let outcome = |told: &Told| ToldOutcome {
        item: told.item,
        required: c_int::from(told.is_required),
        error: told.error,
        wanted: told.wanted.as_ptr(),
        had: told.had.as_ptr(),
        reason: told.reason.as_ref().map_or(ptr::null(), |text| text.as_ptr()),
    };
    // SAFETY: our caller promises room for `count`.
    unsafe { fill(outcomes, count, || Ok(handle.told.iter().map(outcome))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_setup_undo(handle: *mut Handle) -> c_int {
    // SAFETY: null, or our caller promises it.
    let Some(there) = (unsafe { handle.as_ref() }) else { return 0 };
    if there.begun.as_ref().is_some_and(|begun| !begun.is_own()) {
        return fail(libc::ESRCH);
    }
    // SAFETY: it came from a box, and no other thread uses it.
    let ended = unsafe { Box::from_raw(handle) };
    guarded(|| {
        let answer = ended.begun.map_or(Ok(()), Realtime::undo);
        answer.map_or_else(|error: RealtimeError| fail(error.errno()), |()| 0)
    })
}

/// Counters of a thread, and the counts at the beginning of the open section.
struct Sections {
    calm: Calm,
    before: Option<crate::realtime::Counts>,
    owner: libc::pthread_t,
}

impl Sections {
    /// Whether the caller is the owner, without a system call.
    fn is_own(&self) -> bool {
        // SAFETY: the call has no effect.
        self.owner == unsafe { libc::pthread_self() }
    }
}

/// Layout of the header.
#[repr(C)]
struct Found {
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    migrations: u64,
    migrations_by: c_int,
}

impl From<Disturbances> for Found {
    fn from(found: Disturbances) -> Found {
        Found {
            minor_faults: found.minor_faults,
            major_faults: found.major_faults,
            voluntary_switches: found.voluntary_switches,
            involuntary_switches: found.involuntary_switches,
            migrations: found.migrations,
            migrations_by: match found.migrations_by {
                MigrationSource::Counter => 0,
                MigrationSource::CpuNumbers => 1,
            },
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_calm_open(calm: *mut *mut Sections) -> c_int {
    if calm.is_null() {
        return fail(libc::EINVAL);
    }
    if !has_memory() {
        return fail(libc::ENOMEM);
    }
    // SAFETY: the call has no effect.
    let owner = unsafe { libc::pthread_self() };
    let opened = Box::into_raw(Box::new(Sections { calm: Calm::open(), before: None, owner }));
    // An empty section first, so that the code of both calls is in memory later.
    // SAFETY: it was just made, and no other code has it.
    unsafe {
        rt_calm_begin(opened);
        rt_calm_end(opened, ptr::null_mut());
    }
    // SAFETY: it is not null, and our caller promises the rest.
    unsafe { calm.write(opened) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_calm_begin(calm: *mut Sections) -> c_int {
    // SAFETY: null, or our caller promises it.
    let Some(sections) = (unsafe { calm.as_mut() }) else { return fail(libc::EINVAL) };
    if !sections.is_own() {
        return fail(libc::ESRCH);
    }
    sections.before = Some(sections.calm.counts());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_calm_end(calm: *mut Sections, found: *mut Found) -> c_int {
    // SAFETY: null, or our caller promises it.
    let Some(sections) = (unsafe { calm.as_mut() }) else { return fail(libc::EINVAL) };
    if !sections.is_own() {
        return fail(libc::ESRCH);
    }
    let Some(before) = sections.before.take() else { return fail(libc::EINVAL) };
    let happened = sections.calm.since(before);
    if !found.is_null() {
        // SAFETY: it is not null, and our caller promises the rest.
        unsafe { found.write(happened.into()) };
    }
    c_int::from(!happened.is_calm())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_calm_close(calm: *mut Sections) {
    if !calm.is_null() {
        // SAFETY: it came from a box, and no other thread uses it.
        drop(unsafe { Box::from_raw(calm) });
    }
}
