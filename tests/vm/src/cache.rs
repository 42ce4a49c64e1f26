//! The cache of kernels: outside the source tree, shared by all checkouts, safe for concurrent users.
//!
//! ```text
//!   <root>/kernels/<id>/<release>_<version>/   an unpacked kernel, complete by construction
//!   <root>/modules/<release>_<version>/        its decompressed modules
//!   <root>/debs/                               packages placed here manually take precedence over downloads
//!   <root>/tmp/                                directories being filled
//!   <root>/<name>.lock                         held while `<name>` is filled
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::capability::Unavailable;

/// A directory for files that are expensive to download or create.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Exclusive right to fill one part of the cache. It ends when dropped, or when its process ends.
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

    /// The path of an entry, existing or not.
    #[must_use]
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Waits until no other process fills the part `name` (one path component).
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

    /// Fills a temporary directory with `fill`, then renames it to `relative`. If the target exists by then, the new directory is
    /// discarded. Leftovers of a killed process with the same name are removed. `_lock` proves that no other process fills the
    /// same part.
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
            // A TempDir has mode 0700, but other users of the cache must be able to read the contents.
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

    /// A temporary directory, removed when dropped. Leftovers with the same prefix are removed first.
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
