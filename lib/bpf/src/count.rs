//! Event counters per CPU, for `mpstat`.

use crate::image::image;
use crate::{Image, MappedWords, Object, Refused};
use std::os::fd::BorrowedFd;

const IMAGE: Image = image!("count");

/// Words per CPU: two cache lines, to avoid false sharing between CPUs.
const ROW_WORDS: usize = 16;

/// The columns, in the order of a row; `enum column` of the program has the same.
pub const COLUMNS: [&str; 11] =
    ["minf", "mjf", "xcal", "intr", "ithr", "csw", "icsw", "migr", "smtx", "srw", "syscl"];

/// What each program counts, as indices of [`COLUMNS`]. A program has the name of its tracepoint.
const COUNTS: [(&str, &[usize]); 23] = [
    ("sched_switch", &[5, 6]),
    ("sched_migrate_task", &[7]),
    ("softirq_entry", &[4]),
    ("irq_handler_exit", &[4]),
    ("ipi_send_cpu", &[2]),
    ("ipi_send_cpumask", &[2]),
    ("contention_begin", &[8, 9]),
    ("sys_enter", &[10]),
    ("page_fault_user", &[0]),
    ("page_fault_kernel", &[0]),
    (DEVICES, &[3]),
    ("ipi_entry", &[3]),
    ("local_timer_entry", &[3]),
    ("reschedule_entry", &[3]),
    ("call_function_entry", &[3]),
    ("call_function_single_entry", &[3]),
    ("irq_work_entry", &[3]),
    ("x86_platform_ipi_entry", &[3]),
    ("spurious_apic_entry", &[3]),
    ("error_apic_entry", &[3]),
    ("thermal_apic_entry", &[3]),
    ("threshold_apic_entry", &[3]),
    ("deferred_error_apic_entry", &[3]),
];

/// The tracepoint of device interrupts, which exists everywhere; the set of the others depends on the architecture.
const DEVICES: &str = "irq_handler_entry";

/// The program for a per-CPU perf event.
const EVENT: &str = "major_fault";

/// The attached programs.
#[derive(Debug)]
pub struct Counting {
    object: Object,
    words: MappedWords,
    /// By column: the tracepoints where it is counted; empty if it cannot be counted.
    places: [Vec<&'static str>; COLUMNS.len()],
}

impl Counting {
    /// Loads and attaches every program that this kernel accepts. `processors` is the number of CPUs.
    ///
    /// # Errors
    /// [`Refused`] if nothing can be counted.
    pub fn open(processors: u32) -> Result<Counting, Refused> {
        let mut object = Object::open(IMAGE, |opened| opened.set_entries("rows", processors.max(1)))?;
        let words = object.words("rows", processors.max(1) as usize * ROW_WORDS)?;
        let results: Vec<_> =
            COUNTS.iter().map(|&(name, columns)| (name, columns, object.attach(name))).collect();
        if let (true, Some((_, _, Err(why)))) =
            (results.iter().all(|(_, _, done)| done.is_err()), results.first())
        {
            return Err(why.clone());
        }
        let places = std::array::from_fn(|column| places(column, &results));
        Ok(Counting { object, words, places })
    }

    /// The names of the tracepoints where a column is counted; empty if it is not counted.
    ///
    /// # Panics
    /// If `column` is out of range.
    #[must_use]
    pub fn places(&self, column: usize) -> &[&'static str] {
        &self.places[column]
    }

    /// The count of a column on a CPU since the programs were attached.
    #[must_use]
    pub fn get(&self, processor: u32, column: usize) -> u64 {
        self.words.get((processor as usize).saturating_mul(ROW_WORDS).saturating_add(column))
    }

    /// The program that counts major faults (column 1) when a CPU's perf event runs it.
    ///
    /// # Errors
    /// [`Refused`] if it is missing.
    pub fn event_program(&self) -> Result<BorrowedFd<'_>, Refused> {
        self.object.program(EVENT)
    }
}

type Attempt = (&'static str, &'static [usize], Result<(), Refused>);

/// Where a column is counted; empty unless every program that it needs is attached.
fn places(column: usize, results: &[Attempt]) -> Vec<&'static str> {
    let needed = || results.iter().filter(|(_, columns, _)| columns.contains(&column));
    let may_lack = |name: &str, columns: &[usize]| columns == [3] && name != DEVICES;
    if needed().any(|(name, columns, done)| done.is_err() && !may_lack(name, columns)) {
        return Vec::new();
    }
    needed().filter(|(_, _, done)| done.is_ok()).map(|(name, _, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_as_in_the_program() {
        let source = include_str!("../programs/count/count.bpf.c");
        let list = source.split_once("enum column {").and_then(|(_, rest)| rest.split_once('}')).unwrap().0;
        let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
        assert_eq!(names[..COLUMNS.len()], COLUMNS);
        assert_eq!(names[COLUMNS.len()..], ["columns"]);
    }

    #[test]
    fn each_program_is_known_by_its_name() {
        let source = include_str!("../programs/count/count.bpf.c");
        for (name, _) in COUNTS {
            assert!(
                source.contains(&format!("TRACEPOINT({name})"))
                    || source.contains(&format!("COUNT_EACH({name}, ")),
                "{name}"
            );
        }
    }

    #[test]
    fn a_column_needs_all_its_programs_but_other_machines_have_other_interrupts() {
        let gone = || Err(Refused::NoSuchPlace);
        let results: [Attempt; 5] = [
            ("softirq_entry", &[4], Ok(())),
            ("irq_handler_exit", &[4], gone()),
            (DEVICES, &[3], Ok(())),
            ("ipi_entry", &[3], gone()),
            ("local_timer_entry", &[3], Ok(())),
        ];
        assert_eq!(places(4, &results), [""; 0]);
        assert_eq!(places(3, &results), [DEVICES, "local_timer_entry"]);
        assert_eq!(places(3, &[(DEVICES, &[3], gone()), ("local_timer_entry", &[3], Ok(()))]), [""; 0]);
    }
}
