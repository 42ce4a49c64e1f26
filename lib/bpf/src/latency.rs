//! Timestamps of one thread's wake-up, from its timer to its CPU, and what else ran on that CPU: for `latstat`.

use crate::image::image;
use crate::{Image, MappedWords, Object, Refused};

const IMAGE: Image = image!("latency");

/// Required programs: without one of them the wake-up cannot be timed.
const WAY: [&str; 3] = ["hrtimer_expire_entry", "sched_wakeup", "sched_switch"];

/// Optional programs; the architecture determines which exist. Without one, its interrupts are missing from the log.
const BESIDE: [&str; 16] = [
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
    "local_timer_entry",
    "local_timer_exit",
    "reschedule_entry",
    "reschedule_exit",
    "call_function_entry",
    "call_function_exit",
    "call_function_single_entry",
    "call_function_single_exit",
    "irq_work_entry",
    "irq_work_exit",
    "ipi_entry",
    "ipi_exit",
];

/// Interrupts that no device sends, by their number in the program.
pub const VECTORS: [&str; 6] =
    ["local timer", "reschedule", "call function", "call function single", "irq work", "ipi"];

/// The number of logged events: a power of two.
pub const MOMENTS: usize = 1024;
/// Words of one event: time, event, and a name.
pub const MOMENT_WORDS: usize = 4;

/// Indices of words in `struct state` of the program.
const NEXT: usize = 5;
const BEYOND: usize = 10;
const FIRST_MOMENT: usize = 16;

/// A logged event, in the program's encoding: the kind in the upper half, the number in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentEvent {
    /// A task began to run.
    Task(u32),
    /// An interrupt handler began (true) or ended.
    Interrupt(u32, bool),
    /// A softirq began (true) or ended.
    Soft(u32, bool),
    /// One of [`VECTORS`] began (true) or ended.
    Vector(u32, bool),
}

impl MomentEvent {
    /// Decodes a word; `None` for one that the program never writes.
    #[must_use]
    pub fn of(word: u64) -> Option<MomentEvent> {
        let number = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        Some(match word >> 32 {
            1 => MomentEvent::Task(number),
            2 => MomentEvent::Interrupt(number, true),
            3 => MomentEvent::Interrupt(number, false),
            4 => MomentEvent::Soft(number, true),
            5 => MomentEvent::Soft(number, false),
            6 => MomentEvent::Vector(number, true),
            7 => MomentEvent::Vector(number, false),
            _ => return None,
        })
    }
}

/// Total time of an activity on the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The activity.
    pub what: MomentEvent,
    /// Its name, if the kernel has one.
    pub name: String,
    /// Its count.
    pub times: u64,
    /// Its total time, including what interrupted it.
    pub ns: u64,
}

/// The attached program.
#[derive(Debug)]
pub struct Stamping {
    object: Object,
    words: MappedWords,
}

impl Stamping {
    /// Loads and attaches the program for one CPU. No thread is followed yet.
    ///
    /// # Errors
    /// [`Refused`] if wake-ups cannot be timed here.
    pub fn open(processor: u32) -> Result<Stamping, Refused> {
        let mut object = Object::open(IMAGE, |opened| opened.set_constants(&[u64::from(processor)]))?;
        for place in WAY {
            object.attach(place)?;
        }
        for place in BESIDE {
            // Only this event's name is missing then.
            let _ = object.attach(place);
        }
        let words = object.words("states", FIRST_MOMENT + MOMENTS * MOMENT_WORDS)?;
        Ok(Stamping { object, words })
    }

    /// Sets the followed thread. Its wake-ups are timed from the second time on that it gets the CPU.
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects the update.
    pub fn follow(&self, thread: u32) -> Result<(), Refused> {
        self.object.entries("threads")?.put(&[0], &[u64::from(thread)])
    }

    /// The last times of: the timer's handler, the wake-up, the thread's switch to the CPU.
    #[must_use]
    #[inline]
    pub fn stamps(&self) -> [u64; 3] {
        [self.words.get(0), self.words.get(1), self.words.get(2)]
    }

    /// The number of events so far.
    #[must_use]
    #[inline]
    pub fn moments(&self) -> u64 {
        self.words.get(NEXT)
    }

    /// The words of the n-th event, if it is one of the last [`MOMENTS`].
    #[must_use]
    #[inline]
    pub fn moment(&self, n: u64) -> [u64; MOMENT_WORDS] {
        let place = usize::try_from(n % MOMENTS as u64).unwrap_or(0);
        std::array::from_fn(|word| self.words.get(FIRST_MOMENT + place * MOMENT_WORDS + word))
    }

    /// Activities on the CPU since the program was attached.
    #[must_use]
    pub fn sums(&self) -> Vec<Sum> {
        let Ok(entries) = self.object.entries("sums") else { return Vec::new() };
        let sum = |(key, value): (Vec<u64>, Vec<u64>)| {
            let [times, ns, one, two] = value[..] else { return None };
            Some(Sum { what: MomentEvent::of(*key.first()?)?, name: name(&[one, two]), times, ns })
        };
        entries.all().into_iter().filter_map(sum).collect()
    }

    /// Count and nanoseconds of activities that found the map of sums full.
    #[must_use]
    pub fn beyond(&self) -> (u64, u64) {
        (self.words.get(BEYOND), self.words.get(BEYOND + 1))
    }
}

pub use crate::mapped::text as name;

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("../programs/latency/latency.bpf.c");

    fn between<'s>(from: &str, to: &str) -> &'s str {
        SOURCE.split_once(from).and_then(|(_, rest)| rest.split_once(to)).unwrap().0
    }

    #[test]
    fn words_stand_as_in_the_program() {
        let fields = between("struct state {", "struct moment moments");
        let names: Vec<&str> = fields.lines().filter_map(|line| line.trim().strip_prefix("__u64 ")).collect();
        assert_eq!(names[..3], ["irq;", "woken;", "on_cpu;"]);
        assert_eq!(names[NEXT], "next;");
        assert_eq!(names[BEYOND..BEYOND + 2], ["beyond_times;", "beyond_ns;"]);
        assert_eq!(names.last(), Some(&"spare[4];"));
        assert_eq!(names.len() - 1 + 4, FIRST_MOMENT);
        assert!(SOURCE.contains(&format!("#define MOMENTS {MOMENTS}\n")));
    }

    #[test]
    fn kinds_and_vectors_stand_as_in_the_program() {
        assert_eq!(
            between("enum what {", "}").trim(),
            "TASK = 1, IRQ_IN, IRQ_OUT, SOFT_IN, SOFT_OUT, VECTOR_IN, VECTOR_OUT"
        );
        assert_eq!(MomentEvent::of(4 << 32 | 7), Some(MomentEvent::Soft(7, true)));
        assert_eq!(MomentEvent::of(7 << 32 | 1), Some(MomentEvent::Vector(1, false)));
        assert_eq!((MomentEvent::of(0), MomentEvent::of(8 << 32)), (None, None));
        let vectors = between("enum vector {", "}").trim().to_lowercase().replace('_', " ");
        assert_eq!(vectors.replace("other ipi", "ipi"), VECTORS.join(", "));
    }

    #[test]
    fn each_program_is_known_by_its_name() {
        for name in WAY.iter().chain(&BESIDE) {
            let short = name.trim_end_matches("_entry").trim_end_matches("_exit");
            let known = SOURCE.contains(&format!("TRACEPOINT({name})"))
                || SOURCE.contains(&format!("VECTOR({short}, "));
            assert!(known, "{name}");
        }
    }

    #[test]
    fn names_end_where_the_kernel_ends_them() {
        let words =
            |text: &[u8; 16]| [0, 8].map(|at| u64::from_ne_bytes(text[at..at + 8].try_into().unwrap()));
        assert_eq!(name(&words(b"kworker/1:2\0junk")), "kworker/1:2");
        assert_eq!(name(&words(b"sixteen-letters!")), "sixteen-letters!");
        assert_eq!(name(&[]), "");
    }
}
