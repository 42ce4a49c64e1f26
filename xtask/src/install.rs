//! `cargo xtask install`: the binary, and its names as symbolic links where they are free.

use crate::cargo::BuildError;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The names under which the binary answers.
const APPLETS: [&str; 11] = [
    "psrinfo",
    "psradm",
    "psrset",
    "pbind",
    "dispadmin",
    "priocntl",
    "pooladm",
    "poolcfg",
    "poolbind",
    "poolstat",
    "mpstat",
];

/// The one file that is installed.
const PROGRAM: &str = "millpond";

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Where the system will see it.
    pub prefix: PathBuf,
    /// A directory that stands for the root of that system; empty for this one.
    pub destdir: PathBuf,
    /// Whether the names are wanted.
    pub links: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Wish { prefix: "/usr/local".into(), destdir: PathBuf::new(), links: true }
    }
}

/// What became of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// The link was made, or was there.
    Linked,
    /// Somebody else's program has the name.
    Taken(PathBuf),
}

/// Installs the release build; true when it is in place.
///
/// # Errors
/// [`BuildError::Start`] with the system's reason.
pub fn run(wish: &Wish) -> Result<bool, BuildError> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let search: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let told = install(&target.join("release").join(PROGRAM), wish, &search)?;
    print!("{told}");
    Ok(true)
}

/// Copies `program` and links its names. `search` is where users find programs; what they find there today is
/// left in force.
fn install(program: &Path, wish: &Wish, search: &[PathBuf]) -> io::Result<String> {
    let seen = wish.prefix.join("bin");
    let dir = staged(&wish.destdir, &seen);
    fs::create_dir_all(&dir)?;
    // A running program cannot be written to, but its name can be given to another file.
    let aside = dir.join(format!(".{PROGRAM}.new"));
    fs::copy(program, &aside)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o755))?;
    fs::rename(&aside, dir.join(PROGRAM))?;
    let mut told = format!("installed {}\n", dir.join(PROGRAM).display());
    if !wish.links {
        return Ok(told);
    }
    // In a staged tree only the tree itself tells which names are taken.
    let search = if wish.destdir.as_os_str().is_empty() { search } else { &[] };
    for applet in APPLETS {
        told += &match link(&dir, applet, search)? {
            Name::Linked => format!("linked {}\n", dir.join(applet).display()),
            Name::Taken(by) => format!(
                "left alone: {applet} is {}; ours is `{PROGRAM} {applet}`, or make a link to {PROGRAM} by another name\n",
                by.display()
            ),
        };
    }
    Ok(told)
}

/// `destdir` + `prefix`, where the prefix is absolute in the system to be.
fn staged(destdir: &Path, prefix: &Path) -> PathBuf {
    if destdir.as_os_str().is_empty() {
        return prefix.to_path_buf();
    }
    destdir.join(prefix.strip_prefix("/").unwrap_or(prefix))
}

fn link(dir: &Path, applet: &str, search: &[PathBuf]) -> io::Result<Name> {
    let place = dir.join(applet);
    let places = std::iter::once(place.clone()).chain(search.iter().map(|dir| dir.join(applet)));
    for other in places.filter(|path| fs::symlink_metadata(path).is_ok()) {
        if !is_ours(&other) {
            return Ok(Name::Taken(other));
        }
    }
    match symlink(PROGRAM, &place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(Name::Linked),
    }
}

/// A link to a file called as our program.
fn is_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|to| to.file_name().is_some_and(|name| name == PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        wish: Wish,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("built"), "program").unwrap();
            let wish = Wish { prefix: dir.path().join("usr"), ..Wish::default() };
            Place { dir, wish }
        }

        fn install(&self, search: &[PathBuf]) -> String {
            install(&self.dir.path().join("built"), &self.wish, search).unwrap()
        }

        fn bin(&self) -> PathBuf {
            staged(&self.wish.destdir, &self.wish.prefix.join("bin"))
        }
    }

    #[test]
    fn the_program_and_its_names_are_installed() {
        let place = Place::new();
        let told = place.install(&[]);
        assert_eq!(fs::read(place.bin().join("millpond")).unwrap(), b"program");
        assert_eq!(fs::metadata(place.bin().join("millpond")).unwrap().permissions().mode() & 0o777, 0o755);
        for applet in APPLETS {
            assert_eq!(fs::read_link(place.bin().join(applet)).unwrap(), Path::new("millpond"));
        }
        assert_eq!(told.lines().count(), 1 + APPLETS.len());
    }

    #[test]
    fn installing_twice_is_installing_once() {
        let place = Place::new();
        let first = place.install(&[]);
        assert_eq!(place.install(&[place.bin()]), first);
    }

    #[test]
    fn an_mpstat_of_somebody_else_is_left_alone_wherever_users_find_it() {
        let place = Place::new();
        let other = place.dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mpstat"), "sysstat").unwrap();
        let told = place.install(std::slice::from_ref(&other));
        assert!(fs::symlink_metadata(place.bin().join("mpstat")).is_err());
        let line = told.lines().last().unwrap();
        assert!(line.starts_with(&format!(
            "left alone: mpstat is {}; ours is `millpond mpstat`",
            other.join("mpstat").display()
        )));

        fs::write(place.bin().join("mpstat"), "sysstat").unwrap();
        place.install(&[]);
        assert_eq!(fs::read(place.bin().join("mpstat")).unwrap(), b"sysstat");
    }

    #[test]
    fn a_staged_tree_stands_for_the_root_and_knows_nothing_of_this_system() {
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/usr".into();
        let other = place.dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mpstat"), "sysstat").unwrap();
        place.install(&[other]);
        let bin = place.dir.path().join("stage/usr/bin");
        assert_eq!(fs::read_link(bin.join("mpstat")).unwrap(), Path::new("millpond"));
    }

    #[test]
    fn without_links_only_the_program_is_installed() {
        let mut place = Place::new();
        place.wish.links = false;
        assert_eq!(place.install(&[]).lines().count(), 1);
        assert_eq!(fs::read_dir(place.bin()).unwrap().count(), 1);
    }
}
