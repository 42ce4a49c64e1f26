//! Interrupts of the set's CPUs, by source. This answers the question that the published text leaves open.

use millpond_model::{CpuSet, InterruptCount};
use serde::Serialize;

/// A cause of interrupts on the CPUs of the set.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Cause {
    /// Its name, as the machine has it.
    pub name: String,
    /// Whether it is internal to the kernel, so that device interrupt affinity does not affect it.
    pub is_internal: bool,
    /// Interrupts per second, on all CPUs of the set together.
    pub rate: f64,
    /// Interrupts per second, on all other CPUs together.
    pub elsewhere: f64,
}

/// Interrupts of the CPUs of `set` between two readings, and of devices on other CPUs; most frequent on the set first.
#[must_use]
pub fn causes(before: &[InterruptCount], after: &[InterruptCount], set: &CpuSet, seconds: f64) -> Vec<Cause> {
    let total = |counts: &[InterruptCount], name: &str, on_set: bool| -> u64 {
        let named = counts.iter().filter(|count| count.name == name).flat_map(|count| &count.counts);
        named.filter(|(cpu, _)| set.contains(**cpu) == on_set).map(|(_, count)| count).sum()
    };
    let rate = |name: &str, on_set: bool| {
        let events = total(after, name, on_set).saturating_sub(total(before, name, on_set));
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        if seconds > 0.0 { f64::from(events) / seconds } else { 0.0 }
    };
    let mut causes: Vec<Cause> = Vec::new();
    for count in after {
        if causes.iter().all(|cause| cause.name != count.name) {
            let (rate, elsewhere) = (rate(&count.name, true), rate(&count.name, false));
            causes.push(Cause { name: count.name.clone(), is_internal: count.is_internal, rate, elsewhere });
        }
    }
    causes.retain(|cause| cause.rate > 0.0 || (!cause.is_internal && cause.elsewhere > 0.0));
    causes.sort_by(|a, b| {
        let by_rate = b.rate.total_cmp(&a.rate).then(b.elsewhere.total_cmp(&a.elsewhere));
        by_rate.then_with(|| a.name.cmp(&b.name))
    });
    causes
}

/// Why CPUs of a no-intr set show interrupts, from the counts while a program ran in the set.
#[must_use]
pub fn answer(causes: &[Cause]) -> String {
    let total: f64 = causes.iter().map(|cause| cause.rate).sum();
    if total <= 0.0 {
        return "nothing interrupted the CPUs of the set".to_owned();
    }
    let percent = |cause: &Cause| 100.0 * cause.rate / total;
    let most = causes.iter().filter(|cause| percent(cause) >= 0.5).take(4);
    let named: Vec<String> = most.map(|cause| format!("{} ({:.0} %)", cause.name, percent(cause))).collect();
    let devices = causes.iter().filter(|cause| !cause.is_internal && cause.rate > 0.0);
    let devices: Vec<String> =
        devices.map(|cause| format!("{} ({:.1} a second)", cause.name, cause.rate)).collect();
    let rest = if devices.is_empty() {
        "none of it came from a device: shelter steers devices away, but not the clock of a CPU that runs a \
         thread, nor the calls of other CPUs that wake that thread when a packet came for it"
            .to_owned()
    } else {
        format!("devices among them: {}", devices.join(", "))
    };
    format!("the CPUs of the set were interrupted {total:.0} times a second: {}; {rest}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;

    fn count(name: &str, is_internal: bool, counts: [u64; 3]) -> InterruptCount {
        let counts = counts.into_iter().zip(0..).map(|(count, cpu)| (CpuId(cpu), count)).collect();
        InterruptCount { label: String::new(), name: name.into(), is_internal, counts }
    }

    #[test]
    fn only_the_sets_processors_count_and_the_most_comes_first() {
        let before = [count("eth0", false, [5, 5, 5]), count("clock", true, [100, 100, 100])];
        let after = [
            count("eth0", false, [9, 5, 900]),
            count("clock", true, [200, 300, 100]),
            count("calls", true, [0, 20, 50]),
            count("nothing", true, [0, 0, 7]),
            count("eth1", false, [0, 0, 8]),
            count("disk", false, [0, 0, 0]),
        ];
        let set = [CpuId(0), CpuId(1)].into_iter().collect();
        let found = causes(&before, &after, &set, 2.0);
        let listed: Vec<_> =
            found.iter().map(|cause| (cause.name.as_str(), cause.rate, cause.elsewhere)).collect();
        assert_eq!(
            listed,
            [("clock", 150.0, 0.0), ("calls", 10.0, 25.0), ("eth0", 2.0, 447.5), ("eth1", 0.0, 4.0)]
        );
        assert_eq!(
            answer(&found),
            "the CPUs of the set were interrupted 162 times a second: clock (93 %), calls (6 %), eth0 (1 %); \
             devices among them: eth0 (2.0 a second)"
        );
    }

    #[test]
    fn a_device_that_interrupts_others_is_no_cause_here() {
        let clock = Cause { name: "clock".into(), is_internal: true, rate: 2.0, elsewhere: 0.0 };
        let card = Cause { name: "eth0".into(), is_internal: false, rate: 0.0, elsewhere: 900.0 };
        assert!(answer(&[clock, card.clone()]).contains("2 times a second: clock (100 %); none of it came"));
        assert_eq!(answer(&[card]), "nothing interrupted the CPUs of the set");
    }

    #[test]
    fn where_no_device_is_among_them_the_reason_is_told() {
        let found =
            [Cause { name: "Local timer interrupts".into(), is_internal: true, rate: 250.0, elsewhere: 1.0 }];
        let said = answer(&found);
        assert!(said.starts_with(
            "the CPUs of the set were interrupted 250 times a second: Local timer interrupts (100 %); \
             none of it came from a device: "
        ));
        assert_eq!(answer(&[]), "nothing interrupted the CPUs of the set");
    }
}
