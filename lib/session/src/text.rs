//! Files that users name: read whole, and replaced atomically.

use crate::output::{Output, reason};
use millpond_linux::{Replacing, replace_file};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::{BufWriter, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Maximum size: larger than any file that a command takes. Bounds the memory that a typing error can allocate.
const BYTES_MAX: u64 = 1 << 20;

/// The text of a file that the user named. Invalid UTF-8 is replaced by replacement characters.
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

/// Creates or truncates a file for text output.
///
/// # Errors
/// The system's reason, in words.
pub fn create_output(path: &Path) -> Result<Output<'static>, String> {
    Ok(Output::to(create_file(path)?))
}

/// Creates or truncates a file for binary output.
///
/// # Errors
/// As for [`create_output`].
pub fn create_file(path: &Path) -> Result<BufWriter<File>, String> {
    if is_trap(path) {
        return Err("it is a link of another user, in a directory that every user can write to".into());
    }
    File::create(path).map(BufWriter::new).map_err(|error| reason(&error))
}

/// Opens a plain file for a command's output: truncated, or for appending.
///
/// # Errors
/// The system's reason, in words; or that it exists and is not a plain file.
pub fn open_plain(path: &Path, appends: bool) -> Result<BufWriter<File>, String> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err("it is there, and no plain file".into());
    }
    if !appends || is_trap(path) {
        return create_file(path);
    }
    let opened = File::options().append(true).create(true).open(path);
    opened.map(BufWriter::new).map_err(|error| reason(&error))
}

/// Replaces the text of a file that the user named, atomically: a reader sees the old or the new text, and a full disk leaves the old
/// one. A missing directory is created. Existing terminals, pipes and other special files are written to directly.
///
/// # Errors
/// The system's reason, in words.
pub fn replace_text(path: &Path, text: &str) -> Result<(), String> {
    replace_bytes(path, text.as_bytes())
}

/// The same for binary data.
///
/// # Errors
/// As for [`replace_text`].
pub fn replace_bytes(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if path.exists() && !path.is_file() && !is_trap(path) {
        return fs::write(path, bytes).map_err(|error| reason(&error));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    path.file_name().ok_or("it names no file")?;
    let replaced = fs::create_dir_all(dir).and_then(|()| replace_file(path, bytes, Replacing::default()));
    replaced.map_err(|error| reason(&error))
}

/// Whether the name is a symbolic link that another user left in a world-writable directory. The kernel refuses to follow such a link
/// only with `fs.protected_symlinks`.
fn is_trap(path: &Path) -> bool {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(link), Ok(dir)) = (fs::symlink_metadata(path), fs::metadata(dir)) else { return false };
    let is_ours = link.uid() == geteuid().as_raw() || link.uid() == dir.uid();
    link.is_symlink() && dir.mode() & 0o002 != 0 && !is_ours
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
    fn output_of_a_command_goes_to_plain_files_only() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        for (text, appends, all) in [("a", true, "a"), ("b", true, "ab"), ("c", false, "c")] {
            open_plain(&path, appends).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(read_text(&path).unwrap(), all);
        }
        for special in [dir.path(), Path::new("/dev/null")] {
            assert_eq!(open_plain(special, true).err().unwrap(), "it is there, and no plain file");
        }
        let missing = open_plain(&dir.path().join("no/out"), false).err();
        assert_eq!(missing.as_deref(), Some("No such file or directory"));
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/run");
        for text in ["one", "two"] {
            replace_text(&path, text).unwrap();
            assert_eq!(read_text(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        assert!(replace_text(&path.join("below"), "x").is_err());
        assert_eq!(replace_text(dir.path(), "x").unwrap_err(), "Is a directory");
        replace_text(Path::new("/dev/null"), "x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }

    #[test]
    fn a_link_of_another_user_in_a_shared_directory_is_not_followed() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        let name = "a_link_of_another_user_in_a_shared_directory_is_not_followed";
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let (trap, target) = (dir.path().join("out"), dir.path().join("precious"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &trap).unwrap();
        create_output(&trap).unwrap().finish().unwrap();
        fs::write(&target, "precious").unwrap();
        if lchown(&trap, Some(4001), None).is_err() {
            println!("skipped: {name}: only the superuser can give files away");
            return;
        }
        let refused = create_output(&trap).err().unwrap();
        assert_eq!(refused, "it is a link of another user, in a directory that every user can write to");
        replace_text(&trap, "report").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&trap).unwrap(), "report");
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
