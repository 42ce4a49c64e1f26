//! Names of OS noise: translates the kernel's numbers and addresses.

use super::symbols::Symbols;
use millpond_bpf::disturbances::{Kind, Origin, VECTORS, What};
use millpond_model::{Cause, DisturbanceKind, Doer};
use std::collections::BTreeMap;

/// Softirqs by number, named as in `/proc/softirqs`.
const SOFT: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The known names.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) symbols: Symbols,
    /// Devices by interrupt number.
    pub(super) devices: BTreeMap<String, String>,
}

impl Names {
    /// The named cause of an event that a BPF program recorded.
    pub(super) fn cause(&self, what: &What) -> Cause {
        let called = printable(&what.thread);
        let thread = (!called.is_empty()).then(|| called.clone());
        let function = || self.function(what.name);
        let (kind, name, by) = match what.kind {
            Kind::Device => (DisturbanceKind::Device, self.device(what.name), None),
            Kind::Vector => {
                let (kind, name) = vector(what.name);
                (kind, name.to_owned(), None)
            }
            Kind::Soft => (DisturbanceKind::Softirq, soft(what.name), None),
            Kind::Timer => {
                let name = function();
                // The clock tick is a timer, but has its own column.
                let kind =
                    if name.starts_with("tick_") { DisturbanceKind::Tick } else { DisturbanceKind::Timer };
                (kind, name, thread)
            }
            Kind::Work => (DisturbanceKind::Worker, function(), None),
            Kind::Kernel => (DisturbanceKind::Kthread, called, None),
            Kind::Task => (DisturbanceKind::Task, called, None),
            Kind::Fault => (DisturbanceKind::Fault, "page fault".to_owned(), thread),
            Kind::Nmi => (DisturbanceKind::Hardware, format!("NMI {}", function()), None),
            Kind::Call => (DisturbanceKind::Ipi, function(), thread),
            Kind::Nudge => (DisturbanceKind::Ipi, "reschedule".to_owned(), thread),
        };
        let doer = match what.whose {
            Origin::Others => Doer::Others,
            Origin::Job => Doer::Job,
            Origin::Watcher => Doer::Watcher,
        };
        Cause { kind, name, by, doer }
    }

    fn function(&self, address: u64) -> String {
        let hidden = if address == 0 { "unknown" } else { "hidden function" };
        self.symbols.name(address).filter(|_| address > 0).unwrap_or(hidden).to_owned()
    }

    fn device(&self, number: u64) -> String {
        self.devices.get(&number.to_string()).cloned().unwrap_or_else(|| format!("interrupt {number}"))
    }
}

/// Replaces control characters: the name of a thread can have any, even a line feed.
pub(super) fn printable(name: &str) -> String {
    name.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn soft(number: u64) -> String {
    let name = usize::try_from(number).ok().and_then(|number| SOFT.get(number));
    name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// An interrupt that is known by its vector only.
fn vector(number: u64) -> (DisturbanceKind, &'static str) {
    let index = usize::try_from(number).unwrap_or(0).saturating_sub(1);
    match VECTORS.get(index).copied().unwrap_or_default() {
        "local_timer" => (DisturbanceKind::Tick, "local timer"),
        "call_function" | "call_function_single" => (DisturbanceKind::Ipi, "function call"),
        "irq_work" => (DisturbanceKind::Ipi, "irq work"),
        "x86_platform_ipi" => (DisturbanceKind::Ipi, "platform"),
        "ipi" => (DisturbanceKind::Ipi, "inter-processor interrupt"),
        "thermal_apic" => (DisturbanceKind::Hardware, "thermal event"),
        "threshold_apic" => (DisturbanceKind::Hardware, "machine check threshold"),
        "deferred_error_apic" => (DisturbanceKind::Hardware, "deferred error"),
        "spurious_apic" => (DisturbanceKind::Hardware, "spurious interrupt"),
        _ => (DisturbanceKind::Hardware, "APIC error"),
    }
}

/// The kind of a row of `/proc/interrupts` that does not belong to a device. `None` if another row counts the same interrupts.
pub(super) fn internal(label: &str) -> Option<DisturbanceKind> {
    match label {
        "TLB" => None,
        "LOC" => Some(DisturbanceKind::Tick),
        "RES" | "CAL" | "IWI" => Some(DisturbanceKind::Ipi),
        label if label.starts_with("IPI") => Some(DisturbanceKind::Ipi),
        _ => Some(DisturbanceKind::Hardware),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(kind: Kind, name: u64, thread: &str) -> What {
        What { kind, whose: Origin::Others, name, thread: thread.into(), process: 0 }
    }

    #[test]
    fn numbers_and_addresses_have_words() {
        let devices = BTreeMap::from([("36".to_owned(), "virtio1-req.0".to_owned())]);
        let names = Names { devices, ..Names::default() };
        let said = |kind, name, thread| {
            let cause = names.cause(&what(kind, name, thread));
            format!("{} {} {}", cause.kind.word(), cause.name, cause.by.unwrap_or_default())
        };
        assert_eq!(said(Kind::Device, 36, ""), "device virtio1-req.0 ");
        assert_eq!(said(Kind::Device, 9, ""), "device interrupt 9 ");
        assert_eq!(said(Kind::Soft, 3, ""), "softirq NET_RX ");
        assert_eq!(said(Kind::Soft, 99, ""), "softirq 99 ");
        assert_eq!(said(Kind::Vector, 1, ""), "tick local timer ");
        assert_eq!(said(Kind::Vector, 9, ""), "hardware thermal event ");
        assert_eq!(said(Kind::Nudge, 0, "make"), "ipi reschedule make");
        assert_eq!(said(Kind::Call, 77, "insmod"), "ipi hidden function insmod");
        assert_eq!(said(Kind::Task, 0, "sshd"), "task sshd ");
        assert_eq!(said(Kind::Task, 0, "a\tb\n"), "task a?b ");
        assert_eq!(said(Kind::Kernel, 0, "rcu_preempt"), "kthread rcu_preempt ");
        assert_eq!(said(Kind::Fault, 0, "job"), "fault page fault job");
    }

    #[test]
    fn soft_interrupts_are_counted_from_nought() {
        assert_eq!(soft(0), "HI");
        assert_eq!(soft(9), "RCU");
    }

    #[test]
    fn what_is_in_two_rows_counts_once() {
        assert_eq!(internal("TLB"), None);
        assert_eq!(internal("CAL"), Some(DisturbanceKind::Ipi));
        assert_eq!(internal("MCE"), Some(DisturbanceKind::Hardware));
        assert_eq!(internal("IPI3"), Some(DisturbanceKind::Ipi));
    }
}
