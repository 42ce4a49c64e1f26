//! Writes frames into a folder, and removes the oldest ones.

use crate::codec::{Bytes, CREDIT, Encoder, Header, Meter, Spent};
use crate::file::{self, Blocks, Index, Tail};
use crate::{ENDING, StoreError, files_in, name_of, tail_of};
use millpond_model::{Nanos, WallTime};
use millpond_observe::Frame;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The limits of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of all files in bytes.
    pub bytes: u64,
    /// The maximum age of a file, from its last frame.
    pub age: Nanos,
}

/// One gigabyte, which a large machine does not fill in a week, and one week.
impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 1 << 30, age: Nanos::from_secs(7 * 86400) }
    }
}

/// The maximum time span of a block.
const BLOCK_TIME: Nanos = Nanos::from_secs(600);
/// The maximum size of a block before compression.
const BLOCK_BYTES: usize = 8 << 20;
/// The maximum time span of a file.
const FILE_TIME: Nanos = Nanos::from_secs(6 * 3600);
/// The limit of bytes divided by this number is the maximum size of a file.
const FILE_PART: u64 = 16;
/// The interval of fsync.
const SYNC_TIME: Nanos = Nanos::from_secs(5);

/// Counts of a writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Frames.
    pub frames: u64,
    /// Bytes of files, without the tail.
    pub bytes: u64,
    /// Files removed to free space.
    pub dropped: u64,
}

/// A folder that is being written.
#[derive(Debug)]
pub struct Ring {
    dir: PathBuf,
    limits: Limits,
    header: Header,
    written: Written,
    open: Option<Open>,
}

/// The file that is being written.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
    began: Nanos,
    tail: File,
    tail_bytes: u64,
    synced: Nanos,
    /// The incomplete block.
    block: Option<Block>,
}

#[derive(Debug)]
struct Block {
    encoder: Encoder,
    encoded: Vec<u8>,
    index: Index,
}

impl Ring {
    /// Starts writing into a folder, which the caller must own exclusively. Completes the files of a killed program, and removes files
    /// without a head. Also returns notes about that, a sentence each.
    ///
    /// # Errors
    /// [`StoreError`] if a system call fails.
    pub fn open(
        dir: &Path,
        machine: &str,
        run: WallTime,
        limits: Limits,
    ) -> Result<(Ring, Vec<String>), StoreError> {
        let mut notes = Vec::new();
        for path in files_in(dir)? {
            match mend(&path) {
                Ok(note) => notes.extend(note),
                Err(StoreError::Unbegun(path)) => {
                    for path in [tail_of(&path), path] {
                        remove_if_there(&path)?;
                    }
                }
                // The file stays unchanged: a reader reports the same error.
                Err(StoreError::Strange { path, why }) => notes.push(format!("{}: {why}", path.display())),
                Err(error) => return Err(error),
            }
        }
        let header = Header::new(machine, run);
        let written = Written::default();
        Ok((Ring { dir: dir.to_owned(), limits, header, written, open: None }, notes))
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// [`StoreError`] if a system call fails. Earlier frames stay readable.
    pub fn push(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let (parts, limits) = (self.limits.bytes / FILE_PART, self.limits);
        if self.open.as_ref().is_some_and(|open| open.bytes >= parts || frame.at - open.began >= FILE_TIME) {
            self.end_file()?;
        }
        if self.open.is_none() {
            self.begin_file(frame)?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let block = open.block.get_or_insert_with(|| Block {
            encoder: Encoder::new(&self.header.tables),
            encoded: Vec::new(),
            index: Index::of(frame),
        });
        let (before, spent_before) = (block.encoded.len(), block.encoder.spent());
        block.encoder.frame(frame, &mut block.encoded);
        let of_frame = block.encoder.spent().since(spent_before);
        block.index.last = (frame.at, frame.wall);
        block.index.frames += 1;
        let tail = tail_of(&open.path);
        let failed = |error: io::Error| StoreError::new(&tail, "write", &error);
        let bytes = file::frame(&block.encoded[before..], of_frame).map_err(failed)?;
        if let Err(error) = file::append(&mut open.tail, &bytes) {
            let _ = open.tail.set_len(open.tail_bytes);
            return Err(failed(error));
        }
        open.tail_bytes += bytes.len() as u64;
        self.written.frames += 1;
        if frame.at - open.synced >= SYNC_TIME {
            open.tail.sync_data().map_err(failed)?;
            open.synced = frame.at;
        }
        let is_whole = frame.at - block.index.first.0 >= BLOCK_TIME
            || block.encoded.len() >= BLOCK_BYTES
            // The tail also counts for the limit.
            || open.tail_bytes >= parts.max(limits.bytes / 2);
        if is_whole {
            self.end_block()?;
            self.make_room(frame.wall)?;
        }
        Ok(())
    }

    /// The counts so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// The file that is being written.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.path.as_path())
    }

    /// Completes all files.
    ///
    /// # Errors
    /// See [`Ring::push`].
    pub fn finish(mut self) -> Result<Written, StoreError> {
        self.end_file()?;
        Ok(self.written)
    }

    fn begin_file(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let name = name_of(frame.wall);
        let names = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}-{n}")));
        let mut paths = names.map(|name| self.dir.join(name).with_extension(ENDING));
        // A symbolic link with this name counts as an existing file.
        let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
        let Some(path) = paths.find(is_free) else { return Ok(()) };
        let failed = |error: io::Error| StoreError::new(&path, "write", &error);
        let beginning = file::beginning(&self.header).map_err(failed)?;
        remove_if_there(&tail_of(&path))?;
        let create = |path: &Path| OpenOptions::new().create_new(true).read(true).write(true).open(path);
        let mut file = create(&path).map_err(failed)?;
        file::append(&mut file, &beginning).map_err(failed)?;
        let tail = create(&tail_of(&path)).map_err(failed)?;
        let bytes = beginning.len() as u64;
        self.written.bytes += bytes;
        let began = frame.at;
        self.open = Some(Open { path, file, bytes, began, tail, tail_bytes: 0, synced: began, block: None });
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(block) = open.block.take() else { return Ok(()) };
        let failed = |error: io::Error| StoreError::new(&open.path, "write", &error);
        let bytes = append_block(&mut open.file, block.index, &block.encoded, block.encoder.spent())
            .map_err(failed)?;
        open.tail.set_len(0).map_err(failed)?;
        open.tail_bytes = 0;
        open.bytes += bytes;
        self.written.bytes += bytes;
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), StoreError> {
        self.end_block()?;
        match self.open.take() {
            Some(open) => remove_if_there(&tail_of(&open.path)),
            None => Ok(()),
        }
    }

    /// Removes the oldest files until the rest is within the limits. The file being written stays.
    fn make_room(&mut self, now: WallTime) -> Result<(), StoreError> {
        let current = self.path().map(Path::to_owned);
        let files = files_in(&self.dir)?;
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
        let mut bytes: u64 = files.iter().map(size).sum();
        let oldest = now.0.saturating_sub_unsigned(self.limits.age.0 / 1_000_000_000);
        for path in files.iter().filter(|path| Some(*path) != current.as_ref()) {
            let is_old =
                || Blocks::open(path).is_ok_and(|file| file.last().is_some_and(|(_, wall)| wall.0 < oldest));
            if bytes <= self.limits.bytes && !is_old() {
                break;
            }
            bytes -= size(path);
            std::fs::remove_file(path).map_err(|error| StoreError::new(path, "remove", &error))?;
            self.written.dropped += 1;
        }
        Ok(())
    }
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::new(path, "remove", &error)),
        _ => Ok(()),
    }
}

/// Appends a block and syncs it. If that fails, the file is restored.
fn append_block(file: &mut File, index: Index, encoded: &[u8], spent: Spent) -> io::Result<u64> {
    let inflated =
        u32::try_from(encoded.len()).map_err(|_| io::Error::other("a block is longer than 4 GiB"))?;
    let record = file::block(&Index { inflated, ..index }, encoded, spent)?;
    let before = file.metadata()?.len();
    let done = file::append(file, &record).and_then(|()| file.sync_data());
    if done.is_err() {
        let _ = file.set_len(before);
    }
    done.map(|()| record.len() as u64)
}

/// Completes a file of a killed program: removes the incomplete end, and converts the tail to its last block.
fn mend(path: &Path) -> Result<Option<String>, StoreError> {
    let beside = tail_of(path);
    let blocks = Blocks::open(path)?;
    if blocks.torn == 0 && !beside.exists() {
        return Ok(None);
    }
    let tail = Tail::read(&beside)?;
    let failed = |error: io::Error| StoreError::new(path, "mend", &error);
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    file.set_len(blocks.whole).map_err(failed)?;
    let (index, whole, spent) = after(&blocks, &tail);
    if let Some(index) = index {
        let mut bytes = tail.encoded();
        let encoded: Vec<u8> = std::iter::from_fn(|| bytes.byte()).take(whole).collect();
        let _ = append_block(&mut file, index, &encoded, spent).map_err(failed)?;
    }
    remove_if_there(&beside)?;
    let torn = blocks.torn + tail.torn;
    let frames = index.map_or(0, |index| index.frames);
    Ok(Some(format!(
        "{}: its writer was stopped: {frames} frames are made a block, {torn} bytes are no whole frame",
        path.display()
    )))
}

/// The index of the frames in the tail that are not in a block of the file, the number of bytes of complete frames, and the cost of reading
/// them. The frames are already in the last block if the writer was stopped after it had written the block.
pub(crate) fn after(blocks: &Blocks, tail: &Tail) -> (Option<Index>, usize, Spent) {
    let mut bytes = tail.encoded();
    let mut decoder = blocks.decoder(Meter::of_reader(tail.bytes, CREDIT));
    let mut index: Option<Index> = None;
    let mut whole = 0;
    while !bytes.is_over() {
        let Ok(frame) = decoder.frame(&mut bytes) else { break };
        let index = index.get_or_insert_with(|| Index::of(&frame));
        index.last = (frame.at, frame.wall);
        index.frames += 1;
        whole = bytes.taken();
    }
    let index = index.filter(|index| blocks.last().is_none_or(|(at, _)| at < index.first.0));
    (index, whole, decoder.meter().spent)
}
