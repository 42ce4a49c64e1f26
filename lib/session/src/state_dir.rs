//! The state directory: the journal and the records of the machine's state.

use millpond_member::{STATE_VARIABLE, usual_state_dir};
use rustix::process::getuid;
use std::env;
use std::path::{Path, PathBuf};

/// The state directory of this user: the one in `MILLPOND_STATE`, else the system's for the superuser, else the
/// user's own.
#[must_use]
pub(crate) fn state_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    choose(set(STATE_VARIABLE), set("XDG_RUNTIME_DIR"), getuid().as_raw(), &env::temp_dir())
}

/// The twin's machine file in a state directory.
pub(crate) fn twin_in(state: &Path) -> PathBuf {
    state.join("like-host.json")
}

/// The default directory of this user, independent of the environment: a lock there is common to all commands of the user.
#[must_use]
pub(crate) fn usual_dir() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
    choose(None, runtime, getuid().as_raw(), &env::temp_dir())
}

/// The default directory for this user's recordings, unless `MILLPOND_RECORDINGS` names another. The superuser's survives a reboot.
#[must_use]
pub fn recordings_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(named) = set("MILLPOND_RECORDINGS") {
        return named;
    }
    if getuid().is_root() {
        return PathBuf::from(RECORDINGS);
    }
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(env::temp_dir).join("millpond/recordings")
}

/// The superuser's recordings.
const RECORDINGS: &str = "/var/lib/millpond/recordings";

fn choose(named: Option<PathBuf>, runtime: Option<PathBuf>, uid: u32, temporary: &Path) -> PathBuf {
    match (named, runtime) {
        (Some(named), _) => named,
        (None, _) if uid == 0 => usual_state_dir().to_owned(),
        (None, Some(runtime)) => runtime.join("millpond"),
        (None, None) => temporary.join(format!("millpond-{uid}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_directory_comes_first_then_the_users_own() {
        let path = PathBuf::from;
        let tmp = Path::new("/t");
        assert_eq!(choose(Some(path("/a")), Some(path("/b")), 0, tmp), path("/a"));
        assert_eq!(choose(None, Some(path("/b")), 0, tmp), path("/run/millpond"));
        assert_eq!(choose(None, Some(path("/b")), 7, tmp), path("/b/millpond"));
        assert_eq!(choose(None, None, 7, tmp), path("/t/millpond-7"));
    }
}
