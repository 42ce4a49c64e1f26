//! The state directory: where the journal and the records of the machine's state are kept.

use millpond_member::{STATE_VARIABLE, usual_state_dir};
use rustix::process::getuid;
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The state directory of whoever runs us: the one named by `MILLPOND_STATE`, else the system's for the
/// superuser, else the user's own.
#[must_use]
pub(crate) fn state_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    choose(set(STATE_VARIABLE), set("XDG_RUNTIME_DIR"), getuid().as_raw(), &env::temp_dir())
}

fn choose(named: Option<PathBuf>, runtime: Option<PathBuf>, uid: u32, temporary: &Path) -> PathBuf {
    match (named, runtime) {
        (Some(named), _) => named,
        (None, _) if uid == 0 => usual_state_dir().to_owned(),
        (None, Some(runtime)) => runtime.join("millpond"),
        (None, None) => temporary.join(format!("millpond-{uid}")),
    }
}

/// Makes the directory if it is missing. What the superuser keeps may be read by everybody, so that their
/// listings agree; what a user keeps is theirs.
///
/// # Errors
/// The system's, or a refusal to write where somebody else could have laid a trap: in a directory that is
/// not ours, or through a link in a place that everybody can write to.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    let uid = getuid().as_raw();
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(if uid == 0 { 0o755 } else { 0o700 }).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    let shared = dir.parent().is_some_and(everybody_writes);
    if shared && (found.uid() != uid || !found.is_dir()) {
        let why = format!("{} is not a directory of ours", dir.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

fn everybody_writes(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|m| m.mode() & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_named_directory_comes_first_then_the_users_own() {
        let path = PathBuf::from;
        let tmp = Path::new("/t");
        assert_eq!(choose(Some(path("/a")), Some(path("/b")), 0, tmp), path("/a"));
        assert_eq!(choose(None, Some(path("/b")), 0, tmp), path("/run/millpond"));
        assert_eq!(choose(None, Some(path("/b")), 7, tmp), path("/b/millpond"));
        assert_eq!(choose(None, None, 7, tmp), path("/t/millpond-7"));
    }

    #[test]
    fn a_link_in_a_shared_place_is_not_followed() {
        let shared = tempfile::tempdir().unwrap();
        fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let target = tempfile::tempdir().unwrap();
        let trap = shared.path().join("millpond");
        symlink(target.path(), &trap).unwrap();
        assert_eq!(make_dir(&trap).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        make_dir(&shared.path().join("fine")).unwrap();
        make_dir(&shared.path().join("fine")).unwrap();
    }
}
