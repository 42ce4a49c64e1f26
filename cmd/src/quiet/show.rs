//! What was seen, as text and as JSON.

use super::figures;
use super::options::Options;
use super::watch::Run;
use millpond_model::{Cause, CpuSet, Doer, Nanos, Stretch};
use millpond_observe::{Broken, Limit, QuietLine, Verdict};
use millpond_report::{Align, Cell, Table};
use serde_json::{Value, json};

/// More stretches than these nobody reads.
const STRETCHES_MAX: usize = 100;

/// And more reasons why a set is not quiet than these.
const BROKEN_MAX: usize = 10;

const HEADS: [(&str, Align); 9] = [
    ("KIND", Align::Left),
    ("NAME", Align::Left),
    ("BY", Align::Left),
    ("COUNT", Align::Right),
    ("RATE/S", Align::Right),
    ("LONGEST", Align::Right),
    ("TOTAL", Align::Right),
    ("SHARE%", Align::Right),
    ("REMEDY", Align::Left),
];

/// The table, with the sums in its last line.
pub fn table(run: &Run) -> Table {
    let mut table = Table::new(&HEADS);
    for line in &run.quiet.lines {
        table.row(cells(line, run));
    }
    let quiet = &run.quiet;
    let rates: f64 = quiet.rates.values().map(|[others, job]| others + job).sum();
    table.row([
        "total".into(),
        "".into(),
        "".into(),
        quiet.count.into(),
        (rates, 1).into(),
        "".into(),
        figures::time(quiet.total).into(),
        (quiet.share, 3).into(),
        "".into(),
    ]);
    table
}

fn cells(line: &QuietLine, run: &Run) -> [Cell; 9] {
    let time = |time: Option<Nanos>| time.map_or(Cell::Missing, |time| figures::time(time).into());
    let by = by(&line.cause);
    [
        line.cause.kind.word().into(),
        line.cause.name.as_str().into(),
        if by.is_empty() { Cell::Missing } else { by.into() },
        line.count.map_or(Cell::Missing, Cell::from),
        line.rate.map_or(Cell::Missing, |rate| (rate, 1).into()),
        time(line.longest),
        time(line.total),
        line.share.map_or(Cell::Missing, |share| (share, 3).into()),
        run.remedy(line).into(),
    ]
}

fn by(cause: &Cause) -> String {
    let mark = match cause.doer {
        Doer::Others => None,
        Doer::Job => Some("(job)"),
        Doer::Watcher => Some("(watcher)"),
    };
    [cause.by.as_deref(), mark].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A cause in a sentence.
pub fn cause(cause: &Cause) -> String {
    let by = cause.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("{} {}{by}", cause.kind.word(), cause.name)
}

fn stretch(stretch: &Stretch, run: &Run) -> String {
    let after = stretch.at - run.seen.began;
    let length = figures::time(stretch.length);
    format!("{length} on CPU {} after {after}: {}", stretch.cpu, cause(&stretch.cause))
}

/// Sentences beside the table: the worst stretch, what happened, how it was seen, and the verdict.
pub fn facts(run: &Run, options: &Options, verdict: Option<&Verdict>) -> Vec<String> {
    let quiet = &run.quiet;
    let mut facts: Vec<String> = jobless(run).into_iter().collect();
    if let Some(worst) = quiet.worst() {
        facts.push(format!("worst stretch without the job: {}", stretch(worst, run)));
    }
    facts.extend(run.events.iter().cloned());
    let (count, total) = quiet.watcher();
    facts.push(format!(
        "watched {} for {} by {}; watching took {} of it ({count} times)",
        processors(&run.cpus),
        quiet.elapsed,
        run.seen.source,
        figures::time(total)
    ));
    if let (Some(limit), Some(verdict)) = (&options.limit, verdict) {
        facts.extend(sentences(verdict, limit.value, &limit.text, run));
    }
    facts
}

fn processors(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") }
}

fn sentences(verdict: &Verdict, limit: Limit, text: &str, run: &Run) -> Vec<String> {
    match (verdict, limit) {
        (Verdict::Kept, Limit::Time(_)) => vec![format!("quiet: nothing took longer than {text}")],
        (Verdict::Kept, Limit::Rate(_)) => {
            vec![format!("quiet: no CPU was disturbed more often than {text}")]
        }
        (Verdict::Broken(broken), _) => {
            let told = broken.iter().take(BROKEN_MAX);
            let mut told: Vec<String> =
                told.map(|broken| format!("not quiet: {}, limit {text}", said(broken, run))).collect();
            let more = broken.len().saturating_sub(BROKEN_MAX);
            told.extend((more > 0).then(|| format!("not quiet: and {more} more")));
            told
        }
        (Verdict::Unknown | Verdict::Partial, _) => Vec::new(),
    }
}

fn said(broken: &Broken, run: &Run) -> String {
    match broken {
        Broken::Cause(what, longest) => format!("{} took {}", cause(what), figures::time(*longest)),
        Broken::Stretch(worst) => format!("a stretch of {}", stretch(worst, run)),
        Broken::Rate(cpu, rate) => format!("CPU {cpu} was disturbed {rate:.1} times a second"),
    }
}

/// That there is no job, if there is none.
fn jobless(run: &Run) -> Option<String> {
    let set = run.jobless?;
    Some(format!(
        "no process is bound to set {set}: bind the job (psrset -b {set} PID), or start it (millpond quiet {set} -- COMMAND)"
    ))
}

/// For a program that reads lines, and for who wants all of it: that there is no job, the table, and sentences.
pub fn text(run: &Run, options: &Options, verdict: Option<&Verdict>) -> String {
    let mut text = jobless(run).map(|line| line + "\n").unwrap_or_default();
    text += &table(run).text();
    for fact in facts(run, options, verdict).into_iter().skip(usize::from(run.jobless.is_some())) {
        text += &fact;
        text.push('\n');
    }
    text
}

/// For a program.
pub fn json(run: &Run, options: &Options, verdict: Option<&Verdict>) -> Value {
    let quiet = &run.quiet;
    let (count, total) = quiet.watcher();
    let broken = match verdict {
        Some(Verdict::Broken(broken)) => broken.iter().map(|broken| said(broken, run)).collect(),
        _ => Vec::new(),
    };
    json!({
        "processors": run.cpus.to_string(),
        "set": options.set,
        "has_job": run.jobless.is_none(),
        "elapsed_s": rounded(quiet.elapsed.as_secs_f64()),
        "source": run.seen.source,
        "disturbances": quiet.lines.iter().map(|line| line_json(line, run)).collect::<Vec<_>>(),
        "total": { "count": quiet.count, "total_ns": quiet.total.0, "share": rounded(quiet.share) },
        "watcher": { "count": count, "total_ns": total.0 },
        "stretches": quiet.stretches.iter().take(STRETCHES_MAX).map(|s| stretch_json(s, run)).collect::<Vec<_>>(),
        "lost": run.seen.lost,
        "missing": run.seen.missing,
        "events": run.events,
        "limit": options.limit.as_ref().map(|limit| limit.text.as_str()),
        "quiet": verdict.and_then(|verdict| match verdict {
            Verdict::Kept => Some(true),
            Verdict::Broken(_) => Some(false),
            Verdict::Unknown | Verdict::Partial => None,
        }),
        "broken": broken,
    })
}

fn line_json(line: &QuietLine, run: &Run) -> Value {
    json!({
        "kind": line.cause.kind,
        "name": line.cause.name,
        "by": line.cause.by,
        "doer": line.cause.doer,
        "pid": line.pid,
        "processors": line.cpus.iter().copied().collect::<CpuSet>().to_string(),
        "count": line.count,
        "rate": line.rate.map(rounded),
        "longest_ns": line.longest,
        "total_ns": line.total,
        "share": line.share.map(rounded),
        "remedy": run.remedy(line),
    })
}

fn stretch_json(stretch: &Stretch, run: &Run) -> Value {
    json!({
        "cpu": stretch.cpu,
        "at_s": rounded((stretch.at - run.seen.began).as_secs_f64()),
        "length_ns": stretch.length,
        "kind": stretch.cause.kind,
        "name": stretch.cause.name,
        "by": stretch.cause.by,
        "doer": stretch.cause.doer,
    })
}

/// Three digits behind the point: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
