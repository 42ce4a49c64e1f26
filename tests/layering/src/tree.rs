//! Reads the tree from disk: cargo's metadata, all Rust files and Markdown pages, and all paths.

use crate::Scan;
use crate::arrows::Metadata;
use crate::links::Page;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Separate workspaces below the root. Their crates are also on the map.
pub const OTHER_WORKSPACES: [&str; 1] = ["rt"];

/// A Rust file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path relative to the workspace, with `/` as separator.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Whether it is a test module (declared elsewhere as `#[cfg(test)] mod live;`), or below one.
    pub is_test: bool,
}

/// The input of all checks.
#[derive(Debug, Clone)]
pub struct House {
    /// Rooms and arrows of all workspaces.
    pub metadata: Metadata,
    /// Rust files, by path.
    pub files: Vec<SourceFile>,
    /// Markdown pages, by path.
    pub pages: Vec<Page>,
    /// Files and directories, relative to the workspace.
    pub paths: BTreeSet<String>,
}

/// An error of reading the tree.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Cargo failed or its output is invalid.
    #[error("cannot read cargo metadata: {0}")]
    Metadata(String),
    /// A directory or file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl House {
    /// Reads the workspace that contains `dir` and the other workspaces below its root, with the given `cargo`.
    ///
    /// # Errors
    /// [`ReadError`], with the name of what could not be read.
    pub fn read(cargo: &str, dir: &Path) -> Result<House, ReadError> {
        let mut metadata = read_metadata(cargo, dir)?;
        let root = PathBuf::from(&metadata.workspace_root);
        for other in OTHER_WORKSPACES {
            metadata.packages.extend(read_metadata(cargo, &root.join(other))?.packages);
        }
        let mut house = House { metadata, files: Vec::new(), pages: Vec::new(), paths: BTreeSet::new() };
        house.read_directory(&root, &root)?;
        house.files.sort_by(|a, b| a.path.cmp(&b.path));
        house.pages.sort_by(|a, b| a.path.cmp(&b.path));
        mark_tests(&mut house.files);
        Ok(house)
    }

    /// Adds everything below `dir`, except files of cargo and git.
    fn read_directory(&mut self, root: &Path, dir: &Path) -> Result<(), ReadError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ReadError::File { path, source }
        };
        for entry in fs::read_dir(dir).map_err(failed(dir))? {
            let entry = entry.map_err(failed(dir))?;
            let (full, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().map_err(failed(&full))?;
            if kind.is_dir() && (name.starts_with('.') || name.starts_with("target")) {
                continue;
            }
            let path = full.strip_prefix(root).unwrap_or(&full).to_string_lossy().into_owned();
            self.paths.insert(path.clone());
            if kind.is_dir() {
                self.read_directory(root, &full)?;
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&full).map_err(failed(&full))?;
                self.files.push(SourceFile { path, text, is_test: false });
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&full).map_err(failed(&full))?;
                self.pages.push(Page { path, text });
            }
        }
        Ok(())
    }
}

/// Marks modules that other files declare as test modules.
pub fn mark_tests(files: &mut [SourceFile]) {
    let tests: Vec<String> = files.iter().flat_map(test_modules).collect();
    for file in files {
        let is_below =
            |test: &String| file.path == format!("{test}.rs") || file.path.starts_with(&format!("{test}/"));
        file.is_test |= tests.iter().any(is_below);
    }
}

/// The paths of a file's test modules, without the suffix: `lib/linux/src/counters/live`.
fn test_modules(file: &SourceFile) -> Vec<String> {
    let scan = Scan::of(&file.text);
    let dir = match file.path.rsplit_once('/') {
        Some((dir, "lib.rs" | "main.rs" | "mod.rs")) => dir.to_owned(),
        _ => file.path.trim_end_matches(".rs").to_owned(),
    };
    let lines = scan.code.iter().enumerate().filter(|(at, _)| scan.is_test_line(at + 1));
    lines
        .filter_map(|(_, code)| code.trim().rsplit_once("mod ")?.1.strip_suffix(';'))
        .map(|name| format!("{dir}/{name}"))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_declared_for_tests_is_a_test() {
        let file =
            |path: &str, text: &str| SourceFile { path: path.into(), text: text.into(), is_test: false };
        let mut files = [
            file("lib/a/src/lib.rs", "//! A.\nmod b;\n#[cfg(test)]\nmod live;\n"),
            file(
                "lib/a/src/b.rs",
                "//! B.\n#[cfg(test)] pub mod deep;\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\n",
            ),
            file("lib/a/src/live.rs", ""),
            file("lib/a/src/live/more.rs", ""),
            file("lib/a/src/alive.rs", ""),
            file("lib/a/src/b/deep.rs", ""),
        ];
        mark_tests(&mut files);
        let tests: Vec<bool> = files.iter().map(|file| file.is_test).collect();
        assert_eq!(tests, [false, false, true, true, false, true]);
    }
}
