//! Atomic replacement of files: a reader sees the old text or the new one. A killed writer or a full disk leaves the old text.
//!
//! The new text is written to a file in the same directory, with an unpredictable and unused name (`O_EXCL`). It is synced to
//! disk and then renamed. So no link that another user created in advance is followed. Files that are valid for one boot only,
//! such as the journal, are not synced.

use crate::state_dir::is_trusted;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// The largest file that is read from a captured root, in bytes. No kernel file is larger.
pub const BYTES_MAX: u64 = 64 << 20;

/// Opens a file for reading whose path or type another user may have chosen. A FIFO, a terminal or a device is refused without
/// blocking. A file longer than `bytes_max` is refused, too.
///
/// # Errors
/// The system's error; [`io::ErrorKind::InvalidInput`] if it is not a regular file, [`io::ErrorKind::FileTooLarge`] if it is too
/// long.
pub fn open_plain(path: &Path, bytes_max: u64) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    if found.len() > bytes_max {
        let why = format!("it has {} bytes, and at most {bytes_max} are read", found.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(file)
}

/// Options of a replacement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replacing {
    /// The mode of the new file, regardless of the umask. `None`: the mode of the old file, or 0666 minus the umask.
    pub mode: Option<u32>,
    /// Whether the file must not exist yet.
    pub must_be_new: bool,
    /// Whether the text is only valid until the machine stops.
    pub is_of_boot: bool,
}

/// Replaces or creates the file `path`. A link with that name is replaced, not followed. A temporary file left by a killed writer
/// has a name that begins with a dot and the file's name.
///
/// # Errors
/// The system's error; the file is then unchanged. [`io::ErrorKind::AlreadyExists`] if it must be new.
pub fn replace_file(path: &Path, bytes: &[u8], how: Replacing) -> io::Result<()> {
    let mut new = beside(path, how)?;
    new.write_all(bytes)?;
    take_name(new, path, how).map(drop)
}

/// A new, empty file in the directory of `path`, with the final mode and owner. Dropping it removes it.
///
/// # Errors
/// The system's error.
pub fn beside(path: &Path, how: Replacing) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    let old = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let new = Builder::new().prefix(&prefix).permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
    if let Some(old) = &old {
        // Only root can change the owner. In a directory that every user can write to, a file of another user becomes ours.
        let is_shared = fs::metadata(dir)?.mode() & 0o1000 != 0;
        if !is_shared || is_trusted(old.uid()) {
            let _ = chown(new.path(), Some(old.uid()), Some(old.gid()));
        }
    }
    let mode = how.mode.or(old.map(|old| old.mode() & 0o777));
    if let Some(mode) = mode {
        new.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(new)
}

/// Renames a file from [`beside`] to `path`. Its text is synced to disk first, unless it is only valid for this boot.
///
/// # Errors
/// As for [`replace_file`].
pub fn take_name(new: NamedTempFile, path: &Path, how: Replacing) -> io::Result<fs::File> {
    if !how.is_of_boot {
        new.as_file().sync_all()?;
    }
    let taken = if how.must_be_new { new.persist_noclobber(path) } else { new.persist(path) };
    taken.map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn replace(path: &Path, text: &str) -> io::Result<()> {
        replace_file(path, text.as_bytes(), Replacing::default())
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        replace(&path, "one").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut before = fs::File::open(&path).unwrap();
        replace(&path, "two").unwrap();
        let mut old = String::new();
        io::Read::read_to_string(&mut before, &mut old).unwrap();
        assert_eq!((old.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("one", "two"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let new = Replacing { must_be_new: true, mode: Some(0o600), ..Replacing::default() };
        assert_eq!(replace_file(&path, b"x", new).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        replace_file(&dir.path().join("new"), b"x", new).unwrap();
        assert_eq!(fs::metadata(dir.path().join("new")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("report"), dir.path().join("target"));
        fs::write(&target, "precious").unwrap();
        symlink(&target, &path).unwrap();
        replace(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_full_disk_leaves_the_old_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        replace(&path, "old").unwrap();
        // A file that is written but not renamed is the state after a full disk or a killed writer.
        let mut new = beside(&path, Replacing::default()).unwrap();
        new.write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(new);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(replace(&path.join("below"), "x").is_err());
    }

    #[test]
    fn only_plain_files_of_a_bearable_length_are_opened_and_none_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, plain) = (dir.path().join("fifo"), dir.path().join("plain"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        fs::write(&plain, "four").unwrap();
        let kind = |path: &Path, most| open_plain(path, most).err().map(|error| error.kind());
        assert_eq!(kind(&plain, 4), None);
        assert_eq!(kind(&plain, 3), Some(io::ErrorKind::FileTooLarge));
        assert_eq!(kind(&dir.path().join("none"), 4), Some(io::ErrorKind::NotFound));
        for path in [fifo.as_path(), dir.path(), Path::new("/dev/zero")] {
            assert_eq!(kind(path, u64::MAX), Some(io::ErrorKind::InvalidInput), "{}", path.display());
        }
    }
}
