//! CPU time of programs on each CPU, measured at context switches: for `occupancy`.

use crate::image::image;
use crate::mapped::word_of;
use crate::{Image, MappedWords, Object, Refused};
use std::collections::BTreeSet;
use std::time::Duration;

const IMAGE: Image = image!("residence");

/// The iterator that marks the threads of programs, and lists them.
const LIST: &str = "list";
/// Required programs.
const NEEDED: [&str; 2] = ["sched_process_fork", "sched_switch"];

/// Words of a CPU's row and of a thread's record.
const ROW_WORDS: usize = 16;
const REFUSED: usize = 3;
const RECORD_WORDS: usize = 5;
/// Attempts to read a row that is being written.
const READS: u32 = 1000;
/// Number of listings, and the time between them, while a thread cannot be marked.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A thread of a program that was on a CPU at the last listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    program: usize,
    /// Start of its counted time, in nanoseconds on the monotonic clock; 0 for the thread's beginning.
    since: u64,
}

/// The attached programs.
#[derive(Debug)]
pub struct Residing {
    object: Object,
    rows: MappedWords,
    times: MappedWords,
    /// The number of measured programs.
    programs: usize,
    processors: usize,
    /// By CPU: the thread that ran there at the last listing.
    seen: Vec<Option<Seen>>,
    alive: BTreeSet<usize>,
}

impl Residing {
    /// Starts measuring. A program is a process with all its descendants; a descendant of several belongs to the nearest. Later calls
    /// identify programs by their index in `pids`.
    ///
    /// # Errors
    /// [`Refused`] if the kernel rejects the BPF programs.
    pub fn open(pids: &[u32], processors: u32) -> Result<Residing, Refused> {
        let programs = pids.len().max(1);
        let (rows, words) = (processors.max(1), (processors.max(1) as usize).saturating_mul(programs));
        let entries = u32::try_from(words).map_err(|_| Refused::NoMemory)?;
        let mut object = Object::open(IMAGE, |opened| {
            opened.set_constants(&[programs as u64]);
            opened.set_entries("rows", rows);
            opened.set_entries("times", entries);
            opened.set_entries("wanted", u32::try_from(programs).unwrap_or(u32::MAX));
        })?;
        let wanted = object.entries("wanted")?;
        for (place, pid) in (1u64..).zip(pids) {
            wanted.put(&[u64::from(*pid)], &[place])?;
        }
        let (row_words, time_words) = (rows as usize * ROW_WORDS, words);
        let (rows, times) = (object.words("rows", row_words)?, object.words("times", time_words)?);
        NEEDED.iter().try_for_each(|program| object.attach(program))?;
        let processors = processors.max(1) as usize;
        let seen = vec![None; processors];
        let mut residing =
            Residing { object, rows, times, programs, processors, seen, alive: BTreeSet::new() };
        // List again: threads forked during the marking may have been missed, and the kernel may refuse a mark while it sets another.
        let mut marked = residing.list()?;
        for _ in 0..LOOKS {
            let again = residing.list()?;
            if again == marked {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            marked = again;
        }
        if marked == 0 && pids.contains(&std::process::id()) {
            return Err(Refused::NoMemory);
        }
        Ok(residing)
    }

    /// Marks unmarked threads, and finds the running ones. Returns the number of marked threads.
    ///
    /// # Errors
    /// If the kernel cannot list them.
    pub fn list(&mut self) -> Result<usize, Refused> {
        let mut bytes = Vec::new();
        self.object.iterate(LIST, &mut bytes)?;
        self.seen.fill(None);
        self.alive.clear();
        let mut count = 0;
        for record in bytes.chunks_exact(RECORD_WORDS * 8) {
            let [program, alive, on_cpu, cpu, since]: [u64; RECORD_WORDS] =
                std::array::from_fn(|at| word_of(record, at));
            let Some(program) = usize::try_from(program).ok().and_then(|number| number.checked_sub(1)) else {
                continue;
            };
            count += 1;
            if alive != 0 {
                self.alive.insert(program);
            }
            let place = usize::try_from(cpu).ok().and_then(|cpu| self.seen.get_mut(cpu));
            if let Some(place) = place.filter(|_| on_cpu != 0) {
                *place = Some(Seen { program, since });
            }
        }
        Ok(count)
    }

    /// Indices of the programs that had a living thread at the last listing.
    #[must_use]
    pub fn alive(&self) -> &BTreeSet<usize> {
        &self.alive
    }

    /// How often a thread could not be marked for lack of kernel memory. Its time is missing until the next listing finds it.
    #[must_use]
    pub fn refused(&self) -> u64 {
        (0..self.processors).map(|at| self.rows.get(at * ROW_WORDS + REFUSED)).sum()
    }

    /// Nanoseconds of each program on a CPU until `now` (monotonic clock). Reads memory only; interrupts no CPU.
    #[must_use]
    pub fn read(&self, processor: u32, now: u64) -> Vec<u64> {
        let at = processor as usize;
        if at >= self.processors {
            return vec![0; self.programs];
        }
        let row = |word: usize| self.rows.get(at * ROW_WORDS + word);
        let mut times = vec![0; self.programs];
        for _ in 0..READS {
            let version = row(0);
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            let (since, running) = (row(1), row(2));
            for (program, time) in times.iter_mut().enumerate() {
                *time = self.times.get(at * self.programs + program);
            }
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            if version % 2 == 0 && version == row(0) {
                if let Some((program, from)) = span(since, running, self.seen[at])
                    && let Some(time) = times.get_mut(program)
                {
                    *time += now.saturating_sub(from);
                }
                break;
            }
            std::hint::spin_loop();
        }
        times
    }
}

/// The program that runs on a CPU, and the start of its uncounted span: the last switch there, or the mark if the thread was marked after
/// that switch.
fn span(since: u64, running: u64, seen: Option<Seen>) -> Option<(usize, u64)> {
    if let Some(seen) = seen.filter(|seen| seen.since > since) {
        return Some((seen.program, seen.since));
    }
    let program = usize::try_from(running).ok()?.checked_sub(1)?;
    (since > 0).then_some((program, since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_that_goes_on_belongs_to_the_thread_of_the_last_switch() {
        assert_eq!(span(100, 2, None), Some((1, 100)));
        assert_eq!(span(100, 0, None), None);
        // Marked before the switch: the switch is newer.
        assert_eq!(span(100, 0, Some(Seen { program: 0, since: 90 })), None);
        // Marked while it ran, long after the switch, or without any switch.
        assert_eq!(span(100, 0, Some(Seen { program: 0, since: 150 })), Some((0, 150)));
        assert_eq!(span(0, 0, Some(Seen { program: 3, since: 150 })), Some((3, 150)));
        assert_eq!(span(0, 0, None), None);
    }

    #[test]
    fn the_program_has_these_members_in_this_order() {
        let source = include_str!("../programs/residence/residence.bpf.c");
        let list = |from: &str| -> Vec<&str> {
            let body = source.split_once(from).and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
            body.lines().map(str::trim).filter(|line| line.ends_with(';')).collect()
        };
        assert_eq!(
            list("struct record {"),
            ["__u64 program;", "__u64 alive;", "__u64 on_cpu;", "__u64 cpu;", "__u64 since;"]
        );
        let row = list("struct row {");
        assert_eq!(row[..3], ["__u64 version;", "__u64 since;", "__u64 running;"]);
        assert_eq!(row[REFUSED], "__u64 refused;");
        assert_eq!(row[4], format!("__u64 unused[{}];", ROW_WORDS - 4));
        for name in NEEDED {
            assert!(source.contains(&format!("SEC(\"tp_btf/{name}\")")), "{name}");
        }
    }
}
