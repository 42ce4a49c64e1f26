//! Files in `/etc`: fence profiles, and fences that are restored at boot.

use crate::output::reason;
use crate::text::{read_text, replace_text};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Directory of profiles: one `NAME.toml` each.
const DIRECTORY: &str = "/etc/millpond/profiles";

/// The file of a profile; `None` if this machine has no such profile.
#[must_use]
pub fn profile_file(name: &str) -> Option<PathBuf> {
    Some(Path::new(DIRECTORY).join(format!("{name}.toml"))).filter(|file| file.is_file())
}

/// The names of all profiles, sorted.
#[must_use]
pub fn profile_names() -> Vec<String> {
    names_in(Path::new(DIRECTORY), ".toml")
}

/// The names of files with an extension, without it, sorted.
fn names_in(dir: &Path, ending: &str) -> Vec<String> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let name = |file: std::fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(ending)?.to_owned());
    let mut names: Vec<String> = files.filter_map(name).collect();
    names.sort();
    names
}

/// Directory of fences that are restored at boot: one `NAME.json` each.
const FENCES: &str = "/etc/millpond/fences";

/// The stored text of a fence, or the reason why it cannot be read.
pub type KeptText = Result<String, String>;

/// The fences that are restored at boot, sorted by name, with their texts.
#[must_use]
pub fn kept_fences() -> Vec<(String, KeptText)> {
    kept_in(Path::new(FENCES))
}

/// Whether a fence is restored at boot.
#[must_use]
pub fn is_fence_kept(name: &str) -> bool {
    kept_file(Path::new(FENCES), name).exists()
}

/// Stores a text for a fence atomically; `None` removes it. Returns whether there was one before.
///
/// # Errors
/// The system's reason, with the file.
pub fn keep_fence(name: &str, text: Option<&str>) -> Result<bool, String> {
    keep_in(Path::new(FENCES), name, text)
}

fn kept_in(dir: &Path) -> Vec<(String, KeptText)> {
    let text = |name: &str| {
        let file = kept_file(dir, name);
        read_text(&file).map_err(|why| format!("{}: {why}", file.display()))
    };
    let with_text = |name: String| {
        let text = text(&name);
        (name, text)
    };
    names_in(dir, ".json").into_iter().map(with_text).collect()
}

fn kept_file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

fn keep_in(dir: &Path, name: &str, text: Option<&str>) -> Result<bool, String> {
    let file = kept_file(dir, name);
    let was_there = file.exists();
    let told = |why: String| format!("{}: {why}", file.display());
    match text {
        Some(text) => replace_text(&file, text).map_err(told)?,
        None => match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(told(reason(&error))),
            _ => {}
        },
    }
    Ok(was_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let fences = dir.path().join("millpond/fences");
        assert_eq!(kept_in(&fences), []);
        assert_eq!(keep_in(&fences, "b", Some("2")), Ok(false));
        assert_eq!(keep_in(&fences, "a", Some("1")), Ok(false));
        assert_eq!(keep_in(&fences, "a", Some("3")), Ok(true));
        std::fs::write(fences.join("README"), "no fence").unwrap();
        let kept = |name: &str, text: &str| (name.to_owned(), Ok(text.to_owned()));
        assert_eq!(kept_in(&fences), [kept("a", "3"), kept("b", "2")]);
        assert_eq!(keep_in(&fences, "a", None), Ok(true));
        assert_eq!(keep_in(&fences, "a", None), Ok(false));
        assert_eq!(kept_in(&fences), [kept("b", "2")]);
    }
}
