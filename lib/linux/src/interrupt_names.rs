//! Interrupt counts by name and CPU, from `/proc/interrupts`. Names the interrupts that disturb a CPU. Mere totals are read
//! elsewhere, at lower cost.

use crate::Root;
use millpond_model::{CpuId, InterruptCount};
use std::collections::BTreeMap;
use std::io;

/// The name of an interrupt without a driver.
pub(crate) const UNUSED: &str = "unused";

/// All interrupts that the machine under `root` counts.
///
/// # Errors
/// The error of reading the file. A missing file is an empty list.
pub fn interrupt_counts(root: &Root) -> io::Result<Vec<InterruptCount>> {
    Ok(parse(&root.read(&root.proc.join("interrupts"))?.unwrap_or_default()))
}

/// The device names of an interrupt.
pub(crate) fn device_name(root: &Root, irq: u32) -> String {
    let dir = &root.proc.join(format!("irq/{irq}"));
    let actions: Vec<String> =
        root.names(dir).unwrap_or_default().into_iter().filter(|n| dir.join(n).is_dir()).collect();
    if actions.is_empty() { UNUSED.to_owned() } else { actions.join(", ") }
}

/// One row per interrupt: a label, a count for each CPU of the header line, words. Rows of the whole machine (`ERR`, `MIS`) have
/// fewer counts than CPUs and are left out, if that is visible.
fn parse(text: &str) -> Vec<InterruptCount> {
    let mut lines = text.lines();
    let heads = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<CpuId> =
        heads.filter_map(|head| head.strip_prefix("CPU")?.parse().ok()).map(CpuId).collect();
    lines.filter_map(|line| parse_row(line, &cpus)).collect()
}

fn parse_row(line: &str, cpus: &[CpuId]) -> Option<InterruptCount> {
    let (label, rest) = line.split_once(':')?;
    let label = label.trim();
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let numbers = words.get(..cpus.len())?;
    let counts = cpus.iter().copied().zip(numbers.iter().map(|word| word.parse::<u64>()));
    let counts = counts.map(|(cpu, count)| Some((cpu, count.ok()?))).collect::<Option<BTreeMap<_, _>>>()?;
    let behind = &words[cpus.len()..];
    let is_internal = !label.starts_with(|c: char| c.is_ascii_digit());
    if matches!(label, "ERR" | "Err" | "MIS") {
        return None;
    }
    let name = match (is_internal, behind) {
        (_, []) => label.to_owned(),
        (true, words) => words.join(" "),
        // The device names are last, after chip, number and trigger.
        (false, words) => device(words).unwrap_or_else(|| format!("interrupt {label}")),
    };
    Some(InterruptCount { label: label.to_owned(), name, is_internal, counts })
}

/// The device names of a row. Before them the kernel prints the chip, the hardware number, a trigger and the name of the flow
/// handler, each only if it exists:
///
/// ```text
/// PCI-MSIX-0000:00:01.0   0-edge      virtio0-config     number and flow
/// xen-dyn    -event     vif0-q0-tx                       flow
/// GICv3  27 Level     arch_timer                         number and trigger
/// MIPS   7  timer                                        number
/// ```
fn device(words: &[&str]) -> Option<String> {
    let is_trigger = |word: &str| word.eq_ignore_ascii_case("edge") || word.eq_ignore_ascii_case("level");
    let is_flow = |word: &str| {
        word.split_once('-')
            .is_some_and(|(n, flow)| !flow.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let behind_chip = || words.iter().enumerate().skip(1);
    let last = behind_chip()
        .find(|(_, word)| is_trigger(word) || is_flow(word))
        .or_else(|| behind_chip().find(|(at, word)| is_number(word) && at + 1 < words.len()));
    let devices = words.get(last.map_or(1, |(at, _)| at + 1)..).filter(|words| !words.is_empty())?;
    Some(devices.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The format of an x86 virtual machine with kernel 6.18.
    const X86: &str = "           CPU0       CPU1       \n\
        \x20 4:          0         15  IO-APIC   4-edge      ttyS0\n\
        \x2025:          2          7 PCI-MSIX-0000:00:01.0   0-edge      virtio0-input.0\n\
        \x2026:          0          1 PCI-MSI 524288-edge      nvme0q0, nvme1q0\n\
        \x2027:          3          0   IO-APIC\n\
        NMI:          0          0   Non-maskable interrupts\n\
        LOC:      38936      44849   Local timer interrupts\n\
        ERR:          5\n\
        MIS:          0\n";

    #[test]
    fn causes_have_the_names_that_the_kernel_gives_them() {
        let found: Vec<(String, bool, u64, u64)> = parse(X86)
            .into_iter()
            .map(|row| (row.name, row.is_internal, row.counts[&CpuId(0)], row.counts[&CpuId(1)]))
            .collect();
        let expected = [
            ("ttyS0", false, 0, 15),
            ("virtio0-input.0", false, 2, 7),
            ("nvme0q0, nvme1q0", false, 0, 1),
            ("interrupt 27", false, 3, 0),
            ("Non-maskable interrupts", true, 0, 0),
            ("Local timer interrupts", true, 38936, 44849),
        ];
        assert_eq!(found, expected.map(|(name, internal, a, b)| (name.to_owned(), internal, a, b)));
    }

    #[test]
    fn on_arm_the_trigger_is_a_word_of_its_own() {
        let rows = parse(
            "   CPU0 CPU3\n 11: 500 600 GICv3 27 Level arch_timer\nIPI0: 3 4 Rescheduling interrupts\n",
        );
        let names: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.is_internal)).collect();
        assert_eq!(names, [("arch_timer", false), ("Rescheduling interrupts", true)]);
        assert_eq!(rows[0].counts[&CpuId(3)], 600);
    }

    #[test]
    fn rows_of_all_forms_show_their_device() {
        for (row, name) in [
            ("xen-dyn    -event     vif0-q0-tx", "vif0-q0-tx"),
            ("xen-percpu    -virq      timer0", "timer0"),
            ("xen-pirq    -msi-x     nvme0q1", "nvme0q1"),
            ("xen-pirq   9-ioapic-level  acpi", "acpi"),
            ("xen-dyn-event     eth0", "eth0"),
            ("MIPS   7  timer", "timer"),
            ("MIPS GIC  63  IPI call", "IPI call"),
            ("RISC-V INTC   5 Edge      riscv-timer", "riscv-timer"),
            ("SiFive PLIC  39 Edge      ttyS0", "ttyS0"),
            ("GICv2  29 Level     pcie-bridge", "pcie-bridge"),
            ("IO-APIC   9-fasteoi   acpi", "acpi"),
            ("IO-APIC-edge      timer", "timer"),
            ("IR-PCI-MSI-0000:00:1c.0    0-edge      PCIe bwctrl, pciehp", "PCIe bwctrl, pciehp"),
            ("XICS   16 Edge      IPI", "IPI"),
            ("mpic   7", "7"),
        ] {
            let rows = parse(&format!("  CPU0 CPU1\n 24: 1 2 {row}\n"));
            assert_eq!(rows[0].name, name, "{row}");
        }
    }

    #[test]
    fn fuzz_names_of_interrupts() {
        let arm = "   CPU0 CPU3\n 11: 500 600 GICv3 27 Level arch_timer\nIPI0: 3 4 Rescheduling interrupts\n";
        millpond_fuzz::check_text("linux-interrupt-names", &[X86, arm], |text| {
            for row in parse(text) {
                assert!(
                    !row.name.is_empty() || text.lines().any(|line| line.trim_start().starts_with(':')),
                    "{row:?}"
                );
            }
        });
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "( *CPU[0-9]{1,4}){0,3}\n( *[A-Z0-9]{1,3}:( +[0-9a-z-]{1,6}){0,6}\n){0,4}") {
            let _ = parse(&text);
        }
    }
}
