//! Figures of caches.

use crate::heap::Heap;

/// Figures of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub at: u64,
    /// What it checks.
    pub flags: u32,
    /// Bytes of a buffer.
    pub size: u64,
    /// Buffers that users have.
    pub in_use: u64,
    /// Buffers that are free in magazines.
    pub in_magazines: u64,
    /// Buffers of all slabs.
    pub total: u64,
    /// Bytes of all slabs.
    pub memory: u64,
    /// Allocations ever.
    pub allocs: u64,
    /// Allocations that failed.
    pub failures: u64,
}

/// A row for each cache, by name and where it is. Of a process that runs, figures of one row may be of different moments.
#[must_use]
pub fn rows(heap: &Heap<'_>) -> Vec<Row> {
    let in_magazines = heap.in_magazines();
    let row = |(place, cache): (usize, &crate::Cache)| {
        let rounds = in_magazines.get(&place).copied().unwrap_or(0);
        Row {
            name: cache.name.clone(),
            at: cache.at,
            flags: cache.flags,
            size: cache.size,
            in_use: cache.taken.saturating_sub(rounds),
            in_magazines: rounds,
            total: cache.buffers,
            memory: cache.slabs.saturating_mul(cache.slab),
            allocs: cache.allocs.wrapping_add(heap.magazines.allocs.get(place).copied().unwrap_or(0)),
            failures: cache.failures,
        }
    };
    let mut rows: Vec<Row> = heap.caches.iter().enumerate().map(row).collect();
    rows.sort_by(|a, b| natural(&a.name, &b.name).then(a.at.cmp(&b.at)));
    rows
}

/// By words, and numbers by their size: `umem_alloc_8` before `umem_alloc_16`.
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
