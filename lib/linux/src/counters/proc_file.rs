//! Reads the wide per-CPU tables of `/proc` without an allocation per sample.

use crate::{Root, is_gone};
use millpond_formats::proc_tables::find_last;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use std::fs::File;
use std::io;

/// Enough for `/proc/stat` of a machine with a thousand CPUs, and small enough for the cache. The buffer grows to the size of the
/// largest file and stays at it. Unused memory is not touched.
const BUFFER_BYTES: usize = 64 * 1024;

/// The buffer of all files. One is enough, since files are processed one after the other.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

/// A file that is read repeatedly from its beginning.
#[derive(Debug)]
pub(super) struct ProcFile {
    file: File,
}

impl ProcFile {
    /// Opens `name` below the root's `proc`. `None` when this kernel has no such file.
    pub(super) fn open(root: &Root, name: &str) -> io::Result<Option<ProcFile>> {
        ProcFile::of(root.open(&root.proc.join(name)))
    }

    #[cfg(test)]
    fn open_at(path: &std::path::Path) -> io::Result<Option<ProcFile>> {
        ProcFile::of(File::open(path))
    }

    fn of(opened: io::Result<File>) -> io::Result<Option<ProcFile>> {
        match opened {
            Ok(file) => Ok(Some(ProcFile { file })),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes the current text to `take` in pieces of whole lines. Only the last line may be incomplete.
    pub(super) fn read_lines(&self, buffer: &mut Buffer, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let text = &mut buffer.0;
        let mut offset = 0;
        text.clear();
        loop {
            let old = text.len();
            // The kernel may return less than there is room for. Only 0 is the end.
            let count = self.read_on(text, offset)?;
            if count == 0 {
                if !text.is_empty() {
                    take(text);
                }
                return Ok(());
            }
            offset += count as u64;
            if let Some(end) = find_last(b'\n', &text[old..]) {
                take(&text[..=old + end]);
                text.drain(..=old + end);
            }
        }
    }

    /// The whole text of a file that the kernel produces in one read: a short read is the end.
    pub(super) fn read_piece<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        let text = &mut buffer.0;
        text.clear();
        loop {
            let offset = text.len() as u64;
            let count = self.read_on(text, offset)?;
            if count == 0 || text.len() < text.capacity() {
                return Ok(text);
            }
        }
    }

    /// Reads from `offset` of the file to the end of `text`, which is enlarged as needed. Returns the number of bytes; 0 at the
    /// end.
    fn read_on(&self, text: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        if text.len() == text.capacity() {
            text.reserve_exact(text.len().max(BUFFER_BYTES));
        }
        loop {
            match pread(&self.file, spare_capacity(text), offset) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(file: &ProcFile) -> Vec<u8> {
        let mut whole = Vec::new();
        file.read_lines(&mut Buffer::default(), |piece| {
            assert!(whole.is_empty() || whole.ends_with(b"\n"), "pieces end where lines do");
            whole.extend_from_slice(piece);
        })
        .unwrap();
        whole
    }

    #[test]
    fn a_file_is_read_anew_each_time_and_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let line = "x".repeat(BUFFER_BYTES / 3) + "\n";
        let mut buffer = Buffer::default();
        let long_line = "y".repeat(3 * BUFFER_BYTES);
        for text in [line.repeat(7), long_line.clone(), line.repeat(4) + &long_line, String::new()] {
            std::fs::write(&path, &text).unwrap();
            let file = ProcFile::open_at(&path).unwrap().unwrap();
            assert!(lines(&file) == text.as_bytes());
            assert!(file.read_piece(&mut buffer).unwrap() == text.as_bytes());
            let mut writer = std::fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
            writer.write_all(b"short").unwrap();
            assert_eq!(lines(&file), b"short");
            assert_eq!(file.read_piece(&mut buffer).unwrap(), b"short");
        }
        assert!(ProcFile::open_at(&dir.path().join("absent")).unwrap().is_none());
    }
}
