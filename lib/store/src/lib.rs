//! Recordings: frames in a ring of compressed files that survive a crash.
//!
//! ```text
//!   Frame ──▶ codec: Encoder ──▶ file.tail: a record for each frame, at once
//!                      └───────▶ file: a block for each ten minutes          ──▶ Recording ──▶ codec: Decoder ──▶ Frame
//!   Ring: a folder of files; the oldest go when there are too many bytes, or they are too old
//! ```
//!
//! What was recorded before a `kill -9` is there up to the last frame; of a machine that lost its power what the last five seconds wrote may be lost.
//! Bytes that are not whole are found by their checksum and told.

mod codec;
mod file;
mod inflating;
mod reader;
mod ring;

pub use reader::{Frames, Moment, Recording, Run, Span};
pub use ring::{Limits, Ring, Written};

use millpond_model::WallTime;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refuses.
    #[error("cannot {doing} {}: {why}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What was to be done.
        doing: &'static str,
        /// The system's reason.
        why: String,
    },
    /// The file is none that can be read.
    #[error("cannot read {}: {why}", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file has no head: its writer was stopped before it wrote one.
    #[error("cannot read {}: its writer was stopped before the first frame", .0.display())]
    Unbegun(PathBuf),
    /// A block of a file is damaged. Others can be read.
    #[error("{}, block at byte {offset}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the block begins.
        offset: u64,
        /// What is wrong.
        why: String,
    },
}

impl StoreError {
    fn new(path: &Path, doing: &'static str, error: &io::Error) -> StoreError {
        let text = error.to_string();
        let why = text.split(" (os error").next().unwrap_or_default().to_owned();
        StoreError::System { path: path.to_owned(), doing, why }
    }
}

/// What files of recordings end in.
pub const ENDING: &str = "frames";

/// The file of the frames that are in no block yet, beside a file.
fn tail_of(path: &Path) -> PathBuf {
    path.with_extension("frames.tail")
}

/// The files of a folder, the oldest first: they are named by when they begin.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |error: io::Error| StoreError::new(dir, "read", &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            files.push(path);
        }
    }
    files.sort_by_cached_key(|path| order_of(path));
    Ok(files)
}

/// What files are ordered by: the moment in their name, then the number behind it, then the name. The first file of a second has no number.
fn order_of(path: &Path) -> (String, u64, PathBuf) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = stem.rsplit_once('-').and_then(|(moment, n)| Some((moment.to_owned(), n.parse().ok()?)));
    let (moment, number) = numbered.unwrap_or((stem, 1));
    (moment, number, path.to_owned())
}

/// The name of a file that begins then: `20261127T060102Z`.
fn name_of(wall: WallTime) -> String {
    let moment = jiff::Timestamp::from_second(wall.0).unwrap_or_default();
    moment.strftime("%Y%m%dT%H%M%SZ").to_string()
}
