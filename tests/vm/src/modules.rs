//! Kernel modules of the guest: by name, with their dependencies, decompressed, in loading order.
//!
//! The packages have no `modules.dep` (it is generated at installation), so the dependencies are read from the `depends=` strings
//! of the modules.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::Cache;
use crate::capability::{self, Unavailable};
use crate::kernels::Kernel;

/// A module to load: its name and its decompressed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub name: String,
    pub file: PathBuf,
}

/// The requested modules and their dependencies, each after those it depends on. A name without a module file is assumed to be
/// built into the kernel. If it is missing, the guest reports the failure at boot.
pub(crate) fn resolve(kernel: &Kernel, wanted: &[String], cache: &Cache) -> Result<Vec<Module>, Unavailable> {
    let files = index(&kernel.modules.join("kernel"));
    let dir = cache.path("modules").join(&kernel.key);
    let plain = |name: &str| -> Result<Option<PathBuf>, Unavailable> {
        files.get(name).map(|packed| decompressed(packed, name, &dir, cache)).transpose()
    };
    let mut ordered = Vec::new();
    for name in wanted {
        visit(&canonical(name), &plain, &mut ordered)?;
    }
    Ok(ordered)
}

/// Adds a module after its dependencies, once. The kernel allows no cycles, which bounds the recursion.
fn visit(
    name: &str,
    plain: &dyn Fn(&str) -> Result<Option<PathBuf>, Unavailable>,
    ordered: &mut Vec<Module>,
) -> Result<(), Unavailable> {
    if ordered.iter().any(|m| m.name == name) {
        return Ok(());
    }
    let Some(file) = plain(name)? else { return Ok(()) };
    let bytes = fs::read(&file).map_err(|e| unreadable(&file, &e))?;
    for needed in dependencies(&bytes) {
        visit(&needed, plain, ordered)?;
    }
    ordered.push(Module { name: name.to_owned(), file });
    Ok(())
}

/// The names in the `depends=` string of a module file.
fn dependencies(module: &[u8]) -> Vec<String> {
    module
        .split(|byte| *byte == 0)
        .filter_map(|text| text.strip_prefix(b"depends="))
        .flat_map(|list| String::from_utf8_lossy(list).split(',').map(canonical).collect::<Vec<_>>())
        .filter(|name| !name.is_empty())
        .collect()
}

/// The kernel's form of a module name: `virtio-rng.ko` is module `virtio_rng`.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

/// All module files below a directory, by name.
fn index(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push(path);
            } else if let Some((name, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                found.insert(canonical(name), path);
            }
        }
    }
    found
}

/// The decompressed module, cached. Two concurrent processes write the same contents, each to a temporary file that is renamed. A
/// process with read-only access to the cache needs an existing file.
fn decompressed(packed: &Path, name: &str, dir: &Path, cache: &Cache) -> Result<PathBuf, Unavailable> {
    let (program, args): (PathBuf, &[&str]) = match packed.extension().and_then(|e| e.to_str()) {
        Some("xz") => (capability::busybox()?, &["xz", "-dc"]),
        Some("gz") => (capability::busybox()?, &["gzip", "-dc"]),
        Some("zst") => (capability::program("zstd", "zstd")?, &["-dcq"]),
        _ => return Ok(packed.to_owned()),
    };
    let target = dir.join(format!("{name}.ko"));
    if target.is_file() {
        return Ok(target);
    }
    let input = fs::File::open(packed).map_err(|e| unreadable(packed, &e))?;
    let said = Command::new(program)
        .args(args)
        .stdin(Stdio::from(input))
        .output()
        .map_err(|e| unreadable(packed, &e))?;
    if !said.status.success() || said.stdout.is_empty() {
        return Err(Unavailable::new(
            format!("cannot decompress {}", packed.display()),
            "remove this kernel from the cache; it will be fetched again",
        ));
    }
    let write = || -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        fs::create_dir_all(dir)?;
        let mut aside = tempfile::NamedTempFile::new_in(dir)?;
        std::io::Write::write_all(&mut aside, &said.stdout)?;
        aside.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        aside.persist(&target)?;
        Ok(())
    };
    write().map_err(|e| {
        Unavailable::new(
            format!("cannot write {}: {e}", target.display()),
            format!("make {} writable, or set MILLPOND_CACHE", cache.path("modules").display()),
        )
    })?;
    Ok(target)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Unavailable {
    Unavailable::new(
        format!("cannot read {}: {error}", path.display()),
        "remove this kernel from the cache; it will be fetched again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_after_all_that_it_needs_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, needs: &str| {
            fs::write(
                dir.path().join(format!("{name}.ko")),
                format!("\x7fELF\0depends={needs}\0name={name}\0"),
            )
            .unwrap();
        };
        put("virtio-net", "net-failover,virtio");
        put("net_failover", "failover");
        put("failover", "");
        put("virtio_pci", "virtio,virtio_ring");
        put("virtio_ring", "virtio");
        put("virtio", "");
        let files = index(dir.path());
        let plain = |name: &str| Ok(files.get(name).cloned());
        let mut ordered = Vec::new();
        for name in ["virtio_net", "virtio_pci", "built_in"] {
            visit(name, &plain, &mut ordered).unwrap();
        }
        let names: Vec<&str> = ordered.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio", "virtio_net", "virtio_ring", "virtio_pci"]);
    }
}
