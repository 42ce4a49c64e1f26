//! The CPU cap that keeps a program from CPUs, and the part of its time.
//!
//! The simulator counts the wait for a cap for each thread. Linux counts for each group how long its run queues were throttled (T), and its
//! CPU time (R). While a run queue is throttled all its runnable threads wait. So T / (T + R) of the time in which threads want a CPU is a
//! wait for the cap.

use millpond_machine::facets::Controlled;
use millpond_machine::{Machine, Refusal};
use millpond_model::{
    ControlHolder, ControlSetting, CpuCap, HolderKind, Microstate, Nanos, Pid, Spent, State,
};
use std::collections::{BTreeMap, BTreeSet};

/// A cap, and its effect on the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Capping {
    /// The holder of the cap.
    pub holder: ControlHolder,
    /// The cap.
    pub cap: CpuCap,
    /// The part of the threads' runnable time in which caps kept them from a CPU.
    pub part: f64,
    /// The remedy: a command that this machine accepts, or the text to show in place of it.
    pub help: String,
}

/// The caps of each process.
pub type CapsByPid = BTreeMap<Pid, Vec<Controlled>>;

/// The caps that apply to each of these processes. A process that has ended has none.
pub fn read(machine: &dyn Machine, pids: &BTreeSet<Pid>) -> CapsByPid {
    let Ok(controls) = machine.controls() else { return CapsByPid::new() };
    pids.iter().filter_map(|pid| Some((*pid, controls.caps_of(*pid).ok()?))).collect()
}

/// The effect of caps on processes with these times, between two readings of the caps. The cap is the one with the
/// largest effect.
pub fn between(
    machine: &dyn Machine,
    before: &CapsByPid,
    after: &CapsByPid,
    spent: &BTreeMap<Pid, Spent>,
) -> Option<Capping> {
    let mut by_holder: BTreeMap<&ControlHolder, (CpuCap, f64, f64)> = BTreeMap::new();
    let (mut capped, mut wanted) = (0.0, 0.0);
    for (pid, spent) in spent {
        let time = |state: Microstate| spent.times[state.index()].unwrap_or(Nanos(0)).as_secs_f64();
        let ran = time(Microstate::User) + time(Microstate::System) + time(Microstate::Trap);
        let waited = spent.times[Microstate::Latency.index()].map(Nanos::as_secs_f64);
        let others = [Microstate::TextFault, Microstate::DataFault].map(time);
        wanted += ran + waited.unwrap_or(0.0) + others.iter().sum::<f64>();
        let (Some(old), Some(new)) = (before.get(pid), after.get(pid)) else { continue };
        let Some((holder, cap, part)) = worst(old, new, ran) else { continue };
        let lost = match (spent.capped, waited) {
            (Some(exact), _) => exact.as_secs_f64(),
            (None, Some(waited)) => (part * (ran + waited)).min(waited),
            (None, None) => {
                let lost = ran * part / (1.0 - part).max(f64::EPSILON);
                wanted += lost;
                lost
            }
        };
        capped += lost;
        let sum = by_holder.entry(holder).or_insert((cap, part, 0.0));
        (sum.1, sum.2) = (sum.1.max(part), sum.2 + lost);
    }
    let (holder, (cap, part, _)) = by_holder.into_iter().max_by(|a, b| a.1.2.total_cmp(&b.1.2))?;
    let help = remedy(machine, holder, cap, part);
    (capped > 0.0 && wanted > 0.0).then(|| Capping {
        holder: holder.clone(),
        cap,
        part: capped / wanted,
        help,
    })
}

/// The cap with the largest effect on a process, relative to the demand of its holder. `ran` is the CPU time of the
/// process, for a holder whose use is unknown.
fn worst<'c>(
    before: &[Controlled],
    after: &'c [Controlled],
    ran: f64,
) -> Option<(&'c ControlHolder, CpuCap, f64)> {
    let of = |now: &'c Controlled| {
        let old = before.iter().find(|old| old.holder == now.holder)?;
        let lost = now.lost_since(old)?.time.as_secs_f64();
        let used = now.used_since(old).map_or(ran, Nanos::as_secs_f64);
        (lost > 0.0).then(|| (&now.holder, now.cap, lost / (lost + used)))
    };
    let (holder, cap, part) = after.iter().filter_map(of).max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some((holder, cap?, part))
}

/// The command that sets the cap to the demand of the holder, if the machine accepts it. `part` is the part of the
/// demand that the cap denied.
fn remedy(machine: &dyn Machine, holder: &ControlHolder, cap: CpuCap, part: f64) -> String {
    let states =
        machine.processors().ok().and_then(|processors| processors.states().ok()).unwrap_or_default();
    let online = states.iter().filter(|status| status.state != State::OffLine).count();
    let most = u32::try_from(online.max(1)).unwrap_or(u32::MAX);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a percentage of few CPUs; a cast saturates"
    )]
    let wanted = (f64::from(cap.get()) / (1.0 - part).max(1e-6) / 10.0 - 1e-6).ceil() as u32;
    let wanted = wanted.saturating_mul(10).min(most.saturating_mul(100)).max(cap.get().saturating_add(10));
    let accepted = || -> Result<(), Refusal> {
        let to = CpuCap::new(wanted).ok();
        machine.controls()?.prepare_set(holder, ControlSetting::CpuCap(to)).map(drop)
    };
    match accepted() {
        Ok(()) => command(holder, wanted),
        Err(refusal) => match refusal.hint {
            Some(hint) => format!("a larger cap: {hint}"),
            None => format!("a larger cap, which cannot be set here: {}", refusal.reason),
        },
    }
}

/// The command that sets a cap.
fn command(holder: &ControlHolder, percent: u32) -> String {
    let (kind, name) = match holder {
        ControlHolder::Project(name) => (HolderKind::Project, shell_word(name)),
        ControlHolder::Zone(name) => (HolderKind::Zone, shell_word(name)),
        ControlHolder::Process(pid) => (HolderKind::Process, pid.to_string()),
    };
    format!("prctl -n {kind}.cpu-cap -v {percent} -r -i {kind} {name}")
}

/// A name, quoted for a shell if necessary.
fn shell_word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/@:+,%".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::facets::Throttled;

    fn controlled(name: &str, used: Option<u64>, lost: u64) -> Controlled {
        Controlled {
            holder: ControlHolder::Zone(name.to_owned()),
            shares: None,
            cap: CpuCap::new(20).ok(),
            used: used.map(Nanos::from_millis),
            throttled: Some(Throttled { time: Nanos::from_millis(lost), ..Throttled::default() }),
        }
    }

    #[test]
    fn the_cap_that_takes_the_largest_part_is_the_cause() {
        let before = [controlled("pod", Some(0), 0), controlled("app", Some(0), 0)];
        let after = [controlled("pod", Some(900), 100), controlled("app", Some(600), 2_400)];
        let (holder, cap, part) = worst(&before, &after, 0.6).unwrap();
        assert_eq!((holder.to_string().as_str(), cap.get()), ("zone app", 20));
        assert!((part - 0.8).abs() < 1e-9);
        // If the use of the group is unknown, that of the process counts.
        let (before, after) = ([controlled("app", None, 0)], [controlled("app", None, 2_400)]);
        assert!((worst(&before, &after, 0.6).unwrap().2 - 0.8).abs() < 1e-9);
        assert_eq!(worst(&before, &before, 0.6), None);
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        let zone = |name: &str| command(&ControlHolder::Zone(name.to_owned()), 100);
        assert_eq!(zone("nginx.service"), "prctl -n zone.cpu-cap -v 100 -r -i zone nginx.service");
        assert_eq!(zone("a;b 'c"), r"prctl -n zone.cpu-cap -v 100 -r -i zone 'a;b '\''c'");
        assert_eq!(
            command(&ControlHolder::Process(Pid(7)), 50),
            "prctl -n process.cpu-cap -v 50 -r -i process 7"
        );
    }
}
