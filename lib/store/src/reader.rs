//! Reads frames from a folder or a file, starting at any moment.

use crate::codec::{CREDIT, Decoder, Malformed, Meter};
use crate::file::{Blocks, Index, Place, Tail};
use crate::inflating::Inflating;
use crate::ring::after;
use crate::{StoreError, files_in, tail_of};
use millpond_model::{Nanos, WallTime};
use millpond_observe::Frame;
use std::borrow::Borrow;
use std::path::{Path, PathBuf};

/// An existing recording.
#[derive(Debug)]
pub struct Recording {
    files: Vec<Source>,
    /// Notes about incomplete parts, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Source {
    blocks: Blocks,
    /// Frames that are not in a block yet, and their index.
    tail: Tail,
    after: Option<Index>,
    /// The number of the watch that wrote it.
    run: usize,
}

/// A summary of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The recorded machine: that of the last file if there are several.
    pub machine: String,
    /// The earliest frame: the first one, unless the clock was set back.
    pub first: WallTime,
    /// The latest one.
    pub last: WallTime,
    /// The number of frames.
    pub frames: u64,
    /// The number of files.
    pub files: usize,
    /// The total size of these in bytes.
    pub bytes: u64,
}

/// A frame with the number of its watch: counters of another watch start from zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The frame.
    pub frame: Frame,
    /// The number of the watch in the recording, from 0.
    pub run: usize,
}

/// The part of a recording by one watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its first file.
    pub file: PathBuf,
    /// The time of its first frame.
    pub first: WallTime,
    /// The time of its last frame.
    pub last: WallTime,
    /// The number of its frames.
    pub frames: u64,
}

impl Recording {
    /// Opens a folder written by [`crate::Ring`], or one of its files. It may be written in the meantime; later data are not included.
    ///
    /// # Errors
    /// [`StoreError`] if nothing can be read.
    pub fn open(path: &Path) -> Result<Recording, StoreError> {
        let is_dir = std::fs::metadata(path).map_err(|error| StoreError::new(path, "read", &error))?.is_dir();
        let paths = if is_dir { files_in(path)? } else { vec![path.to_owned()] };
        let mut recording = Recording { files: Vec::new(), notes: Vec::new() };
        for path in &paths {
            match Source::open(path) {
                Ok((mut source, torn)) => {
                    source.run = recording
                        .files
                        .last()
                        .map_or(0, |before| before.run + usize::from(!source.continues(before)));
                    if torn > 0 {
                        let path = path.display();
                        recording.notes.push(format!(
                            "{path}: its last {torn} bytes are no whole block or frame, and are left out"
                        ));
                    }
                    recording.files.push(source);
                }
                // Its writer may have been stopped, or may have just started.
                Err(StoreError::Unbegun(_)) if is_dir => {}
                Err(StoreError::Strange { path, why }) if is_dir => {
                    recording.notes.push(format!("{}: {why}: it is left out", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
        if recording.span().is_none() {
            let why = if is_dir { "no recording is in it" } else { "no frame is in it" };
            let why = recording.notes.iter().fold(why.to_owned(), |why, note| format!("{why}; {note}"));
            return Err(StoreError::Strange { path: path.to_owned(), why });
        }
        Ok(recording)
    }

    /// The summary; `None` without frames.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let runs = self.runs();
        Some(Span {
            machine: self.files.last()?.blocks.header.machine.clone(),
            // The clock may have been set back between two watches.
            first: runs.iter().map(|run| run.first).min()?,
            last: runs.iter().map(|run| run.last).max()?,
            frames: runs.iter().map(|run| run.frames).sum(),
            files: self.files.len(),
            bytes: self.files.iter().map(|source| source.blocks.whole + source.tail.bytes).sum(),
        })
    }

    /// The watches that wrote it, in order. A watch without frames is omitted.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        let of = |files: &[Source]| {
            let mut indexes = files.iter().flat_map(Source::indexes).peekable();
            let (file, first) = (files.first()?.blocks.path.clone(), indexes.peek()?.first.1);
            let whole = Run { file, first, last: first, frames: 0 };
            Some(indexes.fold(whole, |run, index| Run {
                last: run.last.max(index.last.1),
                first: run.first.min(index.first.1),
                frames: run.frames + u64::from(index.frames),
                ..run
            }))
        };
        self.files.chunk_by(|a, b| a.run == b.run).filter_map(of).collect()
    }

    /// Whether the clock was set back during the recording, so that a time may occur twice.
    #[must_use]
    pub fn goes_back(&self) -> bool {
        let moments =
            self.files.iter().flat_map(Source::indexes).flat_map(|index| [index.first.1, index.last.1]);
        !moments.is_sorted()
    }

    /// The damaged blocks, a sentence each; reads every byte.
    #[must_use]
    pub fn damage(&self) -> Vec<String> {
        let blocks =
            self.files.iter().flat_map(|file| file.blocks.blocks.iter().map(move |place| (file, place)));
        blocks
            .filter_map(|(file, place)| file.blocks.verify(place).err().map(|error| error.to_string()))
            .collect()
    }

    /// Frames from this time on. The first is the frame before it, if any, so that differences can be computed.
    #[must_use]
    pub fn frames_from(&self, wall: WallTime) -> Frames<&Recording> {
        Frames::begin(self, wall)
    }

    /// The same, owning the recording.
    #[must_use]
    pub fn into_frames_from(self, wall: WallTime) -> Frames<Recording> {
        Frames::begin(self, wall)
    }

    /// All frames.
    #[must_use]
    pub fn frames(&self) -> Frames<&Recording> {
        self.frames_from(WallTime(i64::MIN))
    }

    /// All blocks, and the index of the one in which frames from this time on begin.
    fn blocks_from(&self, wall: WallTime) -> (Vec<(usize, usize)>, usize) {
        let (mut places, mut start) = (Vec::new(), None);
        for (file, source) in self.files.iter().enumerate() {
            for (block, index) in source.indexes().enumerate() {
                if start.is_none() && index.first.1.max(index.last.1) >= wall {
                    // The frame before that time may be the last one of the previous block.
                    let is_inside = index.first.1 < wall;
                    start = Some(places.len().saturating_sub(usize::from(!is_inside)));
                }
                places.push((file, block));
            }
        }
        let start = start.unwrap_or_else(|| places.len().saturating_sub(1));
        (places, start)
    }
}

impl Source {
    fn open(path: &Path) -> Result<(Source, u64), StoreError> {
        let tail = Tail::read(&tail_of(path))?;
        let blocks = Blocks::open(path)?;
        let (after, ..) = after(&blocks, &tail);
        let torn = blocks.torn + tail.torn;
        Ok((Source { blocks, tail, after, run: 0 }, torn))
    }

    /// Whether the watch that wrote `before` continued in this file: its clock never goes back.
    fn continues(&self, before: &Source) -> bool {
        let watch = |source: &Source| {
            let header = &source.blocks.header;
            (header.run, header.process, header.machine.clone())
        };
        let ends = before.indexes().last().map(|index| index.last.0);
        let begins = self.indexes().next().map(|index| index.first.0);
        watch(self) == watch(before) && ends.zip(begins).is_none_or(|(ends, begins)| begins > ends)
    }

    /// The indexes of its blocks, in order.
    fn indexes(&self) -> impl Iterator<Item = &Index> {
        self.blocks.blocks.iter().map(|place| &place.index).chain(&self.after)
    }

    /// The length of a block in its file.
    fn length(&self, block: usize) -> u64 {
        self.blocks.blocks.get(block).map_or(self.tail.bytes, |place| u64::from(place.length))
    }

    /// The encoded frames of a block.
    fn encoded(&self, block: usize, meter: &Meter) -> Result<(Option<Place>, Inflating), StoreError> {
        match self.blocks.blocks.get(block) {
            Some(place) => Ok((Some(*place), self.blocks.encoded(place, meter)?)),
            None => Ok((None, self.tail.encoded())),
        }
    }
}

/// Frames in order. After a damaged block the frames of the next one follow.
#[derive(Debug)]
pub struct Frames<R> {
    recording: R,
    /// All blocks: the file and the block number of each.
    places: Vec<(usize, usize)>,
    next: usize,
    block: Option<Reading>,
    /// Frames before this time are skipped, except the last one.
    from: Option<WallTime>,
    held: Option<Moment>,
    /// The allowed work beyond the lengths of blocks.
    credit: u64,
}

#[derive(Debug)]
struct Reading {
    file: usize,
    place: Option<Place>,
    decoder: Decoder,
    encoded: Inflating,
    length: u64,
}

impl<R: Borrow<Recording>> Frames<R> {
    fn begin(recording: R, wall: WallTime) -> Frames<R> {
        let (places, next) = recording.borrow().blocks_from(wall);
        Frames { recording, places, next, block: None, from: Some(wall), held: None, credit: CREDIT }
    }

    /// The next readable frame. Errors before it are added to `damaged`, a sentence each.
    pub fn readable(&mut self, damaged: &mut Vec<String>) -> Option<Moment> {
        self.find_map(|read| read.map_err(|error| damaged.push(error.to_string())).ok())
    }

    fn next_of_all(&mut self) -> Option<Result<Moment, StoreError>> {
        loop {
            if let Some(block) = &mut self.block
                && (!block.encoded.is_over() || block.encoded.is_broken())
            {
                let source = &self.recording.borrow().files[block.file].blocks;
                let read =
                    block.decoder.frame(&mut block.encoded).map_err(|why| match block.encoded.is_broken() {
                        true => Malformed("it cannot be inflated"),
                        false => why,
                    });
                return match read {
                    Ok(frame) => {
                        Some(Ok(Moment { frame, run: self.recording.borrow().files[block.file].run }))
                    }
                    Err(why) => {
                        let place = block.place;
                        self.credit = block.decoder.meter().credit_left(block.length, self.credit);
                        self.block = None;
                        place.map(|place| Err(source.malformed(&place, why)))
                    }
                };
            }
            if let Some(read) = self.block.take() {
                self.credit = read.decoder.meter().credit_left(read.length, self.credit);
            }
            let (file, number) = *self.places.get(self.next)?;
            self.next += 1;
            let source = &self.recording.borrow().files[file];
            let length = source.length(number);
            let meter = Meter::of_reader(length, self.credit);
            self.block = match source.encoded(number, &meter) {
                Ok((place, encoded)) => {
                    Some(Reading { file, place, decoder: source.blocks.decoder(meter), encoded, length })
                }
                Err(error) => return Some(Err(error)),
            };
        }
    }
}

impl<R: Borrow<Recording>> Iterator for Frames<R> {
    type Item = Result<Moment, StoreError>;

    fn next(&mut self) -> Option<Result<Moment, StoreError>> {
        let Some(from) = self.from else {
            return self.held.take().map(Ok).or_else(|| self.next_of_all());
        };
        let mut before: Option<Moment> = None;
        loop {
            match self.next_of_all() {
                Some(Ok(moment)) if moment.frame.wall < from => before = Some(moment),
                Some(Ok(moment)) => {
                    self.from = None;
                    let before = before.filter(|before| before.run == moment.run);
                    return Some(Ok(match before {
                        Some(before) => {
                            self.held = Some(moment);
                            before
                        }
                        None => moment,
                    }));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.from = None;
                    return before.map(Ok);
                }
            }
        }
    }
}

impl Span {
    /// The time from its first to its last frame.
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos::from_secs(u64::try_from(self.last.0.saturating_sub(self.first.0)).unwrap_or(0))
    }
}
