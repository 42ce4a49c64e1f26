//! Names of functions and variables by address, from the mapped files.

use super::elf::{Elf, Named};
use crate::files::open_plain;
use millpond_machine::facets::{Mapping, Symbol};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The suffix of a deleted file in `/proc/PID/maps`.
const DELETED: &str = " (deleted)";

/// Cache of the symbols of mapped files.
pub(super) struct Symbols {
    /// The process's directory below `/proc`, because the process may see other files under these paths. `None` for a core.
    process: Option<PathBuf>,
    files: RefCell<HashMap<String, Rc<Option<Names>>>>,
}

/// The symbols of a file.
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
        // The process or core chose the path, so it is untrusted.
        let open = |path: &Path| open_plain(path, u64::MAX).ok();
        let Some(process) = &self.process else { return open(Path::new(&mapping.file)) };
        // Prefer the mapped file itself, because another file may have its path by now. This needs CAP_SYS_ADMIN or
        // CAP_CHECKPOINT_RESTORE.
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

    /// The function or variable that contains an address; without one, only the file.
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

/// The symbol that contains an address, and the offset in it.
fn named(names: &[Named], address: u64) -> Option<(String, u64)> {
    let after = names.partition_point(|named| named.address <= address);
    let named = names.get(after.checked_sub(1)?)?;
    let offset = address - named.address;
    // The byte after the end belongs to it: a call that never returns pushes this return address. A symbol without a size extends
    // to the next one.
    (named.size == 0 || offset <= named.size)
        .then(|| (format!("{:#}", rustc_demangle::demangle(&named.name)), offset))
}
