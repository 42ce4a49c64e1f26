//! Event names and their kernel codes: names of Solaris, generic PAPI names, names of `perf`, names that the kernel lists for its
//! CPUs, and raw codes.

use super::pmu::Pmus;
use millpond_formats::events::c_integer;
use millpond_model::CpuSet;
use perf_event_open_sys::bindings as sys;

/// The counter of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A register of the CPU.
    Hardware,
    /// The kernel.
    Software,
}

/// An event, as the kernel encodes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) name: String,
    pub(super) sort: Sort,
    pub(super) type_: u32,
    /// `config`, `config1`, `config2`.
    pub(super) config: [u64; 3],
    /// The CPUs that have it; `None` for all.
    pub(super) cpus: Option<CpuSet>,
    pub(super) user: bool,
    pub(super) sys: bool,
}

impl Code {
    fn new(name: &str, sort: Sort, type_: u32, config: u64) -> Code {
        let name = name.to_owned();
        Code { name, sort, type_, config: [config, 0, 0], cpus: None, user: true, sys: false }
    }

    /// Cycles, which every CPU with counters can count.
    pub(super) fn of_cycles() -> Code {
        Code::new("cycles", Sort::Hardware, sys::PERF_TYPE_HARDWARE, HARDWARE[0].2)
    }
}

/// The `perf` name, the generic Solaris name (or empty), and the kernel's number.
type Row = (&'static str, &'static str, u64);

const HARDWARE: [Row; 10] = [
    ("cycles", "PAPI_tot_cyc", sys::PERF_COUNT_HW_CPU_CYCLES as u64),
    ("instructions", "PAPI_tot_ins", sys::PERF_COUNT_HW_INSTRUCTIONS as u64),
    ("cache-references", "PAPI_l3_tca", sys::PERF_COUNT_HW_CACHE_REFERENCES as u64),
    ("cache-misses", "PAPI_l3_tcm", sys::PERF_COUNT_HW_CACHE_MISSES as u64),
    ("branches", "PAPI_br_ins", sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS as u64),
    ("branch-misses", "PAPI_br_msp", sys::PERF_COUNT_HW_BRANCH_MISSES as u64),
    ("bus-cycles", "", sys::PERF_COUNT_HW_BUS_CYCLES as u64),
    ("stalled-cycles-frontend", "", sys::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND as u64),
    ("stalled-cycles-backend", "PAPI_res_stl", sys::PERF_COUNT_HW_STALLED_CYCLES_BACKEND as u64),
    ("ref-cycles", "", sys::PERF_COUNT_HW_REF_CPU_CYCLES as u64),
];

/// Packs a cache, an operation (0 read, 1 write) and the miss flag into the kernel's format.
const fn cache(id: u64, operation: u64, missed: u64) -> u64 {
    id | operation << 8 | missed << 16
}

const CACHES: [Row; 8] = [
    ("L1-dcache-loads", "PAPI_l1_dcr", cache(0, 0, 0)),
    ("L1-dcache-load-misses", "PAPI_l1_ldm", cache(0, 0, 1)),
    ("L1-dcache-stores", "PAPI_l1_dcw", cache(0, 1, 0)),
    ("L1-icache-load-misses", "PAPI_l1_icm", cache(1, 0, 1)),
    ("LLC-loads", "", cache(2, 0, 0)),
    ("LLC-load-misses", "PAPI_l3_ldm", cache(2, 0, 1)),
    ("dTLB-load-misses", "PAPI_tlb_dm", cache(3, 0, 1)),
    ("iTLB-load-misses", "PAPI_tlb_im", cache(4, 0, 1)),
];

/// Names from the examples of the Solaris manuals.
const SOLARIS: [Row; 2] = [("Cycle_cnt", "", HARDWARE[0].2), ("Instr_cnt", "", HARDWARE[1].2)];

const SOFTWARE: [Row; 9] = [
    ("context-switches", "", sys::PERF_COUNT_SW_CONTEXT_SWITCHES as u64),
    ("cpu-migrations", "", sys::PERF_COUNT_SW_CPU_MIGRATIONS as u64),
    ("page-faults", "", sys::PERF_COUNT_SW_PAGE_FAULTS as u64),
    ("minor-faults", "", sys::PERF_COUNT_SW_PAGE_FAULTS_MIN as u64),
    ("major-faults", "", sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ as u64),
    ("alignment-faults", "", sys::PERF_COUNT_SW_ALIGNMENT_FAULTS as u64),
    ("emulation-faults", "", sys::PERF_COUNT_SW_EMULATION_FAULTS as u64),
    ("cpu-clock", "", sys::PERF_COUNT_SW_CPU_CLOCK as u64),
    ("task-clock", "", sys::PERF_COUNT_SW_TASK_CLOCK as u64),
];

/// The event of a name or raw code. Case is ignored in generic names.
pub(super) fn find(name: &str, pmus: &Pmus) -> Option<Code> {
    let tables: [(&[Row], Sort, u32); 4] = [
        (&HARDWARE, Sort::Hardware, sys::PERF_TYPE_HARDWARE),
        (&CACHES, Sort::Hardware, sys::PERF_TYPE_HW_CACHE),
        (&SOLARIS, Sort::Hardware, sys::PERF_TYPE_HARDWARE),
        (&SOFTWARE, Sort::Software, sys::PERF_TYPE_SOFTWARE),
    ];
    for (rows, sort, type_) in tables {
        let is_it = |row: &&Row| row.0 == name || (!row.1.is_empty() && row.1.eq_ignore_ascii_case(name));
        if let Some(row) = rows.iter().find(is_it) {
            return Some(Code::new(name, sort, type_, row.2));
        }
    }
    if let Some((pmu, config)) = pmus.find(name) {
        let code = Code::new(name, Sort::Hardware, pmu.type_, 0);
        return Some(Code { config, cpus: pmu.cpus.clone(), ..code });
    }
    let hex = name.strip_prefix('r').filter(|digits| !digits.starts_with('+'));
    let raw = hex.and_then(|digits| u64::from_str_radix(digits, 16).ok()).or_else(|| c_integer(name))?;
    Some(Code::new(name, Sort::Hardware, sys::PERF_TYPE_RAW, raw))
}

/// Names with the same meaning on all platforms.
pub(super) fn generic() -> Vec<String> {
    let rows = HARDWARE.iter().chain(&CACHES);
    rows.filter(|row| !row.1.is_empty()).map(|row| row.1.to_owned()).collect()
}

/// Names of hardware events.
pub(super) fn platform(pmus: &Pmus) -> Vec<String> {
    let tables = SOLARIS.iter().chain(&HARDWARE).chain(&CACHES);
    let mut names: Vec<String> = tables.map(|row| row.0.to_owned()).collect();
    for name in pmus.names() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Names of software events.
pub(super) fn software() -> Vec<String> {
    SOFTWARE.iter().map(|row| row.0.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Option<(u32, u64)> {
        find(name, &Pmus::default()).map(|code| (code.type_, code.config[0]))
    }

    #[test]
    fn an_event_has_the_names_of_several_worlds() {
        // Type numbers of the kernel's interface: 0 hardware, 1 software, 3 caches, 4 raw.
        for name in ["Cycle_cnt", "cycles", "PAPI_tot_cyc", "PAPI_TOT_CYC"] {
            assert_eq!(found(name), Some((0, 0)), "{name}");
        }
        for name in ["Instr_cnt", "instructions", "PAPI_tot_ins"] {
            assert_eq!(found(name), Some((0, 1)), "{name}");
        }
        assert_eq!(found("context-switches"), Some((1, 3)));
        assert_eq!(found("LLC-load-misses"), Some((3, 0x1_0002)));
    }

    #[test]
    fn codes_are_raw_events() {
        for code in ["r3c", "0x3c", "60", "074"] {
            assert_eq!(found(code), Some((4, 0x3c)), "{code}");
        }
        for nothing in ["", "r", "rxyz", "r+1", "CYCLES", "cycle", "-1", "09"] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn every_name_that_is_listed_is_known() {
        let pmus = Pmus::default();
        for name in [generic(), platform(&pmus), software()].concat() {
            assert!(find(&name, &pmus).is_some(), "{name}");
        }
    }
}
