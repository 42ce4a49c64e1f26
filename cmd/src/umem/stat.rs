//! `umem stat`: a row for each cache.

use super::show::mib;
use super::target::{Answer, Asked};
use crate::ctx::Ctx;
use crate::dress::Dress;
use millpond_report::{Align, Cell, Table};
use millpond_umem::statistics::{Row, rows};
use schemars::JsonSchema;
use serde::Serialize;

fn table(rows: &[Row]) -> Table {
    let numbers = ["BUFSIZE", "INUSE", "MAGAZINE", "TOTAL", "MEMORY", "ALLOCS", "FAILS"];
    let mut heads = vec![("CACHE", Align::Left)];
    heads.extend(numbers.map(|head| (head, Align::Right)));
    heads.push(("FLAGS", Align::Left));
    let mut table = Table::new(&heads);
    for row in rows {
        let figures =
            [row.size, row.in_use, row.in_magazines, row.total, row.memory, row.allocs, row.failures];
        let flags = match row.flags.as_slice() {
            [] => Cell::Missing,
            words => words.join(",").into(),
        };
        let cells = figures.into_iter().map(Cell::from);
        table.row([Cell::from(row.name.as_str())].into_iter().chain(cells).chain([flags]));
    }
    table
}

/// `stat`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Statistics {
    caches: Vec<Row>,
    /// Bytes of all pages.
    mapped: usize,
    /// Bytes of pages in use.
    used: usize,
    /// Bytes of large buffers.
    large: usize,
    large_buffers: u64,
    /// Allocations of large buffers ever.
    large_allocs: u64,
    /// How often memory was exhausted.
    failures: u64,
    /// Bytes of the library's own data.
    own: usize,
    /// Threads with magazines.
    threads: usize,
}

pub(super) fn answer(asked: &Asked<'_>, used: bool, ctx: &mut Ctx<'_>) -> Answer<Statistics> {
    let mut rows = rows(asked.heap);
    rows.retain(|row| !used || row.allocs > 0 || row.total > 0 || row.failures > 0);
    let (heap, pages) = (&asked.heap.root.heap, asked.heap.pages());
    match asked.dress {
        Dress::Text => {
            ctx.out.text(&table(&rows).text());
            ctx.out.line(format_args!(
                "pages: {} mapped, {} in use; large buffers: {} with {}, {} ever; no memory: {} times; the library's own: {}; threads with magazines: {}",
                mib(heap.mapped as u64),
                mib(pages.used as u64),
                pages.large_buffers,
                mib(pages.large as u64),
                pages.large_allocs,
                heap.failures,
                mib(heap.meta as u64),
                asked.heap.thread_blocks(),
            ));
        }
        Dress::Csv => ctx.out.text(&table(&rows).csv()),
        _ => {}
    }
    let document = Statistics {
        caches: rows,
        mapped: heap.mapped,
        used: pages.used,
        large: pages.large,
        large_buffers: pages.large_buffers,
        large_allocs: pages.large_allocs,
        failures: heap.failures,
        own: heap.meta,
        threads: asked.heap.thread_blocks(),
    };
    Answer::of(document, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, flags: &[&'static str], in_use: u64) -> Row {
        Row {
            name: name.into(),
            at: 0x7f00,
            flags: flags.to_vec(),
            size: 48,
            in_use,
            in_magazines: 2,
            total: 83,
            memory: 4096,
            allocs: 12,
            failures: 0,
        }
    }

    #[test]
    fn each_cache_is_a_row() {
        let rows = [row("umem_alloc_48", &[], 3), row("session", &["audit", "nomagazine", "hash"], 12)];
        let expected = "\
CACHE          BUFSIZE  INUSE  MAGAZINE  TOTAL  MEMORY  ALLOCS  FAILS  FLAGS
umem_alloc_48       48      3         2     83    4096      12      0  -
session             48     12         2     83    4096      12      0  audit,nomagazine,hash
";
        assert_eq!(table(&rows).text(), expected);
        let json = serde_json::to_value(&rows[1]).unwrap();
        assert_eq!(json["flags"], serde_json::json!(["audit", "nomagazine", "hash"]));
        assert_eq!(json["address"], "7f00");
    }
}
