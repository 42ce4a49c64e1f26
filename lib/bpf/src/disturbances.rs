//! OS noise on a set of CPUs: sums by CPU, kind, name and sender, and the stretches that were worst.

mod records;

use crate::image::image;
use crate::{Image, Object, Refused, Ring};
use records::{DEEP, STATE_WORDS, away, going_on, join, sum, what_of};

const IMAGE: Image = image!("disturbances");

/// What has a CPU, in the order of `enum kind` of the program, where 0 is the job, or nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The interrupt of a device; its name is a number.
    Device,
    /// An interrupt that is no more than a number: an index of [`VECTORS`], from 1.
    Vector,
    /// Deferred work of interrupts; its name is its number.
    Soft,
    /// A timer; its name is the address of its function.
    Timer,
    /// A worker of the kernel; its name is the address of what it executes.
    Work,
    /// A thread of the kernel.
    Kernel,
    /// A thread of a program.
    Task,
    /// A page that was not there; how long it took is not known.
    Fault,
    /// An interrupt that cannot be held off; its name is the address of its handler.
    Nmi,
    /// A function that another CPU asked for; its name is its address.
    Call,
    /// Another CPU says that there is something to do.
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

/// Interrupts that have a tracepoint of their own, in the order of `enum vector`: which of them there are depends on the architecture.
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

/// What a disturbance belongs to, in the order of `enum whose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Another program.
    Others,
    /// The job.
    Job,
    /// The watcher itself.
    Watcher,
}

/// What it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct What {
    /// Which kind.
    pub kind: Kind,
    /// What it belongs to.
    pub whose: Origin,
    /// See [`Kind`]; 0 for none.
    pub name: u64,
    /// The short name of the thread that it is, that sent it or that it wakes; empty when that is not known.
    pub thread: String,
    /// The process of that thread; 0 when it is not known.
    pub process: u64,
}

/// How often, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// Where.
    pub processor: u32,
    /// What.
    pub what: What,
    /// How often.
    pub count: u64,
    /// Nanoseconds of its own: without what interrupted it.
    pub total_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// When that began, on the monotonic clock.
    pub longest_at_ns: u64,
}

/// Time in which a CPU had neither the job nor nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub processor: u32,
    /// When it began, on the monotonic clock.
    pub at_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// The longest part of it.
    pub culprit: What,
}

/// What could not be kept: how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Disturbances of more kinds, names and senders than there is room for.
    pub sums: u64,
    /// Stretches that nobody took out of the ring in time.
    pub stretches: u64,
    /// Threads of the job.
    pub members: u64,
    /// Interrupts within interrupts within interrupts.
    pub deep: u64,
}

/// The programs without which nothing is seen.
const NEEDED: [&str; 1] = ["sched_switch"];

/// All others, with what is not seen without them; nothing is missing where a machine has other interrupts.
const OTHERS: [(&[&str], &str); 11] = [
    // Attaching the others is itself a call to every CPU, which these see.
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

/// How to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many CPUs the machine can have.
    pub processors: u32,
    /// The process that watches.
    pub watcher: u32,
    /// Stretches from this length on are told one by one.
    pub worth_telling_ns: u64,
    /// The address of the function by which a timer wakes a thread; 0 when it is not known.
    pub wakes_sleeper: u64,
    /// Bytes of the ring of stretches: a power of two, and whole pages ([`RING_BYTES`]).
    pub ring_bytes: u32,
}

/// Room for some ten thousand stretches that nobody has taken yet.
pub const RING_BYTES: u32 = 1 << 20;

/// The programs at work.
#[derive(Debug)]
pub struct Disturbing {
    object: Object,
    missing: Vec<(&'static str, Refused)>,
}

impl Disturbing {
    /// Loads the programs. Nothing is seen before [`Disturbing::attach`].
    ///
    /// # Errors
    /// [`Refused`] when the kernel does not take them.
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

    /// Attaches every program for which there is a place in this kernel.
    ///
    /// # Errors
    /// [`Refused`] when nothing can be seen this way.
    pub fn attach(&mut self) -> Result<(), Refused> {
        let object = &mut self.object;
        for name in NEEDED {
            object.attach(name)?;
        }
        for (names, what) in OTHERS {
            // What tells of an end comes first, so that nothing begins and never ends.
            let failed = names.iter().rev().find_map(|name| object.attach(name).err());
            self.missing.extend(failed.filter(|_| !what.is_empty()).map(|why| (what, why)));
        }
        for name in VECTORS {
            // Another architecture has others, and begins to tell of one when it ends it.
            let _ =
                object.attach(&format!("{name}_exit")).and_then(|()| object.attach(&format!("{name}_entry")));
        }
        Ok(())
    }

    /// What is not seen here, and why.
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, Refused)] {
        &self.missing
    }

    /// Begins or ends to watch a CPU.
    ///
    /// # Errors
    /// [`Refused`] when there is no such CPU.
    pub fn watch(&self, processor: u32, on: bool) -> Result<(), Refused> {
        let mut state = [0; STATE_WORDS];
        state[0] = u64::from(on);
        self.object.entries("states")?.put(&[u64::from(processor)], &state)
    }

    /// A thread, and what descends from it from now on, belongs to the job, or does no more.
    ///
    /// # Errors
    /// [`Refused`] when there are more than can be told from others.
    pub fn member(&self, thread: u32, on: bool) -> Result<(), Refused> {
        let job = self.object.entries("job")?;
        if on {
            return job.put(&[u64::from(thread)], &[1]);
        }
        job.remove(&[u64::from(thread)]);
        Ok(())
    }

    /// What was seen since the beginning, what goes on at this moment (`now_ns`, on the monotonic clock) included.
    ///
    /// # Errors
    /// [`Refused`] when it cannot be read.
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

    /// The stretches that have not ended.
    ///
    /// # Errors
    /// [`Refused`] when they cannot be read.
    pub fn going_on(&self, now_ns: u64) -> Result<Vec<Stretch>, Refused> {
        let states = self.object.entries("states")?.all();
        let stretches = states.iter().filter_map(|(key, state)| away(*key.first()?, state, now_ns));
        Ok(stretches.collect())
    }

    /// What could not be kept.
    ///
    /// # Errors
    /// [`Refused`] when it cannot be read.
    pub fn lost(&self) -> Result<Lost, Refused> {
        let lost = self.object.entries("lost")?;
        let of = |key: u64| lost.get(&[key]).and_then(|words| words.first().copied()).unwrap_or(0);
        let states = self.object.entries("states")?.all();
        let deep = states.iter().filter_map(|(_, state)| state.get(DEEP)).sum();
        Ok(Lost { sums: of(0), stretches: of(1), members: of(2), deep })
    }

    /// Listens to stretches: `heard` is called for each when [`Ring::take`] is.
    ///
    /// # Errors
    /// [`Refused`] when that cannot be.
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
