//! A file of a recording: a magic number, a head, then blocks of frames, each with length and checksum.
//!
//! ```text
//! file    "MILLPND1", records
//! record  kind (1 byte), length of the body (4), CRC-32 of kind and body (4), body; numbers in little-endian order
//! head    kind H: JSON, see `Header`
//! block   kind B: its index, then encoded frames, deflated
//! index   first and last frame: on the machine's clock in ns (8, 8), on the wall in s (8, 8); frames (4); inflated length (4)
//! ```
//!
//! Blocks are independent: to find a moment only the indexes are read. A file that ends in the middle of a record was
//! being written when its writer, or the machine, was stopped; all earlier records are complete.

use crate::StoreError;
use crate::codec::{Bytes, CREDIT, Decoder, Header, Malformed, Meter, Spent};
use crate::inflating::{Inflating, Input};
use millpond_model::{Nanos, WallTime};
use millpond_observe::Frame;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const MARK: &[u8; 8] = b"MILLPND1";
const HEAD: u8 = b'H';
const BLOCK: u8 = b'B';
const FRAME: u8 = b'F';
/// The size of kind, length and checksum of a record.
const LABEL_BYTES: usize = 9;
const INDEX_BYTES: usize = 40;
/// The longest accepted record.
const BODY_MAX: u32 = 64 << 20;
/// The largest accepted inflated size of a block: four times the 8 MiB at which a writer ends one, which leaves room for its last frame.
const INFLATED_MAX: usize = 32 << 20;
/// The compression level of blocks, of 10.
const LEVEL: u8 = 6;

/// The index of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index {
    pub first: (Nanos, WallTime),
    pub last: (Nanos, WallTime),
    pub frames: u32,
    pub inflated: u32,
}

impl Index {
    /// The index of a block that begins with this frame.
    pub fn of(frame: &Frame) -> Index {
        let moment = (frame.at, frame.wall);
        Index { first: moment, last: moment, frames: 0, inflated: 0 }
    }

    fn bytes(&self) -> [u8; INDEX_BYTES] {
        let mut bytes = [0; INDEX_BYTES];
        let numbers =
            [self.first.0.0, self.last.0.0, self.first.1.0.cast_unsigned(), self.last.1.0.cast_unsigned()];
        let longs = numbers.iter().flat_map(|number| number.to_le_bytes());
        let shorts = [self.frames, self.inflated];
        let all = longs.chain(shorts.iter().flat_map(|number| number.to_le_bytes()));
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }

    fn from(bytes: &[u8; INDEX_BYTES]) -> Index {
        let long =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let short =
            |at: usize| bytes[at..at + 4].iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
        let wall = |at: usize| WallTime(long(at).cast_signed());
        Index {
            first: (Nanos(long(0)), wall(16)),
            last: (Nanos(long(8)), wall(24)),
            frames: short(32),
            inflated: short(36),
        }
    }
}

fn checksum(kind: u8, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(body);
    sum.finalize()
}

/// The bytes of a record.
fn record(kind: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= BODY_MAX);
    let length = length.ok_or_else(|| io::Error::other("a block is longer than 64 MiB"))?;
    let mut bytes = Vec::with_capacity(LABEL_BYTES + body.len());
    bytes.push(kind);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum(kind, body).to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// The beginning of a file.
pub(crate) fn beginning(header: &Header) -> io::Result<Vec<u8>> {
    let mut bytes = MARK.to_vec();
    bytes.extend(record(HEAD, &serde_json::to_vec(header)?)?);
    Ok(bytes)
}

/// A block of encoded frames, as a record. `spent` is the work of a reader for them.
pub(crate) fn block(index: &Index, encoded: &[u8], spent: Spent) -> io::Result<Vec<u8>> {
    record(BLOCK, &[&index.bytes(), deflated(encoded, LEVEL, spent).as_slice()].concat())
}

/// An encoded frame of the incomplete block, as a record.
pub(crate) fn frame(encoded: &[u8], spent: Spent) -> io::Result<Vec<u8>> {
    record(FRAME, &deflated(encoded, 1, spent))
}

/// Deflated bytes, padded with zeros if a reader would refuse the work for this length.
fn deflated(encoded: &[u8], level: u8, spent: Spent) -> Vec<u8> {
    let mut bytes = miniz_oxide::deflate::compress_to_vec(encoded, level);
    let length = bytes.len().max(spent.length(encoded.len()));
    bytes.resize(length, 0);
    bytes
}

/// The frames of the incomplete block.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Deflated, one stream per frame.
    frames: Rc<Vec<Vec<u8>>>,
    /// The total inflated size.
    inflated: usize,
    /// The number of bytes at the end that are not a complete frame.
    pub torn: u64,
    /// The size of the file.
    pub bytes: u64,
}

impl Tail {
    /// Reads the tail file; empty if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Tail, StoreError> {
        let mut file = match File::open(path) {
            Ok(file) => io::BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Tail { frames: Rc::default(), inflated: 0, torn: 0, bytes: 0 });
            }
            Err(error) => return Err(StoreError::new(path, "read", &error)),
        };
        let failed = |error: io::Error| StoreError::new(path, "read", &error);
        let length = file.get_ref().metadata().map_err(failed)?.len();
        let (mut frames, mut whole, mut inflated) = (Vec::new(), 0, 0);
        let inflated_max = Meter::of_reader(length, CREDIT).inflated_max().min(INFLATED_MAX);
        while let Some(label) = next(&mut file, length).map_err(failed)? {
            let body = body(&mut file, &label).map_err(failed)?.filter(|_| label.kind == FRAME);
            let Some(body) = body else { break };
            let one = Rc::new(vec![body]);
            let mut bytes = Inflating::new(Input::of(&one), inflated_max.saturating_sub(inflated));
            while bytes.byte().is_some() {}
            if bytes.is_broken() {
                break;
            }
            inflated += bytes.taken();
            drop(bytes);
            frames.extend(Rc::into_inner(one).into_iter().flatten());
            whole = label.offset + u64::from(label.length);
        }
        Ok(Tail { frames: Rc::new(frames), inflated, torn: length - whole, bytes: length })
    }

    /// The encoded frames.
    pub fn encoded(&self) -> Inflating {
        Inflating::new(Input::of(&self.frames), self.inflated)
    }
}

/// The position of a block in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub index: Index,
    offset: u64,
    pub length: u32,
}

/// An existing file.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub path: PathBuf,
    pub header: Header,
    pub blocks: Vec<Place>,
    /// The number of complete bytes.
    pub whole: u64,
    /// The number of incomplete bytes at the end.
    pub torn: u64,
    file: File,
}

impl Blocks {
    /// Reads the head of a file and the indexes of its blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be read, or is not a recording.
    pub fn open(path: &Path) -> Result<Blocks, StoreError> {
        let failed = |error: io::Error| StoreError::new(path, "read", &error);
        let strange = |why: &str| StoreError::Strange { path: path.to_owned(), why: why.to_owned() };
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut mark = Vec::new();
        let _ = (&file).take(MARK.len() as u64).read_to_end(&mut mark).map_err(failed)?;
        if !MARK.starts_with(&mark) {
            return Err(strange("it is no recording of frames"));
        }
        let head = if mark == MARK { next(&mut file, length).map_err(failed)? } else { None };
        let Some(label) = head else { return Err(StoreError::Unbegun(path.to_owned())) };
        if label.kind != HEAD {
            return Err(strange("its head is damaged"));
        }
        let body = body(&mut file, &label).map_err(failed)?.ok_or_else(|| strange("its head is damaged"))?;
        let header: Header =
            serde_json::from_slice(&body).map_err(|why| strange(&format!("its head is damaged: {why}")))?;
        if header.recording != "frames" || header.format > crate::codec::FORMAT {
            return Err(strange("a newer program wrote it: update this one"));
        }
        let (mut blocks, mut whole) = (Vec::new(), file.stream_position().map_err(failed)?);
        while let Some(label) = next(&mut file, length).map_err(failed)? {
            let mut index = [0; INDEX_BYTES];
            if label.kind != BLOCK || file.read_exact(&mut index).is_err() {
                break;
            }
            let index = Index::from(&index);
            let end = label.offset + u64::from(label.length);
            blocks.push(Place { index, offset: label.offset - LABEL_BYTES as u64, length: label.length });
            whole = end;
            let _ = file.seek(SeekFrom::Start(end)).map_err(failed)?;
        }
        Ok(Blocks { path: path.to_owned(), header, blocks, whole, torn: length - whole, file })
    }

    /// Verifies the checksum of a block.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read, or the checksum is wrong.
    pub fn verify(&self, place: &Place) -> Result<(), StoreError> {
        let failed = |error: io::Error| StoreError::new(&self.path, "read", &error);
        let mut file = &self.file;
        let _ = file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
        let label = next(&mut file, u64::MAX).map_err(failed)?;
        let Some(label) = label.filter(|label| label.length == place.length) else {
            return Err(self.damaged(place, "its checksum is wrong"));
        };
        let (mut sum, mut left, mut chunk) = (crc32fast::Hasher::new(), label.length as usize, [0; 8 << 10]);
        sum.update(&[label.kind]);
        while left > 0 {
            let most = left.min(chunk.len());
            match file.read(&mut chunk[..most]).map_err(failed)? {
                0 => break,
                read => {
                    sum.update(&chunk[..read]);
                    left -= read;
                }
            }
        }
        if left > 0 || sum.finalize() != label.sum {
            return Err(self.damaged(place, "its checksum is wrong"));
        }
        Ok(())
    }

    /// The encoded frames of a block.
    ///
    /// # Errors
    /// See [`Blocks::verify`].
    pub fn encoded(&self, place: &Place, meter: &Meter) -> Result<Inflating, StoreError> {
        self.verify(place)?;
        let failed = |error: io::Error| StoreError::new(&self.path, "read", &error);
        let body = place.offset + LABEL_BYTES as u64;
        let (at, end) = (body + INDEX_BYTES as u64, body + u64::from(place.length));
        let most = (place.index.inflated as usize).min(INFLATED_MAX).min(meter.inflated_max());
        Ok(Inflating::new(Input::Part { file: self.file.try_clone().map_err(failed)?, at, end }, most))
    }

    /// A decoder for a block of this file.
    pub fn decoder(&self, meter: Meter) -> Decoder {
        Decoder::new(&self.header.tables, meter)
    }

    /// The error for a damaged block.
    pub fn damaged(&self, place: &Place, why: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), offset: place.offset, why: why.to_owned() }
    }

    /// The error for malformed frames in a block.
    pub fn malformed(&self, place: &Place, why: Malformed) -> StoreError {
        self.damaged(place, why.0)
    }

    /// The time of its last frame.
    pub fn last(&self) -> Option<(Nanos, WallTime)> {
        self.blocks.last().map(|place| place.index.last)
    }
}

struct Label {
    kind: u8,
    length: u32,
    sum: u32,
    /// The offset of the body.
    offset: u64,
}

/// The label of the next record, if it is complete.
fn next(file: &mut (impl Read + Seek), end: u64) -> io::Result<Option<Label>> {
    let mut bytes = [0; LABEL_BYTES];
    let mut filled = 0;
    while filled < LABEL_BYTES {
        match file.read(&mut bytes[filled..])? {
            0 => return Ok(None),
            read => filled += read,
        }
    }
    let offset = file.stream_position()?;
    let [kind, l0, l1, l2, l3, s0, s1, s2, s3] = bytes;
    let label = Label {
        kind,
        length: u32::from_le_bytes([l0, l1, l2, l3]),
        sum: u32::from_le_bytes([s0, s1, s2, s3]),
        offset,
    };
    let is_whole = label.length <= BODY_MAX && offset.saturating_add(u64::from(label.length)) <= end;
    let is_block = label.kind != BLOCK || label.length as usize >= INDEX_BYTES;
    Ok((is_whole && is_block).then_some(label))
}

/// The body of a record; `None` if it is incomplete or its checksum is wrong.
fn body(file: &mut impl Read, label: &Label) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    let _ = file.by_ref().take(u64::from(label.length)).read_to_end(&mut body)?;
    let is_whole = body.len() == label.length as usize && checksum(label.kind, &body) == label.sum;
    Ok(is_whole.then_some(body))
}

/// Appends bytes to a file in one call.
pub(crate) fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let _ = file.seek(SeekFrom::End(0))?;
    file.write_all(bytes)
}
