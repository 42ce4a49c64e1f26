//! Notices: the size of a pool, for programs that subscribe to it.
//!
//! ```text
//! pool 1
//! processors 2-3
//! size 2
//! serial 17
//! zone /system.slice/nginx.service
//! ```
//!
//! Each line is a word and a value. Lines with an unknown word are reserved for later versions, and are ignored. There may be several
//! zones, or none.

use crate::{CpuSet, ListError, PoolId};
use std::fmt;
use std::str::FromStr;

/// The size of a pool at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSize {
    /// The on-line CPUs of its set.
    pub cpus: CpuSet,
    /// The number of changes of `cpus` since the pool was created, from 1.
    pub serial: u64,
}

impl PoolSize {
    /// The number of CPUs.
    #[must_use]
    pub fn size(&self) -> usize {
        self.cpus.len()
    }
}

/// A notice about a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNotice {
    /// Its number.
    pub pool: PoolId,
    /// Its size.
    pub size: PoolSize,
    /// The persistent cgroups that are bound to it, by path, ascending.
    pub zones: Vec<String>,
}

/// The longest name of a file; longer ones end in a hash. File systems allow 255 bytes.
const FILE_MAX: usize = 200;

/// The part of a longer name that stays before the hash.
const START_MAX: usize = 100;

/// The name of the file with the notice of a pool: the name of the pool, if it is valid and not too long. It never leads out of
/// its directory, different pools never share a file, and the result is unchanged by a second application.
#[must_use]
pub fn notice_file(pool: &str) -> String {
    // No name of a pool contains a `~`, so it marks generated names.
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || b",._-~".contains(&b);
    let begins_well = pool.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'~');
    if begins_well && pool.len() <= FILE_MAX && pool.bytes().all(is_safe) {
        return pool.to_owned();
    }
    let start: String = pool.chars().filter(char::is_ascii_alphanumeric).take(START_MAX).collect();
    // FNV-1a: stable across versions, which a standard hasher does not promise.
    let hash = pool
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{start}~{hash:016x}")
}

/// The reason why a text is not a notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    /// A mandatory line is missing.
    #[error("there is no line `{0}`")]
    Missing(&'static str),
    /// A number is invalid.
    #[error("line {line}, column {column}: `{text}` is not a number")]
    NotANumber {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// The text at this position.
        text: String,
    },
    /// The list of CPUs is invalid. Columns of the source count from the start of the list.
    #[error("line {line}, column {column}: {source}")]
    List {
        /// The line, from 1.
        line: usize,
        /// The column at which the list begins, from 1.
        column: usize,
        /// The error.
        source: ListError,
    },
    /// The size differs from that of the list: the text is truncated or mixed.
    #[error("the size is {size}, and the list has {listed} CPUs")]
    Size {
        /// The size in the text.
        size: u64,
        /// The number of listed CPUs.
        listed: usize,
    },
}

impl fmt::Display for PoolNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolSize { cpus, serial } = &self.size;
        writeln!(f, "pool {}", self.pool)?;
        // An empty list must not leave a trailing blank.
        writeln!(f, "{}", format!("processors {cpus}").trim_end())?;
        writeln!(f, "size {}", cpus.len())?;
        writeln!(f, "serial {serial}")?;
        self.zones.iter().try_for_each(|zone| writeln!(f, "zone {zone}"))
    }
}

impl FromStr for PoolNotice {
    type Err = NoticeError;

    fn from_str(text: &str) -> Result<Self, NoticeError> {
        let (mut pool, mut cpus, mut size, mut serial) = (None, None, None, None);
        let mut zones = Vec::new();
        // `lines()` would remove a carriage return at the end of a path.
        for (at, content) in text.split('\n').enumerate() {
            let line = at + 1;
            let (word, value) = content.split_once(' ').unwrap_or((content, ""));
            let column = word.len() + 2;
            let number = || {
                let text = value.to_owned();
                value.parse::<u64>().map_err(|_| NoticeError::NotANumber { line, column, text })
            };
            match word {
                "pool" => {
                    let id = number()?;
                    let text = value.to_owned();
                    let id = u32::try_from(id).map_err(|_| NoticeError::NotANumber { line, column, text })?;
                    pool = Some(PoolId(id));
                }
                "processors" => {
                    let list = value.parse().map_err(|source| NoticeError::List { line, column, source })?;
                    cpus = Some(list);
                }
                "size" => size = Some(number()?),
                "serial" => serial = Some(number()?),
                "zone" => zones.push(value.to_owned()),
                _ => {}
            }
        }
        let pool = pool.ok_or(NoticeError::Missing("pool"))?;
        let cpus: CpuSet = cpus.ok_or(NoticeError::Missing("processors"))?;
        let size = size.ok_or(NoticeError::Missing("size"))?;
        let serial = serial.ok_or(NoticeError::Missing("serial"))?;
        let listed = cpus.len();
        if u64::try_from(listed) != Ok(size) {
            return Err(NoticeError::Size { size, listed });
        }
        Ok(PoolNotice { pool, size: PoolSize { cpus, serial }, zones })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "pool 1\nprocessors 2-3\nsize 2\nserial 17\nzone /system.slice/nginx.service\n";

    fn web() -> PoolNotice {
        let size = PoolSize { cpus: "2-3".parse().unwrap(), serial: 17 };
        PoolNotice { pool: PoolId(1), size, zones: vec!["/system.slice/nginx.service".into()] }
    }

    #[test]
    fn a_notice_is_lines_of_a_word_and_a_value() {
        assert_eq!(web().to_string(), WEB);
        assert_eq!(WEB.parse(), Ok(web()));
        assert_eq!(web().size.size(), 2);
    }

    #[test]
    fn an_empty_pool_has_a_line_without_a_value() {
        let text = "pool 4\nprocessors\nsize 0\nserial 2\n";
        let notice: PoolNotice = text.parse().unwrap();
        assert_eq!((notice.size.size(), notice.to_string().as_str()), (0, text));
    }

    #[test]
    fn a_path_is_kept_to_its_last_byte() {
        let notice = PoolNotice { zones: vec!["/a b\r".into()], ..web() };
        assert_eq!(notice.to_string().parse(), Ok(notice));
    }

    #[test]
    fn words_of_later_versions_are_passed_over() {
        let text = format!("mood calm\n{WEB}weather\n");
        assert_eq!(text.parse(), Ok(web()));
    }

    #[test]
    fn what_is_no_notice_is_refused_with_its_place() {
        let refused = |text: &str| text.parse::<PoolNotice>().unwrap_err().to_string();
        assert_eq!(refused(""), "there is no line `pool`");
        assert_eq!(refused("pool 1\nprocessors 1\nsize 1\n"), "there is no line `serial`");
        assert_eq!(refused("pool x\n"), "line 1, column 6: `x` is not a number");
        assert_eq!(refused("pool 4294967296\n"), "line 1, column 6: `4294967296` is not a number");
        let half = "pool 1\nprocessors 2-\n";
        assert!(refused(half).starts_with("line 2, column 12: "), "{}", refused(half));
        assert_eq!(
            refused("pool 1\nprocessors 2-3\nsize 3\nserial 1\n"),
            "the size is 3, and the list has 2 CPUs"
        );
    }

    #[test]
    fn a_file_is_called_as_its_pool_and_stays_in_its_directory() {
        assert_eq!(notice_file("web-2.x"), "web-2.x");
        for odd in ["", ".", "..", ".new", "../web", "a/b", "a\0b", &"w".repeat(201), &"é".repeat(300)] {
            let file = notice_file(odd);
            assert_eq!(notice_file(&file), file);
            assert!(file.contains('~') && file.len() < 255 && !file.contains(['/', '\0', '.']), "{file}");
        }
        assert_ne!(notice_file(&"w".repeat(201)), notice_file(&"w".repeat(202)));
    }

    #[test]
    fn fuzz_notices_of_pools() {
        millpond_fuzz::check_text(
            "model-pool-notices",
            &[WEB, "pool 4\nprocessors\nsize 0\nserial 2\n"],
            |text| {
                let Ok(notice) = text.parse::<PoolNotice>() else { return };
                assert_eq!(notice.to_string().parse(), Ok(notice));
            },
        );
    }
}
