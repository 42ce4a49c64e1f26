//! `umem findleaks`: leaks by their allocation stacks.

use super::show::{caller, hex, mib, milliseconds, stack};
use super::target::{Answer, Asked};
use crate::ctx::Ctx;
use crate::dress::Dress;
use millpond_machine::facets::Image;
use millpond_model::Nanos;
use millpond_report::{Align, Cell, Table};
use millpond_umem::FindError;
use millpond_umem::leaks::{Effort, Leak, Lost, find};
use schemars::JsonSchema;
use serde::Serialize;

/// The line between the leaks and their sum.
const RULE: &str = "------------------------------------------------------------------------";
/// The name of the source of buffers without a cache.
const OVERSIZE: &str = "oversize";

fn cache(leak: &Leak) -> &str {
    leak.cache.as_deref().unwrap_or(OVERSIZE)
}

fn table(image: &dyn Image, leaks: &[Leak]) -> Table {
    let (left, right) = (Align::Left, Align::Right);
    let heads = [
        ("CACHE", left),
        ("LEAKED", right),
        ("BYTES", right),
        ("BUFFER", left),
        ("BUFCTL", left),
        ("CALLER", left),
    ];
    let mut table = Table::new(&heads);
    for leak in leaks {
        table.row([
            cache(leak).into(),
            (leak.buffers.len() as u64).into(),
            leak.bytes.into(),
            leak.buffers.first().map(|buffer| hex(*buffer)).into(),
            leak.bufctl.map(hex).into(),
            caller(image, &leak.stack).map_or(Cell::Missing, Cell::from),
        ]);
    }
    table
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The number of leaked buffers and bytes.
fn total(leaks: &[Leak]) -> (u64, u64) {
    leaks
        .iter()
        .fold((0, 0), |(buffers, bytes), leak| (buffers + leak.buffers.len() as u64, bytes + leak.bytes))
}

/// A block for each leak: `umem_alloc_48 leak: 3 buffers, 48 bytes each, 144 bytes total`, then the stack.
fn blocks(image: &dyn Image, leaks: &[Leak]) -> String {
    let mut text = String::new();
    for leak in leaks {
        let count = leak.buffers.len() as u64;
        let each = leak.bytes / count.max(1);
        let each = if each * count == leak.bytes {
            format!("{} each, ", plural(each, "byte"))
        } else {
            String::new()
        };
        let (buffers, bytes) = (plural(count, "buffer"), plural(leak.bytes, "byte"));
        text += &format!("{} leak: {buffers}, {each}{bytes} total\n", cache(leak));
        let first = leak.buffers.first().copied().unwrap_or(0);
        let bufctl = leak.bufctl.map(|at| format!(", bufctl {at:x}")).unwrap_or_default();
        text += &format!("\tfirst buffer {first:x}{bufctl}\n");
        stack(image, &leak.stack).iter().for_each(|line| text += &format!("\t{line}\n"));
    }
    text
}

/// The amount of examined memory, a figure per line.
fn statistics(effort: &Effort) -> String {
    let mut figures = vec![
        ("bytes of roots", effort.root_bytes),
        ("bytes of buffers", effort.heap_bytes),
        ("words that may be addresses", effort.words),
        ("threads", effort.threads),
        ("allocated buffers", effort.buffers),
        ("lost, but taken since", effort.taken_since),
    ];
    figures.extend(effort.pause.map(|pause| ("nanoseconds of pause", pause.0)));
    figures.iter().map(|(what, figure)| format!("findleaks: {what:>30} => {figure}\n")).collect()
}

/// The line about the pause: `process 4211 (server) stood still for 0.412 ms, 118.3 ms for each GiB: …`.
fn pause(image: &dyn Image, effort: &Effort) -> String {
    let (roots, buffers, threads) = (mib(effort.root_bytes), mib(effort.heap_bytes), effort.threads);
    let read = format!("{roots} of roots, {buffers} of buffers, threads: {threads}");
    match (effort.pause, effort.pause_per_gib()) {
        (Some(pause), Some(per_gib)) => {
            let (pause, per_gib) = (milliseconds(pause), per_gib.as_secs_f64() * 1e3);
            format!("{} stood still for {pause}, {per_gib:.1} ms for each GiB: {read}", image.name())
        }
        (Some(pause), None) => format!("{} stood still for {}: {read}", image.name(), milliseconds(pause)),
        (None, _) => format!("{}: {read}", image.name()),
    }
}

/// `findleaks`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Leaks {
    leaks: Vec<LeakRow>,
    #[serde(flatten)]
    effort: Effort,
    /// The pause per GiB read; null if too little was read.
    pause_per_gib_ns: Option<Nanos>,
}

/// Leaks of one cache with the same allocation stack.
#[derive(Serialize, JsonSchema)]
struct LeakRow {
    /// `oversize` for large buffers.
    cache: String,
    /// The number of buffers.
    buffers: usize,
    bytes: u64,
    /// The first buffer; hexadecimal.
    first: Option<String>,
    /// The bufctl of the first buffer; hexadecimal.
    bufctl: Option<String>,
    /// Innermost first; empty without allocation stacks.
    stack: Vec<String>,
}

impl Leaks {
    fn of(image: &dyn Image, lost: &Lost) -> Leaks {
        let row = |leak: &Leak| LeakRow {
            cache: cache(leak).to_owned(),
            buffers: leak.buffers.len(),
            bytes: leak.bytes,
            first: leak.buffers.first().map(|buffer| hex(*buffer)),
            bufctl: leak.bufctl.map(hex),
            stack: stack(image, &leak.stack),
        };
        let leaks = lost.leaks.iter().map(row).collect();
        Leaks { leaks, effort: lost.effort, pause_per_gib_ns: lost.effort.pause_per_gib() }
    }
}

pub(super) fn answer(
    asked: &Asked<'_>,
    as_blocks: bool,
    with_effort: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Answer<Leaks>, FindError> {
    let image = asked.image;
    let lost = find(asked.memory, asked.root)?;
    lost.problems.iter().for_each(|problem| ctx.warn(problem));
    match asked.dress {
        Dress::Text => {
            if with_effort {
                ctx.out.text(&statistics(&lost.effort));
            }
            if lost.leaks.is_empty() {
                ctx.out.line("findleaks: no memory leaks detected");
            } else {
                ctx.out.text(&table(image, &lost.leaks).text());
                ctx.out.line(RULE);
                let (buffers, bytes) = total(&lost.leaks);
                let (buffers, bytes) = (format!("{buffers:>7}"), bytes);
                let noun = |count: &str, noun: &str| {
                    if count.trim() == "1" { noun.to_owned() } else { format!("{noun}s") }
                };
                let (buffer, byte) = (noun(&buffers, "buffer"), noun(&bytes.to_string(), "byte"));
                ctx.out.line(format_args!("{:>16} {buffers} {buffer}, {bytes} {byte}", "Total"));
            }
            if as_blocks {
                ctx.out.text(&blocks(image, &lost.leaks));
            }
            ctx.out.line(pause(image, &lost.effort));
        }
        Dress::Csv => ctx.out.text(&table(image, &lost.leaks).csv()),
        _ => {}
    }
    Ok(Answer::of(Leaks::of(image, &lost), lost.leaks.is_empty()))
}
