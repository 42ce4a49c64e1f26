//! Parser for the records of perf sample buffers.

/// A relevant record. Process ids are those of this process's PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// A sample of a thread of this process.
    Sample { pid: u32 },
    /// A process was forked.
    Fork { pid: u32, parent: u32, time_ns: u64 },
    /// Number of lost records.
    Lost { count: u64 },
}

/// The supported record types (`PERF_RECORD_…`).
const LOST: u32 = 2;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;

/// Size of a record header: type (4), flags (2), size (2).
const HEAD_BYTES: usize = 8;

/// Calls `each` for every relevant record of `bytes`, in order. Stops at the first invalid record, which means that the buffer
/// was overwritten during the read.
///
/// Layouts, after the head: a sample with thread numbers only is `pid, tid` (4 bytes each); a fork is `pid,
/// parent pid, tid, parent tid` (4 each), `time` (8); lost is `id, count` (8 each), lost samples `count` (8).
pub(super) fn parse_records(mut bytes: &[u8], mut each: impl FnMut(Record)) {
    while let (Some(kind), Some(size)) = (u32_at(bytes, 0), u16_at(bytes, 6)) {
        let size = usize::from(size);
        if size < HEAD_BYTES || size > bytes.len() {
            return;
        }
        let (record, rest) = bytes.split_at(size);
        bytes = rest;
        let body = &record[HEAD_BYTES..];
        let parsed = match kind {
            SAMPLE => u32_at(body, 0).map(|pid| Record::Sample { pid }),
            FORK => fork(body),
            LOST => u64_at(body, 8).map(|count| Record::Lost { count }),
            LOST_SAMPLES => u64_at(body, 0).map(|count| Record::Lost { count }),
            _ => None,
        };
        if let Some(parsed) = parsed {
            each(parsed);
        }
    }
}

/// Ignores new threads of an existing process.
fn fork(body: &[u8]) -> Option<Record> {
    let (pid, parent, time_ns) = (u32_at(body, 0)?, u32_at(body, 4)?, u64_at(body, 16)?);
    (pid != parent).then_some(Record::Fork { pid, parent, time_ns })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, words: &[u32]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend(u16::try_from(HEAD_BYTES + 4 * words.len()).unwrap().to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    fn parse(bytes: &[u8]) -> Vec<Record> {
        let mut records = Vec::new();
        parse_records(bytes, |record| records.push(record));
        records
    }

    // 64-bit fields as two words, low word first: this test is written for little-endian machines.
    #[cfg(target_endian = "little")]
    #[test]
    fn the_kinds_that_matter_are_understood_and_the_rest_is_passed_over() {
        let mut bytes = record(SAMPLE, &[100, 101]);
        bytes.extend(record(3, &[1, 2, 3, 4]));
        bytes.extend(record(FORK, &[200, 100, 200, 101, 55, 0]));
        bytes.extend(record(FORK, &[100, 100, 102, 101, 56, 0]));
        bytes.extend(record(LOST, &[9, 0, 3, 0]));
        bytes.extend(record(LOST_SAMPLES, &[4, 0]));
        assert_eq!(
            parse(&bytes),
            [
                Record::Sample { pid: 100 },
                Record::Fork { pid: 200, parent: 100, time_ns: 55 },
                Record::Lost { count: 3 },
                Record::Lost { count: 4 },
            ]
        );
    }

    #[test]
    fn a_record_without_a_size_ends_it() {
        assert_eq!(parse(&[0; 64]), []);
        let mut cut = record(SAMPLE, &[1, 2]);
        cut.pop();
        assert_eq!(parse(&cut), []);
    }

    #[test]
    fn fuzz_records_of_samples() {
        let fork: Vec<u8> = record(FORK, &[200, 100, 200, 101, 55, 0]);
        let mixed: Vec<u8> = [record(SAMPLE, &[100, 101]), record(LOST, &[9, 0, 3, 0]), fork].concat();
        millpond_fuzz::check("linux-records", &[&mixed, &record(LOST_SAMPLES, &[4, 0])], |bytes| {
            assert!(parse(bytes).len() <= bytes.len() / HEAD_BYTES);
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            parse(&bytes);
        }

        #[test]
        fn as_many_samples_come_out_as_went_in(pids in proptest::collection::vec(1u32..1000, 0..50)) {
            let bytes: Vec<u8> = pids.iter().flat_map(|pid| record(SAMPLE, &[*pid, *pid])).collect();
            let expected: Vec<Record> = pids.into_iter().map(|pid| Record::Sample { pid }).collect();
            prop_assert_eq!(parse(&bytes), expected);
        }
    }
}
