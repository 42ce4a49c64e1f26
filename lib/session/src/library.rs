//! The library for real-time programs. The program is not linked with it; it is loaded on demand.

use millpond_machine::Absent;
use std::env;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Its soname. The number changes when the interface does.
const NAME: &str = "libmillpond_rt.so.0";

/// Its file name in cargo's directory.
const BUILT: &str = "libmillpond_rt.so";

/// Environment variable that names another library.
const VARIABLE: &str = "MILLPOND_RT";

const REMEDY: &str = "install it (make install), or name it: --library PATH, or MILLPOND_RT=PATH";

/// The loaded library. It is never unloaded, because its threads or handlers may still exist.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    name: String,
}

impl Library {
    /// Loads the named library; else the one of `MILLPOND_RT`; else one near this program (`../lib`, or cargo's directory);
    /// else the one that the dynamic loader finds.
    ///
    /// # Errors
    /// No library was found, or the named file is not a library.
    pub fn open(named: Option<&Path>) -> Result<Library, Absent> {
        let variable = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or(variable) {
            return open(path.as_os_str()).map_err(|why| {
                let why = format!("library {} cannot be opened: {why}", path.display());
                Absent::with_help(why, "name the libmillpond_rt.so of this version, with its directory")
            });
        }
        let program = env::current_exe().ok();
        let beside = program.iter().flat_map(|program| beside(program)).find(|path| path.is_file());
        let name = beside.map_or_else(|| NAME.into(), PathBuf::into_os_string);
        open(&name).map_err(|why| Absent::with_help(format!("{NAME} is not installed ({why})"), REMEDY))
    }

    /// Its path, or its name where the loader found it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of one of its functions.
    ///
    /// # Errors
    /// The library has no function of that name.
    pub fn call(&self, name: &CStr) -> Result<NonNull<c_void>, Absent> {
        // SAFETY: the library is open, and the name is read.
        let found = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or_else(|| {
            let why = format!("{} has no {}: it is of another version", self.name, name.to_string_lossy());
            Absent::with_help(why, REMEDY)
        })
    }
}

/// Possible paths near a program: in an installed tree, and in a build directory.
fn beside(program: &Path) -> Vec<PathBuf> {
    let Some(dir) = program.parent() else { return Vec::new() };
    vec![dir.join("../lib").join(NAME), dir.join(BUILT)]
}

fn open(name: &OsStr) -> Result<Library, String> {
    let text = CString::new(name.as_bytes()).map_err(|_| "its name has a zero byte".to_owned())?;
    // SAFETY: the name is a valid C string. Initializers of the library may run: ours has none, and a user who names another library accepts its
    // own.
    let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    match NonNull::new(handle) {
        Some(handle) => Ok(Library { handle, name: name.to_string_lossy().into_owned() }),
        None => Err(said()),
    }
}

/// The dynamic loader's last error message of this thread.
fn said() -> String {
    // SAFETY: null, or a text that stays valid until this thread's next call of the loader.
    let said = unsafe {
        let said = NonNull::new(libc::dlerror());
        said.map(|said| CStr::from_ptr(said.as_ptr()).to_string_lossy().into_owned())
    };
    said.unwrap_or_else(|| "the loader does not say why".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_and_is_no_library_is_told_with_the_loaders_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/nonexistent/library.so")] {
            let absent = Library::open(Some(path)).unwrap_err();
            assert!(absent.why.starts_with(&format!("library {} cannot be opened: ", path.display())));
            assert!(absent.what_would_help.is_some());
        }
    }

    #[test]
    fn a_library_without_the_call_is_of_another_version() {
        // A library that every program on these systems has loaded.
        let library = open(OsStr::new("libc.so.6")).unwrap();
        assert!(library.call(c"getpid").is_ok());
        let absent = library.call(c"rt_no_such_call").unwrap_err();
        assert_eq!(absent.why, "libc.so.6 has no rt_no_such_call: it is of another version");
    }

    #[test]
    fn it_is_looked_for_in_the_tree_that_the_program_is_in() {
        assert_eq!(
            beside(Path::new("/opt/mill/bin/millpond")),
            [
                PathBuf::from("/opt/mill/bin/../lib/libmillpond_rt.so.0"),
                PathBuf::from("/opt/mill/bin/libmillpond_rt.so")
            ]
        );
    }
}
