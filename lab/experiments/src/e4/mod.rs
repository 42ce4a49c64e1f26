//! E4: large servers: dispatch tables, and processor sets where memory latency is high.
//!
//! # Claim
//!
//! The long quanta of the extended table change little where memory is near, and are recommended where it takes half a microsecond. On a
//! machine of many boards, a Java server for each group of chips loses a third of its speed to remote memory. A processor set
//! for each, with memory placed within the sets, restores it: the more boards, the larger the gain.
//!
//! # Conditions
//!
//! A server has a thread for each CPU of its share. Untuned, threads run anywhere and heaps are placed at random over all
//! boards. With `--psets` each server has a set of its share of the CPUs. With `--lgrp-aware` its heap is placed there
//! (`lgrp_mem_pset_aware=1`, which has no effect without sets). Without `--table` a machine has its own default table: the
//! standard one on ff2 and dc1, the extended one on dc3.
//!
//! The database (`--workload tpce`) has eight times as many servers as CPUs, and counts transactions. The published run was on ff2 with
//! CPUs of 2.0 GHz, of which four chips were used and the others off-line (`psradm -f`). The same is done here, unless
//! another machine is chosen.
//!
//! Without options all published arms run, and dc3 with the standard table. The highest published result of a dc2 or dc3 does not state its
//! setup; it is compared with the highest result here.

use crate::Failure;
use crate::e2::DAEMONS;
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SECONDS, SEEDS, real};
use millpond_cli::{Flag, ValueKind};
use millpond_model::{CpuId, Nanos, Pid};
use serde_json::json;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e4",
    options: &[
        Flag::long("machine", "the simulated machine; ff2 with the database, else dc3")
            .value("NAME", ValueKind::Word(&["ff2", "dc1", "dc3"])),
        Flag::long("workload", "Java servers, or a database; jbb").value("NAME", ValueKind::Word(&WORKLOADS)),
        Flag::long("chips", "how many chips it has; 8 of ff2 (4 with the database), 16 of dc1, 32 of dc3")
            .value("N,...", ValueKind::Counts(1, 64)),
        Flag::long("jvms", "Java servers; one a chip on ff2 and dc1, one a board of four chips on dc3")
            .value("N", ValueKind::Count(1, 1024)),
        Flag::long("table", "the dispatch table; the machine's own").value("WORD", ValueKind::Word(&TABLES)),
        Flag::long("psets", "a processor set for each server; without it, none"),
        Flag::long("lgrp-aware", "memory is placed with regard to sets; without it, it is not"),
        Flag { help: "how many simulated seconds each arm is measured; 10", ..SECONDS },
        SEEDS,
    ],
    data: include_str!("published.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |_| false,
    run,
    here: None,
};

const WORKLOADS: [&str; 2] = ["jbb", "tpce"];
const TABLES: [&str; 2] = ["standard", "extended"];
const BOPS: &str = "bops";
const TABLE_RATIO: &str = "extended over standard";
const PSETS_RATIO: &str = "psets over untuned";
/// Time until caches are warm and all threads have a home.
const WARM_UP: Nanos = Nanos::from_secs(2);
/// Database servers per CPU.
const SERVERS_PER_PROCESSOR: u64 = 8;
/// Clock frequency of the CPUs in the published database run.
const TPCE_MHZ: u64 = 2_000;

/// Configuration of one run.
#[derive(Debug, Clone, PartialEq)]
struct Arm {
    machine: &'static str,
    chips: u64,
    jvms: u64,
    /// An index into [`TABLES`].
    table: usize,
    psets: bool,
    aware: bool,
    tpce: bool,
}

/// Defaults of each machine: name, chips, chips per server, and table.
const MACHINES: [(&str, u64, u64, usize); 3] = [("ff2", 8, 1, 0), ("dc1", 16, 1, 0), ("dc3", 32, 4, 1)];

impl Arm {
    /// A machine with its defaults and this many chips.
    fn of(machine: &str, chips: Option<u64>) -> Arm {
        let known = MACHINES.iter().find(|(name, ..)| *name == machine).unwrap_or(&MACHINES[2]);
        let (machine, all, per_server, table) = *known;
        let chips = chips.unwrap_or(all);
        let jvms = chips.div_ceil(per_server);
        Arm { machine, chips, jvms, table, psets: false, aware: false, tpce: false }
    }

    /// The database, by default on half of an ff2.
    fn database(machine: Option<&str>, chips: Option<u64>) -> Arm {
        let own = if machine.is_none_or(|name| name == "ff2") { Some(4) } else { None };
        Arm { jvms: 1, tpce: true, ..Arm::of(machine.unwrap_or("ff2"), chips.or(own)) }
    }

    fn tuned(self) -> Arm {
        Arm { psets: true, aware: true, ..self }
    }

    fn with_table(self, table: usize) -> Arm {
        Arm { table, ..self }
    }

    fn variant(&self) -> String {
        let Arm { machine, chips, jvms, .. } = self;
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let servers = if self.tpce { "database".into() } else { format!("{jvms} server{}", plural(*jvms)) };
        let tuned = match (self.psets, self.aware) {
            (true, true) => "psets, lgrp-aware",
            (true, false) => "psets",
            (false, true) => "lgrp-aware",
            (false, false) => "untuned",
        };
        format!("{machine}, {chips} chip{}, {servers}, {} table, {tuned}", plural(*chips), TABLES[self.table])
    }

    /// Operations per second of all servers together.
    fn measure(&self, lab: &mut Lab<'_>, seconds: u64, findings: &mut Findings) -> Result<f64, Failure> {
        lab.tell(&self.variant());
        let off = self.tpce && self.machine == "ff2";
        let booted = if off { MACHINES[0].1.max(self.chips) } else { self.chips };
        let mut booted_with = json!({
            "chips": booted,
            "tunables": { "ts_dispatch_extended": self.table, "lgrp_mem_pset_aware": u8::from(self.aware) },
        });
        if off {
            booted_with["processor"] = json!({ "clock_mhz": TPCE_MHZ });
        }
        let bench = lab.open_with(self.machine, &booted_with)?;
        if !findings.machines.contains(&bench.sentence()) {
            findings.machines.push(bench.sentence());
        }
        let mut cpus = bench.cpus();
        let used =
            cpus.len() * usize::try_from(self.chips).unwrap_or(1) / usize::try_from(booted).unwrap_or(1);
        let unused = cpus.split_off(used);
        if !unused.is_empty() {
            bench.off_line(&unused)?;
        }
        let threads = cpus.len() as u64 / self.jvms;
        if threads == 0 {
            let why = format!("{} servers have {} CPUs; at most one server a CPU", self.jvms, cpus.len());
            return Err(Failure::Machine(why));
        }
        let words = if self.tpce {
            format!("tpce -t {}", cpus.len() as u64 * SERVERS_PER_PROCESSOR / self.jvms)
        } else {
            // A server in a set sees the set's CPUs.
            format!("jbb -t {threads} --cpus {}", if self.psets { threads } else { cpus.len() as u64 })
        };
        let shares = cpus.chunks(usize::try_from(threads).unwrap_or(1));
        let mut pids: Vec<Pid> = Vec::new();
        let mut sets = Vec::new();
        for share in shares.take(usize::try_from(self.jvms).unwrap_or(usize::MAX)) {
            let pid = bench.start(&words, "global")?;
            // The last one has the remaining CPUs.
            if self.psets && pids.len() as u64 + 1 < self.jvms {
                sets.push(set_for(&bench, pid, share)?);
            }
            pids.push(pid);
        }
        bench.start(DAEMONS, "global")?;
        lab.pass(&bench, WARM_UP)?;
        Ok(lab.rates(&bench, &pids, Nanos::from_secs(seconds))?.iter().sum())
    }
}

fn set_for<'b>(bench: &'b Bench, pid: Pid, cpus: &[CpuId]) -> Result<crate::sets::MadeSet<'b>, Failure> {
    let set = bench.set(cpus)?;
    bench.bind(pid, &set)?;
    Ok(set)
}

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let seconds = choices.number("seconds").unwrap_or(10);
    let chosen = ["machine", "workload", "chips", "jvms", "table", "psets", "lgrp-aware"];
    if chosen.iter().any(|name| choices.has(name)) {
        let chips: Vec<Option<u64>> = match choices.numbers("chips") {
            Some(chips) => chips.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        for chips in chips {
            let arm = arm_of(choices, chips);
            let bops = arm.measure(lab, seconds, findings)?;
            add(findings, &arm, bops);
        }
        return Ok(());
    }
    everything(lab, seconds, findings)
}

fn arm_of(choices: &Choices, chips: Option<u64>) -> Arm {
    let machine = choices.word("machine");
    let arm = match choices.word("workload") {
        Some("tpce") => Arm::database(machine, chips),
        _ => Arm::of(machine.unwrap_or("dc3"), chips),
    };
    let table = choices.word("table").and_then(|word| TABLES.iter().position(|table| *table == word));
    Arm {
        jvms: choices.number("jvms").unwrap_or(arm.jvms),
        table: table.unwrap_or(arm.table),
        psets: choices.has("psets"),
        aware: choices.has("lgrp-aware"),
        ..arm
    }
}

fn add(findings: &mut Findings, arm: &Arm, bops: f64) {
    let quantity = if arm.tpce { "transactions" } else { BOPS };
    let line = format!("{} {}", arm.machine, if arm.psets { "psets" } else { "untuned" });
    match arm.machine {
        "dc3" if !arm.tpce => findings.point_at(quantity, &arm.variant(), &line, real(arm.chips), bops),
        _ => findings.point(quantity, &arm.variant(), bops),
    }
}

/// All published arms, and dc3 with the standard table.
fn everything(lab: &mut Lab<'_>, seconds: u64, findings: &mut Findings) -> Result<(), Failure> {
    let mut best = 0.0_f64;
    let mut measure = |arm: &Arm, findings: &mut Findings| -> Result<f64, Failure> {
        let bops = arm.measure(lab, seconds, findings)?;
        if arm.machine == "dc3" {
            best = best.max(bops);
        }
        add(findings, arm, bops);
        Ok(bops)
    };
    for machine in ["ff2", "dc1"] {
        let own = Arm::of(machine, None);
        let [standard, extended] = [0, 1].map(|table| measure(&own.clone().with_table(table), findings));
        let (standard, extended) = (standard?, extended?);
        findings.point(TABLE_RATIO, machine, extended / standard);
        let chips = own.chips;
        let tuned = measure(&own.tuned(), findings)?;
        findings.point(PSETS_RATIO, &format!("{machine}, {chips} chips"), tuned / standard);
    }
    for chips in [24, 28, 32] {
        let untuned = measure(&Arm::of("dc3", Some(chips)), findings)?;
        let tuned = measure(&Arm::of("dc3", Some(chips)).tuned(), findings)?;
        findings.point(PSETS_RATIO, &format!("dc3, {chips} chips"), tuned / untuned);
        if chips == 24 {
            let standard = measure(&Arm::of("dc3", Some(chips)).tuned().with_table(0), findings)?;
            findings.point(TABLE_RATIO, "dc3, 24 chips, psets", tuned / standard);
        }
    }
    measure(&Arm { jvms: 32, ..Arm::of("dc3", None).tuned() }, findings)?;
    let [standard, extended] =
        [0, 1].map(|table| Arm::database(None, None).with_table(table)).map(|arm| measure(&arm, findings));
    findings.point(TABLE_RATIO, "ff2, database", extended? / standard?);
    findings.point(BOPS, "dc2 or dc3, the best of all", best);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_itself_unless_something_is_chosen() {
        let variant = |arm: Arm| arm.variant();
        assert_eq!(variant(Arm::of("ff2", None)), "ff2, 8 chips, 8 servers, standard table, untuned");
        assert_eq!(variant(Arm::of("dc1", None)), "dc1, 16 chips, 16 servers, standard table, untuned");
        assert_eq!(
            variant(Arm::of("dc3", Some(20)).tuned()),
            "dc3, 20 chips, 5 servers, extended table, psets, lgrp-aware"
        );
        assert_eq!(variant(Arm::database(None, None)), "ff2, 4 chips, database, standard table, untuned");
        assert_eq!(
            variant(Arm::database(Some("dc1"), Some(1))),
            "dc1, 1 chip, database, standard table, untuned"
        );
    }
}
