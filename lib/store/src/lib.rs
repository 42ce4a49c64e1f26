//! Recordings: frames in a ring of compressed files that survive a crash.
//!
//! ```text
//!   Frame ──▶ codec: Encoder ──▶ file.tail: a record for each frame, at once
//!                      └───────▶ file: a block for each ten minutes          ──▶ Recording ──▶ codec: Decoder ──▶ Frame
//!   Ring: a folder of files; the oldest are removed if they exceed the limit of bytes or of age
//! ```
//!
//! After a `kill -9` the recording is complete up to the last frame. After a power failure the last five seconds may be lost.
//! Incomplete bytes are detected by checksum and reported.

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

/// The reason why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {doing} {}: {why}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The error of the system.
        why: String,
    },
    /// The file is not a readable recording.
    #[error("cannot read {}: {why}", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// The reason.
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
        /// The offset of the block.
        offset: u64,
        /// The error.
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

/// The extension of recording files.
pub const ENDING: &str = "frames";

/// The file of the frames that are not in a block yet, next to the recording file.
fn tail_of(path: &Path) -> PathBuf {
    path.with_extension("frames.tail")
}

/// The files of a folder, oldest first: their names contain the start time.
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

/// The sort key of files: the time in their name, then the number after it, then the name. The first file of a second has no number.
fn order_of(path: &Path) -> (String, u64, PathBuf) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = stem.rsplit_once('-').and_then(|(moment, n)| Some((moment.to_owned(), n.parse().ok()?)));
    let (moment, number) = numbered.unwrap_or((stem, 1));
    (moment, number, path.to_owned())
}

/// The name of a file with this start time: `20261127T060102Z`.
fn name_of(wall: WallTime) -> String {
    let moment = jiff::Timestamp::from_second(wall.0).unwrap_or_default();
    moment.strftime("%Y%m%dT%H%M%SZ").to_string()
}
