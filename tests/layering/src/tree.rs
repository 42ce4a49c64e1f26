//! The tree as it lies on disk: cargo's metadata, and every Rust file of ours.

use crate::arrows::Metadata;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Rust file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path under the workspace, with `/` between the parts.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// Everything that the checks look at.
#[derive(Debug, Clone)]
pub struct House {
    /// Rooms and arrows.
    pub metadata: Metadata,
    /// Rust files, by path.
    pub files: Vec<SourceFile>,
}

/// The tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Cargo does not answer, or not in its own words.
    #[error("cannot read cargo metadata: {0}")]
    Metadata(String),
    /// A directory or file does not let itself be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl House {
    /// Reads the workspace around `dir`, asking the `cargo` given.
    ///
    /// # Errors
    /// [`ReadError`] naming what could not be read.
    pub fn read(cargo: &str, dir: &Path) -> Result<House, ReadError> {
        let metadata = read_metadata(cargo, dir)?;
        let root = PathBuf::from(&metadata.workspace_root);
        let mut files = Vec::new();
        read_sources(&root, &root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(House { metadata, files })
    }
}

fn read_metadata(cargo: &str, dir: &Path) -> Result<Metadata, ReadError> {
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(dir)
        .output()
        .map_err(|error| ReadError::Metadata(error.to_string()))?;
    if !output.status.success() {
        return Err(ReadError::Metadata(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| ReadError::Metadata(error.to_string()))
}

/// Adds the Rust files under `dir`; what cargo or git put there is passed over.
fn read_sources(root: &Path, dir: &Path, files: &mut Vec<SourceFile>) -> Result<(), ReadError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ReadError::File { path, source }
    };
    for entry in fs::read_dir(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().map_err(failed(&path))?;
        if kind.is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") {
                read_sources(root, &path, files)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}
