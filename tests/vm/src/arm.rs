//! A guest of another architecture, for its hardware counters: the emulator implements cycle and instruction counters only for
//! 64-bit ARM. It runs one kernel and one C program, and returns the program's console output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::apt::Apt;
use crate::cache::Cache;
use crate::capability::{Unavailable, program};
use crate::image::Image;

/// The suite of the kernel.
const SUITE: &str = "bookworm";
/// Its small kernel.
const PACKAGE: &str = "^linux-image-6[.]1[.].*-cloud-arm64$";
/// Time limit. A guest boots and counts in some seconds, on a busy machine in a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// The programs that such a guest needs.
#[derive(Debug, Clone)]
pub struct ArmTools {
    emulator: PathBuf,
    compiler: PathBuf,
}

impl ArmTools {
    /// Finds them.
    ///
    /// # Errors
    /// The first missing program, with its package.
    pub fn find() -> Result<ArmTools, Unavailable> {
        Ok(ArmTools {
            emulator: program("qemu-system-aarch64", "qemu-system-arm")?,
            compiler: program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")?,
        })
    }

    /// Compiles a program for the guest, statically linked.
    ///
    /// # Errors
    /// The compiler's output.
    pub fn compile(&self, source: &Path, program: &Path) -> Result<(), Unavailable> {
        let said = Command::new(&self.compiler)
            .args(["-O1", "-Wall", "-Werror", "-static", "-o"])
            .arg(program)
            .arg(source)
            .stdin(Stdio::null())
            .output();
        match said {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => Err(refused(format!(
                "{} cannot be compiled: {}",
                source.display(),
                String::from_utf8_lossy(&said.stderr)
            ))),
            Err(error) => Err(refused(format!("the compiler cannot be run: {error}"))),
        }
    }

    /// Boots the kernel with a program as process 1, which powers off when it is done. Returns the console output. Guest time
    /// advances by instructions: each takes one nanosecond and one cycle.
    ///
    /// # Errors
    /// The emulator cannot be run, or did not end in time.
    pub fn boot(&self, kernel: &Path, first: &Path, dir: &Path) -> Result<String, Unavailable> {
        let image = dir.join("initramfs");
        let failed = |what: &str, why: &dyn std::fmt::Display| refused(format!("{what}: {why}"));
        let out = fs::File::create(&image).map_err(|e| failed("the image cannot be made", &e))?;
        let tree = Image::new().copy("/init", first, 0o755).directory("/dev");
        tree.write(out).map_err(|e| failed("the image cannot be made", &e))?;
        let console = dir.join("console");
        let mut guest = Command::new(&self.emulator)
            .args(["-M", "virt", "-cpu", "cortex-a57", "-smp", "1", "-m", "512", "-icount", "shift=0"])
            .args(["-display", "none", "-monitor", "none", "-no-reboot", "-nodefaults", "-serial"])
            .arg(format!("file:{}", console.display()))
            .args(["-append", "console=ttyAMA0 panic=-1 quiet", "-kernel"])
            .arg(kernel)
            .arg("-initrd")
            .arg(&image)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| failed("the emulator cannot be run", &e))?;
        let deadline = Instant::now() + LIMIT;
        loop {
            match guest.try_wait().map_err(|e| failed("the emulator is lost", &e))? {
                Some(_) => break,
                None if Instant::now() > deadline => {
                    let _ = guest.kill();
                    let _ = guest.wait();
                    return Err(refused(format!("the guest did not end in {} s", LIMIT.as_secs())));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        let said = fs::read(&console).map_err(|e| failed("the console cannot be read", &e))?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

fn refused(why: String) -> Unavailable {
    Unavailable::new(why, "look at what is said")
}

/// Gets the kernel: from the cache, else from Debian's archive.
///
/// # Errors
/// Why it cannot be obtained.
pub fn obtain_arm_kernel(cache: &Cache, note: &dyn Fn(&str)) -> Result<PathBuf, Unavailable> {
    let place = cache.path("kernels/arm64");
    if let Some(kernel) = kernel_in(&place) {
        return Ok(kernel);
    }
    let lock = cache.lock("kernel-arm64")?;
    if let Some(kernel) = kernel_in(&place) {
        return Ok(kernel);
    }
    let scratch = cache.scratch("apt-arm64.")?;
    let apt = Apt::of(scratch.path(), SUITE, "arm64")?;
    note(&format!("kernel for ARM: reading the index of {}", apt.archive()));
    apt.update()?;
    let mut names = apt.names(PACKAGE)?;
    names.sort();
    let none =
        || Unavailable::new(format!("{} has no kernel for ARM", apt.archive()), "look for another suite");
    let name = names.pop().ok_or_else(none)?;
    note(&format!("kernel for ARM: downloading {name}"));
    let debs = apt.download(&[name])?;
    let published = cache.publish(&lock, Path::new("kernels/arm64"), |dir| {
        for deb in &debs {
            let said = Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir).stdin(Stdio::null()).output();
            if !said.is_ok_and(|said| said.status.success()) {
                return Err(refused(format!("cannot unpack {}", deb.display())));
            }
        }
        // The guest needs no modules.
        for dead in ["lib", "usr"] {
            let _ = fs::remove_dir_all(dir.join(dead));
        }
        Ok(())
    })?;
    kernel_in(&published).ok_or_else(none)
}

fn kernel_in(dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(dir.join("boot")).ok()?;
    let mut found = entries.flatten().map(|entry| entry.path());
    found.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
}
