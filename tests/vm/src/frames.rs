//! The protocol from guest to host: frames on a separate port.
//!
//! ```text
//!   MPVM <kind> <name> <length>\n<length bytes>
//! ```
//!
//! `guest/init.sh` writes them. The types, in order:
//!
//! * `refused -` (the requested set-up is not possible; the body has the reason; nothing follows) or `ready -`;
//! * for each case: `begin NAME`; those of `stdout NAME`, `stderr NAME`, `left NAME` (one line per restored setting), `verdict
//!   NAME` (the case's own verdict) and `files NAME` (a newc archive) that are not empty; `end NAME` (lines `key value`);
//! * `dmesg -` and `done -`.

use std::io::{self, BufRead};

/// The first word of every header.
const MAGIC: &str = "MPVM";

/// The largest frame. A larger length means a corrupt stream, and must not cause a huge allocation.
const LENGTH_MAX: usize = 256 << 20;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub kind: String,
    pub name: String,
    pub body: Vec<u8>,
}

impl Frame {
    /// The body as text; invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a line `key value` in the body.
    pub fn value(&self, key: &str) -> Option<String> {
        self.text().lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ').map(str::to_owned))
    }
}

/// Reads the next frame; `None` at the end of the stream.
pub(crate) fn read_frame(from: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut header = Vec::new();
    from.read_until(b'\n', &mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&header).into_owned();
    let bad =
        || io::Error::new(io::ErrorKind::InvalidData, format!("no frame begins with {:?}", text.trim_end()));
    let words: Vec<&str> = text.trim_end_matches('\n').split(' ').collect();
    let [MAGIC, kind, name, length] = words[..] else { return Err(bad()) };
    let length: usize = length.parse().ok().filter(|n| *n <= LENGTH_MAX).ok_or_else(bad)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some(Frame { kind: kind.to_owned(), name: name.to_owned(), body }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_may_look_like_a_header() {
        let mut stream = &b"MPVM stdout a 11\nMPVM x y 0\nMPVM done - 0\n"[..];
        let first = read_frame(&mut stream).unwrap().unwrap();
        assert_eq!((first.kind.as_str(), first.text().as_str()), ("stdout", "MPVM x y 0\n"));
        assert_eq!(read_frame(&mut stream).unwrap().unwrap().kind, "done");
        assert_eq!(read_frame(&mut stream).unwrap(), None);
    }

    #[test]
    fn a_stream_that_is_cut_or_no_stream_is_an_error() {
        assert!(read_frame(&mut &b"MPVM stdout a 12\nshort"[..]).is_err());
        assert!(read_frame(&mut &b"login:\n"[..]).is_err());
        assert!(read_frame(&mut &b"MPVM stdout a 99999999999\n"[..]).is_err());
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let frame = Frame { kind: "end".into(), name: "a".into(), body: b"status 0\nstatusses 1\n".to_vec() };
        assert_eq!(frame.value("status"), Some("0".to_owned()));
        assert_eq!(frame.value("stat"), None);
    }

    proptest! {
        #[test]
        fn frames_are_read_back_as_written(frames in proptest::collection::vec(("[a-z]{1,8}", "[a-z0-9_]{1,12}", proptest::collection::vec(any::<u8>(), 0..200)), 0..6)) {
            let mut stream = Vec::new();
            for (kind, name, body) in &frames {
                stream.extend_from_slice(format!("MPVM {kind} {name} {}\n", body.len()).as_bytes());
                stream.extend_from_slice(body);
            }
            let mut rest = &stream[..];
            for (kind, name, body) in frames {
                prop_assert_eq!(read_frame(&mut rest).unwrap(), Some(Frame { kind, name, body }));
            }
            prop_assert_eq!(read_frame(&mut rest).unwrap(), None);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_frame(&mut &bytes[..]);
        }
    }
}
