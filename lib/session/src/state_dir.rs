//! The state directory: where the journal and the records of the machine's state are kept.

use millpond_member::{STATE_VARIABLE, usual_state_dir};
use rustix::process::getuid;
use std::env;
use std::path::{Path, PathBuf};

/// The state directory of whoever runs us: the one named by `MILLPOND_STATE`, else the system's for the
/// superuser, else the user's own.
#[must_use]
pub(crate) fn state_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    choose(set(STATE_VARIABLE), set("XDG_RUNTIME_DIR"), getuid().as_raw(), &env::temp_dir())
}

/// Where a state directory has the machine file of the twin.
pub(crate) fn twin_in(state: &Path) -> PathBuf {
    state.join("like-host.json")
}

/// The directory of whoever runs us that no variable names anew: what is locked there is locked for every command of this user.
#[must_use]
pub(crate) fn usual_dir() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
    choose(None, runtime, getuid().as_raw(), &env::temp_dir())
}

/// Where recordings of this user are, unless a command or `MILLPOND_RECORDINGS` names another place: that of the superuser survives a boot.
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

/// Those of the superuser.
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
