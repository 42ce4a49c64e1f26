//! Files that users name.

use crate::output::{Output, reason};
use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::Path;

/// Longer than any file that a command takes; it bounds what a typing error can read.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file that the user named. What is no text in it is replaced by marks.
///
/// # Errors
/// The system's reason, in words, or that the file is too long.
pub fn read_text(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A new file for output, in place of one of that name.
///
/// # Errors
/// The system's reason, in words.
pub fn create_output(path: &Path) -> Result<Output<'static>, String> {
    let file = File::create(path).map_err(|error| reason(&error))?;
    Ok(Output::to(BufWriter::new(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_to_a_file_in_place_of_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "old text").unwrap();
        let mut out = create_output(&path).unwrap();
        out.line("new");
        out.finish().unwrap();
        assert_eq!(read_text(&path).unwrap(), "new\n");
        let missing = create_output(&dir.path().join("no/file")).err();
        assert_eq!(missing.as_deref(), Some("No such file or directory"));
    }

    #[test]
    fn a_file_is_read_or_the_reason_is_told_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, b"RES=\xff\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "RES=\u{fffd}\n");
        assert_eq!(read_text(&dir.path().join("missing")).unwrap_err(), "No such file or directory");
        assert_eq!(read_text(dir.path()).unwrap_err(), "Is a directory");
        assert_eq!(read_text(Path::new("/dev/zero")).unwrap_err(), "it is longer than 1048576 bytes");
    }
}
