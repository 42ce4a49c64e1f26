//! Output as text, as CSV or as JSON; addresses, function names, bytes.

use millpond_machine::facets::{Image, Symbol};
use millpond_model::Nanos;
use millpond_umem::Heap;
use millpond_umem::history::Transaction;
use schemars::JsonSchema;
use serde::Serialize;

/// An address in hexadecimal.
pub(super) fn hex(address: u64) -> String {
    format!("{address:x}")
}

/// The name of the function at an address, or the address.
pub(super) fn function(image: &dyn Image, address: u64) -> String {
    image.symbol(address).map_or_else(|| format!("0x{address:x}"), |symbol| symbol.to_string())
}

/// The function names of a stack, innermost first.
pub(super) fn stack(image: &dyn Image, stack: &[u64]) -> Vec<String> {
    stack.iter().map(|address| function(image, *address)).collect()
}

/// Allocation functions, in any library.
const ALLOCATORS: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "free",
    "umem_alloc",
    "umem_zalloc",
    "umem_cache_alloc",
    "umem_alloc_align",
    "operator new",
    "_Znwm",
];

/// The innermost function of a stack outside of allocators. If all are in allocators, the innermost one.
pub(super) fn caller(image: &dyn Image, stack: &[u64]) -> Option<String> {
    let is_allocator = |symbol: &Symbol| {
        symbol.module.starts_with("libmillpond_")
            || ALLOCATORS.contains(&symbol.name.as_str())
            || symbol.name == "_Znam"
    };
    let others = |address: &&u64| !image.symbol(**address).is_some_and(|symbol| is_allocator(&symbol));
    let address = stack.iter().find(others).or(stack.first())?;
    Some(function(image, *address))
}

/// Bytes in MiB.
pub(super) fn mib(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let value = bytes as f64 / f64::from(1 << 20);
    format!("{value:.1} MiB")
}

/// A pause in milliseconds.
pub(super) fn milliseconds(time: Nanos) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// `bufctl` and `log`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Transactions {
    /// The latest first.
    transactions: Vec<TransactionRow>,
}

/// An allocation or a free of a buffer. Addresses are hexadecimal.
#[derive(Serialize, JsonSchema)]
struct TransactionRow {
    /// The address of this record.
    at: String,
    buffer: String,
    cache: Option<String>,
    /// On the monotonic clock.
    time_ns: u64,
    /// The kernel thread id.
    thread: u32,
    /// False for a free.
    allocated: bool,
    /// The address of the buffer's saved contents.
    contents: Option<String>,
    /// Innermost first.
    stack: Vec<String>,
}

impl Transactions {
    pub(super) fn of(image: &dyn Image, heap: &Heap<'_>, records: &[Transaction]) -> Transactions {
        let row = |record: &Transaction| TransactionRow {
            at: hex(record.at),
            buffer: hex(record.buffer),
            cache: record.cache.and_then(|place| heap.caches.get(place)).map(|cache| cache.name.clone()),
            time_ns: record.time,
            thread: record.thread,
            allocated: record.allocated,
            contents: (record.contents != 0).then(|| hex(record.contents)),
            stack: stack(image, &record.stack),
        };
        Transactions { transactions: records.iter().map(row).collect() }
    }
}
