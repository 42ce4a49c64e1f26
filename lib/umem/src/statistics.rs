//! Figures of caches.

use crate::heap::Heap;
use millpond_rt_layout::flags;

/// Names of flags, in the order of their bits.
const FLAGS: [(u32, &str); 9] = [
    (flags::AUDIT, "audit"),
    (flags::DEADBEEF, "deadbeef"),
    (flags::REDZONE, "redzone"),
    (flags::CONTENTS, "contents"),
    (flags::NOMAGAZINE, "nomagazine"),
    (flags::FIREWALL, "firewall"),
    (flags::LITE, "lite"),
    (flags::HASH, "hash"),
    (flags::RANDOMIZE, "random"),
];

/// Figures of one cache.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its address; hexadecimal.
    #[serde(rename = "address", serialize_with = "crate::hex")]
    #[schemars(with = "String")]
    pub at: u64,
    /// The names of its checks.
    pub flags: Vec<&'static str>,
    /// Bytes of a buffer.
    pub size: u64,
    /// Allocated buffers.
    pub in_use: u64,
    /// Free buffers in magazines.
    pub in_magazines: u64,
    /// Buffers of all slabs.
    pub total: u64,
    /// Bytes of all slabs.
    pub memory: u64,
    /// Allocations since the start.
    pub allocs: u64,
    /// Failed allocations.
    pub failures: u64,
}

/// A row for each cache, by name and address. If the process is running, the figures of a row may be of different times.
#[must_use]
pub fn rows(heap: &Heap<'_>) -> Vec<Row> {
    let in_magazines = heap.in_magazines();
    let row = |(place, cache): (usize, &crate::Cache)| {
        let rounds = in_magazines.get(&place).copied().unwrap_or(0);
        Row {
            name: cache.name.clone(),
            at: cache.at,
            flags: FLAGS.iter().filter(|(flag, _)| cache.checks(*flag)).map(|(_, word)| *word).collect(),
            size: cache.size as u64,
            in_use: cache.slabs.taken.saturating_sub(rounds),
            in_magazines: rounds,
            total: cache.slabs.buffers,
            memory: cache.slabs.count.saturating_mul(cache.slab as u64),
            allocs: cache.allocs.wrapping_add(heap.magazines.allocs.get(place).copied().unwrap_or(0)),
            failures: cache.failures,
        }
    };
    let mut rows: Vec<Row> = heap.caches.iter().enumerate().map(row).collect();
    rows.sort_by(|a, b| natural(&a.name, &b.name).then(a.at.cmp(&b.at)));
    rows
}

/// Compares names by text, then by the number at the end: `umem_alloc_8` before `umem_alloc_16`.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let split = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (word, number) = name.split_at(name.len() - digits);
        (word.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    split(a).cmp(&split(b))
}

#[cfg(test)]
mod unit {
    use super::natural;

    #[test]
    fn names_with_numbers_are_in_the_order_of_these() {
        let mut names = ["umem_alloc_16", "umem_alloc_8", "session", "umem_alloc_128"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["session", "umem_alloc_8", "umem_alloc_16", "umem_alloc_128"]);
    }
}
