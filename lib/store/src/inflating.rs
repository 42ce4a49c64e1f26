//! Incremental inflation: at most one window of a block or a tail is in memory.

use crate::codec::Bytes;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The number of deflated bytes read at a time.
const CHUNK: usize = 16 << 10;

/// The number of inflated bytes produced at a time.
const WINDOW: usize = 32 << 10;

/// The source of deflated bytes.
pub(crate) enum Input {
    /// One stream in a range of a file. Other readers may use the file in the meantime.
    Part { file: File, at: u64, end: u64 },
    /// Several streams in order.
    Streams { streams: Rc<Vec<Vec<u8>>>, next: usize, at: usize },
}

impl Input {
    /// All streams, from the first.
    pub fn of(streams: &Rc<Vec<Vec<u8>>>) -> Input {
        Input::Streams { streams: Rc::clone(streams), next: 0, at: 0 }
    }

    /// Reads more bytes of the present stream; returns their number.
    fn read(&mut self, into: &mut [u8]) -> usize {
        match self {
            Input::Part { file, at, end } => {
                let most = usize::try_from(*end - *at).unwrap_or(usize::MAX).min(into.len());
                // A read error is treated as a truncated stream.
                let read = file.read_at(&mut into[..most], *at).unwrap_or(0);
                *at += read as u64;
                read
            }
            Input::Streams { streams, next, at } => {
                let rest = streams.get(*next).map_or(&[][..], |stream| &stream[*at..]);
                let read = rest.len().min(into.len());
                into[..read].copy_from_slice(&rest[..read]);
                *at += read;
                read
            }
        }
    }

    /// Continues with the next stream, if any.
    fn next_stream(&mut self) -> bool {
        match self {
            Input::Part { .. } => false,
            Input::Streams { streams, next, at } => {
                (*next, *at) = (*next + 1, 0);
                *next < streams.len()
            }
        }
    }
}

/// Inflated bytes in order.
pub(crate) struct Inflating {
    input: Input,
    state: Box<InflateState>,
    chunk: Box<[u8]>,
    /// The part of the chunk that is not inflated yet.
    rest: (usize, usize),
    window: Box<[u8]>,
    /// The part of the window that is not taken yet.
    ready: (usize, usize),
    /// The number of further bytes allowed.
    left: usize,
    taken: usize,
    /// Whether the present stream has ended.
    has_ended: bool,
    /// Whether the rest cannot be inflated, or exceeds the limit.
    is_broken: bool,
}

impl Inflating {
    /// At most `most` bytes.
    pub fn new(input: Input, most: usize) -> Inflating {
        let has_ended = matches!(&input, Input::Streams { streams, .. } if streams.is_empty());
        Inflating {
            input,
            state: InflateState::new_boxed(DataFormat::Raw),
            chunk: vec![0; CHUNK].into(),
            rest: (0, 0),
            window: vec![0; WINDOW].into(),
            ready: (0, 0),
            left: most,
            taken: 0,
            has_ended,
            is_broken: false,
        }
    }

    /// The number of bytes taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Whether the next bytes cannot be inflated, or exceed the limit.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether no further byte can be taken.
    pub fn is_over(&mut self) -> bool {
        self.ready.0 == self.ready.1 && !self.fill()
    }

    /// Fills the window; returns whether it has bytes.
    fn fill(&mut self) -> bool {
        while !self.is_broken {
            if self.has_ended {
                if !self.input.next_stream() {
                    return false;
                }
                self.state.reset(DataFormat::Raw);
                (self.has_ended, self.rest) = (false, (0, 0));
            }
            if self.rest.0 == self.rest.1 {
                self.rest = (0, self.input.read(&mut self.chunk));
            }
            let given = &self.chunk[self.rest.0..self.rest.1];
            let done = inflate(&mut self.state, given, &mut self.window, MZFlush::None);
            self.rest.0 += done.bytes_consumed;
            self.has_ended = done.status == Ok(MZStatus::StreamEnd);
            self.is_broken = done.status.is_err() || done.bytes_written > self.left;
            if done.bytes_written > 0 && !self.is_broken {
                self.left -= done.bytes_written;
                self.ready = (0, done.bytes_written);
                return true;
            }
        }
        false
    }
}

impl Bytes for Inflating {
    fn byte(&mut self) -> Option<u8> {
        if self.is_over() {
            return None;
        }
        let byte = self.window[self.ready.0];
        self.ready.0 += 1;
        self.taken += 1;
        Some(byte)
    }

    fn left(&self) -> usize {
        self.ready.1 - self.ready.0 + self.left
    }
}

impl fmt::Debug for Inflating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflating")
            .field("taken", &self.taken)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use std::io::Write;

    fn all(mut bytes: Inflating) -> (Vec<u8>, bool) {
        let taken: Vec<u8> = std::iter::from_fn(|| bytes.byte()).collect();
        assert_eq!(bytes.taken(), taken.len());
        (taken, bytes.is_broken())
    }

    /// Bytes that deflate to more than a chunk.
    fn noise() -> Vec<u8> {
        (0..100_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
    }

    #[test]
    fn streams_are_inflated_one_after_the_other() {
        let parts = [vec![7; 1], Vec::new(), vec![0; 100_000], noise()];
        let streams = Rc::new(parts.iter().map(|part| compress_to_vec(part, 6)).collect());
        assert_eq!(all(Inflating::new(Input::of(&streams), 1 << 20)), (parts.concat(), false));
        let (taken, is_broken) = all(Inflating::new(Input::of(&streams), 50_000));
        assert!(is_broken && taken.len() <= 50_000, "{}", taken.len());
        assert_eq!(all(Inflating::new(Input::of(&Rc::default()), 1)), (Vec::new(), false));
    }

    #[test]
    fn a_part_of_a_file_is_inflated_and_what_is_behind_the_stream_is_not_looked_at() {
        let mut file = tempfile::tempfile().unwrap();
        let deflated = compress_to_vec(&noise(), 6);
        file.write_all(&[b"head", deflated.as_slice(), &[0; 50_000]].concat()).unwrap();
        let part = |end: u64| Input::Part { file: file.try_clone().unwrap(), at: 4, end };
        assert_eq!(all(Inflating::new(part(4 + deflated.len() as u64 + 40_000), 1 << 20)), (noise(), false));
        let (taken, is_broken) = all(Inflating::new(part(3_000), 1 << 20));
        assert!(is_broken && noise().starts_with(&taken));
    }
}
