//! A C library with all kinds of frames: compiled, loaded and called.

use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const COMPILERS: [&str; 3] = ["gcc", "clang", "clang-19"];

/// A build of the library. Dropping it unloads and removes it.
pub(super) struct Library {
    handle: *mut c_void,
    file: PathBuf,
}

// SAFETY: a handle of the dynamic linker, which is thread-safe.
unsafe impl Sync for Library {}

type Look = extern "C" fn(*mut c_void);

impl Library {
    /// Compiles it with these options. `None`: there is no such compiler, which is printed with the test's name.
    pub(super) fn built(test: &str, compiler: &str, options: &[&str]) -> Option<Library> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if !Command::new(compiler).arg("--version").output().is_ok_and(|out| out.status.success()) {
            // The others are alternatives to each other.
            if compiler == "gcc" {
                println!("skipped: {test}: there is no {compiler}");
            }
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("millpond-frames-{}-{number}.so", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frames.c");
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(options);
        let out = command.arg(source).arg("-o").arg(&file).output().unwrap();
        assert!(out.status.success(), "{compiler}: {}", String::from_utf8_lossy(&out.stderr));
        let name = CString::new(file.to_str().unwrap()).unwrap();
        // SAFETY: the library has no constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{name:?}");
        Some(Library { handle, file })
    }

    pub(super) fn address(&self, name: &str) -> usize {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!address.is_null(), "{name:?}");
        address.addr()
    }

    /// Calls one of its functions, which calls `look` with `with`. Functions that handle signals run one at a time.
    pub(super) fn call(&self, name: &str, number: i64, look: Look, with: *mut c_void) {
        type Function = unsafe extern "C" fn(i64, Look, *mut c_void);
        static HANDLERS: Mutex<()> = Mutex::new(());
        let _alone = ["signalled", "elsewhere", "faulted"].contains(&name).then(|| HANDLERS.lock());
        let address = std::ptr::with_exposed_provenance::<()>(self.address(name));
        // SAFETY: all functions of the library have that type.
        unsafe { std::mem::transmute::<*const (), Function>(address)(number, look, with) };
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: none of its functions is running, and no pointer to one is kept.
        unsafe { libc::dlclose(self.handle) };
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The mappings, for reports.
pub(super) fn maps() -> String {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    text.lines().filter(|line| line.contains("r-xp") || line.contains("stack")).collect::<Vec<_>>().join("\n")
}
