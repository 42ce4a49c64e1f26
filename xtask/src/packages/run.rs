//! The common data of all packages of one run.

use super::tool::said;
use super::tree;
use crate::install::{Built, Links, Wish, install_all};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bodies of maintainer scripts, used by each format in its own cases.
pub const BEFORE_REMOVAL: &str = include_str!("../../../packages/before-removal.sh");
pub const AFTER_INSTALLATION: &str = include_str!("../../../packages/after-installation.sh");
pub const AFTER_REMOVAL: &str = include_str!("../../../packages/after-removal.sh");

/// The version, and the package revision.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub const RELEASE: &str = "1";

/// The target architecture, as named by the formats.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Name in Rust and rpm.
    pub name: &'static str,
    /// Name in Debian.
    pub deb: &'static str,
    /// Debian's directory of libraries.
    pub deb_libraries: &'static str,
}

pub const MACHINES: [Machine; 2] = [
    Machine { name: "x86_64", deb: "amd64", deb_libraries: "lib/x86_64-linux-gnu" },
    Machine { name: "aarch64", deb: "arm64", deb_libraries: "lib/aarch64-linux-gnu" },
];

/// The common data of all packages of one run.
#[derive(Debug)]
pub struct Run {
    /// The files to package.
    pub built: Built,
    /// The output directory.
    pub out: PathBuf,
    /// Directory for intermediate trees, removed at the end.
    pub work: tempfile::TempDir,
    pub machine: Machine,
    /// Seconds since 1970: the time of all files.
    pub epoch: String,
    /// The maintainer: `Name <address>`.
    pub maintainer: String,
}

impl Run {
    /// Packages of `built`, for this architecture.
    pub fn new(built: Built, out: &Path, epoch: &str) -> io::Result<Run> {
        let machine = MACHINES.into_iter().find(|machine| machine.name == env::consts::ARCH);
        let machine =
            machine.ok_or_else(|| io::Error::other("there are packages for x86_64 and aarch64 only"))?;
        let (out, work) = (out.to_path_buf(), tempfile::tempdir()?);
        Ok(Run { built, out, work, machine, epoch: epoch.to_owned(), maintainer: maintainer() })
    }

    /// Installs into an empty tree: below `usr` or `usr/local`. Names of other packages are left out.
    pub fn install(&self, format: &str, prefix: &str, libdir: &str) -> io::Result<PathBuf> {
        let root = self.work.path().join(format);
        let wish =
            Wish { prefix: prefix.into(), destdir: root.clone(), libdir: libdir.into(), links: Links::Own };
        install_all(&self.built, &wish, &[])?;
        tree::compress_manual(&root, &root.join(prefix.trim_start_matches('/')).join("share/man"))?;
        Ok(root)
    }

    /// The time of all files, in a format of `date`.
    pub fn date(&self, form: &str) -> io::Result<String> {
        let mut date = Command::new("date");
        date.env("LC_ALL", "C").args(["-u", "-d", &format!("@{}", self.epoch), form]);
        Ok(said(&mut date)?.trim().to_owned())
    }
}

/// Name and address from the variables of Debian's tools, or a placeholder.
fn maintainer() -> String {
    let of = |name: &str, other: &str| {
        env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| other.to_owned())
    };
    let name = of("DEBFULLNAME", "The Millpond authors");
    format!("{name} <{}>", of("DEBEMAIL", "millpond@users.noreply.github.com"))
}
