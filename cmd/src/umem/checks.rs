//! `umem status` and `umem verify`: state and integrity of a heap.

use super::show::{hex, milliseconds};
use super::target::{Answer, Asked};
use crate::ctx::Ctx;
use crate::dress::Dress;
use millpond_model::Nanos;
use millpond_report::{Align, Table};
use millpond_umem::history::LOGS;
use millpond_umem::verify::{Verdict, verify as look};
use millpond_umem::{FindError, Root};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// `status`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Status {
    state: String,
    concurrency: u32,
    /// Bytes of each log; null for an inactive one.
    logs: BTreeMap<&'static str, Option<u64>>,
    /// The library's latest messages, one per line.
    messages: Vec<String>,
}

/// `verify`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Integrity {
    caches: Vec<Verdict>,
    /// How long the process was stopped; null for a core.
    pause_ns: Option<Nanos>,
}

/// Bytes in the format of options: 64k.
fn size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let unit = units.iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift && bytes > 0);
    unit.map_or_else(|| bytes.to_string(), |(shift, letter)| format!("{}{letter}", bytes >> shift))
}

fn logs(root: &Root) -> String {
    let log = |(name, ring): (&&str, &millpond_umem::Ring)| match ring.bytes() {
        Some(bytes) => format!("{name}={}", size(bytes)),
        None => format!("{name} (inactive)"),
    };
    LOGS.iter().zip(&root.logs).map(log).collect::<Vec<_>>().join(" ")
}

/// The messages of the library, a line each. Invalid UTF-8 is replaced.
fn messages(root: &Root) -> Vec<String> {
    let text = String::from_utf8_lossy(&root.messages).into_owned();
    let shown =
        |line: &str| line.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect();
    text.lines().map(shown).collect()
}

pub(super) fn status(asked: &Asked<'_>, ctx: &mut Ctx<'_>) -> Answer<Status> {
    let root = &asked.heap.root;
    if asked.dress == Dress::Text {
        ctx.out.line(format_args!("Status:\t\t{}", root.status()));
        ctx.out.line(format_args!("Concurrency:\t{}", root.concurrency));
        ctx.out.line(format_args!("Logs:\t\t{}", logs(root)));
        ctx.out.line("Message buffer:");
        messages(root).iter().for_each(|line| ctx.out.line(line));
    }
    let document = Status {
        state: root.status(),
        concurrency: root.concurrency,
        logs: LOGS.iter().zip(&root.logs).map(|(name, ring)| (*name, ring.bytes())).collect(),
        messages: messages(root),
    };
    Answer::of(document, true)
}

fn integrity(verdict: &Verdict) -> String {
    match (verdict.corrupt.len(), verdict.disagreements.len()) {
        (0, 0) if verdict.checks => "clean".into(),
        (0, 0) => "clean, by its figures alone".into(),
        (0, _) => "figures disagree".into(),
        (1, _) => "1 corrupt buffer".into(),
        (count, _) => format!("{count} corrupt buffers"),
    }
}

fn table(verdicts: &[Verdict]) -> Table {
    let mut table =
        Table::new(&[("Cache Name", Align::Left), ("Addr", Align::Left), ("Cache Integrity", Align::Left)]);
    for verdict in verdicts {
        table.row([verdict.name.as_str().into(), hex(verdict.at).into(), integrity(verdict).into()]);
    }
    table
}

fn summary(verdict: &Verdict) -> String {
    let lines = verdict.corrupt.iter().map(ToString::to_string).chain(verdict.disagreements.iter().cloned());
    let mut text = format!("Summary for cache '{}'\n", verdict.name);
    lines.for_each(|line| text += &format!("  {line}\n"));
    text
}

pub(super) fn verify(asked: &Asked<'_>, ctx: &mut Ctx<'_>) -> Result<Answer<Integrity>, FindError> {
    let found = look(asked.memory, asked.root)?;
    found.problems.iter().for_each(|problem| ctx.warn(problem));
    match asked.dress {
        Dress::Text => {
            ctx.out.text(&table(&found.caches).text());
            let is_clean =
                |verdict: &&Verdict| verdict.corrupt.is_empty() && verdict.disagreements.is_empty();
            for verdict in found.caches.iter().filter(|verdict| !is_clean(verdict)) {
                ctx.out.text(&summary(verdict));
            }
            if let Some(pause) = found.pause {
                ctx.out.line(format_args!("{} stood still for {}", asked.image.name(), milliseconds(pause)));
            }
        }
        Dress::Csv => ctx.out.text(&table(&found.caches).csv()),
        _ => {}
    }
    let is_well = found.is_clean() && found.problems.is_empty();
    let document = Integrity { caches: found.caches, pause_ns: found.pause };
    Ok(Answer::of(document, is_well))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_umem::verify::{Corrupt, Fault};

    fn verdict(name: &str, checks: bool, corrupt: Vec<Corrupt>, disagreements: &[&str]) -> Verdict {
        let disagreements = disagreements.iter().map(|text| (*text).to_owned()).collect();
        Verdict { name: name.into(), at: 0x7f00_1000, checks, buffers: 4, corrupt, disagreements }
    }

    #[test]
    fn verdicts_are_in_the_published_words() {
        let bad = |buffer, allocated, fault| Corrupt { buffer, allocated, fault };
        let two = vec![bad(0x7f40, false, Fault::FreeModified(0x7f48)), bad(0x7f80, true, Fault::Buftag)];
        let one = vec![bad(0x7fc0, true, Fault::Size)];
        let verdicts = [
            verdict("umem_alloc_8", true, Vec::new(), &[]),
            verdict("umem_alloc_16", false, Vec::new(), &[]),
            verdict("session", true, two, &["it says that it has 2 slabs, and has 1"]),
            verdict("node", true, one, &[]),
            verdict("odd", true, Vec::new(), &["it says that it has 3 slabs, and has 1"]),
        ];
        let expected = "\
Cache Name     Addr      Cache Integrity
umem_alloc_8   7f001000  clean
umem_alloc_16  7f001000  clean, by its figures alone
session        7f001000  2 corrupt buffers
node           7f001000  1 corrupt buffer
odd            7f001000  figures disagree
";
        assert_eq!(table(&verdicts).text(), expected);
        let expected = "\
Summary for cache 'session'
  buffer 7f40 (free) seems corrupted, at 7f48
  buffer 7f80 (allocated) has a corrupt buftag
  it says that it has 2 slabs, and has 1
";
        assert_eq!(summary(&verdicts[2]), expected);
    }

    #[test]
    fn sizes_of_logs_are_as_options_have_them() {
        let sizes = [0, 1000, 1024, 65536, 3 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["0", "1000", "1k", "64k", "3m", "1g"]);
    }
}
