//! Counters of CPUs: one group per CPU and set.

use super::catalogue::Code;
use super::group::{Group, Whom};
use super::refused;
use crate::Os;
use crate::counters::{allow_descriptors, now};
use millpond_machine::facets::{CpuCounting, CpuReading};
use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{CpuId, CpuSet};

/// Name of the constant-rate cycle counter, where programs can read one.
pub(super) const TICK: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("tsc")
} else if cfg!(target_arch = "aarch64") {
    Some("cntvct")
} else {
    None
};

/// Current value of that counter. It is synchronised across CPUs.
fn tick() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of this architecture has the instruction, which reads a register.
    let tick = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    let tick = {
        let value: u64;
        // SAFETY: the kernel allows programs to read this register. It is only read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let tick = 0;
    tick
}

/// The counters of one CPU.
struct One {
    cpu: CpuId,
    /// One group per set.
    groups: Vec<Group>,
    /// Why the counters cannot be read any more.
    lost: Option<String>,
}

/// The counters of several CPUs.
pub(super) struct Cpus<'a> {
    os: &'a Os,
    all: Vec<One>,
    set: usize,
}

impl<'a> Cpus<'a> {
    /// Opens all counters, stopped.
    pub(super) fn open(os: &'a Os, cpus: &[CpuId], sets: &[Vec<Code>]) -> Result<Self, Refusal> {
        let events: usize = sets.iter().map(Vec::len).sum();
        allow_descriptors((cpus.len() * events) as u64);
        let online = online(os);
        let mut all = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let subject = Subject::Processor(*cpu);
            if !online.contains(*cpu) {
                return Err(Refusal::new(subject, Reason::Machine("it is off-line".to_owned())));
            }
            let mut groups = Vec::with_capacity(sets.len());
            for set in sets {
                fits(*cpu, set)?;
                let group = Group::open(Whom::Cpu(*cpu), set);
                groups.push(group.map_err(|(at, error)| refused(subject.clone(), set, at, &error))?);
            }
            all.push(One { cpu: *cpu, groups, lost: None });
        }
        Ok(Cpus { os, all, set: 0 })
    }
}

/// Whether a CPU is of the type that has these events.
fn fits(cpu: CpuId, set: &[Code]) -> Result<(), Refusal> {
    let elsewhere = |code: &&Code| code.cpus.as_ref().is_some_and(|cpus| !cpus.contains(cpu));
    let Some(code) = set.iter().find(elsewhere) else { return Ok(()) };
    let cpus = code.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
    let why = format!("it is of another type than those that have event '{}' (CPUs {cpus})", code.name);
    let refusal = Refusal::new(Subject::Processor(cpu), Reason::Machine(why));
    Err(refusal.hint("bind to a set of those CPUs alone, and count there (psrset -e)"))
}

fn online(os: &Os) -> CpuSet {
    os.online().unwrap_or_default()
}

impl CpuCounting for Cpus<'_> {
    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        let before = self.set;
        self.set = set;
        for one in self.all.iter_mut().filter(|one| one.lost.is_none()) {
            let stopped = one.groups.get(before).map_or(Ok(()), Group::stop);
            let started = stopped.and_then(|()| one.groups.get_mut(set).map_or(Ok(()), Group::start));
            if let Err(error) = started {
                one.lost = Some(why_lost(&error));
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Vec<CpuReading> {
        let online = online(self.os);
        let set = self.set;
        let read = |one: &mut One| {
            if one.lost.is_none() && !online.contains(one.cpu) {
                one.lost = Some("it went off-line".to_owned());
            }
            let counted = match (&one.lost, one.groups.get(set)) {
                (Some(why), _) => Err(why.clone()),
                (None, None) => Ok(millpond_model::Counted::default()),
                (None, Some(group)) => group.read().map_err(|error| why_lost(&error)),
            };
            if let Err(why) = &counted {
                one.lost = Some(why.clone());
                one.groups.clear();
            }
            CpuReading { cpu: one.cpu, at: now(), tick: tick(), counted }
        };
        self.all.iter_mut().map(read).collect()
    }
}

fn why_lost(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENODEV) => "it was off-line meanwhile".to_owned(),
        _ => format!("its counters cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_one_type_of_processor_is_refused_on_another() {
        let code =
            Code { name: "cpu_core/x/".into(), cpus: Some("0-3".parse().unwrap()), ..Code::of_cycles() };
        assert!(fits(CpuId(3), std::slice::from_ref(&code)).is_ok());
        let refusal = fits(CpuId(4), &[Code::of_cycles(), code]).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "CPU 4: it is of another type than those that have event 'cpu_core/x/' (CPUs 0-3)"
        );
    }
}
