//! The texts of a private view: the kernel's texts without the CPUs outside the view. Pure functions.
//!
//! CPUs keep their numbers. Figures of the whole machine (interrupts, context switches, the name of the hardware) are unchanged.

use millpond_model::{CpuId, CpuSet};
use std::fmt::Write as _;

/// The text of `/proc/cpuinfo` with only these CPUs.
///
/// On most architectures a CPU is a paragraph that begins with `processor : N`, on s390 with `cpu number : N`. A paragraph with
/// another first line describes the machine and is kept. The lines `processor N: …` and `# processors : N` of s390 are adapted.
#[must_use]
pub fn cpuinfo(text: &str, cpus: &CpuSet) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut keeps = true;
    let mut begins = true;
    for line in text.split_inclusive('\n') {
        let summary = summary_of(line);
        let blank = line.trim().is_empty();
        if begins && !blank {
            keeps = paragraph_of(line).is_none_or(|cpu| cpus.contains(cpu));
        }
        // A line of a single CPU does not decide which kind of paragraph this is.
        begins = blank || (begins && matches!(summary, Some(Summary::Processor(_))));
        match summary {
            _ if !keeps => {}
            Some(Summary::Processor(cpu)) if !cpus.contains(cpu) => {}
            Some(Summary::Count) => {
                let head = line.split_once(':').map_or(line, |(head, _)| head);
                // Writing to a `String` cannot fail.
                let _ = writeln!(shown, "{head}: {}", cpus.len());
            }
            _ => shown.push_str(line),
        }
    }
    shown
}

/// The CPU of the paragraph that begins with this line.
fn paragraph_of(line: &str) -> Option<CpuId> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim();
    let is = key == "processor" || key == "cpu number";
    is.then(|| value.trim().parse().ok().map(CpuId))?
}

/// A summary line: about one CPU, or the number of CPUs.
enum Summary {
    Processor(CpuId),
    Count,
}

fn summary_of(line: &str) -> Option<Summary> {
    let (key, _) = line.split_once(':')?;
    if key.trim() == "# processors" {
        return Some(Summary::Count);
    }
    let number = key.strip_prefix("processor ")?.trim();
    number.parse().ok().map(|cpu| Summary::Processor(CpuId(cpu)))
}

/// The text of `/proc/stat` with only these CPUs. Its first line is the sum of their lines.
#[must_use]
pub fn stat(text: &str, cpus: &CpuSet) -> String {
    let mut sums: Vec<u64> = Vec::new();
    for (_, line) in text.lines().filter_map(times_of).filter(|(cpu, _)| cpus.contains(*cpu)) {
        for (at, ticks) in line.split_ascii_whitespace().skip(1).enumerate() {
            let ticks = ticks.parse().unwrap_or(0u64);
            match sums.get_mut(at) {
                Some(sum) => *sum = sum.saturating_add(ticks),
                None => sums.push(ticks),
            }
        }
    }
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if let Some(times) = line.strip_prefix("cpu ") {
            // Without any CPU, the line keeps its number of columns, all zero.
            let columns = times.split_ascii_whitespace().count().max(sums.len());
            shown.push_str("cpu ");
            for at in 0..columns {
                let _ = write!(shown, " {}", sums.get(at).copied().unwrap_or(0));
            }
            shown.push('\n');
        } else if times_of(line).is_none_or(|(cpu, _)| cpus.contains(cpu)) {
            shown.push_str(line);
        }
    }
    shown
}

/// The CPU of a line of times.
fn times_of(line: &str) -> Option<(CpuId, &str)> {
    let number = line.strip_prefix("cpu")?.split_ascii_whitespace().next()?;
    let is_number = line.as_bytes().get(3).is_some_and(u8::is_ascii_digit);
    is_number.then(|| number.parse().ok().map(|cpu| (CpuId(cpu), line)))?
}

/// A CPU list in the kernel's format.
#[must_use]
pub fn list(cpus: &CpuSet) -> String {
    format!("{cpus}\n")
}

/// The CPU number in a directory name such as `cpu7`.
#[must_use]
pub fn directory_of(name: &str) -> Option<CpuId> {
    let digits = name.strip_prefix("cpu")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok().map(CpuId))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// Two CPUs of an x86 machine, shortened.
    const X86: &str = "processor\t: 0\nvendor_id\t: X\ncore id\t\t: 0\npower management:\n\n\
                       processor\t: 1\nvendor_id\t: X\ncore id\t\t: 1\npower management:\n\n\
                       processor\t: 10\nvendor_id\t: X\ncore id\t\t: 5\npower management:\n\n";

    #[test]
    fn cpuinfo_has_the_paragraphs_of_the_pool_with_their_numbers() {
        let ten = "processor\t: 10\nvendor_id\t: X\ncore id\t\t: 5\npower management:\n\n";
        assert_eq!(cpuinfo(X86, &set("10")), ten);
        assert_eq!(cpuinfo(X86, &set("0-31")), X86);
        assert_eq!(cpuinfo(X86, &set("7")), "");
    }

    #[test]
    fn paragraphs_about_the_machine_stay() {
        let arm = "processor\t: 0\nBogoMIPS\t: 38.4\n\nprocessor\t: 1\nBogoMIPS\t: 38.4\n\nHardware\t: Board\nRevision\t: 0000\n";
        let one = "processor\t: 1\nBogoMIPS\t: 38.4\n\nHardware\t: Board\nRevision\t: 0000\n";
        assert_eq!(cpuinfo(arm, &set("1")), one);
        let power =
            "processor\t: 0\ncpu\t\t: POWER9\n\nprocessor\t: 1\ncpu\t\t: POWER9\n\ntimebase\t: 512000000\n";
        assert_eq!(cpuinfo(power, &set("0")), "processor\t: 0\ncpu\t\t: POWER9\n\ntimebase\t: 512000000\n");
    }

    #[test]
    fn the_summary_of_s390_follows() {
        let whole = "vendor_id       : IBM/S390\n# processors    : 2\nbogomips per cpu: 3033.00\n\
                     processor 0: version = FF,  identification = 1\nprocessor 1: version = FF,  identification = 1\n\n\
                     cpu number      : 0\nversion         : FF\n\ncpu number      : 1\nversion         : FF\n\n";
        let one = "vendor_id       : IBM/S390\n# processors    : 1\nbogomips per cpu: 3033.00\n\
                   processor 1: version = FF,  identification = 1\n\ncpu number      : 1\nversion         : FF\n\n";
        assert_eq!(cpuinfo(whole, &set("1")), one);
    }

    const STAT: &str = "cpu  111 222 333 444 5 0 6 7 0 0\n\
                        cpu0 1 2 3 4 5 0 0 0 0 0\n\
                        cpu1 10 20 30 40 0 0 6 0 0 0\n\
                        cpu10 100 200 300 400 0 0 0 7 0 0\n\
                        intr 99 1 2 3\nctxt 1234\nbtime 1700000000\nprocesses 50\nprocs_running 1\nprocs_blocked 0\n\
                        softirq 9 1 2\n";

    #[test]
    fn the_total_is_the_sum_of_those_that_are_left() {
        let rest = STAT.split_once("intr").unwrap().1;
        let two = format!(
            "cpu  101 202 303 404 5 0 0 7 0 0\ncpu0 1 2 3 4 5 0 0 0 0 0\ncpu10 100 200 300 400 0 0 0 7 0 0\nintr{rest}"
        );
        assert_eq!(stat(STAT, &set("0,10")), two);
        assert_eq!(stat(STAT, &set("0-10")), STAT);
        assert_eq!(stat(STAT, &set("4")), format!("cpu  0 0 0 0 0 0 0 0 0 0\nintr{rest}"));
    }

    #[test]
    fn lists_and_directories_are_written_as_the_kernel_does() {
        assert_eq!(list(&set("0,1,2,5")), "0-2,5\n");
        assert_eq!(list(&CpuSet::new()), "\n");
        assert_eq!(directory_of("cpu12"), Some(CpuId(12)));
        for other in ["cpu", "cpufreq", "cpuidle", "cpu1x", "online", "cpu-1"] {
            assert_eq!(directory_of(other), None, "{other}");
        }
    }

    #[test]
    fn fuzz_what_is_left_out_is_left_out_once() {
        let seeds = [X86, STAT, "cpu number : 3\n\nprocessor 3: x\n# processors : 2\n"];
        millpond_fuzz::check_text("linux-view", &seeds, |text| {
            let some = set("0,10");
            let (info, times) = (cpuinfo(text, &some), stat(text, &some));
            assert_eq!(cpuinfo(&info, &some), info);
            assert_eq!(stat(&times, &some), times);
            assert!(!times.lines().any(|line| line.starts_with("cpu1 ")));
        });
    }
}
