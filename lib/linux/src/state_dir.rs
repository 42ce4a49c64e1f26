//! The state directory: ownership checks and modes.
//!
//! Its contents are trusted: the journal determines which files are restored, and with which values. So the directory is used
//! only if no other user can have written it: it and all its parents belong to us or to root, and no other user can replace a
//! component of the path.

use rustix::process::geteuid;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Write permission of the group.
const GROUP_WRITES: u32 = 0o020;
/// Write permission of all users.
const OTHERS_WRITE: u32 = 0o002;
/// The sticky bit: only the owner of a file may rename or remove it.
const STICKY: u32 = 0o1000;

/// Creates the directory if it is missing, and checks it as [`check_state_dir`] does. Root's directory is readable by all users,
/// regardless of the umask, so that members of pools can read notices. Another user's directory is readable only by its owner.
///
/// # Errors
/// The system's error, or as for [`check_state_dir`].
pub fn make_state_dir(dir: &Path) -> io::Result<()> {
    make_dir(dir, if geteuid().is_root() { 0o755 } else { 0o700 })
}

/// The same for a directory without use to other users: it is created with access for its owner alone. An existing directory that
/// is writable for a group is refused, too.
///
/// # Errors
/// As for [`make_state_dir`].
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    make_dir(dir, 0o700)?;
    match fs::metadata(dir)?.mode() & GROUP_WRITES {
        0 => Ok(()),
        _ => Err(refused(dir, "can be written by its group")),
    }
}

fn make_dir(dir: &Path, mode: u32) -> io::Result<()> {
    // A link of another user in the path could redirect the creation to any place.
    check_state_dir(dir)?;
    let make = || DirBuilder::new().mode(0o700).create(dir);
    let made = make().or_else(|error| match (error.kind(), dir.parent()) {
        (io::ErrorKind::NotFound, Some(parent)) => fs::create_dir_all(parent).and_then(|()| make()),
        _ => Err(error),
    });
    match made {
        Ok(()) => {
            check_state_dir(dir)?;
            fs::set_permissions(dir, Permissions::from_mode(mode))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_state_dir(dir),
        Err(error) => Err(error),
    }
}

/// Refuses a state directory that another user may have written. A missing directory passes.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] with the offending directory and its owner; the system's error if it cannot be examined.
pub fn check_state_dir(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let (mut named, mut looked, mut is_direct) = (PathBuf::new(), Vec::new(), true);
    for part in dir.components() {
        named.push(part);
        match fs::symlink_metadata(&named) {
            // Another user could redirect this link before the next use.
            Ok(found) if found.is_symlink() && !is_trusted(found.uid()) => {
                return Err(refused(&named, &format!("is a link of user {}", found.uid())));
            }
            Ok(found) => {
                is_direct &= !found.is_symlink() && part != Component::ParentDir;
                looked.push((named.clone(), found));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        debug_assert!(part != Component::CurDir);
    }
    // Without links in the path, the checked directories are the real ones.
    if !is_direct {
        let real = fs::canonicalize(&dir)?;
        let look = |part: &Path| Ok((part.to_owned(), fs::metadata(part)?));
        looked = real.ancestors().map(look).collect::<io::Result<_>>()?;
        looked.reverse();
    }
    for (depth, (part, found)) in looked.iter().rev().enumerate() {
        let is_itself = depth == 0;
        if is_itself && !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if !is_trusted(found.uid()) && (is_itself || !is_unmapped(found.uid())) {
            return Err(refused(part, &format!("belongs to user {}", found.uid())));
        }
        if found.mode() & OTHERS_WRITE != 0 && (is_itself || found.mode() & STICKY == 0) {
            return Err(refused(part, "can be written by every user"));
        }
    }
    Ok(())
}

fn refused(at: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{} {why}, so its contents are not trusted", at.display()),
    )
}

/// Whether files of this user are trusted as our own.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Whether this number stands for all users that this user namespace does not map, including the real root.
fn is_unmapped(uid: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_whole = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    !is_whole && overflow.trim() == uid.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn said(dir: &Path) -> String {
        let error = check_state_dir(dir).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }

    #[test]
    fn a_state_directory_that_others_can_write_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert!(check_state_dir(&state).is_ok(), "there is nothing yet");
        make_state_dir(&state).unwrap();
        make_state_dir(&state).unwrap();
        let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, mode);
        fs::set_permissions(&state, Permissions::from_mode(0o1777)).unwrap();
        assert!(
            said(&state).ends_with("state can be written by every user, so its contents are not trusted")
        );
        fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(
            said(&state).contains("can be written by every user"),
            "its name can be given to another one"
        );
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        check_state_dir(&state).unwrap();
    }

    #[test]
    fn a_private_directory_can_be_opened_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("recordings");
        make_private_dir(&private).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&private, Permissions::from_mode(0o770)).unwrap();
        let refused = make_private_dir(&private).unwrap_err().to_string();
        assert!(
            refused.ends_with("can be written by its group, so its contents are not trusted"),
            "{refused}"
        );
        fs::set_permissions(&private, Permissions::from_mode(0o777)).unwrap();
        assert!(make_private_dir(&private).is_err());
    }

    #[test]
    fn a_state_directory_of_another_user_is_not_trusted() {
        let name = "a_state_directory_of_another_user_is_not_trusted";
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let (state, link) = (dir.path().join("millpond-7"), dir.path().join("link"));
        make_state_dir(&state).unwrap();
        symlink(&state, &link).unwrap();
        check_state_dir(&link).unwrap();
        if chown(&state, Some(4001), None).is_err() {
            println!("skipped: {name}: only the superuser can give files away");
            return;
        }
        assert!(said(&state).ends_with("millpond-7 belongs to user 4001, so its contents are not trusted"));
        let below = state.join("below");
        fs::create_dir(&below).unwrap();
        assert!(said(&below).contains("millpond-7 belongs to user 4001"));
        chown(&state, Some(geteuid().as_raw()), None).unwrap();
        std::os::unix::fs::lchown(&link, Some(4001), None).unwrap();
        assert!(said(&link).contains("link is a link of user 4001"));
        assert!(make_state_dir(&link).is_err());
    }
}
