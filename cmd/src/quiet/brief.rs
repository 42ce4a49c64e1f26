//! A short report for a terminal: the verdict, then causes by their remedy.

use super::figures;
use super::options::Options;
use super::show;
use super::watch::Run;
use millpond_model::{DisturbanceKind, Nanos, Pid};
use millpond_observe::{QuietLine, Verdict};
use millpond_report::{Align, Cell, Table};
use std::collections::BTreeMap;

/// The most lines of the table, with its head and the line about the rest.
const LINES_MAX: usize = 15;

/// The most causes that are named in a line.
const NAMES_MAX: usize = 3;

/// Causes with one remedy.
struct Group<'a> {
    remedy: String,
    lines: Vec<&'a QuietLine>,
    total: Nanos,
    longest: Option<Nanos>,
    rate: f64,
    share: f64,
}

/// The verdict and other sentences, then the table.
pub fn text(run: &Run, options: &Options, verdict: Option<&Verdict>) -> String {
    let mut facts = show::facts(run, options, verdict);
    // A missing job comes first, then the verdict.
    facts.sort_by_key(|fact| match fact {
        fact if run.jobless.is_some() && fact.starts_with("no process is bound") => 0,
        fact if fact.starts_with("quiet: ") || fact.starts_with("not quiet: ") => 1,
        _ => 2,
    });
    let mut text: String = facts.iter().map(|fact| format!("{fact}\n")).collect();
    let lines: Vec<(&QuietLine, String)> =
        run.quiet.lines.iter().map(|line| (line, run.remedy(line))).collect();
    text += &table(lines);
    text
}

/// At most [`LINES_MAX`] lines, the longest noise first.
fn table(lines: Vec<(&QuietLine, String)>) -> String {
    let groups = groups(lines);
    if groups.is_empty() {
        return String::new();
    }
    let fits = groups.len() < LINES_MAX;
    let shown = if fits { groups.len() } else { LINES_MAX - 2 };
    let heads = [
        ("SHARE%", Align::Right),
        ("TOTAL", Align::Right),
        ("LONGEST", Align::Right),
        ("RATE/S", Align::Right),
        ("WHAT", Align::Left),
        ("REMEDY", Align::Left),
    ];
    let mut table = Table::new(&heads);
    for group in &groups[..shown] {
        let longest = group.longest.map_or(Cell::Missing, |longest| figures::time(longest).into());
        table.row([
            (group.share, 3).into(),
            figures::time(group.total).into(),
            longest,
            (group.rate, 1).into(),
            names(&group.lines).into(),
            group.remedy.as_str().into(),
        ]);
    }
    let mut text = table.text();
    if !fits {
        let rest = &groups[shown..];
        let causes: usize = rest.iter().map(|group| group.lines.len()).sum();
        let total = rest.iter().fold(0u64, |sum, group| sum.saturating_add(group.total.0));
        text +=
            &format!("and {causes} more causes, {} in all: --all shows them\n", figures::time(Nanos(total)));
    }
    text
}

fn groups(lines: Vec<(&QuietLine, String)>) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (line, remedy) in lines {
        let at = groups.iter().position(|group| group.remedy == remedy).unwrap_or_else(|| {
            let (lines, total, longest) = (Vec::new(), Nanos(0), None);
            groups.push(Group { remedy, lines, total, longest, rate: 0.0, share: 0.0 });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.lines.push(line);
        group.total = Nanos(group.total.0.saturating_add(line.total.unwrap_or_default().0));
        group.longest = group.longest.max(line.longest);
        group.rate += line.rate.unwrap_or(0.0);
        group.share += line.share.unwrap_or(0.0);
    }
    // Equal groups stay in the order of their first cause.
    groups.sort_by(|a, b| b.total.cmp(&a.total).then(b.rate.total_cmp(&a.rate)));
    groups
}

/// Causes by name; the threads of a process count as one.
fn names(lines: &[&QuietLine]) -> String {
    let mut programs: BTreeMap<Pid, usize> = BTreeMap::new();
    let mut names: Vec<(Option<Pid>, String)> = Vec::new();
    for line in lines {
        let name = format!("{} {}", line.cause.kind.word(), line.cause.name);
        match line.pid.filter(|_| line.cause.kind == DisturbanceKind::Task) {
            Some(pid) => {
                let threads = programs.entry(pid).or_default();
                *threads += 1;
                if *threads == 1 {
                    names.push((Some(pid), name));
                }
            }
            None => names.push((None, name)),
        }
    }
    let count = |(pid, name): &(Option<Pid>, String)| match pid.and_then(|pid| programs.get(&pid)) {
        Some(threads) if *threads > 1 => format!("{name} ({threads} threads)"),
        _ => name.clone(),
    };
    let mut said: Vec<String> = names.iter().take(NAMES_MAX).map(count).collect();
    if names.len() > NAMES_MAX {
        said.push(format!("{} more", names.len() - NAMES_MAX));
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Cause, CpuId, CpuSet, Doer};

    fn line(kind: DisturbanceKind, name: &str, pid: Option<u32>, total_us: u64) -> QuietLine {
        let total = Some(Nanos(total_us * 1_000));
        QuietLine {
            cause: Cause { kind, name: name.into(), by: None, doer: Doer::Others },
            pid: pid.map(Pid),
            cpus: CpuSet::from_iter([CpuId(2)]),
            count: Some(2),
            rate: Some(1.0),
            longest: total,
            total,
            share: Some(0.5),
        }
    }

    #[test]
    fn causes_with_one_remedy_and_threads_of_one_program_are_one_line() {
        let lines = [
            line(DisturbanceKind::Device, "eth0-rx-1", None, 5),
            line(DisturbanceKind::Task, "java", Some(77), 100),
            line(DisturbanceKind::Task, "GC Thread#0", Some(77), 50),
            line(DisturbanceKind::Device, "eth0-rx-2", None, 7),
        ];
        let remedy = |line: &QuietLine| if line.pid.is_some() { "pbind -b 0 77" } else { "psradm -i 2" };
        let told = table(lines.iter().map(|line| (line, remedy(line).to_owned())).collect());
        let expected = [
            "SHARE%    TOTAL  LONGEST  RATE/S  WHAT                                REMEDY",
            " 1.000  150.0us  100.0us     2.0  task java (2 threads)               pbind -b 0 77",
            " 1.000   12.0us    7.0us     2.0  device eth0-rx-1, device eth0-rx-2  psradm -i 2",
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_more_than_fifteen_lines_are_told_and_the_rest_is_added_up() {
        let lines: Vec<QuietLine> =
            (0..40).map(|n| line(DisturbanceKind::Timer, &format!("t{n}"), None, 100 - n)).collect();
        let told = table(lines.iter().map(|line| (line, format!("remedy of {}", line.cause.name))).collect());
        assert_eq!(told.lines().count(), 15);
        // 13 are shown: the others took 87 + 86 + … + 61 us.
        assert_eq!(told.lines().last(), Some("and 27 more causes, 2.0ms in all: --all shows them"));
        let few = table(lines[..14].iter().map(|line| (line, line.cause.name.clone())).collect());
        assert_eq!((few.lines().count(), few.contains("more causes")), (15, false));
    }
}
