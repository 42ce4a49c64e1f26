//! Hardware event counters on Linux: the source of `cpustat` and `cputrack`.
//!
//! # How it works
//!
//! ```text
//!   name ──catalogue──▶ Code ──group──▶ a group of performance events ──▶ Counted (count, time enabled, time running)
//!            ▲                            │ one per CPU (cpus) or thread (threads), and per set
//!   pmu: /sys/bus/event_source            │ of several sets one is enabled
//!   threads ◀── ptrace: clone, fork, exec, exit
//! ```
//!
//! A set is a group, so that its counts belong together: the kernel counts all events of a group or none. When it multiplexes
//! groups of several users, it reports the times enabled and running, and the reader scales by them.
//!
//! # Consequences
//!
//! * The kernel chooses the registers; the counter numbers are columns. More events than registers are refused when the group is
//!   opened.
//! * Software events (context switches, faults) count in any mode, regardless of attributes, because they happen in the kernel.
//! * Counters of all sets are opened at the start, so that unsupported events are reported before any output.

mod catalogue;
mod cpus;
mod group;
mod lwps;
mod pmu;
mod threads;

use crate::LinuxMachine;
use catalogue::{Code, Sort};
use group::{Group, Whom};
use millpond_machine::facets::{
    CpuCounting, EventKind, EventList, Follow, Interface, LwpCounting, Tracked, Tracking, Wanted,
};
use millpond_machine::{Absent, HardwareCounters, Reason, Refusal, Subject};
use millpond_model::{CpuId, Lwp};
use pmu::Pmus;
use std::io;

/// The columns that a set may use, as a bit mask. The kernel decides which registers exist.
const COLUMNS: u32 = 0xffff;

impl LinuxMachine {
    fn pmus(&self) -> Pmus {
        Pmus::read(&self.os.root)
    }

    /// The event codes of each set.
    fn codes(&self, sets: &[Vec<Wanted>]) -> Result<Vec<Vec<Code>>, Refusal> {
        let pmus = self.pmus();
        let one = |wanted: &Wanted| {
            let unknown =
                || Refusal::operation(Reason::Machine(format!("it knows no event {}", wanted.event)));
            let code = catalogue::find(&wanted.event, &pmus).ok_or_else(unknown)?;
            Ok(Code { user: wanted.user, sys: wanted.sys, ..code })
        };
        sets.iter().map(|set| set.iter().map(one).collect()).collect()
    }
}

impl HardwareCounters for LinuxMachine {
    fn hardware(&self) -> Result<(), Absent> {
        let cycles = Code::of_cycles();
        match Group::open(Whom::Thread(0), &[cycles]) {
            Ok(_) => Ok(()),
            Err((_, error)) => Err(why_absent(&error)),
        }
    }

    fn interface(&self) -> Interface {
        let pmus = self.pmus();
        let name = pmus.core().iter().map(|pmu| pmu.name.clone()).collect::<Vec<_>>().join(", ");
        let list = |kind, names: Vec<String>| EventList { kind, counters: COLUMNS, names };
        let mut events = vec![list(EventKind::Software, catalogue::software())];
        // Without hardware counters these names are not listed. Using them is refused with the reason.
        if self.hardware().is_ok() {
            events.push(list(EventKind::Generic, catalogue::generic()));
            events.push(list(EventKind::Platform, catalogue::platform(&pmus)));
        }
        Interface {
            name: if name.is_empty() {
                "none (perf events of the kernel)".to_owned()
            } else {
                format!("{name} (perf events)")
            },
            events,
            attributes: vec!["nouser".to_owned(), "sys".to_owned()],
            reference:
                "Codes of events of a CPU (rHEX, or a number as in C) are in its manufacturer's manual; \
                        the names of the kernel are explained in perf-list(1)."
                    .to_owned(),
            cpu_tick: cpus::TICK.map(str::to_owned),
            lwp_tick: Some("ns".to_owned()),
        }
    }

    fn capable(&self, event: &str) -> Option<u32> {
        catalogue::find(event, &self.pmus()).map(|_| COLUMNS)
    }

    fn count_cpus(&self, cpus: &[CpuId], sets: &[Vec<Wanted>]) -> Result<Box<dyn CpuCounting + '_>, Refusal> {
        Ok(Box::new(cpus::Cpus::open(&self.os, cpus, &self.codes(sets)?)?))
    }

    fn count_lwps(&self, lwps: &[Lwp], set: &[Wanted]) -> Result<Box<dyn LwpCounting + '_>, Refusal> {
        let codes = self.codes(&[set.to_vec()])?.concat();
        Ok(Box::new(lwps::Lwps::begin(lwps, &codes)?))
    }

    fn track(
        &self,
        whose: &Tracked,
        sets: &[Vec<Wanted>],
        follow: Follow,
    ) -> Result<Box<dyn Tracking + '_>, Refusal> {
        let codes = self.codes(sets)?;
        // Events that cannot be counted in this process cannot be counted in others. Report them before anything is started.
        for set in &codes {
            Group::open(Whom::Thread(0), set)
                .map_err(|(at, error)| refused(Subject::Operation, set, at, &error))?;
        }
        Ok(Box::new(threads::Threads::begin(&self.os, whose, codes, follow)?))
    }
}

/// Why hardware counters are unavailable.
fn why_absent(error: &io::Error) -> Absent {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => rights(),
        Some(libc::ENOSYS) => Absent::because("this kernel has no performance events"),
        _ => Absent::with_help(
            "this machine has no hardware counters",
            "a virtual machine has them only where its hypervisor hands them on; what the kernel itself counts is in the listing of cpustat -h",
        ),
    }
}

fn rights() -> Absent {
    Absent::with_help(
        "the rights to count are missing",
        "be the superuser, have CAP_PERFMON, or lower kernel.perf_event_paranoid (2 for one's own threads in user mode, 1 with the kernel, 0 for whole CPUs)",
    )
}

/// The refusal for event `at` of a set.
fn refused(subject: Subject, set: &[Code], at: usize, error: &io::Error) -> Refusal {
    let event = set.get(at).map_or("", |code| code.name.as_str());
    let hardware = set.get(at).is_some_and(|code| code.sort == Sort::Hardware);
    let machine = |why: String| Refusal::new(subject.clone(), Reason::Machine(why));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Refusal::new(subject, Reason::Absent(rights())),
        Some(libc::ENOSYS) => Refusal::new(subject, Reason::Absent(why_absent(error))),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) if hardware => {
            // Either there are no counters at all, or none for this event.
            match Group::open(Whom::Thread(0), &[Code::of_cycles()]) {
                Err((_, error)) => Refusal::new(Subject::Operation, Reason::Absent(why_absent(&error))),
                Ok(_) => machine(format!("its counters cannot measure event '{event}'"))
                    .hint("cpustat -h lists events; not every CPU has all of them"),
            }
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP) => machine(format!("this kernel does not count '{event}'")),
        Some(libc::ENODEV) => machine("it is off-line".to_owned()),
        Some(libc::EINVAL) if at > 0 => {
            machine(format!("event '{event}' does not fit beside those before it: more events than counters"))
                .hint("give it a set of its own, which is counted in turn: one -c more")
        }
        Some(libc::EINVAL) => machine(format!("its counters cannot measure event '{event}' so"))
            .hint("some events cannot be kept to one mode: try sys"),
        Some(libc::EBUSY) => machine("another program has the counters for itself".to_owned()),
        Some(libc::EMFILE | libc::ENFILE) => machine("too many files would be open".to_owned())
            .hint("raise the limit of open files: ulimit -n"),
        Some(libc::ESRCH) => machine("it has ended".to_owned()),
        _ => machine(format!("the kernel refuses event '{event}': {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: i32, at: usize) -> (String, bool) {
        let code = |name: &str| Code { name: name.into(), sort: Sort::Software, ..Code::of_cycles() };
        let set = [code("a"), code("b")];
        let refusal = refused(Subject::Processor(CpuId(3)), &set, at, &io::Error::from_raw_os_error(number));
        (refusal.to_string(), refusal.hint.is_some())
    }

    #[test]
    fn each_refusal_of_the_kernel_is_a_sentence() {
        let rights = "CPU 3: the rights to count are missing";
        assert_eq!(said(libc::EACCES, 0), (rights.into(), true));
        assert_eq!(said(libc::ENODEV, 0), ("CPU 3: it is off-line".into(), false));
        let many = "CPU 3: event 'b' does not fit beside those before it: more events than counters";
        assert_eq!(said(libc::EINVAL, 1), (many.into(), true));
        assert_eq!(
            said(libc::EBUSY, 0),
            ("CPU 3: another program has the counters for itself".into(), false)
        );
        assert_eq!(said(libc::ENOENT, 1), ("CPU 3: this kernel does not count 'b'".into(), false));
        assert_eq!(said(libc::EMFILE, 1), ("CPU 3: too many files would be open".into(), true));
    }

    #[test]
    fn what_is_missing_for_counters_is_told_with_what_would_help() {
        let absent = |number| why_absent(&io::Error::from_raw_os_error(number));
        assert_eq!(absent(libc::ENOENT).why, "this machine has no hardware counters");
        assert_eq!(absent(libc::EPERM).why, "the rights to count are missing");
        assert_eq!(absent(libc::ENOSYS).why, "this kernel has no performance events");
    }
}
