//! Starts the class scheduler, and updates it when processor sets change.

use super::outlook::ISOLATED_HELP;
use super::places::places;
use super::{NAME, UNTRUSTED_HELP, refusal, tables};
use crate::LinuxMachine;
use crate::state_dir::check_state_dir;
use millpond_bpf::Refused;
use millpond_bpf::classes::{Classes, Control, Ending, Options, Places};
use millpond_formats::dispadmin::default_tables;
use millpond_machine::facets::{ClassScheduler, SchedulerEnd, SchedulerOptions};
use millpond_machine::{Absent, Reason, Refusal};
use millpond_model::{CacheKind, CpuSet, printable};
use std::fs;
use std::os::unix::fs::DirBuilderExt;

/// The smallest kind of an end by an error.
const ERROR: u64 = 1024;
/// In the code of an end: the kernel requests a restart, because a CPU went on-line or off-line.
const RESTART: u64 = 1 << 48;
/// The most lines of the kernel's dump that are shown.
const DUMPED: usize = 60;

/// The started scheduler, with its machine.
pub(crate) struct Started<'m> {
    machine: &'m LinuxMachine,
    classes: Classes,
    control: Control,
    places: Places,
}

impl LinuxMachine {
    /// Whether a scheduler can be started.
    ///
    /// # Errors
    /// [`Absent`], with a remedy.
    pub(super) fn may_start_classes(&self) -> Result<(), Absent> {
        let state = self.sched_ext("state").ok_or_else(|| {
            let help = "boot a kernel with CONFIG_SCHED_CLASS_EXT, from 6.17 on";
            Absent::with_help("this kernel has no sched_ext", help)
        })?;
        if state != "disabled" {
            let name = printable(&self.sched_ext("root/ops").unwrap_or_default()).into_owned();
            let help = if name == NAME {
                "millpond schedd runs already".to_owned()
            } else {
                format!("stop {name} first: there is one scheduler at a time")
            };
            return Err(Absent::with_help(format!("the scheduler {name} is loaded"), help));
        }
        self.os
            .takes_class_scheduler()
            .map_err(|why| Absent::with_help(why, "its sched_ext lacks functions that the scheduler needs"))
    }

    pub(crate) fn start_classes(
        &self,
        options: &SchedulerOptions,
    ) -> Result<Box<dyn ClassScheduler + '_>, Refusal> {
        self.os
            .root
            .running(|| Refusal::from(Absent::because("nothing can be started on a captured machine")))?;
        self.may_start_classes()?;
        let places = self.places(None)?;
        let asked = Options {
            partial: !options.whole,
            timeout_ms: u32::try_from(options.timeout.0 / 1_000_000).unwrap_or(u32::MAX),
            hotplug_seq: self.sched_ext("hotplug_seq").and_then(|text| text.parse().ok()).unwrap_or_default(),
            rescue_ns: options.rescue.map_or(0, |rescue| rescue.0),
            parent_pays: options.parent_pays,
            parity_ns: options.parity.0,
            audit: options.audit,
            defect: 0,
            bare: false,
        };
        let dir = self.maps_dir();
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&dir);
        made.map_err(|error| {
            let why = format!("cannot create {}: {error}", dir.display());
            Absent::with_help(why, "mount -t bpf bpf /sys/fs/bpf")
        })?;
        check_state_dir(&dir).map_err(|why| Absent::with_help(why.to_string(), UNTRUSTED_HELP))?;
        let first = tables::to_words(&default_tables(false));
        let mut classes = Classes::open(&places, &asked, &first, Some(&dir)).map_err(explained)?;
        classes.attach().map_err(explained)?;
        classes.pin(&dir).map_err(refusal)?;
        let control = classes.control().map_err(refusal)?;
        self.forget_wishes_of_the_ended(&control);
        Ok(Box::new(Started { machine: self, classes, control, places }))
    }

    /// Removes wishes of threads that ended while no scheduler was loaded. A loaded scheduler does this itself.
    fn forget_wishes_of_the_ended(&self, control: &Control) {
        for (tid, start, _) in control.wishes() {
            let stat = self.os.stat(tid, None).ok().flatten();
            if stat.is_none_or(|stat| stat.start != start || stat.dead) {
                control.forget(tid);
            }
        }
    }

    /// The queues of CPUs for the current processor sets. `most` is the limit of queues.
    fn places(&self, most: Option<usize>) -> Result<Places, Refusal> {
        let possible = self.os.cpu_list("possible");
        let possible = possible.map_err(|error| Refusal::operation(Reason::Machine(error.to_string())))?;
        let width = possible.iter().last().map_or(1, |cpu| cpu.0 as usize + 1);
        let sets: Vec<CpuSet> = if self.has_cgroups() {
            let (_, sets) = self.live_sets()?;
            sets.values().map(|set| set.members.iter().copied().collect()).collect()
        } else {
            Vec::new()
        };
        let topology = self.read_topology()?;
        let level = topology.caches().iter().map(|cache| cache.level).max();
        let last = topology.caches().iter().filter(|cache| {
            Some(cache.level) == level && matches!(cache.kind, CacheKind::Unified | CacheKind::Data)
        });
        let caches: Vec<CpuSet> = last.map(|cache| cache.cpus.clone()).collect();
        Ok(places(width, &sets, &caches, most))
    }
}

/// The kernel's reason for refusing a scheduler, with a remedy.
fn explained(refused: Refused) -> Refusal {
    let absent = match &refused {
        Refused::WrongTypes => Absent::with_help(
            "this kernel describes functions of sched_ext wrongly, and takes no scheduler that makes a queue",
            "boot another build: Debian's 6.17 to 7.0, or 7.2.13 and later, describe them right",
        ),
        Refused::Busy => {
            Absent::with_help("another scheduler was loaded meanwhile", "see /sys/kernel/sched_ext/root/ops")
        }
        Refused::Kernel { log, .. } if log.contains("isolcpus") => Absent::with_help(
            "the kernel was started with isolcpus=, with which it takes no scheduler",
            ISOLATED_HELP,
        ),
        Refused::Kernel { why, log } => {
            let last = log.lines().rev().find(|line| line.contains("libbpf:")).unwrap_or(why.as_str());
            Absent::because(format!("the kernel refused the scheduler: {}", printable(last)))
        }
        _ => return refusal(refused),
    };
    absent.into()
}

impl ClassScheduler for Started<'_> {
    fn end(&self) -> Option<SchedulerEnd> {
        self.control.ending().map(|ending| told(&ending))
    }

    fn refresh(&mut self) -> Result<(), Refusal> {
        let places = self.machine.places(Some(self.places.queues.len()))?;
        if places != self.places {
            self.classes.set_places(&places).map_err(refusal)?;
            self.places = places;
        }
        Ok(())
    }
}

fn told(ending: &Ending) -> SchedulerEnd {
    let what = match (ending.reason.as_str(), ending.message.as_str()) {
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let calls = ending.backtrace.iter().map(|address| format!("called from {address:#x}"));
    let dump = ending.dump.lines().filter(|line| !line.trim().is_empty()).take(DUMPED);
    SchedulerEnd {
        may_restart: ending.kind < ERROR && ending.code & RESTART != 0,
        why: printable(&what).into_owned(),
        detail: calls.chain(dump.map(|line| printable(line).into_owned())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(kind: u64, code: u64, message: &str) -> Ending {
        Ending {
            kind,
            code,
            reason: "runnable task stall".into(),
            message: message.into(),
            backtrace: vec![0xffff_ffff_8110_0000],
            dump: "CPU states\n\n  cpu 0: nr_run=2\n".into(),
        }
    }

    #[test]
    fn a_stall_is_told_with_its_thread_and_not_started_again_at_once() {
        let end = told(&ending(1026, 0, "victim[177] failed to run for 2.432s"));
        assert_eq!(end.why, "runnable task stall: victim[177] failed to run for 2.432s");
        assert!(!end.may_restart);
        assert_eq!(end.detail, ["called from 0xffffffff81100000", "CPU states", "  cpu 0: nr_run=2"]);
        assert!(told(&ending(66, RESTART | 1 << 32, "")).may_restart);
        assert!(!told(&ending(67, 0, "")).may_restart);
        assert_eq!(told(&ending(1025, 0, "a\u{1b}[31m")).why, "runnable task stall: a\\u001b[31m");
    }

    #[test]
    fn refusals_of_the_kernel_say_what_would_help() {
        let wrong = explained(Refused::WrongTypes);
        assert!(wrong.to_string().contains("describes functions of sched_ext wrongly"));
        assert!(wrong.hint.unwrap().contains("7.2.13"));
        assert!(explained(Refused::Busy).to_string().contains("another scheduler"));
        assert_eq!(explained(Refused::NotPermitted).reason, Reason::NotPermitted);
        let log = "x\nlibbpf: prog 'tick': failed to load: -EACCES\n";
        let why = explained(Refused::Kernel { why: "Permission denied".into(), log: log.into() }).to_string();
        assert!(why.ends_with("libbpf: prog 'tick': failed to load: -EACCES"), "{why}");
    }
}
