//! OS noise measured by the kernel's own tables: counts, and for threads total times. These tables do not have the duration or the sender of an
//! interrupt, or the function of a worker.

use super::names::{internal, printable};
use super::programs::counted;
use super::{Aside, LinuxMachine};
use crate::counters::Uses;
pub(super) use crate::counters::monotonic as now;
use crate::interrupt_names::interrupt_counts;
use crate::{Os, Root};
use millpond_formats::proc_tables::{self, ThreadTimes};
use millpond_machine::facets::{DisturbanceWatch, WatchedJob};
use millpond_machine::{Absent, Refusal};
use millpond_model::{
    Cause, CpuId, CpuSet, Disturbance, DisturbanceKind, Disturbed, Doer, InterruptCount, Nanos, Pid,
};
use std::collections::{BTreeMap, BTreeSet};

/// Time stolen by the hypervisor since the creation of the value.
pub(super) struct Stolen {
    uses: Uses,
    before: BTreeMap<CpuId, Nanos>,
}

impl Stolen {
    /// Starts to count.
    pub(super) fn open(root: &Root) -> Result<Stolen, Refusal> {
        let mut uses = Uses::open(root)?;
        let before = uses.stolen()?.into_iter().collect();
        Ok(Stolen { uses, before })
    }

    /// A row for each CPU with stolen time.
    pub(super) fn rows(&mut self, cpus: &CpuSet) -> Vec<Disturbance> {
        let Ok(after) = self.uses.stolen() else { return Vec::new() };
        let watched = after.into_iter().filter(|(cpu, _)| cpus.contains(*cpu));
        let row = |(cpu, stolen): (CpuId, Nanos)| {
            let total = Nanos(stolen.0.checked_sub(self.before.get(&cpu)?.0)?);
            let name = "taken by the hypervisor".to_owned();
            let cause = Cause { kind: DisturbanceKind::Steal, name, by: None, doer: Doer::Others };
            let row = Disturbance {
                cpu,
                cause,
                pid: None,
                count: None,
                total: Some(total),
                longest: None,
                longest_at: None,
            };
            (total > Nanos(0)).then_some(row)
        };
        watched.filter_map(row).collect()
    }
}

/// A thread, as in its files in `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    pid: u32,
    name: String,
    is_kernel: bool,
    /// The CPU on which it last ran.
    cpu: CpuId,
    /// Its run time in nanoseconds, and the number of times that it was scheduled.
    ran_ns: u64,
    turns: u64,
}

/// One reading of the tables.
#[derive(Debug, Default)]
struct Reading {
    interrupts: Vec<InterruptCount>,
    soft: BTreeMap<String, BTreeMap<CpuId, u64>>,
    threads: BTreeMap<u32, Seen>,
}

impl Reading {
    fn take(os: &Os) -> Reading {
        let root = &os.root;
        let soft = root.read(&root.proc.join("softirqs")).ok().flatten().unwrap_or_default();
        Reading {
            interrupts: interrupt_counts(root).unwrap_or_default(),
            soft: parse_soft(&soft),
            threads: threads(os),
        }
    }
}

/// The watch.
pub(super) struct ByTables<'a> {
    machine: &'a LinuxMachine,
    what: WatchedJob,
    before: Reading,
    stolen: Option<Stolen>,
    began: Nanos,
    why: String,
    aside: Option<Aside>,
}

impl<'a> ByTables<'a> {
    /// Takes the first reading. `why` is the reason for this source, as half a sentence.
    pub(super) fn start(machine: &'a LinuxMachine, what: &WatchedJob, why: &str) -> Result<Self, Absent> {
        let root = &machine.os.root;
        if !root.proc.join("interrupts").exists() {
            return Err(Absent::because("it has no /proc/interrupts"));
        }
        let began = now();
        Ok(ByTables {
            machine,
            what: what.clone(),
            before: Reading::take(&machine.os),
            stolen: Stolen::open(root).ok(),
            began,
            why: why.to_owned(),
            aside: None,
        })
    }
}

impl DisturbanceWatch for ByTables<'_> {
    fn join(&mut self, pid: Pid) -> Result<(), Refusal> {
        self.what.job.pids.push(pid);
        Ok(())
    }

    fn collect(&mut self) -> Result<Disturbed, Refusal> {
        self.aside.get_or_insert_with(|| Aside::of(&self.what.cpus));
        let after = Reading::take(&self.machine.os);
        let members = self.machine.threads_of_job(&self.what.job)?;
        let mut rows = difference(&self.before, &after, &self.what.cpus, &members);
        if let Some(stolen) = &mut self.stolen {
            rows.extend(stolen.rows(&self.what.cpus));
        }
        let untimed = "how long each took, which CPUs send calls, timers and page faults by name, and threads \
                       that began and ended meanwhile";
        Ok(Disturbed {
            began: self.began,
            at: now(),
            cpus: self.what.cpus.clone(),
            rows,
            stretches: Vec::new(),
            going_on: Vec::new(),
            lost: Vec::new(),
            missing: vec![format!("{untimed}: {}", self.why)],
            has_unknown_lengths: true,
            source: "/proc/interrupts, softirqs and schedstat".to_owned(),
            settings: self.machine.settings(),
        })
    }
}

/// The growth between two readings on the watched CPUs.
fn difference(before: &Reading, after: &Reading, cpus: &CpuSet, members: &BTreeSet<u32>) -> Vec<Disturbance> {
    let mut rows = Vec::new();
    for count in &after.interrupts {
        let Some(kind) =
            (if count.is_internal { internal(&count.label) } else { Some(DisturbanceKind::Device) })
        else {
            continue;
        };
        let was = before.interrupts.iter().find(|was| was.label == count.label);
        let grown = grown(was.map(|was| &was.counts), &count.counts, cpus);
        let cause = Cause { kind, name: count.name.clone(), by: None, doer: Doer::Others };
        rows.extend(grown.map(|(cpu, more)| counted(cpu, cause.clone(), more)));
    }
    for (name, counts) in &after.soft {
        let grown = grown(before.soft.get(name), counts, cpus);
        let cause =
            Cause { kind: DisturbanceKind::Softirq, name: name.clone(), by: None, doer: Doer::Others };
        rows.extend(grown.map(|(cpu, more)| counted(cpu, cause.clone(), more)));
    }
    let foreign =
        after.threads.iter().filter(|(tid, seen)| !members.contains(tid) && cpus.contains(seen.cpu));
    rows.extend(foreign.filter_map(|(tid, seen)| ran(before.threads.get(tid), seen)));
    rows
}

fn grown<'a>(
    before: Option<&'a BTreeMap<CpuId, u64>>,
    after: &'a BTreeMap<CpuId, u64>,
    cpus: &'a CpuSet,
) -> impl Iterator<Item = (CpuId, u64)> + 'a {
    let was = move |cpu: &CpuId| before.and_then(|counts| counts.get(cpu)).copied().unwrap_or(0);
    let watched = after.iter().filter(|(cpu, _)| cpus.contains(**cpu));
    watched.map(move |(cpu, count)| (*cpu, count.saturating_sub(was(cpu)))).filter(|(_, more)| *more > 0)
}

/// A thread that ran between the readings and last ran on a watched CPU. It may have run elsewhere before.
fn ran(before: Option<&Seen>, seen: &Seen) -> Option<Disturbance> {
    let (ran_ns, turns) = before.map_or((0, 0), |was| (was.ran_ns, was.turns));
    let total = seen.ran_ns.checked_sub(ran_ns).filter(|ran| *ran > 0)?;
    let doer = if seen.pid == std::process::id() { Doer::Watcher } else { Doer::Others };
    let kind = match seen.is_kernel {
        true if seen.name.starts_with("kworker/") => DisturbanceKind::Worker,
        true => DisturbanceKind::Kthread,
        false => DisturbanceKind::Task,
    };
    Some(Disturbance {
        cpu: seen.cpu,
        cause: Cause { kind, name: seen.name.clone(), by: None, doer },
        pid: Some(Pid(seen.pid)),
        count: seen.turns.checked_sub(turns),
        total: Some(Nanos(total)),
        longest: None,
        longest_at: None,
    })
}

/// `/proc/softirqs`: a row for each kind, a column for each CPU of the head line.
fn parse_soft(text: &str) -> BTreeMap<String, BTreeMap<CpuId, u64>> {
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<CpuId> =
        heads.filter_map(|head| head.strip_prefix("CPU")?.parse().ok()).map(CpuId).collect();
    let row = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_ascii_whitespace().map(|word| word.parse().ok());
        let counts = cpus.iter().copied().zip(counts).map(|(cpu, count)| Some((cpu, count?)));
        Some((name.trim().to_owned(), counts.collect::<Option<BTreeMap<_, _>>>()?))
    };
    lines.filter_map(row).collect()
}

/// All readable threads, without those that end meanwhile.
fn threads(os: &Os) -> BTreeMap<u32, Seen> {
    let mut all = BTreeMap::new();
    for pid in os.pids().unwrap_or_default() {
        for tid in os.tids(pid).unwrap_or_default() {
            let dir = os.root.proc.join(pid.to_string()).join("task").join(tid.to_string());
            let read = |name: &str| os.root.read_value(&dir.join(name)).ok().flatten();
            let seen = read("schedstat").and_then(|times| parse_thread(pid, &read("stat")?, &times));
            all.extend(seen.map(|seen| (tid, seen)));
        }
    }
    all
}

/// `stat` (name in brackets, flags the 7th field behind it, CPU the 37th) and `schedstat`.
fn parse_thread(pid: u32, stat: &str, times: &str) -> Option<Seen> {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ThreadTimes { ran: Nanos(ran_ns), turns, .. } = proc_tables::parse_thread(times)?;
    let cpu = CpuId(u32::try_from(number(36)?).ok()?);
    Some(Seen { pid, name: printable(name), is_kernel: number(6)? & KERNEL_THREAD != 0, cpu, ran_ns, turns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, flags: u64, cpu: u32) -> String {
        let zeros = |n: usize| vec!["0"; n].join(" ");
        format!("7 ({name}) S {} {flags} {} {cpu} 0 0", zeros(5), zeros(29))
    }

    #[test]
    fn a_thread_is_read_from_two_files() {
        let seen = parse_thread(7, &stat("a) b", 0, 3), "5000 20 4").unwrap();
        assert_eq!((seen.name.as_str(), seen.cpu, seen.ran_ns, seen.turns), ("a) b", CpuId(3), 5000, 4));
        assert!(
            !seen.is_kernel && parse_thread(2, &stat("kthreadd", 0x20_8040, 0), "1 1 1").unwrap().is_kernel
        );
        assert_eq!(parse_thread(7, "7 (x S", "1 1 1"), None);
        assert_eq!(parse_thread(7, &stat("x", 0, 0), "1 1"), None);
    }

    #[test]
    fn what_grew_on_the_watched_processors_is_told() {
        let soft = |a, b| parse_soft(&format!("       CPU0 CPU1\n  TIMER: {a} {b}\n    RCU: 5 5\n"));
        let thread = |name: &str, flags, ran| parse_thread(7, &stat(name, flags, 1), &format!("{ran} 0 3"));
        let before = Reading {
            soft: soft(1, 2),
            threads: BTreeMap::from([(8, thread("kworker/1:0", 0x20_0000, 50).unwrap())]),
            ..Reading::default()
        };
        let after = Reading {
            soft: soft(4, 9),
            threads: BTreeMap::from([
                (8, thread("kworker/1:0", 0x20_0000, 90).unwrap()),
                (9, thread("job", 0, 10).unwrap()),
                (10, thread("cron", 0, 20).unwrap()),
            ]),
            ..Reading::default()
        };
        let rows = difference(&before, &after, &CpuSet::from_iter([CpuId(1)]), &BTreeSet::from([9]));
        let said: Vec<_> = rows
            .iter()
            .map(|row| (row.cause.kind.word(), row.cause.name.as_str(), row.count, row.total.map(|t| t.0)))
            .collect();
        let expected = [
            ("softirq", "TIMER", Some(7), None),
            ("worker", "kworker/1:0", Some(0), Some(40)),
            ("task", "cron", Some(3), Some(20)),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn fuzz_threads_and_soft_interrupts() {
        let seeds = [stat("a) b", 0, 3) + "\n1 2 3", "x CPU0\n A: 1\n".to_owned()];
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        millpond_fuzz::check_text("linux-thread-times", &seeds, |text| {
            let (stat, times) = text.split_once('\n').unwrap_or((text, ""));
            if let Some(seen) = parse_thread(1, stat, times) {
                assert!(seen.name.chars().all(|c| !c.is_control()));
            }
            let _ = parse_soft(text);
        });
    }
}
