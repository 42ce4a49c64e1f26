//! Single readings and watches of the census: from BPF programs where they can be loaded, else from `/proc`.

use super::capped::CappedGroups;
use super::details::Places;
use super::entries::{self, BEGAN_NS, Seen};
use super::{proc, programs};
use crate::{LinuxMachine, clock};
use millpond_bpf::microstates::{Detail, Keep, Watching};
use millpond_machine::facets::{CensusOptions, CensusWatch, Depth};
use millpond_machine::{Machine, Refusal};
use millpond_model::{CpuId, Histogram, Nanos, Roster};
use rustix::time::ClockId;
use std::collections::{BTreeMap, BTreeSet};

/// Columns that only BPF programs can measure.
const ONLY_MEASURED: &str = "TFL, DFL, LCK, SCL, SIG";

/// Reported when system calls were not requested.
const NOT_ASKED: &str = "SCL: system calls are counted only where that is asked for";

/// The most processes hidden from BPF programs that a message names.
const HIDDEN_SHOWN: usize = 5;

/// The census of a machine.
pub(super) struct LinuxCensus<'a> {
    machine: &'a LinuxMachine,
    options: CensusOptions,
    /// The BPF programs, or why they are unavailable.
    programs: Result<Watching, String>,
    /// Whether accounts were requested.
    measures: bool,
    /// Processes that the BPF programs do not list.
    hidden: Vec<u32>,
    /// Cgroups that wait for their cap, and the time of that reading.
    capped: (CappedGroups, Option<Nanos>),
}

impl<'a> LinuxCensus<'a> {
    /// Loads the BPF programs. With `watches`, loads those that keep accounts, if the options need them. Then every existing
    /// thread has an account, and time is counted from now on.
    pub(super) fn open(machine: &'a LinuxMachine, options: CensusOptions, watches: bool) -> Self {
        let measures = watches && options.depth == Depth::Measured;
        let detail = Detail { calls: options.calls, causes: options.causes };
        let keep = if measures { Keep::Accounts(detail) } else { Keep::Nothing };
        let programs = programs::open(&machine.os, keep);
        LinuxCensus { machine, options, programs, measures, hidden: Vec::new(), capped: Default::default() }
    }

    /// The threads, and the time of their reading. The rest of a sample is read later, on a busy machine much later.
    fn look(&mut self) -> Result<(Nanos, Vec<Seen>), Refusal> {
        let boot = clock::read(ClockId::Boottime);
        // Rounded to the precision of start times, so that consecutive readings agree.
        let now = clock::read(ClockId::Monotonic);
        let suspended = Nanos((boot - now).0 / BEGAN_NS * BEGAN_NS);
        let os = &self.machine.os;
        if let Ok(watching) = &mut self.programs {
            let known = os.pids().unwrap_or_default();
            let (at, mut found) = programs::look(os, watching, self.options.depth, suspended)?;
            self.hidden = hidden(&known, &found);
            for pid in &self.hidden {
                let since_boot = at + suspended;
                found.extend(proc::process(os, self.options, *pid, since_boot)?.into_iter().map(|seen| {
                    // Start times from `/proc` include suspended time.
                    Seen { began: seen.began - suspended, ..seen }
                }));
            }
            found.sort_unstable_by_key(|seen| (seen.pid, seen.tid));
            return Ok((at, found));
        }
        let live = self.machine.os.root.is_live();
        let (at, since_boot) = if live { (now, boot) } else { (uptime(self.machine), uptime(self.machine)) };
        let mut found = proc::look(&self.machine.os, self.options, since_boot)?;
        found.iter_mut().for_each(|seen| seen.began = seen.began - suspended);
        Ok((at, found))
    }

    /// A message about processes that the kernel hides from BPF programs. Some sandboxes hide process 1.
    fn hides(&self) -> Option<String> {
        let pids: Vec<String> = self.hidden.iter().take(HIDDEN_SHOWN).map(ToString::to_string).collect();
        let more = self.hidden.len().saturating_sub(HIDDEN_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let noun = if self.hidden.len() == 1 { "process" } else { "processes" };
        let list = pids.join(", ");
        (!pids.is_empty()).then(|| {
            format!("microstates of {noun} {list}{more}: the kernel hides it from programs; figures are those of /proc")
        })
    }

    /// Histogram of run-queue waits by CPU, where it is measured.
    fn waits(&self) -> Option<BTreeMap<CpuId, Histogram>> {
        let watching = self.programs.as_ref().ok().filter(|_| self.measures)?;
        let of = |cpu: u32| {
            let (counts, sum) = watching.waits(cpu)?;
            Some((CpuId(cpu), Histogram::of_counts(counts, Nanos(sum))))
        };
        (0..self.machine.os.width()).map(of).collect()
    }

    fn missing(&self) -> Vec<String> {
        if self.options.depth != Depth::Measured {
            return Vec::new();
        }
        let mut missing = vec!["TRP: this kernel does not tell it from other time".to_owned()];
        match &self.programs {
            Err(why) => missing.push(format!("{ONLY_MEASURED}: {why}")),
            Ok(_) if !self.measures => {
                missing.push(format!(
                    "{ONLY_MEASURED}: the kernel does not keep them; they count while prstat watches"
                ));
            }
            Ok(watching) => {
                missing
                    .extend(watching.sees_faults().err().map(|why| format!("TFL, DFL: {why}; SLP has them")));
                missing.extend(watching.sees_signals().err().map(|why| format!("SIG: {why}")));
                missing.extend((!self.options.calls).then(|| NOT_ASKED.to_owned()));
                missing.extend(self.hides());
            }
        }
        missing
    }
}

/// Processes that `/proc` had before the BPF programs listed the threads, and that are missing from the list. A process that
/// ended meanwhile has no files any more.
fn hidden(known: &[u32], found: &[Seen]) -> Vec<u32> {
    let listed: BTreeSet<u32> = found.iter().map(|seen| seen.pid).collect();
    known.iter().copied().filter(|pid| !listed.contains(pid)).collect()
}

impl CensusWatch for LinuxCensus<'_> {
    fn sample(&mut self) -> Result<Roster, Refusal> {
        let (at, mut seen) = self.look()?;
        if let Ok(live) = self.machine.live_classes() {
            seen.iter_mut().for_each(|seen| seen.level = live.standing(seen.tid, seen.policy));
        }
        let before = self.capped.1.replace(at);
        self.capped.0.mark(&self.machine.os, at, before, &mut seen);
        let places = Places::look(self.machine, self.options, &seen);
        let os = &self.machine.os;
        let read =
            |name: &str| os.root.read_value(&os.root.proc.join(name)).ok().flatten().unwrap_or_default();
        let online = os.cpu_list("online").map_or(0, |online| online.len());
        let threads = if self.options.lists_threads() { seen.as_slice() } else { &[] };
        Ok(Roster {
            at,
            wall: self.machine.clock().wall(),
            processors: u32::try_from(online).unwrap_or(u32::MAX),
            memory: total_memory(&read("meminfo")),
            load: load(&read("loadavg")),
            processes: entries::processes(&seen, &places),
            threads: threads.iter().map(|seen| seen.thread(&places)).collect(),
            waits: self.waits(),
            missing: self.missing(),
        })
    }

    fn set_places(&mut self, places: bool, memory: bool) {
        (self.options.places, self.options.memory) = (places, memory);
    }

    fn explain(&self) -> Vec<String> {
        let from = match (&self.programs, self.measures) {
            (Ok(_), true) if self.options.calls => {
                "every switch, wake-up and system call is accounted for by programs in the kernel; a call takes 100 to 200 ns more"
            }
            (Ok(_), true) => {
                "every switch and wake-up is accounted for by programs in the kernel; the time on a CPU is divided into USR and SYS as \
                 the clock ticks since the report before fell"
            }
            (Ok(_), false) => "threads are listed by a program in the kernel",
            (Err(_), _) => {
                "everything is read from /proc: CPU time, waiting and switches; sleep is what remains"
            }
        };
        vec![from.to_owned()]
    }
}

/// Uptime of a captured machine at its capture.
fn uptime(machine: &LinuxMachine) -> Nanos {
    let root = &machine.os.root;
    let text = root.read_value(&root.proc.join("uptime")).ok().flatten().unwrap_or_default();
    parse_uptime(&text).unwrap_or(Nanos(0))
}

/// Seconds and hundredths: `350735.47 234388.90`.
fn parse_uptime(text: &str) -> Option<Nanos> {
    let (seconds, hundredths) = text.split_ascii_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = hundredths.parse().ok().filter(|h| *h < 100)?;
    Some(Nanos(Nanos::from_secs(seconds.parse().ok()?).0.saturating_add(hundredths * 10_000_000)))
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn load(loadavg: &str) -> Option<[f64; 3]> {
    let mut words = loadavg.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?, words.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::entries::tests::seen;

    #[test]
    fn tables_of_one_line_are_understood() {
        assert_eq!(parse_uptime("350735.47 234388.90"), Some(Nanos(350_735_470_000_000)));
        assert_eq!(parse_uptime("1 2"), None);
        assert_eq!(total_memory("MemTotal:       16384 kB\nMemFree: 3 kB\n"), Some(16384));
        assert_eq!(load("0.20 0.18 0.12 1/80 11206"), Some([0.20, 0.18, 0.12]));
        assert_eq!(load("x"), None);
    }

    #[test]
    fn a_process_that_programs_do_not_list_is_hidden() {
        assert_eq!(hidden(&[1, 2, 7], &[seen(2, 2), seen(7, 7), seen(7, 8), seen(9, 9)]), [1]);
        assert_eq!(hidden(&[2], &[seen(2, 2)]), Vec::<u32>::new());
    }
}
