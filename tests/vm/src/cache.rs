//! The cache of kernels: outside the tree, shared by every checkout, safe for two users at once.
//!
//! ```text
//!   <root>/kernels/<id>/<release>_<version>/   an unpacked kernel, complete by construction
//!   <root>/modules/<release>_<version>/        modules of it that were decompressed
//!   <root>/debs/                               packages put here by hand are used before any download
//!   <root>/tmp/                                directories being filled
//!   <root>/<name>.lock                         held while `<name>` is filled
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::capability::Unavailable;

/// A place for files that cost a download or some seconds to make.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Exclusive right to fill one part of the cache; ends when dropped, or when its process dies.
pub(crate) struct Lock {
    _file: File,
}

impl Cache {
    /// `$MILLPOND_CACHE`, else `$XDG_CACHE_HOME/millpond`, else `~/.cache/millpond`.
    ///
    /// # Errors
    /// None of the three is set.
    pub fn from_environment() -> Result<Self, Unavailable> {
        root_from(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
            .map(Self::at)
            .ok_or_else(|| {
                Unavailable::new("there is no place for a cache", "set MILLPOND_CACHE to a directory")
            })
    }

    /// A cache in this directory, which need not exist yet.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Path of something in the cache, whether or not it is there.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Waits until no other process fills the part called `name` (one path component).
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, Unavailable> {
        let path = self.root.join(format!("{name}.lock"));
        let open = || -> io::Result<File> {
            fs::create_dir_all(&self.root)?;
            let file = File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map(|file| Lock { _file: file }).map_err(|e| self.cannot("lock", &path, &e))
    }

    /// Fills a new directory aside with `fill`, then renames it to `relative`. The second one finds the first one's
    /// work and throws its own away. What an earlier, killed filler of the same name left behind is removed.
    /// `lock` is asked for as proof that no other process fills the same part.
    pub(crate) fn publish(
        &self,
        _lock: &Lock,
        relative: &Path,
        fill: impl FnOnce(&Path) -> Result<(), Unavailable>,
    ) -> Result<PathBuf, Unavailable> {
        let target = self.root.join(relative);
        let prefix = format!("{}.", relative.to_string_lossy().replace('/', "_"));
        let aside = self.scratch(&prefix)?;
        fill(aside.path())?;
        let rename = || -> io::Result<()> {
            // A TempDir is 0700; other users of the cache must be able to read what is in it.
            set_mode(aside.path(), 0o755)?;
            fs::create_dir_all(target.parent().unwrap_or(&self.root))?;
            match fs::rename(aside.path(), &target) {
                Err(_) if target.is_dir() => Ok(()),
                other => other,
            }
        };
        rename().map_err(|e| self.cannot("write", &target, &e))?;
        Ok(target)
    }

    /// A directory for work in progress, gone when dropped; leftovers with the same prefix are cleared first.
    pub(crate) fn scratch(&self, prefix: &str) -> Result<tempfile::TempDir, Unavailable> {
        let place = self.root.join("tmp");
        let make = || -> io::Result<tempfile::TempDir> {
            fs::create_dir_all(&place)?;
            for entry in fs::read_dir(&place)?.flatten() {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    fs::remove_dir_all(entry.path())?;
                }
            }
            tempfile::Builder::new().prefix(prefix).tempdir_in(&place)
        };
        make().map_err(|e| self.cannot("write", &place, &e))
    }

    fn cannot(&self, verb: &str, path: &Path, error: &io::Error) -> Unavailable {
        Unavailable::new(
            format!("cannot {verb} {}: {error}", path.display()),
            "set MILLPOND_CACHE to a directory that you may write, with 1 GB free",
        )
    }
}

fn root_from(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("MILLPOND_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("millpond")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/millpond")))
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("c"));
        (dir, cache)
    }

    #[test]
    fn our_own_variable_wins_over_the_common_ones() {
        let all = |name: &str| Some(PathBuf::from(format!("/{name}")));
        assert_eq!(root_from(all), Some(PathBuf::from("/MILLPOND_CACHE")));
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        assert_eq!(root_from(home), Some(PathBuf::from("/h/.cache/millpond")));
        assert_eq!(root_from(|_| None), None);
    }

    #[test]
    fn a_failed_filling_leaves_nothing_behind() {
        let (_keep, cache) = a_cache();
        let lock = cache.lock("x").unwrap();
        let failed = cache.publish(&lock, Path::new("kernels/x"), |dir| {
            fs::write(dir.join("half"), "").unwrap();
            Err(Unavailable::new("no", "yes"))
        });
        assert!(failed.is_err());
        assert!(!cache.path("kernels/x").exists());
        assert_eq!(fs::read_dir(cache.path("tmp")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_filler_left_is_cleared_and_the_first_result_stays() {
        let (_keep, cache) = a_cache();
        let lock = cache.lock("x").unwrap();
        fs::create_dir_all(cache.path("tmp/kernels_x.dead")).unwrap();
        let put = |text: &'static str| {
            cache.publish(&lock, Path::new("kernels/x"), |dir| {
                fs::write(dir.join("f"), text).unwrap();
                Ok(())
            })
        };
        let first = put("first").unwrap();
        assert!(!cache.path("tmp/kernels_x.dead").exists());
        let second = put("second").unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::read_to_string(first.join("f")).unwrap(), "first");
    }
}
