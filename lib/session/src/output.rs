//! Output of a command. Errors do not stop the command.
//!
//! A command that changes a machine must finish even if its output is closed. So writing does not fail: the first error is kept until
//! [`Output::finish`], and later text is dropped. A closed reader (`| head`) is not an error.
//!
//! Control characters except newlines and tabs are escaped, so that a process name cannot control the terminal. The program's own
//! sequences use [`Output::control`]. A newline in a name would add a row: machines escape it when they read the name (`millpond_model::printable`).

use crate::lossy_writer::LossyWriter;
use millpond_model::{escaped, is_unprintable};
use std::fmt::{Arguments, Display};
use std::io::{self, BufWriter, ErrorKind, Write};

/// Standard output, standard error, or a buffer.
pub struct Output<'a> {
    sink: Box<dyn Write + 'a>,
    closed: bool,
    failure: Option<io::Error>,
}

impl<'a> Output<'a> {
    /// Output to `sink`, which should be buffered.
    pub fn to(sink: impl Write + 'a) -> Self {
        Output { sink: Box::new(sink), closed: false, failure: None }
    }

    /// Standard output. It is written by [`Output::flush`] and when the buffer is full.
    #[must_use]
    pub fn stdout() -> Output<'static> {
        Output::to(BufWriter::new(io::stdout()))
    }

    /// Standard error, line by line.
    #[must_use]
    pub fn stderr() -> Output<'static> {
        Output::to(io::LineWriter::new(io::stderr()))
    }

    /// Standard error of a service. If no process reads it, lines are dropped, and their number is reported later.
    #[must_use]
    pub fn stderr_of_service() -> Output<'static> {
        Output::to(io::LineWriter::new(LossyWriter::new(io::stderr())))
    }

    /// A second output to the same sink. Its errors are kept here.
    pub fn lend(&mut self) -> Output<'_> {
        Output::to(Lent(self))
    }

    /// Writes one line.
    pub fn line(&mut self, line: impl Display) {
        self.write(format_args!("{line}\n"));
    }

    /// Writes text with its own line ends.
    pub fn text(&mut self, text: &str) {
        self.write(format_args!("{text}"));
    }

    /// Writes a terminal control sequence unchanged. It must not contain foreign text.
    pub fn control(&mut self, sequence: &'static str) {
        if !self.closed {
            let result = self.sink.write_all(sequence.as_bytes());
            self.note(result);
        }
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) {
        let result = self.sink.flush();
        self.note(result);
    }

    /// Whether the reader is gone. Repeating commands stop then.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Flushes the buffer and reports the first error.
    ///
    /// # Errors
    /// The first error other than a closed reader.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        self.failure.take().map_or(Ok(()), Err)
    }

    fn write(&mut self, text: Arguments<'_>) {
        if !self.closed {
            let mut safe = Escaping { sink: &mut *self.sink, failure: None };
            let result = match std::fmt::write(&mut safe, text) {
                Ok(()) => Ok(()),
                Err(_) => Err(safe.failure.unwrap_or_else(|| ErrorKind::Other.into())),
            };
            self.note(result);
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.closed
        {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }
}

/// Writes text, with control characters escaped.
struct Escaping<'a> {
    sink: &'a mut dyn Write,
    failure: Option<io::Error>,
}

impl std::fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let is_obeyed = |c: char| is_unprintable(c) && c != '\n' && c != '\t';
        // Fast path: most texts need no decoding.
        let written = if !is_plain(text.as_bytes()) && text.chars().any(is_obeyed) {
            self.sink.write_all(escaped(text, is_obeyed).as_bytes())
        } else {
            self.sink.write_all(text.as_bytes())
        };
        written.map_err(|error| {
            self.failure = Some(error);
            std::fmt::Error
        })
    }
}

/// Whether a text consists of printable ASCII, newlines and tabs. Eight bytes at a time: a report on a thousand CPUs has a hundred thousand bytes.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let is_one = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let (words, rest) = text.as_chunks::<8>();
    // Marks bytes that are below a blank, DEL or not ASCII, and some others; so each byte of a marked word is checked.
    let odd = |word: u64| (word.wrapping_sub(0x20 * ONES) | word.wrapping_add(ONES) | word) & HIGH;
    words.iter().all(|word| odd(u64::from_le_bytes(*word)) == 0 || word.iter().all(is_one))
        && rest.iter().all(is_one)
}

/// An output that writes to another output.
struct Lent<'b, 'a>(&'b mut Output<'a>);

impl Lent<'_, '_> {
    fn unless_closed<T>(&self, value: T) -> io::Result<T> {
        if self.0.closed { Err(ErrorKind::BrokenPipe.into()) } else { Ok(value) }
    }
}

impl Write for Lent<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.0.sink.write_all(bytes);
        self.0.note(result);
        self.unless_closed(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush();
        self.unless_closed(())
    }
}

/// The system's reason, without the number that Rust appends.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(self.0))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_and_text_arrive_in_order() {
        let mut text = Vec::new();
        let mut out = Output::to(&mut text);
        out.line("a");
        out.text("b\nc\n");
        out.finish().unwrap();
        drop(out);
        assert_eq!(text, b"a\nb\nc\n");
    }

    #[test]
    fn no_text_moves_the_cursor_of_who_reads_it() {
        let mut text = Vec::new();
        let mut out = Output::to(&mut text);
        out.control("\x1b[H");
        out.line("evil\x1b[2J\r\u{9b}31m\u{202e}\x07");
        out.lend().text("a\tb\nc\u{7f}\n");
        out.finish().unwrap();
        drop(out);
        let expected = "\x1b[Hevil\\u001b[2J\\r\\u009b31m\\u202e\\u0007\na\tb\nc\\u007f\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn text_is_plain_if_each_byte_is() {
        let line = b"CPU minf mjf\t~\n";
        assert!((0..line.len()).all(|begin| is_plain(&line[begin..])));
        for byte in 0..=255u8 {
            for place in 0..16 {
                let mut text = [b'a'; 16];
                text[place] = byte;
                assert_eq!(is_plain(&text), matches!(byte, b' '..=b'~' | b'\n' | b'\t'), "{byte} at {place}");
            }
        }
    }

    #[test]
    fn a_reader_that_went_away_is_success() {
        let mut out = Output::to(Broken(ErrorKind::BrokenPipe));
        assert!(!out.is_closed());
        out.line("a");
        assert!(out.is_closed());
        assert!(out.finish().is_ok());
    }

    #[test]
    fn what_is_lent_writes_on_in_order_and_leaves_its_failure_behind() {
        let mut text = Vec::new();
        let mut out = Output::to(&mut text);
        out.line("a");
        out.lend().line("b");
        out.line("c");
        out.finish().unwrap();
        drop(out);
        assert_eq!(text, b"a\nb\nc\n");
        let mut out = Output::to(Broken(ErrorKind::StorageFull));
        let mut lent = out.lend();
        lent.line("a");
        assert!(lent.is_closed() && lent.finish().is_ok());
        drop(lent);
        assert_eq!(out.finish().unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let mut out = Output::to(Broken(ErrorKind::StorageFull));
        out.line("a");
        out.line("b");
        assert_eq!(out.finish().unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn reasons_are_in_words_only() {
        assert_eq!(reason(&io::Error::from_raw_os_error(28)), "No space left on device");
    }
}
