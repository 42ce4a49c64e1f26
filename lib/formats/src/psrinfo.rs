//! The listings of `psrinfo`.

use crate::print_time;
use jiff::tz::TimeZone;
use millpond_model::{Core, CpuId, CpuSet, Processor, State, Topology, WallTime};
use std::cmp::Reverse;

/// One line of the plain listing: `3\toff-line  since 11/20/2024 10:05:17`.
#[must_use]
pub fn line(cpu: CpuId, state: State, since: WallTime, zone: &TimeZone) -> String {
    format!("{cpu}\t{state:<8}  since {}", print_time(since, zone))
}

/// The paragraph of `-v` for one CPU: four lines with newlines.
#[must_use]
pub fn paragraph(
    processor: &Processor,
    state: State,
    since: WallTime,
    now: WallTime,
    zone: &TimeZone,
) -> String {
    let Processor { id, isa, clock_mhz, fpu, .. } = processor;
    let clock = match clock_mhz {
        Some(mhz) => format!("{mhz} MHz"),
        None => "an unknown frequency".to_owned(),
    };
    let fpu = match fpu {
        Some(name) => format!("{} {name} floating point processor", article(name)),
        None => "no floating point processor".to_owned(),
    };
    format!(
        "Status of virtual processor {id} as of: {now}\n  {state} since {since}.\n  \
         The {isa} processor operates at {clock},\n\tand has {fpu}.\n",
        now = print_time(now, zone),
        since = print_time(since, zone),
    )
}

/// `y` counts as a vowel here, as in the output of Solaris.
fn article(name: &str) -> &'static str {
    match name.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('a' | 'e' | 'i' | 'o' | 'u' | 'y') => "an",
        _ => "a",
    }
}

/// A list of CPUs in headlines: a blank, then runs in parentheses: ` (0-3 8)`.
#[must_use]
pub fn id_list(cpus: &CpuSet) -> String {
    format!(" ({})", cpus.to_solaris())
}

/// The paragraph of `-pv` for the cores of one chip: a headline, its cores if they have several strands, its
/// implementation, and its brand. Lines with newlines.
#[must_use]
pub fn package(topology: &Topology, cores: &[Core]) -> String {
    let cpus: CpuSet = cores.iter().flat_map(|core| core.cpus.iter()).collect();
    let strands = cpus.len();
    let plural = if strands == 1 { "" } else { "s" };
    let first = model(topology, &cpus);
    let implementation = first.map(|p| without_numbers(&p.implementation)).unwrap_or_default();
    let brand = first.map(|p| p.brand.as_str()).unwrap_or_default();
    let brand_shown = !brand.is_empty() && !implementation.starts_with(brand);

    let mut text = "The physical processor has ".to_owned();
    let threaded = cores.len() > 1 && cores.len() != strands;
    let (indent, brand_indent) = if threaded { ("    ", "      ") } else { ("  ", "\t") };
    if threaded {
        text += &format!("{} cores and ", cores.len());
    }
    text += &format!("{strands} virtual processor{plural}{}\n", id_list(&cpus));
    if threaded {
        for core in cores {
            let strands = core.cpus.len();
            text += &format!("  The core has {strands} virtual processor{plural}{}\n", id_list(&core.cpus));
        }
    }
    text += &format!("{indent}{implementation}\n");
    if brand_shown {
        text += &format!("{brand_indent}{brand}");
    }
    text.push('\n');
    text
}

/// The CPU that represents its chip: on a hybrid chip one with the fastest clock.
#[must_use]
pub fn model<'t>(topology: &'t Topology, cpus: &CpuSet) -> Option<&'t Processor> {
    let all = cpus.iter().filter_map(|cpu| topology.processor(cpu));
    all.max_by_key(|processor| (processor.clock_mhz, Reverse(processor.id)))
}

/// Removes `chipid <word> ` and `cpuid <word> ` from the description of a chip: they differ between chips that are otherwise alike.
fn without_numbers(implementation: &str) -> String {
    let mut text = implementation.to_owned();
    for label in ["chipid ", "cpuid "] {
        let starts = |t: &str| t.find(label).filter(|at| *at == 0 || t[..*at].ends_with([' ', '(']));
        if let Some(start) = starts(&text) {
            let word = start + label.len();
            let end = text[word..].find(' ').map_or(text.len(), |blank| word + blank + 1);
            text.replace_range(start..end, "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{ChipId, CoreId, CoreKind, Lgroup, LgrpId};
    use proptest::prelude::*;

    const BOOT: WallTime = WallTime(1_732_090_442);

    fn package(topology: &Topology, chip: ChipId) -> String {
        super::package(topology, &topology.cores_by_chip()[&chip])
    }

    fn strand(id: u32, core: u32, chip: u32) -> Processor {
        Processor {
            id: CpuId(id),
            core: CoreId(core),
            chip: ChipId(chip),
            lgroup: LgrpId(0),
            kind: CoreKind::Uniform,
            isa: "i386".into(),
            clock_mhz: Some(2600),
            fpu: Some("i387 compatible".into()),
            implementation: "x86 (GenuineIntel 306A9 family 6 model 58 step 9 clock 3400 MHz)".into(),
            brand: "Intel(r) Core(tm) i3-3240 CPU @ 3.40GHz".into(),
        }
    }

    fn machine(processors: Vec<Processor>) -> Topology {
        let cpus = processors.iter().map(|p| p.id).collect();
        Topology::new(processors, vec![], vec![Lgroup::only(cpus)]).unwrap()
    }

    #[test]
    fn the_plain_listing_has_a_tab_a_padded_state_and_two_blanks() {
        let print = |id, state| line(CpuId(id), state, BOOT, &TimeZone::UTC);
        assert_eq!(print(0, State::OnLine), "0\ton-line   since 11/20/2024 08:14:02");
        assert_eq!(print(3, State::OffLine), "3\toff-line  since 11/20/2024 08:14:02");
        assert_eq!(print(4, State::Spare), "4\tspare     since 11/20/2024 08:14:02");
        assert_eq!(print(5, State::PoweredOff), "5\tpowered-off  since 11/20/2024 08:14:02");
    }

    #[test]
    fn the_verbose_paragraph_is_that_of_the_reference() {
        let now = WallTime(BOOT.0 + 6958);
        assert_eq!(
            paragraph(&strand(0, 0, 0), State::OnLine, BOOT, now, &TimeZone::UTC),
            "Status of virtual processor 0 as of: 11/20/2024 10:10:00\n\
             \x20 on-line since 11/20/2024 08:14:02.\n\
             \x20 The i386 processor operates at 2600 MHz,\n\
             \tand has an i387 compatible floating point processor.\n"
        );
    }

    #[test]
    fn unknown_clocks_missing_units_and_articles_have_their_own_words() {
        let mut p = strand(1, 0, 0);
        let print = |p: &Processor| paragraph(p, State::OnLine, BOOT, BOOT, &TimeZone::UTC);
        p.clock_mhz = None;
        assert!(print(&p).contains("\n  The i386 processor operates at an unknown frequency,\n"));
        p.fpu = None;
        assert!(print(&p).ends_with("\n\tand has no floating point processor.\n"));
        for (name, article) in [("sparcv9", "a"), ("yonder", "an"), ("Ultra", "an"), ("Neon", "a")] {
            p.fpu = Some(name.into());
            assert!(print(&p).ends_with(&format!("\tand has {article} {name} floating point processor.\n")));
        }
    }

    #[test]
    fn a_chip_of_threaded_cores_lists_them() {
        let t = machine(vec![strand(0, 0, 0), strand(1, 1, 0), strand(2, 0, 0), strand(3, 1, 0)]);
        assert_eq!(
            package(&t, ChipId(0)),
            "The physical processor has 2 cores and 4 virtual processors (0-3)\n\
             \x20 The core has 2 virtual processors (0 2)\n\
             \x20 The core has 2 virtual processors (1 3)\n\
             \x20   x86 (GenuineIntel 306A9 family 6 model 58 step 9 clock 3400 MHz)\n\
             \x20     Intel(r) Core(tm) i3-3240 CPU @ 3.40GHz\n"
        );
    }

    #[test]
    fn a_chip_of_plain_cores_or_of_one_core_has_a_headline_only() {
        let t = machine(vec![strand(0, 0, 0), strand(1, 1, 0), strand(4, 2, 1)]);
        assert_eq!(
            package(&t, ChipId(0)),
            "The physical processor has 2 virtual processors (0-1)\n\
             \x20 x86 (GenuineIntel 306A9 family 6 model 58 step 9 clock 3400 MHz)\n\
             \tIntel(r) Core(tm) i3-3240 CPU @ 3.40GHz\n"
        );
        assert!(package(&t, ChipId(1)).starts_with("The physical processor has 1 virtual processor (4)\n"));
        let t = machine(vec![strand(0, 0, 0), strand(1, 0, 0)]);
        assert!(
            package(&t, ChipId(0))
                .starts_with("The physical processor has 2 virtual processors (0-1)\n  x86")
        );
    }

    #[test]
    fn a_hybrid_chip_has_the_clock_of_its_fastest_cores() {
        let slow = |id, mhz: u64| Processor {
            clock_mhz: Some(mhz),
            implementation: format!("aarch64 (clock {mhz} MHz)"),
            brand: String::new(),
            ..strand(id, id, 0)
        };
        let t = machine(vec![slow(0, 2808), slow(1, 3900), slow(2, 3900)]);
        let expected =
            "The physical processor has 3 virtual processors (0-2)\n  aarch64 (clock 3900 MHz)\n\n";
        assert_eq!(package(&t, ChipId(0)), expected);
    }

    #[test]
    fn a_brand_that_says_nothing_new_leaves_its_line_empty() {
        let mut p = strand(0, 0, 0);
        p.brand.clear();
        p.implementation = "x86 (chipid 0x0 GenuineIntel)".into();
        assert_eq!(
            package(&machine(vec![p.clone()]), ChipId(0)),
            "The physical processor has 1 virtual processor (0)\n  x86 (GenuineIntel)\n\n"
        );
        p.implementation = "UltraSPARC-T1 (cpuid 0 clock 1000 MHz)".into();
        p.brand = "UltraSPARC-T1".into();
        assert_eq!(
            package(&machine(vec![p]), ChipId(0)),
            "The physical processor has 1 virtual processor (0)\n  UltraSPARC-T1 (clock 1000 MHz)\n\n"
        );
    }

    #[test]
    fn lists_of_processors_are_runs_in_parentheses() {
        assert_eq!(id_list(&"0-3,8".parse().unwrap()), " (0-3 8)");
        assert_eq!(id_list(&"0,2".parse().unwrap()), " (0 2)");
    }

    proptest! {
        #[test]
        fn describing_any_chip_never_panics(implementation in ".{0,40}", brand in ".{0,20}") {
            let mut p = strand(0, 0, 0);
            p.implementation = implementation;
            p.brand = brand;
            prop_assert!(package(&machine(vec![p]), ChipId(0)).ends_with('\n'));
        }
    }

    #[test]
    fn fifty_thousand_chips_are_listed_one_after_another() {
        let count = 50_000;
        let t = machine((0..2 * count).map(|id| strand(id, id / 2, id / 2)).collect());
        let text: String = t.cores_by_chip().values().map(|cores| super::package(&t, cores)).collect();
        assert_eq!(text.matches("has 2 virtual processors").count(), count as usize);
        assert!(text.contains("(99998-99999)"));
    }
}
