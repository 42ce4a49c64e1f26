//! The result of a measurement, as text and as JSON.

use super::figures;
use super::options::Options;
use super::watch::Run;
use millpond_model::{Cause, CpuId, CpuSet, Doer, Nanos, PsetId, Stretch};
use millpond_observe::digits::to_thousandths;
use millpond_observe::{Broken, Limit, QuietLine, Verdict};
use millpond_report::{Align, Cell, Table};
use schemars::JsonSchema;
use serde::Serialize;

/// The most stretches in the output.
const STRETCHES_MAX: usize = 100;

/// The most violations of the limit in the output.
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

/// Sentences with the table: the longest stretch, events, the source of the figures, and the verdict.
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
        run.cpus.named(),
        quiet.elapsed,
        run.seen.source,
        figures::time(total)
    ));
    if let (Some(limit), Some(verdict)) = (&options.limit, verdict) {
        facts.extend(sentences(verdict, limit.value, &limit.text, run));
    }
    facts
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

/// A sentence for a set without a job.
fn jobless(run: &Run) -> Option<String> {
    let set = run.jobless?;
    Some(format!(
        "no process is bound to set {set}: bind the job (psrset -b {set} PID), or start it (millpond quiet {set} -- COMMAND)"
    ))
}

/// The full text, for pipes and `--all`: a missing job, the table, and sentences.
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
#[derive(Serialize, JsonSchema)]
pub struct Noise<'r> {
    processors: &'r CpuSet,
    set: Option<PsetId>,
    /// False if no process is bound to the set.
    has_job: bool,
    elapsed_s: f64,
    /// The source of the figures.
    source: &'r str,
    disturbances: Vec<NoiseRow<'r>>,
    total: Total,
    watcher: Watcher,
    /// Time in which a CPU neither ran the job nor was idle, in one piece: the hundred longest.
    stretches: Vec<StretchRow<'r>>,
    /// Lost events, in sentences.
    lost: &'r [String],
    /// Unavailable figures, in sentences.
    missing: &'r [String],
    /// Changes of the machine during the measurement, in sentences.
    events: &'r [String],
    limit: Option<&'r str>,
    /// Null without a limit, or if it cannot be judged.
    quiet: Option<bool>,
    /// Violations of the limit.
    broken: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct NoiseRow<'r> {
    #[serde(flatten)]
    line: &'r QuietLine,
    remedy: String,
}

/// The sums, without the watcher.
#[derive(Serialize, JsonSchema)]
struct Total {
    count: u64,
    total_ns: Nanos,
    /// Percent of the time of all watched CPUs.
    share: f64,
}

/// The noise of this command itself.
#[derive(Serialize, JsonSchema)]
struct Watcher {
    count: u64,
    total_ns: Nanos,
}

#[derive(Serialize, JsonSchema)]
struct StretchRow<'r> {
    cpu: CpuId,
    /// Time since the start of the measurement.
    at_s: f64,
    length_ns: Nanos,
    /// Its longest part.
    #[serde(flatten)]
    cause: &'r Cause,
}

impl<'r> Noise<'r> {
    /// The document of a run, with its verdict.
    pub fn of(run: &'r Run, options: &'r Options, verdict: Option<&Verdict>) -> Noise<'r> {
        let quiet = &run.quiet;
        let (count, total_ns) = quiet.watcher();
        let row = |line| NoiseRow { line, remedy: run.remedy(line) };
        let stretch = |stretch: &'r Stretch| StretchRow {
            cpu: stretch.cpu,
            at_s: to_thousandths((stretch.at - run.seen.began).as_secs_f64()),
            length_ns: stretch.length,
            cause: &stretch.cause,
        };
        let (is_quiet, broken) = match verdict {
            Some(Verdict::Kept) => (Some(true), Vec::new()),
            Some(Verdict::Broken(broken)) => {
                (Some(false), broken.iter().map(|broken| said(broken, run)).collect())
            }
            Some(Verdict::Unknown | Verdict::Partial) | None => (None, Vec::new()),
        };
        Noise {
            processors: &run.cpus,
            set: options.set,
            has_job: run.jobless.is_none(),
            elapsed_s: to_thousandths(quiet.elapsed.as_secs_f64()),
            source: &run.seen.source,
            disturbances: quiet.lines.iter().map(row).collect(),
            total: Total { count: quiet.count, total_ns: quiet.total, share: to_thousandths(quiet.share) },
            watcher: Watcher { count, total_ns },
            stretches: quiet.stretches.iter().take(STRETCHES_MAX).map(stretch).collect(),
            lost: &run.seen.lost,
            missing: &run.seen.missing,
            events: &run.events,
            limit: options.limit.as_ref().map(|limit| limit.text.as_str()),
            quiet: is_quiet,
            broken,
        }
    }
}
