//! Names of functions and variables by address: out of the files that are mapped.

use super::elf::{Elf, Named};
use crate::files::open_plain;
use millpond_machine::facets::{Mapping, Symbol};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the kernel says of a file that has no name any more.
const DELETED: &str = " (deleted)";

/// Files that were read, and where they are.
pub(super) struct Symbols {
    /// The process's directory below `/proc`: it may see other files under these names than we do. None: a core.
    process: Option<PathBuf>,
    files: RefCell<HashMap<String, Rc<Option<Names>>>>,
}

/// The names in a file.
struct Names {
    elf: Elf,
    names: Vec<Named>,
}

impl Symbols {
    pub(super) fn of_process(dir: &Path) -> Symbols {
        Symbols { process: Some(dir.to_owned()), files: RefCell::default() }
    }

    pub(super) fn of_core() -> Symbols {
        Symbols { process: None, files: RefCell::default() }
    }

    fn open(&self, mapping: &Mapping) -> Option<File> {
        // The process, or the core, chose the path: it may lead to anything.
        let open = |path: &Path| open_plain(path, u64::MAX).ok();
        let Some(process) = &self.process else { return open(Path::new(&mapping.file)) };
        // The file that is mapped, whatever has its name by now; the kernel wants CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE for it.
        let range = format!("{:x}-{:x}", mapping.begin, mapping.end);
        open(&process.join("map_files").join(range)).or_else(|| {
            let path = mapping.file.strip_prefix('/').filter(|_| !mapping.file.ends_with(DELETED))?;
            open(&process.join("root").join(path))
        })
    }

    fn names_of(&self, mapping: &Mapping) -> Rc<Option<Names>> {
        if let Some(known) = self.files.borrow().get(&mapping.file) {
            return Rc::clone(known);
        }
        let names = self.open(mapping).and_then(|file| {
            let elf = Elf::read(&file).ok()?;
            let names = elf.names(&file);
            Some(Names { elf, names })
        });
        let names = Rc::new(names);
        self.files.borrow_mut().insert(mapping.file.clone(), Rc::clone(&names));
        names
    }

    /// The function or variable in which an address lies; only the file where it has no name.
    pub(super) fn name(&self, mappings: &[Mapping], address: u64) -> Option<Symbol> {
        let mapping = mappings.iter().find(|mapping| mapping.contains(address))?;
        if !mapping.file.starts_with('/') {
            return None;
        }
        let offset = address - mapping.begin + mapping.offset;
        let module = mapping.module().trim_end_matches(DELETED).to_owned();
        let found = self.names_of(mapping);
        let known = found.as_ref().as_ref().and_then(|file| named(&file.names, file.elf.address_of(offset)?));
        Some(match known {
            Some((name, offset)) => Symbol { module, name, offset },
            None => Symbol { module, name: String::new(), offset },
        })
    }
}

/// The one that begins at an address, or before it and reaches up to it, and how far from its beginning that is.
fn named(names: &[Named], address: u64) -> Option<(String, u64)> {
    let after = names.partition_point(|named| named.address <= address);
    let named = names.get(after.checked_sub(1)?)?;
    let offset = address - named.address;
    // One byte behind its end is where a call returns to that never does. What has no size reaches up to the next.
    (named.size == 0 || offset <= named.size)
        .then(|| (format!("{:#}", rustc_demangle::demangle(&named.name)), offset))
}
