//! A line of text that is built without allocation.

/// Maximum length. A test checks that every complaint fits.
const BYTES_MAX: usize = 192;

/// A text. Excess bytes are dropped.
pub(super) struct Line {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { bytes: [0; BYTES_MAX], length: 0 }
    }

    /// Appends text. Control characters become question marks.
    pub(super) fn push(mut self, text: &[u8]) -> Line {
        let places = self.bytes.iter_mut().skip(self.length);
        for (place, byte) in places.zip(text) {
            *place = if byte.is_ascii_control() { b'?' } else { *byte };
            self.length += 1;
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_controls_are_shown_and_an_end_is_an_end() {
        assert_eq!(Line::new().push(b"one ").push(b"\x1b[2J\n").as_bytes(), b"one ?[2J?");
        let long = Line::new().push(&[b'x'; 150]).push(&[b'y'; 150]).push(b"z");
        assert_eq!(long.as_bytes().len(), BYTES_MAX);
        assert_eq!(long.as_bytes().last(), Some(&b'y'));
    }
}
