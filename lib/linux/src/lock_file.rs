//! Lock files. `flock` needs no write permission, so every process that can open a file can lock it. Therefore only the owner can
//! open these.

use crate::state_dir::is_trusted;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Opens a lock file, and creates it if missing: mode 0600, no link followed.
///
/// # Errors
/// The system's error; [`io::ErrorKind::PermissionDenied`] if the file belongs to another user or is not a regular file.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?);
    let found = file.metadata()?;
    if !found.is_file() || !is_trusted(found.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a lock file of ours"));
    }
    if found.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Whether the file still has its name. A lock on a removed file excludes no other process.
#[must_use]
pub fn has_name(file: &File, path: &Path) -> bool {
    let id = |found: &fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(named)) => id(&held) == id(&named),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_lock_file_can_be_opened_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("lock"), dir.path().join("link"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let file = open_lock_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "one of an earlier version");
        assert!(has_name(&file, &path));
        symlink(&path, &link).unwrap();
        assert!(open_lock_file(&link).is_err(), "a link is not followed");
        assert!(open_lock_file(dir.path()).is_err());
        fs::remove_file(&path).unwrap();
        assert!(!has_name(&file, &path));
        let next = open_lock_file(&path).unwrap();
        assert!(has_name(&next, &path) && !has_name(&file, &path));
    }
}
