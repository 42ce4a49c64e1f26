//! OS noise on CPUs that are reserved for four jobs, for each method of reservation. The virtual machine has 8 CPUs, of which 4 to 7 are reserved. A
//! load of hackbench, builds and a network stream may run anywhere. There is one boot for each method; the load starts before the reservation. The
//! jobs compute without end, or sleep and wake each millisecond.
//!
//! # Counters
//!
//! All counters are the kernel's: `/proc/interrupts`, `/proc/schedstat` (calls of the scheduler), `/proc/softirqs` (load balancing) and, on kernels
//! that have it, the tracer `osnoise`. A computing job never sleeps, so each call of the scheduler on its CPU is a disturbance. A sleeping job calls
//! the scheduler itself, so load-balancing softirqs are counted instead of these calls. Local timer interrupts are counted separately: ticks only
//! stop if the kernel was booted with `nohz_full=`.
//!
//! One is added to each count of a pair, to avoid a division by zero; the note of a line has the original rates.

use super::inside::{kernel, said};
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Trouble, told};
use millpond_report::{Bars, Group};
use millpond_vm::{Accel, Cache, Case, Cgroup, Guest, Image, Kernel, Nic, Shape, obtain_isolators};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(2000);
/// Reserved CPUs.
const KEPT: RangeInclusive<usize> = 4..=7;
const WINDOW_S: u32 = 10;
const ROUNDS: usize = 10;

/// The kind of a method, which decides Millpond's goal against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Millpond.
    Ours,
    /// No protection: the lower bound.
    Floor,
    /// The kernel's own interfaces.
    Bare,
    /// Programs of others, at run time.
    AtRunTime,
    /// Kernel command line options.
    AtBoot,
}

/// The work of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jobs {
    /// They compute.
    Computing,
    /// A timer wakes each a thousand times a second.
    Sleeping,
}

impl Jobs {
    fn name(self) -> &'static str {
        match self {
            Jobs::Computing => "computing",
            Jobs::Sleeping => "sleeping",
        }
    }
}

/// A method to reserve CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    /// Its name in the script.
    name: &'static str,
    /// The command.
    words: &'static str,
    /// Additional words of the kernel command line.
    command_line: &'static str,
    kind: Kind,
}

const ISOLATED: &str = "isolcpus=domain,managed_irq,4-7 irqaffinity=0-3 rcu_nocbs=4-7";
const WITHOUT_TICKS: &str = "isolcpus=domain,managed_irq,4-7 irqaffinity=0-3 rcu_nocbs=4-7 nohz_full=4-7";

const WAYS: [Way; 10] = [
    Way { name: "fence", words: "millpond fence", command_line: "", kind: Kind::Ours },
    Way { name: "nothing", words: "nothing", command_line: "", kind: Kind::Floor },
    Way { name: "taskset", words: "taskset alone", command_line: "", kind: Kind::Floor },
    Way { name: "bare", words: "a bare isolated partition", command_line: "", kind: Kind::Bare },
    Way { name: "cset", words: "cset shield --kthread=on", command_line: "", kind: Kind::AtRunTime },
    Way {
        name: "tuna",
        words: "tuna --isolate, tuna --irqs --move",
        command_line: "",
        kind: Kind::AtRunTime,
    },
    Way {
        name: "tuned",
        words: "TuneD cpu-partitioning, no reboot",
        command_line: "",
        kind: Kind::AtRunTime,
    },
    Way {
        name: "boot",
        words: "isolcpus= irqaffinity= rcu_nocbs=",
        command_line: ISOLATED,
        kind: Kind::AtBoot,
    },
    Way {
        name: "boot_nohz",
        words: "the same with nohz_full=",
        command_line: WITHOUT_TICKS,
        kind: Kind::AtBoot,
    },
    Way {
        name: "fence_nohz",
        words: "millpond fence, booted with nohz_full=",
        command_line: "nohz_full=4-7",
        kind: Kind::Floor,
    },
];

/// A kernel, its cgroup version, the work of the jobs, and the methods that are tried there. cset needs cpusets of cgroup v1.
const GROUNDS: [(&str, Cgroup, Jobs, &[&str]); 8] = [
    (
        "6.17",
        Cgroup::V2,
        Jobs::Computing,
        &["nothing", "taskset", "tuna", "tuned", "bare", "fence", "boot", "boot_nohz", "fence_nohz"],
    ),
    ("6.12", Cgroup::V2, Jobs::Computing, &["nothing", "tuna", "tuned", "bare", "fence", "boot"]),
    ("6.12-rt", Cgroup::V2, Jobs::Computing, &["nothing", "tuna", "fence", "boot"]),
    ("7.3", Cgroup::V2, Jobs::Computing, &["nothing", "bare", "fence", "boot"]),
    ("6.1", Cgroup::V1Hybrid, Jobs::Computing, &["nothing", "cset", "fence", "boot"]),
    ("6.17", Cgroup::V2, Jobs::Sleeping, &["nothing", "tuna", "bare", "fence", "boot"]),
    ("6.12", Cgroup::V2, Jobs::Sleeping, &["nothing", "bare", "fence", "boot"]),
    ("7.3", Cgroup::V2, Jobs::Sleeping, &["nothing", "bare", "fence", "boot"]),
];

/// Counts on all reserved CPUs in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Window {
    seconds: f64,
    ticks: f64,
    interrupts: f64,
    switches: f64,
    /// Softirqs that balance load.
    balancing: f64,
}

impl Window {
    /// A count per second and CPU.
    fn rate(&self, count: f64) -> f64 {
        let cpus = KEPT.count();
        count / self.seconds / f64::from(u32::try_from(cpus).unwrap_or(1))
    }

    fn disturbances(&self, jobs: Jobs) -> f64 {
        self.interrupts
            + match jobs {
                Jobs::Computing => self.switches,
                Jobs::Sleeping => self.balancing,
            }
    }
}

/// Results of one method.
#[derive(Debug, Clone, Default, PartialEq)]
struct Found {
    windows: Vec<Window>,
    /// Soft interrupts and threads per second and CPU, as counted by `osnoise`.
    osnoise: Option<f64>,
}

/// Measures this goal, and draws the picture if requested.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut drawn: Vec<(String, Vec<(&str, f64)>)> = Vec::new();
    let is_wanted = |id: &str| bench.kernel.as_deref().is_none_or(|wanted| wanted == id);
    for (id, cgroup, jobs, names) in GROUNDS.into_iter().filter(|(id, ..)| is_wanted(id)) {
        let ground = match Ground::of(bench, id, cgroup) {
            Ok(ground) => ground,
            Err(why) => {
                lines.push(Line::unresolvable(&title(id, jobs), "-", Goal::None, why));
                continue;
            }
        };
        let tried = names.iter().filter_map(|name| WAYS.iter().find(|way| way.name == *name));
        let found: Vec<(&Way, Result<Found, Trouble>)> =
            tried.map(|way| (way, ground.boot(way, jobs, bench.pairs.min(ROUNDS)))).collect();
        drawn.push((format!("Linux {id}, {}", jobs.name()), rates(jobs, &found)));
        lines.extend(lines_of(id, jobs, &found));
    }
    bench.draw("isolation", || picture(&drawn), &mut lines);
    lines
}

fn title(id: &str, jobs: Jobs) -> String {
    let whose = match jobs {
        Jobs::Computing => "",
        Jobs::Sleeping => " whose job wakes each millisecond",
    };
    format!("what comes to a fenced CPU{whose}, without ticks (Linux {id}, 8 CPUs in a virtual machine)")
}

/// A line for each method other than Millpond's, and one for ticks.
fn lines_of(id: &str, jobs: Jobs, found: &[(&Way, Result<Found, Trouble>)]) -> Vec<Line> {
    let title = title(id, jobs);
    let ours = found.iter().find(|(way, _)| way.kind == Kind::Ours);
    let ours = match ours.map(|(_, found)| found) {
        Some(Ok(ours)) => ours,
        Some(Err(why)) => return vec![Line::unresolvable(&title, "-", Goal::None, why.clone())],
        None => return Vec::new(),
    };
    let others = found.iter().filter(|(way, _)| way.kind != Kind::Ours);
    let line = |(way, other): &(&Way, Result<Found, Trouble>)| {
        let other = match other {
            Ok(other) => other,
            Err(why) => return vec![Line::unresolvable(&title, way.words, goal(way.kind), why.clone())],
        };
        let told = format!("{}; {}", told_of("fence", ours), told_of(way.name, other));
        let pairs = |count: &dyn Fn(&Window) -> f64| Pairs {
            ours: ours.windows.iter().map(|window| window.rate(count(window) + 1.0)).collect(),
            peer: other.windows.iter().map(|window| window.rate(count(window) + 1.0)).collect(),
        };
        let disturbances = pairs(&|window| window.disturbances(jobs));
        let mut lines = vec![Line::of(&title, way.words, "/s", &disturbances, goal(way.kind)).noting(told)];
        if jobs == Jobs::Computing {
            let name = title.replace("without ticks", "ticks alone");
            lines.push(Line::of(&name, way.words, "/s", &pairs(&|window| window.ticks), Goal::None));
        }
        if let (Some(ours), Some(other)) = (ours.osnoise, other.osnoise) {
            let pairs = Pairs { ours: vec![ours], peer: vec![other] };
            let name = format!("{title}, by osnoise");
            lines.push(Line::of(&name, way.words, "/s", &pairs, Goal::None));
        }
        lines
    };
    others.flat_map(line).collect()
}

fn goal(kind: Kind) -> Goal {
    match kind {
        Kind::Bare => Goal::RatioAtMost(1.0),
        Kind::AtRunTime => Goal::RatioAtMost(0.1),
        Kind::AtBoot => Goal::RatioAtMost(1.1),
        Kind::Ours | Kind::Floor => Goal::None,
    }
}

/// The original rates.
fn told_of(name: &str, found: &Found) -> String {
    let median = |count: fn(&Window) -> f64| {
        median_of(&found.windows.iter().map(|window| window.rate(count(window))).collect::<Vec<_>>())
    };
    let osnoise = found.osnoise.map(|rate| format!(", {rate:.1} by osnoise")).unwrap_or_default();
    format!(
        "{name}: {:.2} interrupts, {:.2} switches, {:.2} SCHED softirqs, {:.1} ticks{osnoise}",
        median(|w| w.interrupts),
        median(|w| w.switches),
        median(|w| w.balancing),
        median(|w| w.ticks)
    )
}

/// The median rate without ticks of each method that worked.
fn rates<'a>(jobs: Jobs, found: &[(&'a Way, Result<Found, Trouble>)]) -> Vec<(&'a str, f64)> {
    let rate = |(way, found): &(&'a Way, Result<Found, Trouble>)| {
        let windows = &found.as_ref().ok()?.windows;
        let rates: Vec<f64> = windows.iter().map(|window| window.rate(window.disturbances(jobs))).collect();
        Some((way.words, median_of(&rates)))
    };
    found.iter().filter_map(rate).collect()
}

/// Bars in groups by method, one for each kernel. A very long bar makes the others too short to read: hovering over a bar shows its value.
fn picture(drawn: &[(String, Vec<(&str, f64)>)]) -> String {
    let value = |rates: &[(&str, f64)], words: &str| {
        rates.iter().find(|(way, _)| *way == words).map(|(_, rate)| (rate * 100.0).round() / 100.0)
    };
    let groups = WAYS.iter().map(|way| Group {
        name: way.words.to_owned(),
        values: drawn.iter().map(|(_, rates)| value(rates, way.words)).collect(),
    });
    Bars {
        title: "Disturbances of a CPU that is kept for a job, without ticks".into(),
        unit: "/s".into(),
        series: drawn.iter().map(|(name, _)| name.clone()).collect(),
        groups: groups.collect(),
    }
    .svg()
}

/// The virtual machine where methods are tried.
struct Ground {
    cache: Cache,
    kernel: Kernel,
    cgroup: Cgroup,
    image: Image,
}

impl Ground {
    fn of(bench: &Bench, id: &str, cgroup: Cgroup) -> Result<Ground, Trouble> {
        let (cache, kernel) = kernel(id)?;
        let peers = told("get other programs", obtain_isolators(&cache, &|note| eprintln!("bench: {note}")))?;
        let image = told("make an image", Image::new().program("millpond", &bench.millpond))?
            .link("/usr/local/bin/psrset", "millpond");
        let image = told("make an image", image.tree(Path::new("/peers"), &peers))?;
        let image = told("find cyclictest", image.program("cyclictest", Path::new("/usr/bin/cyclictest")))?;
        Ok(Ground { cache, kernel, cgroup, image })
    }

    fn boot(&self, way: &Way, jobs: Jobs, rounds: usize) -> Result<Found, Trouble> {
        let script = include_str!("../guest/isolation.sh");
        let (method, jobs) = (way.name, jobs.name());
        let script = format!("METHOD={method}\nJOBS={jobs}\nROUNDS={rounds}\nWINDOW_S={WINDOW_S}\n{script}");
        let case = told("write a case", Case::new(way.name, script))?.limit(LIMIT);
        let guest = Guest::new(self.kernel.clone(), told("shape a machine", Shape::flat(8, 1))?)
            .cgroup(self.cgroup)
            .nics(&[Nic::Virtio, Nic::Virtio])
            .interrupt_remapping()
            .memory_mb(2048)
            .accel(Accel::TcgSingle)
            .command_line(way.command_line)
            .image(&self.image);
        let report = told("run a virtual machine", guest.run_cases(&[case], &self.cache))?;
        let case = report.cases.first().ok_or("the virtual machine lost its case")?;
        let found = said(case).and_then(|text| parse(&text));
        match &found {
            Ok(found) => eprintln!(
                "bench: {}: {}; {}",
                self.kernel.release,
                told_of(way.name, found),
                case.stderr.trim_end()
            ),
            Err(why) => {
                eprintln!("bench: {}: {}: {why}; {}", self.kernel.release, way.name, case.stderr.trim_end())
            }
        }
        found
    }
}

/// Parses the script's output.
fn parse(text: &str) -> Result<Found, Trouble> {
    let mut looks = Vec::new();
    let mut osnoise = None;
    for part in text.split("== ").skip(1) {
        let (head, rest) = part.split_once('\n').unwrap_or((part, ""));
        match head.split_once(' ') {
            Some(("begin" | "window", at)) => {
                let at: f64 = at.parse().map_err(|error| format!("{at}: {error}"))?;
                looks.push((at, counts(rest).ok_or("counters of the virtual machine cannot be read")?));
            }
            Some(("osnoise", _)) => osnoise = noise(rest),
            _ => {}
        }
    }
    let window = |pair: &[(f64, Window)]| Window {
        seconds: pair[1].0 - pair[0].0,
        ticks: pair[1].1.ticks - pair[0].1.ticks,
        interrupts: pair[1].1.interrupts - pair[0].1.interrupts,
        switches: pair[1].1.switches - pair[0].1.switches,
        balancing: pair[1].1.balancing - pair[0].1.balancing,
    };
    Ok(Found { windows: looks.windows(2).map(window).collect(), osnoise })
}

/// The counters of the reserved CPUs since boot: `/proc/interrupts`, the line SCHED of `/proc/softirqs`, then lines of `/proc/schedstat`, whose third
/// number is the calls of the scheduler (Documentation/scheduler/sched-stats).
fn counts(text: &str) -> Option<Window> {
    let mut all = Window::default();
    let mut columns = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (first, rest) = words.split_first()?;
        if *first == "CPU0" {
            let cpu = |word: &&str| word.strip_prefix("CPU")?.parse::<usize>().ok();
            columns = words.iter().map(cpu).collect::<Option<Vec<_>>>()?;
        } else if let Some(row) = first.strip_suffix(':') {
            let kept = columns.iter().zip(rest).filter(|(cpu, _)| KEPT.contains(cpu));
            let sum: f64 = kept.filter_map(|(_, count)| count.parse::<f64>().ok()).sum();
            match row {
                "LOC" => all.ticks += sum,
                "SCHED" => all.balancing += sum,
                // These two have one number for the whole machine.
                "ERR" | "MIS" => {}
                _ => all.interrupts += sum,
            }
        } else if let Some(cpu) = first.strip_prefix("cpu")
            && KEPT.contains(&cpu.parse().ok()?)
        {
            all.switches += rest.get(2)?.parse::<f64>().ok()?;
        }
    }
    (!columns.is_empty()).then_some(all)
}

/// Parses lines of the tracer: `osnoise/4-961 [004] ..... 81.637220: RUNTIME_US NOISE_US %AVAILABLE MAX HW NMI IRQ SIRQ THREAD`. Returns soft
/// interrupts and threads per second and CPU; IRQs are excluded, because most of them are ticks.
fn noise(text: &str) -> Option<f64> {
    let line = |line: &str| {
        let (_, numbers) = line.split_once(": ")?;
        let numbers: Vec<f64> = numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [runtime_us, .., soft, thread] = numbers[..] else { return None };
        Some((runtime_us / 1e6, soft + thread))
    };
    let all: Vec<(f64, f64)> = text.lines().filter_map(line).collect();
    let seconds: f64 = all.iter().map(|(seconds, _)| seconds).sum();
    (seconds > 0.0).then(|| all.iter().map(|(_, count)| count).sum::<f64>() / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
           CPU0       CPU1       CPU2       CPU3       CPU4       CPU5       CPU6       CPU7
 24:         10          0          0          0          3          0          0          0  PCI-MSIX-0000:00:02.0   0-edge      virtio0-config
LOC:        100        100        100        100        200        200        200        200   Local timer interrupts
RES:          1          1          1          1          5          5          5          5   Rescheduling interrupts
ERR:          7
SCHED:        9          9          9          9          2          2          2          2
cpu0 0 0 999 0 0 0 0 0 0
cpu4 0 0 40 0 0 0 0 0 0
cpu7 0 0 60 0 0 0 0 0 0
";

    #[test]
    fn kept_cpus_are_counted_and_ticks_told_apart() {
        let later = FIRST.replace("200        200", "202        200").replace("cpu7 0 0 60", "cpu7 0 0 76");
        let found = parse(&format!("== begin 10.5\n{FIRST}== window 14.5\n{later}== end 0\n")).unwrap();
        let window = Window { seconds: 4.0, ticks: 4.0, switches: 16.0, ..Window::default() };
        assert_eq!(found, Found { windows: vec![window], osnoise: None });
        assert!((window.rate(window.disturbances(Jobs::Computing)) - 1.0).abs() < 1e-9);
        let first =
            Window { ticks: 800.0, interrupts: 23.0, switches: 100.0, balancing: 8.0, ..Window::default() };
        assert_eq!(counts(FIRST), Some(first));
        let (computing, sleeping) = (first.disturbances(Jobs::Computing), first.disturbances(Jobs::Sleeping));
        assert!((computing - 123.0).abs() < 1e-9 && (sleeping - 31.0).abs() < 1e-9);
        assert!(parse("== begin 1\n\n== window 2\n\n").is_err());
    }

    #[test]
    fn a_tracer_of_noise_tells_what_is_neither_tick_nor_hardware() {
        let text = "osnoise/4-961 [004] ..... 81.637220: 1000000 190 99.98100 9 18 0 100 18 2\n\
                    osnoise/5-962 [005] ..... 81.637221: 1000000 190 99.98100 9 18 0 60 17 3\n";
        assert_eq!(noise(text), Some(20.0));
        assert_eq!(noise("no tracer here\n"), None);
    }

    #[test]
    fn each_way_has_its_line_beside_ours() {
        let of = |switches| {
            let window = Window { seconds: 1.0, ticks: 400.0, switches, ..Window::default() };
            Found { windows: vec![window; 6], osnoise: None }
        };
        let way = |name: &str| WAYS.iter().find(|way| way.name == name).unwrap();
        let found = [
            (way("fence"), Ok(of(3.0))),
            (way("tuna"), Ok(of(399.0))),
            (way("boot"), Err("no kernel".to_owned())),
        ];
        let lines = lines_of("6.17", Jobs::Computing, &found);
        assert!(
            lines[0].text().ends_with(
                "| 0.0100 x | 0.0100..0.0100 x | 6 pairs | <= 0.1 x | met (fence: 0.00 interrupts, 0.75 switches, \
                 0.00 SCHED softirqs, 100.0 ticks; tuna: 0.00 interrupts, 99.75 switches, 0.00 SCHED softirqs, 100.0 ticks)"
            ),
            "{}",
            lines[0].text()
        );
        assert!(lines[1].text().contains("ticks alone"), "{}", lines[1].text());
        assert_eq!(lines[2].note, "no kernel");
        let drawn = [("Linux 6.17, computing".to_owned(), rates(Jobs::Computing, &found))];
        assert!(picture(&drawn).contains("millpond fence"));
    }
}
