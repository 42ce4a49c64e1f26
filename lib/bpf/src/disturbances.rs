//! OS noise on a set of CPUs: sums by CPU, kind, name and sender, and the longest stretches.

mod records;

use crate::image::image;
use crate::{Image, Object, Refused, Ring};
use records::{DEEP, STATE_WORDS, away, going_on, join, sum, what_of};

const IMAGE: Image = image!("disturbances");

/// The kind of activity on a CPU, in the order of `enum kind` of the program, where 0 is the job, or idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A device interrupt; its name is its number.
    Device,
    /// An interrupt without a handler name: an index of [`VECTORS`], from 1.
    Vector,
    /// A softirq; its name is its number.
    Soft,
    /// A timer; its name is the address of its function.
    Timer,
    /// A kernel worker; its name is the address of the function that it executes.
    Work,
    /// A kernel thread.
    Kernel,
    /// A thread of a program.
    Task,
    /// A page fault; its duration is unknown.
    Fault,
    /// A non-maskable interrupt; its name is the address of its handler.
    Nmi,
    /// A function call requested by another CPU; its name is the function's address.
    Call,
    /// A reschedule interrupt from another CPU.
    Nudge,
}

const KINDS: [Kind; 11] = [
    Kind::Device,
    Kind::Vector,
    Kind::Soft,
    Kind::Timer,
    Kind::Work,
    Kind::Kernel,
    Kind::Task,
    Kind::Fault,
    Kind::Nmi,
    Kind::Call,
    Kind::Nudge,
];

/// Interrupts with a tracepoint of their own, in the order of `enum vector`. The architecture determines which of them exist.
pub const VECTORS: [&str; 12] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "spurious_apic",
    "error_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
    "ipi",
];

/// The origin of a disturbance, in the order of `enum whose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Another program.
    Others,
    /// The job.
    Job,
    /// This program.
    Watcher,
}

/// The identity of a disturbance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct What {
    /// Its kind.
    pub kind: Kind,
    /// Its origin.
    pub whose: Origin,
    /// See [`Kind`]; 0 for none.
    pub name: u64,
    /// The short name of the thread that ran, sent or is woken; empty if unknown.
    pub thread: String,
    /// That thread's process; 0 if unknown.
    pub process: u64,
}

/// Count and times of a disturbance on a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The CPU.
    pub processor: u32,
    /// The disturbance.
    pub what: What,
    /// Its count.
    pub count: u64,
    /// Own time in nanoseconds: without the time of what interrupted it.
    pub total_ns: u64,
    /// The longest occurrence.
    pub longest_ns: u64,
    /// When that began, on the monotonic clock.
    pub longest_at_ns: u64,
}

/// A period in which a CPU neither ran the job nor was idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The CPU.
    pub processor: u32,
    /// When it began, on the monotonic clock.
    pub at_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// The identity of its longest part.
    pub culprit: What,
}

/// Numbers of losses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Disturbances that found the map of sums full.
    pub sums: u64,
    /// Stretches that found the ring full.
    pub stretches: u64,
    /// Threads of the job that found the map full.
    pub members: u64,
    /// Interrupts that were nested too deeply.
    pub deep: u64,
}

/// Programs that are required.
const NEEDED: [&str; 1] = ["sched_switch"];

/// Optional programs, with what is not seen without them; empty where their lack on a machine loses nothing.
const OTHERS: [(&[&str], &str); 11] = [
    // First these: attaching the others is itself a call to every CPU.
    (&["csd_function_entry", "csd_function_exit", "csd_queue_cpu"], "calls from other CPUs, and what for"),
    (&["irq_handler_entry", "irq_handler_exit"], "interrupts of devices"),
    (&["softirq_entry", "softirq_exit"], "soft interrupts"),
    (&["timer_expire_entry", "timer_expire_exit"], "the functions of timers"),
    (&["hrtimer_expire_entry", "hrtimer_expire_exit"], "the functions of high-resolution timers"),
    (&["workqueue_execute_start", "workqueue_execute_end"], "what kernel workers execute"),
    (&["ipi_send_cpu"], "reschedule calls from other CPUs"),
    (&["page_fault_user"], "page faults"),
    (&["page_fault_kernel"], ""),
    (&["nmi_handler"], "interrupts that cannot be held off"),
    (&["sched_process_fork", "sched_process_free"], "children of the job"),
];

/// Options of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The number of possible CPUs.
    pub processors: u32,
    /// The process that watches.
    pub watcher: u32,
    /// The shortest stretch to report on its own.
    pub worth_telling_ns: u64,
    /// The address of the function by which a timer wakes a thread; 0 if unknown.
    pub wakes_sleeper: u64,
    /// Bytes of the ring of stretches: a power of two, and a multiple of the page size ([`RING_BYTES`]).
    pub ring_bytes: u32,
}

/// Room for about ten thousand unread stretches.
pub const RING_BYTES: u32 = 1 << 20;

/// The loaded programs.
#[derive(Debug)]
pub struct Disturbing {
    object: Object,
    missing: Vec<(&'static str, Refused)>,
}

impl Disturbing {
    /// Loads the programs. Nothing is seen before [`Disturbing::attach`].
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects them.
    pub fn open(options: Options) -> Result<Disturbing, Refused> {
        let processors = options.processors.max(1);
        let object = Object::open(IMAGE, |opened| {
            opened.set_constants(&[
                u64::from(options.watcher),
                options.worth_telling_ns,
                options.wakes_sleeper,
            ]);
            opened.set_entries("states", processors);
            opened.set_entries("nudges", processors);
            opened.set_entries("stretches", options.ring_bytes);
        })?;
        Ok(Disturbing { object, missing: Vec::new() })
    }

    /// Attaches every program whose tracepoint exists in this kernel.
    ///
    /// # Errors
    /// [`Refused`] if nothing can be seen.
    pub fn attach(&mut self) -> Result<(), Refused> {
        let object = &mut self.object;
        for name in NEEDED {
            object.attach(name)?;
        }
        for (names, what) in OTHERS {
            // The end's program first, so that no beginning is seen without its end.
            let failed = names.iter().rev().find_map(|name| object.attach(name).err());
            self.missing.extend(failed.filter(|_| !what.is_empty()).map(|why| (what, why)));
        }
        for name in VECTORS {
            // Vectors of other architectures are missing. Here, too, the end's program comes first.
            let _ =
                object.attach(&format!("{name}_exit")).and_then(|()| object.attach(&format!("{name}_entry")));
        }
        Ok(())
    }

    /// What is not seen on this kernel, and why.
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, Refused)] {
        &self.missing
    }

    /// Starts or stops watching a CPU.
    ///
    /// # Errors
    /// [`Refused`] if the CPU does not exist.
    pub fn watch(&self, processor: u32, on: bool) -> Result<(), Refused> {
        let mut state = [0; STATE_WORDS];
        state[0] = u64::from(on);
        self.object.entries("states")?.put(&[u64::from(processor)], &state)
    }

    /// Adds a thread to the job, with its future descendants, or removes it.
    ///
    /// # Errors
    /// [`Refused`] if the map of members is full.
    pub fn member(&self, thread: u32, on: bool) -> Result<(), Refused> {
        let job = self.object.entries("job")?;
        if on {
            return job.put(&[u64::from(thread)], &[1]);
        }
        job.remove(&[u64::from(thread)]);
        Ok(())
    }

    /// All sums since the start, including the activity in progress at `now_ns` (monotonic clock).
    ///
    /// # Errors
    /// [`Refused`] if the maps cannot be read.
    pub fn sums(&self, now_ns: u64) -> Result<Vec<Sum>, Refused> {
        let entries = self.object.entries("sums")?.all();
        let mut sums: Vec<Sum> = entries.iter().filter_map(|(key, value)| sum(key, value)).collect();
        for (key, state) in self.object.entries("states")?.all() {
            if let Some(going_on) = going_on(key.first().copied().unwrap_or(0), &state, now_ns) {
                join(&mut sums, going_on);
            }
        }
        Ok(sums)
    }

    /// The stretches in progress.
    ///
    /// # Errors
    /// [`Refused`] if the maps cannot be read.
    pub fn going_on(&self, now_ns: u64) -> Result<Vec<Stretch>, Refused> {
        let states = self.object.entries("states")?.all();
        let stretches = states.iter().filter_map(|(key, state)| away(*key.first()?, state, now_ns));
        Ok(stretches.collect())
    }

    /// Losses so far.
    ///
    /// # Errors
    /// [`Refused`] if the maps cannot be read.
    pub fn lost(&self) -> Result<Lost, Refused> {
        let lost = self.object.entries("lost")?;
        let of = |key: u64| lost.get(&[key]).and_then(|words| words.first().copied()).unwrap_or(0);
        let states = self.object.entries("states")?.all();
        let deep = states.iter().filter_map(|(_, state)| state.get(DEEP)).sum();
        Ok(Lost { sums: of(0), stretches: of(1), members: of(2), deep })
    }

    /// Reads stretches: [`Ring::take`] calls `heard` for each.
    ///
    /// # Errors
    /// [`Refused`] if the ring cannot be opened.
    pub fn stretches<'cb>(&self, mut heard: impl FnMut(Stretch) + 'cb) -> Result<Ring<'cb>, Refused> {
        self.object.ring("stretches", move |words| {
            if let [processor, at_ns, length_ns, what @ ..] = words
                && let Some(culprit) = what_of(what)
            {
                let processor = u32::try_from(*processor).unwrap_or(u32::MAX);
                heard(Stretch { processor, at_ns: *at_ns, length_ns: *length_ns, culprit });
            }
        })
    }
}

#[cfg(test)]
mod tests;
