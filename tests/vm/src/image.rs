//! The file tree of a guest, written as an initramfs. It is not compressed: under emulation, unpacking costs more than reading.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::libraries::libraries_of;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// A tree of files for a guest. Paths in the guest begin with `/`; missing parent directories are created.
///
/// An entry replaces an earlier one with the same path.
#[derive(Debug, Clone, Default)]
pub struct Image {
    entries: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    Directory,
    File { content: Content, mode: u32 },
    Link(PathBuf),
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(Vec<u8>),
    /// Read when the image is written.
    Host(PathBuf),
}

/// Why an image cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The libraries of a program cannot be found.
    #[error("cannot find the libraries of {program}: {why}", program = .program.display())]
    Libraries {
        /// The program on the host.
        program: PathBuf,
        /// The reason.
        why: String,
    },
    /// A host file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file on the host.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The archive cannot be written.
    #[error("cannot write the image")]
    Write(#[source] io::Error),
}

impl Image {
    /// An empty tree. The guest adds Busybox, process 1 and the modules at its boot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a program of the host as `/usr/local/bin/NAME`, with its shared libraries and its loader at their paths. This
    /// directory is first on the guest's search path, so our names take precedence over Busybox's.
    ///
    /// # Errors
    /// The program or one of its libraries does not exist.
    pub fn program(self, name: &str, host: &Path) -> Result<Self, ImageError> {
        let guest = Path::new("/usr/local/bin").join(name);
        self.program_at(&guest, host)
    }

    /// Adds a program of the host at any path, with its libraries.
    ///
    /// # Errors
    /// The program or one of its libraries does not exist.
    pub fn program_at(mut self, guest: &Path, host: &Path) -> Result<Self, ImageError> {
        for library in libraries_of(host)? {
            self = self.copy(&library, &library, 0o755);
        }
        Ok(self.copy(guest, host, 0o755))
    }

    /// Adds a file with these contents.
    #[must_use]
    pub fn file(mut self, guest: impl AsRef<Path>, bytes: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.put(guest.as_ref(), Entry::File { content: Content::Bytes(bytes.into()), mode });
        self
    }

    /// Adds a copy of a host file, read when the guest boots.
    #[must_use]
    pub fn copy(mut self, guest: impl AsRef<Path>, host: impl AsRef<Path>, mode: u32) -> Self {
        self.put(guest.as_ref(), Entry::File { content: Content::Host(host.as_ref().to_owned()), mode });
        self
    }

    /// Adds an empty directory.
    #[must_use]
    pub fn directory(mut self, guest: impl AsRef<Path>) -> Self {
        self.put(guest.as_ref(), Entry::Directory);
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, guest: impl AsRef<Path>, target: impl AsRef<Path>) -> Self {
        self.put(guest.as_ref(), Entry::Link(target.as_ref().to_owned()));
        self
    }

    /// Adds everything below a host directory: directories, files with their permission bits, links. Other types are left out.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn tree(mut self, guest: impl AsRef<Path>, host: impl AsRef<Path>) -> Result<Self, ImageError> {
        use std::os::unix::fs::PermissionsExt as _;
        let mut todo = vec![(guest.as_ref().to_owned(), host.as_ref().to_owned())];
        while let Some((guest, host)) = todo.pop() {
            let read = |source| ImageError::Read { path: host.clone(), source };
            self.put(&guest, Entry::Directory);
            for entry in fs::read_dir(&host).map_err(read)? {
                let entry = entry.map_err(read)?;
                let to = guest.join(entry.file_name());
                let meta = entry.metadata().map_err(read)?;
                if meta.is_dir() {
                    todo.push((to, entry.path()));
                } else if meta.is_symlink() {
                    let target = fs::read_link(entry.path()).map_err(read)?;
                    self.put(&to, Entry::Link(target));
                } else if meta.is_file() {
                    let mode = meta.permissions().mode() & 0o7777;
                    self.put(&to, Entry::File { content: Content::Host(entry.path()), mode });
                }
            }
        }
        Ok(self)
    }

    /// Both trees. Entries of `other` take precedence.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    fn put(&mut self, guest: &Path, entry: Entry) {
        // Relative to the root of the archive, without `.` and `..`.
        let path: PathBuf = guest
            .components()
            .filter_map(|part| match part {
                std::path::Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        for parent in path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
            self.entries.entry(parent.to_owned()).or_insert(Entry::Directory);
        }
        if !path.as_os_str().is_empty() {
            self.entries.insert(path, entry);
        }
    }

    /// Writes the tree as a `newc` archive, parents before children. The output is deterministic.
    ///
    /// # Errors
    /// A host file cannot be read or the archive cannot be written.
    pub fn write(&self, mut out: impl Write) -> Result<(), ImageError> {
        let mut number: u32 = 0;
        for (path, entry) in &self.entries {
            number += 1;
            let (mode, bytes) = match entry {
                Entry::Directory => (DIRECTORY | 0o755, Vec::new()),
                Entry::Link(target) => (LINK | 0o777, target.as_os_str().as_encoded_bytes().to_vec()),
                Entry::File { content: Content::Bytes(bytes), mode } => (REGULAR | mode, bytes.clone()),
                Entry::File { content: Content::Host(host), mode } => {
                    let read = |source| ImageError::Read { path: host.clone(), source };
                    (REGULAR | mode, fs::read(host).map_err(read)?)
                }
            };
            append(&mut out, path, number, mode, &bytes).map_err(ImageError::Write)?;
        }
        cpio::newc::trailer(out).map(drop).map_err(ImageError::Write)
    }
}

fn append(out: &mut impl Write, path: &Path, number: u32, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let too_large =
        |_| io::Error::new(io::ErrorKind::FileTooLarge, format!("{} is over 4 GB", path.display()));
    let name = path.to_string_lossy();
    let mut writer = cpio::newc::Builder::new(&name)
        .ino(number)
        .mode(mode)
        .nlink(1)
        .write(out, u32::try_from(bytes.len()).map_err(too_large)?);
    writer.write_all(bytes)?;
    writer.finish().map(drop)
}

/// Regular files of a `newc` archive, by path without a leading `./`.
pub(crate) fn unpack_files(archive: &[u8]) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut rest = archive;
    // The archive of an empty directory is empty.
    while !rest.is_empty() {
        let mut reader = cpio::newc::Reader::new(rest)?;
        if reader.entry().is_trailer() {
            break;
        }
        let name = reader.entry().name().trim_start_matches("./").to_owned();
        let is_file = reader.entry().mode() & 0o170_000 == REGULAR;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut reader, &mut bytes)?;
        if is_file {
            files.insert(name, bytes);
        }
        rest = reader.finish()?;
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(image: &Image) -> Vec<String> {
        image.entries.keys().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn parents_are_made_and_come_first() {
        let image = Image::new().file("/usr/local/bin/x", "hello", 0o755).link("/bin/sh", "busybox");
        assert_eq!(paths(&image), ["bin", "bin/sh", "usr", "usr/local", "usr/local/bin", "usr/local/bin/x"]);
    }

    #[test]
    fn a_path_cannot_climb_out_of_the_tree() {
        assert_eq!(paths(&Image::new().file("/../../etc/x", "", 0o644)), ["etc", "etc/x"]);
    }

    #[test]
    fn a_program_brings_its_libraries() {
        let image = Image::new().program("me", &std::env::current_exe().unwrap()).unwrap();
        let paths = paths(&image);
        assert!(paths.contains(&"usr/local/bin/me".to_owned()));
        assert!(paths.iter().any(|p| p.contains("libc.so.6")), "{paths:?}");
        assert!(paths.iter().any(|p| p.contains("ld-linux")), "{paths:?}");
    }

    #[test]
    fn a_host_tree_is_copied_with_its_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/f"), "text").unwrap();
        std::os::unix::fs::symlink("b/f", dir.path().join("a/l")).unwrap();
        let image = Image::new().tree("/t", dir.path()).unwrap();
        assert_eq!(paths(&image), ["t", "t/a", "t/a/b", "t/a/b/f", "t/a/l"]);
        let mut bytes = Vec::new();
        image.write(&mut bytes).unwrap();
        assert_eq!(unpack_files(&bytes).unwrap(), BTreeMap::from([("t/a/b/f".to_owned(), b"text".to_vec())]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(files in proptest::collection::btree_map("[a-z]{1,8}", proptest::collection::vec(any::<u8>(), 0..300), 0..8)) {
            let mut image = Image::new();
            for (name, bytes) in &files {
                image = image.file(format!("/{name}"), bytes.clone(), 0o644);
            }
            let mut archive = Vec::new();
            image.write(&mut archive).unwrap();
            prop_assert_eq!(unpack_files(&archive).unwrap(), files);
        }

        #[test]
        fn no_archive_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = unpack_files(&bytes);
        }
    }
}
