//! Trees of files for packages: their contents, compressed manual pages, modes of directories.

use super::tool::said;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Files and links below a directory, as relative paths, in order. Sets the mode of directories to 755.
pub fn files(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    gather(root, root, &mut found)?;
    found.sort();
    Ok(found)
}

fn gather(root: &Path, dir: &Path, found: &mut Vec<String>) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            gather(root, &path, found)?;
        } else {
            let below = path.strip_prefix(root).unwrap_or(&path);
            found.push(below.to_str().ok_or_else(|| io::Error::other("a name that is no text"))?.to_owned());
        }
    }
    Ok(())
}

/// Compresses all manual pages below a directory of a tree.
pub fn compress_manual(root: &Path, manual: &Path) -> io::Result<()> {
    let pages: Vec<_> = files(manual)?.into_iter().map(|page| manual.join(page)).collect();
    said(Command::new("gzip").current_dir(root).args(["-9", "--no-name"]).args(pages)).map(drop)
}

/// Moves a file or link to the same path below another directory.
pub fn move_to(file: &str, from: &Path, to: &Path) -> io::Result<()> {
    let place = to.join(file);
    fs::create_dir_all(place.parent().unwrap_or(to))?;
    fs::rename(from.join(file), place)
}
