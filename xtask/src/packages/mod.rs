//! `cargo xtask packages`: Debian packages, rpm packages and an archive, of the files of `cargo xtask install`.
//!
//! # How it works
//!
//! ```text
//!   install_all ──▶ a tree for each format ──▶ parts::divide ──▶ deb: dpkg-deb, once for each part
//!                                                            ├──▶ rpm: one description, rpmbuild
//!                                                            └──▶ archive: tar
//! ```
//!
//! The only list of files is that of [`crate::install`]. [`parts`] assigns files to packages by name. The tools are those of the
//! package formats. Installed trees differ only in the directory of libraries.
//!
//! Packages of the same files with the same `SOURCE_DATE_EPOCH` are byte-identical. Its default is the time of the last commit.

mod archive;
mod deb;
mod parts;
mod rpm;
mod run;
#[cfg(test)]
mod tests;
mod tool;
mod tree;

use crate::cargo::BuildError;
use crate::install::Built;
use run::Run;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use tool::said;

/// The options.
pub struct Wish {
    /// The files to package.
    pub built: Built,
    /// The output directory.
    pub to: PathBuf,
}

impl Default for Wish {
    /// Packages of the results of `make build`, in `packages` of the target directory.
    fn default() -> Self {
        Wish { built: Built::here(), to: crate::matrix::target_directory().join("packages") }
    }
}

/// Makes all packages; true on success.
///
/// # Errors
/// [`BuildError::Package`] with the error of the system or the tool.
pub fn run(wish: &Wish) -> Result<bool, BuildError> {
    let packages = make(wish.built.clone(), &wish.to, &epoch().map_err(BuildError::Package)?);
    for package in packages.map_err(BuildError::Package)? {
        println!("made {}", package.display());
    }
    Ok(true)
}

/// Makes all packages in `out`, replacing existing ones.
fn make(built: Built, out: &Path, epoch: &str) -> io::Result<Vec<PathBuf>> {
    let run = Run::new(built, out, epoch)?;
    if run.out.exists() {
        fs::remove_dir_all(&run.out)?;
    }
    fs::create_dir_all(&run.out)?;
    let mut made = deb::make(&run)?;
    made.extend(rpm::make(&run)?);
    made.push(archive::make(&run)?);
    made.push(archive::sums(&run.out)?);
    Ok(made)
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn epoch() -> io::Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let time = said(&mut git).map_err(|error| {
        io::Error::other(format!(
            "{error}\nhint: set SOURCE_DATE_EPOCH, the time of all files in the packages"
        ))
    })?;
    Ok(time.trim().to_owned())
}
