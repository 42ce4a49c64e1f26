//! `umem whatis`, `umem bufctl` and `umem log`: an address and its history.

use super::show::{Transactions, function, hex, stack};
use super::target::{Answer, Asked};
use crate::ctx::Ctx;
use crate::dress::Dress;
use crate::failure::{Complaint, Failure};
use millpond_report::{Align, Cell, Table};
use millpond_umem::history::{self, LOGS, Transaction};
use millpond_umem::whatis::Thing;
use millpond_umem::{Heap, State};
use schemars::JsonSchema;
use serde::Serialize;

/// `whatis`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Addresses {
    addresses: Vec<Address>,
}

#[derive(Serialize, JsonSchema)]
struct Address {
    /// Hexadecimal.
    address: String,
    /// A description, as a sentence.
    text: String,
}

/// The sentence about an address.
fn sentence(heap: &Heap<'_>, address: u64, thing: &Thing) -> String {
    let name = |place: usize| heap.caches.get(place).map_or("", |cache| cache.name.as_str());
    let from = |begin: u64| format!("{address:x} is {begin:x}+{:x}", address.wrapping_sub(begin));
    match thing {
        Thing::Buffer { buffer, cache, state, bufctl } => {
            let bufctl = bufctl.map(|at| format!("bufctl {at:x} ")).unwrap_or_default();
            let state = match state {
                State::Allocated => "allocated from",
                State::Free => "freed from",
                State::InMagazine => "free in a magazine of",
            };
            format!("{}, {bufctl}{state} {}", from(*buffer), name(*cache))
        }
        Thing::Large(buffer, size) => format!("{}, a large buffer of {size} bytes", from(*buffer)),
        Thing::FreePages(base) => format!("{}, in free pages", from(*base)),
        Thing::SlabEdge(base, cache) => {
            format!("{}, in a slab of {} and none of its buffers", from(*base), name(*cache))
        }
        Thing::Bufctl { bufctl, buffer, cache } => {
            format!("{}, the bufctl of buffer {buffer:x} of {}", from(*bufctl), name(*cache))
        }
        Thing::Cache(place) => {
            let at = heap.caches.get(*place).map_or(0, |cache| cache.at);
            format!("{}, the cache {}", from(at), name(*place))
        }
        Thing::Span(base) => format!("{address:x} is in the record of the pages at {base:x}"),
        Thing::Log(place) => {
            format!("{address:x} is in the log of {}", LOGS.get(*place).unwrap_or(&"nothing"))
        }
        Thing::Root => format!("{}, the root of the caches", from(heap.root.at)),
        Thing::Own => format!("{address:x} is in memory of the library's own"),
        Thing::Mapped(_, Some(symbol)) => format!("{address:x} is {symbol}"),
        Thing::Mapped(mapping, None) if mapping.file.is_empty() => {
            format!("{}, in memory without a name", from(mapping.begin))
        }
        Thing::Mapped(mapping, None) => format!("{}, in {}", from(mapping.begin), mapping.file),
        Thing::Nothing => format!("{address:x} is not mapped"),
    }
}

pub(super) fn whatis(asked: &Asked<'_>, addresses: &[u64], ctx: &mut Ctx<'_>) -> Answer<Addresses> {
    let mappings = asked.image.mappings().unwrap_or_default();
    let mut all = Vec::new();
    for address in addresses {
        let text = sentence(asked.heap, *address, &asked.heap.whatis(*address, &mappings));
        if asked.dress == Dress::Text {
            ctx.out.line(&text);
        }
        all.push(Address { address: hex(*address), text });
    }
    Answer::of(Addresses { addresses: all }, true)
}

/// The text of one transaction: a table with one row, then the stack.
fn block(asked: &Asked<'_>, record: &Transaction) -> String {
    let heads = ["ADDR", "BUFADDR", "TIMESTAMP", "THREAD", "CACHE", "STATE", "CONTENTS"];
    let mut table = Table::new(&heads.map(|head| (head, Align::Left)));
    let cache = record.cache.and_then(|place| asked.heap.caches.get(place));
    table.row([
        hex(record.at).into(),
        hex(record.buffer).into(),
        hex(record.time).into(),
        record.thread.into(),
        cache.map_or(Cell::Missing, |cache| cache.name.as_str().into()),
        if record.allocated { "allocated" } else { "freed" }.into(),
        (record.contents != 0).then(|| hex(record.contents)).into(),
    ]);
    let frames = stack(asked.image, &record.stack).into_iter().map(|line| format!("\t{line}\n"));
    table.text() + &frames.collect::<String>()
}

pub(super) fn bufctl(asked: &Asked<'_>, address: u64, ctx: &mut Ctx<'_>) -> Answer<Transactions> {
    let mappings = asked.image.mappings().unwrap_or_default();
    let thing = asked.heap.whatis(address, &mappings);
    let place = match thing {
        Thing::Buffer { bufctl, .. } => bufctl,
        Thing::Bufctl { bufctl, .. } => Some(bufctl),
        Thing::Log(0) => Some(address),
        _ => None,
    };
    let known: Vec<Transaction> = place.map(|at| history::of_bufctl(asked.heap, at)).unwrap_or_default();
    let known: Vec<Transaction> = known.into_iter().filter(|record| record.time != 0).collect();
    if known.is_empty() {
        ctx.warn(format_args!("nothing is known of {address:x}: {}", sentence(asked.heap, address, &thing)));
        let is_buffer = matches!(thing, Thing::Buffer { .. } | Thing::Bufctl { .. });
        ctx.hint(if is_buffer {
            "UMEM_DEBUG=audit records the stacks of allocations and frees"
        } else {
            "millpond umem log has addresses of buffers"
        });
    }
    if asked.dress == Dress::Text {
        known.iter().for_each(|record| ctx.out.text(&block(asked, record)));
    }
    let is_known = !known.is_empty();
    Answer::of(Transactions::of(asked.image, asked.heap, &known), is_known)
}

pub(super) fn log(
    asked: &Asked<'_>,
    which: usize,
    most: usize,
    ctx: &mut Ctx<'_>,
) -> Result<Answer<Transactions>, Failure> {
    let name = LOGS.get(which).unwrap_or(&"transaction");
    let records = history::log(asked.heap, which, most).ok_or_else(|| {
        let complaint = Complaint::new(format!("show the log {name}"), "the process keeps none");
        complaint.hint(format!("start it with UMEM_DEBUG=audit UMEM_LOGGING={name}"))
    })?;
    let latest = records.first().map_or(0, |record| record.time);
    if asked.dress == Dress::Text {
        for record in &records {
            let before = latest.saturating_sub(record.time);
            let cache =
                record.cache.and_then(|place| asked.heap.caches.get(place)).map_or("", |cache| &cache.name);
            let (seconds, nanos) = (before / 1_000_000_000, before % 1_000_000_000);
            ctx.out.line(format_args!("\nT-{seconds}.{nanos:09}  addr={:x}  {cache}", record.buffer));
            for address in &record.stack {
                ctx.out.line(format_args!(" \t {}", function(asked.image, *address)));
            }
        }
    }
    Ok(Answer::of(Transactions::of(asked.image, asked.heap, &records), true))
}
