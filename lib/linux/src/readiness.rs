//! Real-time readiness: kernel settings that can delay real-time threads, from procfs and sysfs.
//!
//! | setting | source |
//! |---|---|
//! | preemption | `/sys/kernel/realtime`, `/sys/kernel/debug/sched/preempt`, else the kernel's version and `preempt=` |
//! | threaded interrupts | PREEMPT_RT, or `threadirqs` at boot |
//! | throttling | before 6.12 `sched_rt_runtime_us` of `sched_rt_period_us`; since then the fair server of each CPU |
//! | nohz_full, rcu_nocbs | `/sys/devices/system/cpu/nohz_full`; `rcu_nocbs=` at boot, with the CPUs of nohz_full |
//! | governor | `cpuN/cpufreq/scaling_governor` |
//! | idle states | `cpuN/cpuidle/stateK`: exit latency of the deepest one that is enabled |

use crate::settings::{kernel_settings, parameters};
use crate::{Os, Root};
use millpond_model::{CpuId, CpuSet, RealTimeSetting};
use std::collections::BTreeMap;

/// An idle state with a longer exit latency than this delays a thread noticeably, in microseconds. A timer wake-up without idle
/// states takes about as long.
const EXIT_US_MAX: u64 = 10;

/// All settings, in the order of the table.
pub(crate) fn real_time_settings(os: &Os) -> Vec<RealTimeSetting> {
    let look = Look { root: &os.root, cpus: os.online().unwrap_or_default() };
    let settings = kernel_settings(&os.root);
    vec![
        look.preemption(),
        look.threaded(),
        look.throttling(os.has_fair_server()),
        listed("nohz_full", &settings.nohz_full, "one thread alone runs there without the tick"),
        listed("rcu_nocbs", &settings.rcu_nocbs, "RCU callbacks run elsewhere"),
        look.governor(),
        look.idle(),
    ]
}

/// A CPU list from a boot parameter.
fn listed(name: &str, cpus: &CpuSet, what: &str) -> RealTimeSetting {
    if cpus.is_empty() {
        RealTimeSetting::delays(
            name,
            "no CPU",
            format!("boot with {name}=CPUS of the real-time threads ({what})"),
        )
    } else {
        RealTimeSetting::good(name, format!("CPUs {cpus}: {what}"))
    }
}

struct Look<'a> {
    root: &'a Root,
    cpus: CpuSet,
}

impl Look<'_> {
    fn proc(&self, path: &str) -> Option<String> {
        let text = self.root.read_value(&self.root.proc.join(path)).ok().flatten();
        text.map(|text| text.trim().to_owned())
    }

    fn sys(&self, path: &str) -> Option<String> {
        let text = self.root.read_value(&self.root.sys.join(path)).ok().flatten();
        text.map(|text| text.trim().to_owned())
    }

    fn is_rt(&self) -> bool {
        let named = self.proc("sys/kernel/version").is_some_and(|v| v.split(' ').any(|w| w == "PREEMPT_RT"));
        named || self.sys("kernel/realtime").as_deref() == Some("1")
    }

    /// The value of a word of the kernel command line; empty for a word without a value.
    fn booted(&self, name: &str) -> Option<String> {
        let line = self.proc("cmdline")?;
        let last = parameters(&line).rev().find(|(key, _)| *key == name);
        last.map(|(_, value)| value.unwrap_or_default().to_owned())
    }

    fn preemption(&self) -> RealTimeSetting {
        const NAME: &str = "preemption";
        const KERNEL: &str = "a kernel with PREEMPT_RT";
        if self.is_rt() {
            return RealTimeSetting::good(NAME, "PREEMPT_RT");
        }
        let version = self.proc("sys/kernel/version").unwrap_or_default();
        let has = |word: &str| version.split(' ').any(|w| w == word);
        let live = self.sys("kernel/debug/sched/preempt").and_then(|text| {
            let mode = text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')'));
            mode.map(str::to_owned)
        });
        let mode = live.or_else(|| self.booted("preempt").filter(|_| has("PREEMPT_DYNAMIC")));
        match mode.as_deref() {
            Some("full") => RealTimeSetting::delays(
                NAME,
                "full, without PREEMPT_RT: code under a spinlock is not preempted",
                KERNEL,
            ),
            Some(mode) => {
                let is = format!("{mode}: code of the kernel is preempted at some places only");
                RealTimeSetting::delays(NAME, is, format!("boot with preempt=full, or {KERNEL}"))
            }
            None if has("PREEMPT_DYNAMIC") => RealTimeSetting::unknown(
                NAME,
                "chosen at boot; only debugfs says which (mount it on /sys/kernel/debug)",
            ),
            None if has("PREEMPT") => RealTimeSetting::delays(
                NAME,
                "full, without PREEMPT_RT: code under a spinlock is not preempted",
                KERNEL,
            ),
            None if version.is_empty() => {
                RealTimeSetting::unknown(NAME, "the version of the kernel is not told")
            }
            None => RealTimeSetting::delays(
                NAME,
                "none or voluntary: code of the kernel is not preempted",
                KERNEL,
            ),
        }
    }

    fn threaded(&self) -> RealTimeSetting {
        const NAME: &str = "threaded interrupts";
        if self.is_rt() {
            RealTimeSetting::good(NAME, "yes, by PREEMPT_RT")
        } else if self.booted("threadirqs").is_some() {
            RealTimeSetting::good(NAME, "yes, by threadirqs")
        } else if self.proc("cmdline").is_none() {
            RealTimeSetting::unknown(NAME, "the command line of the kernel is not told")
        } else {
            RealTimeSetting::delays(
                NAME,
                "no: handlers of devices run before every thread",
                "boot with threadirqs",
            )
        }
    }

    fn throttling(&self, by_fair_server: bool) -> RealTimeSetting {
        const NAME: &str = "throttling";
        if by_fair_server {
            return self.fair_server();
        }
        let number = |name: &str| self.proc(&format!("sys/kernel/{name}"))?.parse::<i64>().ok();
        match (number("sched_rt_runtime_us"), number("sched_rt_period_us")) {
            (Some(runtime), _) if runtime < 0 => RealTimeSetting::good(NAME, "off"),
            (Some(runtime), Some(period)) if runtime >= period => RealTimeSetting::good(NAME, "off"),
            (Some(runtime), Some(period)) => RealTimeSetting::delays(
                NAME,
                format!("real-time threads get {runtime} of {period} us, and then wait"),
                "sysctl kernel.sched_rt_runtime_us=-1 (a real-time thread that loops then stops all others on its CPU)",
            ),
            _ => RealTimeSetting::unknown(NAME, "sched_rt_runtime_us is not told"),
        }
    }

    /// Since 6.12 the fair server gives ordinary threads a part of a CPU that is busy with real-time threads.
    /// `sched_rt_runtime_us` no longer throttles them.
    fn fair_server(&self) -> RealTimeSetting {
        const NAME: &str = "throttling";
        let runtime = |cpu: CpuId| {
            self.sys(&format!("kernel/debug/sched/fair_server/cpu{cpu}/runtime"))?.parse::<u64>().ok()
        };
        let told: Vec<(CpuId, u64)> = self.cpus.iter().filter_map(|cpu| Some((cpu, runtime(cpu)?))).collect();
        let serving: CpuSet = told.iter().filter(|(_, ns)| *ns > 0).map(|(cpu, _)| *cpu).collect();
        if told.is_empty() {
            RealTimeSetting::unknown(
                NAME,
                "by the fair server of each CPU; only debugfs says how (mount it on /sys/kernel/debug)",
            )
        } else if serving.is_empty() {
            RealTimeSetting::good(NAME, "off: no fair server")
        } else {
            RealTimeSetting::delays(
                NAME,
                format!(
                    "fair servers of CPUs {serving}: real-time threads that fill a CPU wait for others at times"
                ),
                "write 0 to /sys/kernel/debug/sched/fair_server/cpuN/runtime (a real-time thread that loops then stops all others there)",
            )
        }
    }

    fn governor(&self) -> RealTimeSetting {
        const NAME: &str = "governor";
        let mut by: BTreeMap<String, CpuSet> = BTreeMap::new();
        for cpu in self.cpus.iter() {
            if let Some(name) = self.sys(&format!("devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")) {
                by.entry(name).or_default().insert(cpu);
            }
        }
        let slow: Vec<String> = by
            .iter()
            .filter(|(name, _)| *name != "performance")
            .map(|(name, cpus)| format!("{name} on CPUs {cpus}"))
            .collect();
        if by.is_empty() {
            RealTimeSetting::unknown(NAME, "no frequency driver here: firmware or a hypervisor decides")
        } else if slow.is_empty() {
            RealTimeSetting::good(NAME, "performance")
        } else {
            RealTimeSetting::delays(NAME, slow.join(", "), "cpupower frequency-set -g performance")
        }
    }

    fn idle(&self) -> RealTimeSetting {
        const NAME: &str = "idle states";
        let mut deepest: Option<(u64, String)> = None;
        let mut slow = CpuSet::new();
        let mut told = false;
        for cpu in self.cpus.iter() {
            let dir = format!("devices/system/cpu/cpu{cpu}/cpuidle");
            for state in self.root.names(&self.root.sys.join(&dir)).unwrap_or_default() {
                let read = |file: &str| self.sys(&format!("{dir}/{state}/{file}"));
                let Some(us) = read("latency").and_then(|text| text.parse::<u64>().ok()) else { continue };
                told = true;
                if us > EXIT_US_MAX && read("disable").as_deref() != Some("1") {
                    slow.insert(cpu);
                    deepest = deepest.max(Some((us, read("name").unwrap_or(state))));
                }
            }
        }
        match deepest {
            Some((us, name)) => RealTimeSetting::delays(
                NAME,
                format!("CPUs {slow} take up to {us} us to leave {name}"),
                format!(
                    "cpupower idle-set -D {EXIT_US_MAX}, or hold /dev/cpu_dma_latency open with 0 (rt_setup_begin does)"
                ),
            ),
            None if told => {
                RealTimeSetting::good(NAME, format!("none that takes longer than {EXIT_US_MAX} us to leave"))
            }
            None => {
                RealTimeSetting::unknown(NAME, "no idle driver here: a hypervisor decides, or the CPU polls")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::Effect;
    use std::fs;

    struct Made(tempfile::TempDir);

    impl Made {
        fn new(release: &str) -> Made {
            let made = Made(tempfile::tempdir().unwrap());
            made.file("proc/sys/kernel/osrelease", release);
            made.file("sys/devices/system/cpu/possible", "0-3\n");
            made.file("sys/devices/system/cpu/online", "0-3\n");
            made
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn told(&self) -> Vec<RealTimeSetting> {
            real_time_settings(&Os::new(Root::captured(self.0.path())))
        }

        fn of(&self, name: &str) -> (Effect, String) {
            let found = self.told().into_iter().find(|setting| setting.name == name).unwrap();
            assert_eq!(found.remedy.is_some(), found.effect == Effect::Delays, "{name}");
            (found.effect, found.is)
        }
    }

    #[test]
    fn what_the_machine_does_not_say_is_unknown_and_no_praise() {
        let told = Made::new("6.1.0\n").told();
        assert_eq!(told.len(), 7);
        assert!(told.iter().all(|setting| setting.effect != Effect::Good), "{told:?}");
    }

    #[test]
    fn preemption_is_that_of_now() {
        let made = Made::new("6.17.0\n");
        made.file("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.17\n");
        assert_eq!(made.of("preemption").0, Effect::Unknown);
        made.file("proc/cmdline", "ro preempt=voluntary\n");
        assert!(made.of("preemption").1.starts_with("voluntary: "));
        made.file("sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n");
        assert!(made.of("preemption").1.starts_with("full, without PREEMPT_RT"));
        made.file("sys/kernel/realtime", "1\n");
        assert_eq!(made.of("preemption"), (Effect::Good, "PREEMPT_RT".into()));
        assert_eq!(made.of("threaded interrupts").0, Effect::Good);
    }

    #[test]
    fn interrupts_are_threads_where_the_kernel_was_started_so() {
        let made = Made::new("6.1.0\n");
        made.file("proc/cmdline", "nothreadirqs quiet\n");
        assert_eq!(made.of("threaded interrupts").0, Effect::Delays);
        made.file("proc/cmdline", "quiet threadirqs\n");
        assert_eq!(made.of("threaded interrupts").0, Effect::Good);
    }

    #[test]
    fn throttling_is_a_budget_and_since_6_12_the_fair_server() {
        let made = Made::new("6.11.0\n");
        made.file("proc/sys/kernel/sched_rt_runtime_us", "937000\n");
        made.file("proc/sys/kernel/sched_rt_period_us", "1000000\n");
        assert!(made.of("throttling").1.contains("937000 of 1000000 us"));
        for off in ["-1\n", "1000000\n"] {
            made.file("proc/sys/kernel/sched_rt_runtime_us", off);
            assert_eq!(made.of("throttling").0, Effect::Good);
        }
        made.file("proc/sys/kernel/osrelease", "6.12.3\n");
        assert_eq!(made.of("throttling").0, Effect::Unknown, "the old budget says nothing any more");
        for cpu in 0..4 {
            let runtime = if cpu == 3 { "50000000\n" } else { "0\n" };
            made.file(&format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"), runtime);
        }
        assert!(made.of("throttling").1.starts_with("fair servers of CPUs 3: "));
        made.file("sys/kernel/debug/sched/fair_server/cpu3/runtime", "0\n");
        assert_eq!(made.of("throttling").0, Effect::Good);
    }

    #[test]
    fn lists_governors_and_idle_states_are_told_by_cpu() {
        let made = Made::new("6.17.0\n");
        assert_eq!(made.of("nohz_full").0, Effect::Delays);
        made.file("sys/devices/system/cpu/nohz_full", "3\n");
        assert!(made.of("rcu_nocbs").1.starts_with("CPUs 3: "), "nohz_full implies it");
        for cpu in 0..4 {
            let dir = format!("sys/devices/system/cpu/cpu{cpu}");
            let governor = if cpu == 2 { "schedutil\n" } else { "performance\n" };
            made.file(&format!("{dir}/cpufreq/scaling_governor"), governor);
            for (state, name, us) in [(0, "POLL", 0), (1, "C1", 2), (2, "C6", 133)] {
                let disabled = state == 2 && cpu != 1;
                made.file(&format!("{dir}/cpuidle/state{state}/name"), name);
                made.file(&format!("{dir}/cpuidle/state{state}/latency"), &us.to_string());
                made.file(
                    &format!("{dir}/cpuidle/state{state}/disable"),
                    if disabled { "1\n" } else { "0\n" },
                );
            }
        }
        assert_eq!(made.of("governor"), (Effect::Delays, "schedutil on CPUs 2".into()));
        assert_eq!(made.of("idle states"), (Effect::Delays, "CPUs 1 take up to 133 us to leave C6".into()));
        made.file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n");
        made.file("sys/devices/system/cpu/cpu1/cpuidle/state2/disable", "1\n");
        assert_eq!((made.of("governor").0, made.of("idle states").0), (Effect::Good, Effect::Good));
    }
}
