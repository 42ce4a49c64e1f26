//! The kernel's tracer timerlat: availability, settings, and the trace instance that we use.
//!
//! | part | implementation |
//! |---|---|
//! | settings | global, in `osnoise/`: the period, no kernel threads, no limits that stop the trace; old values are baselines |
//! | tracer | in an instance of our own, `instances/millpond-PID`, so that no other trace is affected; removing the instance ends the tracer |
//! | clock | of the instance: the monotonic clock, as for all other times here |
//! | end | only without waiting threads: kernel 6.12 loses a reference for a waiting thread at the end of the tracer, and crashes |
//! | conflicts | only one of osnoise and timerlat can run at a time, with one set of settings: if another program uses one, we refuse |

use crate::knob::LinuxKnob;
use crate::os::knob_error;
use crate::tracefs::Tracefs;
use crate::{LinuxMachine, Os, is_gone};
use millpond_machine::{Absent, KnobError, Reason, Refusal, Step, Value};
use millpond_model::{Nanos, Pid};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The tracer's name, which is also the value of a knob of an instance with it.
const TRACER: &str = "timerlat";
/// The tracers of which only one can run at a time.
const EXCLUSIVE: [&str; 2] = [TRACER, "osnoise"];
/// The hint for kernels without timerlat.
const KERNELS: &str = "Debian's kernels linux-image-rt-amd64 have it (from 6.5 on), and so have those of Ubuntu, Fedora and RHEL; without it latstat \
                       measures with programs of its own";
/// Directory of the per-CPU files for waiting programs.
const WAITS: &str = "osnoise/per_cpu";
/// The per-CPU file that a program waits on.
const WAITED: &str = "timerlat_fd";
/// The name of our waiting process. It identifies a killed process that has closed its files and has not ended yet.
pub(super) const PROBE: &std::ffi::CStr = c"timerlat-probe";
/// An instance is removed only when no process waits or reads there any more. A killed process may still be exiting.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Name of the instance for a process.
pub(super) fn instance(owner: Pid) -> String {
    format!("millpond-{owner}")
}

/// The required settings, by name. Names in capitals are options.
fn settings(period: Nanos) -> [(&'static str, Value); 5] {
    [
        ("OSNOISE_WORKLOAD", "off".to_owned()),
        ("timerlat_period_us", (period.0 / 1_000).to_string()),
        ("stop_tracing_us", "0".to_owned()),
        ("stop_tracing_total_us", "0".to_owned()),
        ("print_stack", "0".to_owned()),
    ]
}

/// Finds an option in the list of all options: `NAME`, or `NO_NAME` if it is off.
fn option_of(list: &str, name: &str) -> Option<Value> {
    list.split_ascii_whitespace().find_map(|word| match word.strip_prefix("NO_") {
        Some(off) if off == name => Some("off".to_owned()),
        None if word == name => Some("on".to_owned()),
        _ => None,
    })
}

fn is_option(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn no_tracing(why: String) -> KnobError {
    KnobError::Refused(why)
}

impl Os {
    /// The kernel's tracing files; on a captured root only if they exist there.
    fn tracing(&self) -> Result<Tracefs, String> {
        if !self.root.is_live() && !self.root.sys.join("kernel/tracing/events").is_dir() {
            return Err("this kernel has no tracing".to_owned());
        }
        Tracefs::open(&self.root)
    }

    /// A setting of the tracers osnoise and timerlat; `None` if this kernel does not have it.
    pub(crate) fn osnoise(&self, name: &str) -> Result<Option<Value>, KnobError> {
        let dir = self.tracing().map_err(no_tracing)?;
        let file = if is_option(name) { "options" } else { name };
        let text = self.root.read_value(&dir.path().join("osnoise").join(file)).map_err(knob_error)?;
        Ok(text.and_then(
            |text| {
                if is_option(name) { option_of(&text, name) } else { Some(text.trim().to_owned()) }
            },
        ))
    }

    pub(crate) fn set_osnoise(&self, name: &str, value: &str) -> Result<(), KnobError> {
        let dir = self.tracing().map_err(no_tracing)?;
        let settings = dir.path().join("osnoise");
        match (is_option(name), value) {
            (true, "on") => self.write(&settings.join("options"), name),
            (true, _) => self.write(&settings.join("options"), &format!("NO_{name}")),
            (false, _) => self.write(&settings.join(name), value),
        }
    }

    fn instance_dir(&self, instance: &str) -> Result<(Tracefs, PathBuf), KnobError> {
        let tracefs = self.tracing().map_err(no_tracing)?;
        let dir = tracefs.path().join("instances").join(instance);
        Ok((tracefs, dir))
    }

    /// Whether an instance exists. It counts as one with the tracer even if we were killed before starting it, so that it is
    /// removed.
    pub(crate) fn tracer(&self, instance: &str) -> Result<Option<Value>, KnobError> {
        let (_open, dir) = self.instance_dir(instance)?;
        Ok(dir.is_dir().then(|| TRACER.to_owned()))
    }

    pub(crate) fn begin_tracer(&self, instance: &str) -> Result<(), KnobError> {
        let (_open, dir) = self.instance_dir(instance)?;
        fs::create_dir(&dir).map_err(knob_error)?;
        let clock = self.write(&dir.join("trace_clock"), "mono");
        clock.and_then(|()| self.write(&dir.join("current_tracer"), TRACER)).inspect_err(|_| {
            // An error of the removal would hide the cause.
            let _ = fs::remove_dir(&dir);
        })
    }

    /// The process that waits for timers of timerlat, on any CPU.
    fn waiter(&self) -> Option<u32> {
        let names = self.root.dirs(&self.root.proc).unwrap_or_default();
        let waits = |pid: &u32| {
            let is_ours = |stat: crate::procfs::Stat| !stat.dead && stat.comm.as_bytes() == PROBE.to_bytes();
            let files =
                fs::read_dir(self.root.proc.join(format!("{pid}/fd"))).into_iter().flatten().flatten();
            let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
            self.stat(*pid, None).ok().flatten().is_some_and(is_ours) || links.any(|to| to.ends_with(WAITED))
        };
        names.iter().filter_map(|name| name.parse().ok()).find(waits)
    }

    pub(crate) fn end_tracer(&self, instance: &str) -> Result<(), KnobError> {
        let (_open, dir) = self.instance_dir(instance)?;
        let end = || {
            if let Some(pid) = self.waiter() {
                return Err(KnobError::Refused(format!(
                    "process {pid} waits for timers of timerlat: some kernels crash when the tracer is ended under it"
                )));
            }
            match self.write(&dir.join("current_tracer"), "nop") {
                Ok(()) => match fs::remove_dir(&dir) {
                    Err(error) if !is_gone(&error) => Err(knob_error(error)),
                    _ => Ok(()),
                },
                Err(KnobError::Gone) => Ok(()),
                result => result,
            }
        };
        let mut result = end();
        for _ in 0..LOOKS {
            if !matches!(result, Err(KnobError::Refused(_))) {
                break;
            }
            std::thread::sleep(BETWEEN_LOOKS);
            result = end();
        }
        result
    }
}

impl LinuxMachine {
    /// The tracing files, if the kernel has timerlat and lets programs wait for its timers.
    pub(super) fn timerlat(&self) -> Result<Tracefs, Absent> {
        let tracefs = self.os.tracing().map_err(Absent::because)?;
        let tracers = self.os.root.read_value(&tracefs.path().join("available_tracers"));
        let tracers = tracers.map_err(|error| Absent::because(format!("the list of tracers: {error}")))?;
        let (major, minor) = self.os.kernel;
        if !tracers.unwrap_or_default().split_ascii_whitespace().any(|tracer| tracer == TRACER) {
            let why =
                format!("the kernel that runs here ({major}.{minor}) was built without the tracer timerlat");
            return Err(Absent::with_help(why, KERNELS));
        }
        if !tracefs.path().join(WAITS).is_dir() {
            let why = format!(
                "no program can wait for the timers of timerlat on the kernel that runs here ({major}.{minor}): they can from 6.5 on"
            );
            return Err(Absent::with_help(why, KERNELS));
        }
        Ok(tracefs)
    }

    /// Where another tracer runs that excludes ours.
    fn tracer_elsewhere(&self, tracefs: &Tracefs) -> Option<String> {
        let works = |dir: &PathBuf| {
            let tracer = self.os.root.read_value(&dir.join("current_tracer")).ok().flatten()?;
            EXCLUSIVE.contains(&tracer.trim()).then(|| tracer.trim().to_owned())
        };
        let top = tracefs.path().to_path_buf();
        if let Some(tracer) = works(&top) {
            return Some(format!("the tracer {tracer} is on already (current_tracer)"));
        }
        let instances = top.join("instances");
        let names = self.os.root.dirs(&instances).unwrap_or_default();
        names.iter().find_map(|name| {
            let tracer = works(&instances.join(name))?;
            Some(format!("the tracer {tracer} is on already, in the trace instance {name}"))
        })
    }

    /// The steps that set up the tracer for a process.
    pub(super) fn timerlat_steps(&self, owner: Pid, period: Nanos) -> Result<Vec<Step>, Refusal> {
        let tracefs = self.timerlat()?;
        if let Some(why) = self.tracer_elsewhere(&tracefs) {
            return Err(Refusal::operation(Reason::Machine(why)).hint(
                "one of osnoise and timerlat works at a time: wait until rtla, or another user of it, has ended",
            ));
        }
        let mut steps = Vec::new();
        for (name, value) in settings(period) {
            let knob = LinuxKnob::OsnoiseSetting(name.to_owned());
            let before = self.os.osnoise(name);
            let before =
                before.map_err(|error| error.into_refusal(millpond_machine::Subject::Operation, name))?;
            // A kernel may lack some of them, which is harmless.
            if before.as_ref().is_some_and(|before| *before != value) {
                steps.push(Step::new(knob.knob(), before, Some(value)).keeping());
            }
        }
        let tracer = LinuxKnob::TraceInstance(instance(owner)).knob();
        steps.push(Step::new(tracer, None, Some(TRACER.to_owned())));
        Ok(steps)
    }

    /// The steps that end the tracer of a process and restore the settings, and notes about settings that another program has
    /// changed.
    pub(super) fn timerlat_end(&self, owner: Pid, period: Nanos) -> (Vec<Step>, Vec<String>) {
        let (mut steps, mut notes) = (Vec::new(), Vec::new());
        let tracer = instance(owner);
        if let Ok(Some(works)) = self.os.tracer(&tracer) {
            steps.push(Step::new(LinuxKnob::TraceInstance(tracer).knob(), Some(works), None));
        }
        let baselines = millpond_machine::Machine::journal(self).baselines();
        for (name, value) in settings(period) {
            let knob = LinuxKnob::OsnoiseSetting(name.to_owned()).knob();
            let (Some(original), Ok(is)) = (baselines.get(&knob), self.os.osnoise(name)) else { continue };
            if is.as_ref() == Some(&value) {
                steps.push(Step::new(knob, is, original.clone()).releasing());
                continue;
            }
            if is != *original {
                let now = is.clone().unwrap_or_default();
                notes.push(format!(
                    "another program set {name} of the tracer timerlat to {now} meanwhile: that is left alone"
                ));
            }
            steps.push(Step::new(knob, is.clone(), is).releasing());
        }
        (steps, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use millpond_machine::MemoryJournal;
    use std::path::Path;

    const OPTIONS: &str = "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP NO_OSNOISE_PREEMPT_DISABLE";

    /// A captured machine with tracing files: kernel 6.12 with these tracers.
    fn machine(dir: &Path, tracers: &str) -> LinuxMachine {
        let tracing = dir.join("sys/kernel/tracing");
        for sub in ["events", "instances", "osnoise/per_cpu"] {
            fs::create_dir_all(tracing.join(sub)).unwrap();
        }
        fs::create_dir_all(dir.join("proc/sys/kernel")).unwrap();
        for (file, text) in [
            ("available_tracers", tracers),
            ("current_tracer", "nop\n"),
            ("osnoise/options", OPTIONS),
            ("osnoise/timerlat_period_us", "1000\n"),
            ("osnoise/stop_tracing_us", "0\n"),
            ("osnoise/stop_tracing_total_us", "777\n"),
        ] {
            fs::write(tracing.join(file), text).unwrap();
        }
        fs::write(dir.join("proc/sys/kernel/osrelease"), "6.12.1-rt\n").unwrap();
        LinuxMachine::open(Root::captured(dir), Box::new(MemoryJournal::default()))
    }

    #[test]
    fn where_it_is_not_one_sentence_says_so_and_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let absent = machine(dir.path(), "hwlat function nop\n").timerlat().unwrap_err();
        assert_eq!(
            absent.to_string(),
            "the kernel that runs here (6.12) was built without the tracer timerlat"
        );
        assert!(absent.what_would_help.unwrap().starts_with("Debian's kernels linux-image-rt-amd64 have it"));
        let dir = tempfile::tempdir().unwrap();
        let old = machine(dir.path(), "timerlat osnoise nop\n");
        fs::remove_dir(dir.path().join("sys/kernel/tracing/osnoise/per_cpu")).unwrap();
        let absent = old.timerlat().unwrap_err().to_string();
        assert!(absent.starts_with("no program can wait for the timers of timerlat"), "{absent}");
        let none = tempfile::tempdir().unwrap();
        let bare = LinuxMachine::open(Root::captured(none.path()), Box::new(MemoryJournal::default()));
        assert_eq!(bare.timerlat().unwrap_err().to_string(), "this kernel has no tracing");
    }

    #[test]
    fn only_what_is_not_so_already_is_set_and_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path(), "timerlat osnoise nop\n");
        let steps = machine.timerlat_steps(Pid(204), Nanos(500_000)).unwrap();
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            steps,
            [
                "osnoise:OSNOISE_WORKLOAD: on -> off",
                "osnoise:timerlat_period_us: 1000 -> 500",
                "osnoise:stop_tracing_total_us: 777 -> 0",
                "tracer:millpond-204: absent -> timerlat",
            ]
        );
    }

    #[test]
    fn beside_somebody_elses_tracer_ours_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path(), "timerlat osnoise nop\n");
        let theirs = dir.path().join("sys/kernel/tracing/instances/timerlat_hist");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("current_tracer"), "nop\n").unwrap();
        assert!(machine.timerlat_steps(Pid(204), Nanos(500_000)).is_ok());
        fs::write(theirs.join("current_tracer"), "osnoise\n").unwrap();
        let refusal = machine.timerlat_steps(Pid(204), Nanos(500_000)).unwrap_err();
        let says = "the tracer osnoise is on already, in the trace instance timerlat_hist";
        assert_eq!(refusal.reason, Reason::Machine(says.into()));
    }

    #[test]
    fn options_are_switched_by_their_names_and_settings_written() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path(), "timerlat\n");
        let os = machine.os();
        assert_eq!(os.osnoise("OSNOISE_WORKLOAD"), Ok(Some("on".into())));
        assert_eq!(os.osnoise("PANIC_ON_STOP"), Ok(Some("off".into())));
        assert_eq!((os.osnoise("TIMERLAT_ALIGN"), os.osnoise("print_stack")), (Ok(None), Ok(None)));
        os.set_osnoise("OSNOISE_WORKLOAD", "off").unwrap();
        os.set_osnoise("timerlat_period_us", "250").unwrap();
        let file = |name: &str| fs::read_to_string(dir.path().join("sys/kernel/tracing/osnoise").join(name));
        assert_eq!(file("options").unwrap(), "NO_OSNOISE_WORKLOAD\n");
        assert_eq!(file("timerlat_period_us").unwrap(), "250\n");
        assert_eq!(os.tracer("millpond-9"), Ok(None));
    }

    #[test]
    fn the_tracer_is_not_ended_under_somebody_who_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path(), "timerlat\n");
        assert_eq!(machine.os().waiter(), None);
        let fds = dir.path().join("proc/77/fd");
        fs::create_dir_all(&fds).unwrap();
        let link = |to: &str| std::os::unix::fs::symlink(to, fds.join("3")).unwrap();
        link("/dev/null");
        assert_eq!(machine.os().waiter(), None);
        fs::remove_file(fds.join("3")).unwrap();
        link("/osnoise/per_cpu/cpu2/timerlat_fd");
        assert_eq!(machine.os().waiter(), Some(77));
        let said = machine.os().end_tracer("millpond-9").unwrap_err().to_string();
        assert!(said.starts_with("process 77 waits for timers of timerlat"), "{said}");
        fs::remove_file(fds.join("3")).unwrap();
        assert_eq!(machine.os().end_tracer("millpond-9"), Ok(()));
    }
}
