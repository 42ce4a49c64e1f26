//! `cargo xtask install`: the binary, symbolic links with its command names where these are free, manual pages and completions,
//! units for the service manager, the libraries for C programs, and documentation pages. `cargo xtask packages` makes packages of
//! the same tree.

use crate::cargo::BuildError;
use crate::debug_info;
use crate::documents::{self, Described, described};
use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Units for systemd, with [`BINDIR`] for the directory of the program.
const UNITS: [(&str, &str); 6] = [
    ("gauge.service", include_str!("../../units/gauge.service")),
    ("millpond-fences.service", include_str!("../../units/millpond-fences.service")),
    ("millpond-pools.service", include_str!("../../units/millpond-pools.service")),
    ("millpond-record.service", include_str!("../../units/millpond-record.service")),
    ("poold.service", include_str!("../../units/poold.service")),
    ("schedd.service", include_str!("../../units/schedd.service")),
];

/// Placeholder in units for the directory of the program.
const BINDIR: &str = "@BINDIR@";

/// The program.
pub const PROGRAM: &str = "millpond";

/// The header of the library, in this tree.
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lib/member-c/include/millpond_pool.h");

/// The library for real-time programs: its headers, its manual, its pkg-config file, and its files.
const RT_HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rt/rt/include/millpond");
const RT_MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rt/rt/man");
const RT_PKG_CONFIG: &str = include_str!("../../rt/rt/millpond-rt.pc.in");
pub const RT_STATIC: &str = "libmillpond_rt.a";
pub const RT_SHARED: &str = "libmillpond_rt.so";
pub const RT_SHARED_NAME: &str = "libmillpond_rt.so.0";

/// The library for `LD_PRELOAD`, with the malloc of the library above. It is in the same directory, where the dynamic linker
/// finds it by name. Nothing is linked with it.
pub const MALLOC: &str = "libmillpond_malloc.so";

/// The library: the names that linkers look for, and that programs linked with the shared library look for.
pub const STATIC: &str = "libmillpond_pool.a";
pub const SHARED: &str = "libmillpond_pool.so";
pub const SHARED_NAME: &str = "libmillpond_pool.so.0";

/// Names that belong to other Debian packages. The commands of the distribution keep these names.
pub const NAMES_OF_OTHERS: [(&str, &str); 3] =
    [("cpustat", "cpustat"), ("mpstat", "sysstat"), ("prctl", "prctl")];

/// The command names to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// All that no other program has here.
    Yes,
    /// None.
    No,
    /// All except [`NAMES_OF_OTHERS`], regardless of installed programs.
    Own,
}

/// The options of the installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The prefix in the target system.
    pub prefix: PathBuf,
    /// A directory that represents the root of the target system; empty for this system.
    pub destdir: PathBuf,
    /// The directory of libraries below the prefix.
    pub libdir: PathBuf,
    /// The command names to link.
    pub links: Links,
}

/// The results of a build.
#[derive(Debug, Clone)]
pub struct Built {
    /// The program.
    pub program: PathBuf,
    /// The directory with the libraries.
    pub libraries: PathBuf,
}

impl Built {
    /// The results of `make build`: the program with profile `program`, and the libraries of the release build.
    pub fn here() -> Built {
        let target = crate::matrix::target_directory();
        Built { program: target.join("program").join(PROGRAM), libraries: target.join("release") }
    }
}

impl Default for Wish {
    fn default() -> Self {
        Wish { prefix: "/usr/local".into(), destdir: PathBuf::new(), libdir: "lib".into(), links: Links::Yes }
    }
}

/// The result for a command name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// The link was created, or existed.
    Linked,
    /// Another program has the name.
    Taken(PathBuf),
}

/// Installs the results of `make build`; true on success.
///
/// # Errors
/// [`BuildError::Install`] with the system's error.
pub fn run(wish: &Wish) -> Result<bool, BuildError> {
    let search: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    print!("{}", install_all(&Built::here(), wish, &search).map_err(BuildError::Install)?);
    Ok(true)
}

/// Installs everything, and returns a report. The only function with the complete list.
///
/// # Errors
/// The system's error, or that of the program if it cannot describe its commands.
pub fn install_all(built: &Built, wish: &Wish, search: &[PathBuf]) -> io::Result<String> {
    let all = described(&built.program)?;
    let (mut told, linked) = install(&built.program, &all, wish, search)?;
    told += &documents::install(&built.program, &all, &linked, wish)?;
    told += &documents::install_pages(wish)?;
    told += &install_rt(&built.libraries, wish)?;
    Ok(told + &install_library(&built.libraries, wish)?)
}

/// Writes the units. None is enabled; this is left to the administrator.
fn install_units(wish: &Wish) -> io::Result<String> {
    let dir = staged(&wish.destdir, &wish.prefix.join("lib/systemd/system"));
    let bin = wish.prefix.join("bin").display().to_string();
    let mut told = String::new();
    for (name, text) in UNITS {
        write(&dir, name, &text.replace(BINDIR, &bin))?;
        told += &format!("installed {}\n", dir.join(name).display());
    }
    Ok(told)
}

/// Copies `program` and links its command names. `search` is the search path of users; names of programs found there are not
/// linked. Returns a report and the linked names.
fn install<'d>(
    program: &Path,
    all: &'d [Described],
    wish: &Wish,
    search: &[PathBuf],
) -> io::Result<(String, Vec<&'d str>)> {
    let seen = wish.prefix.join("bin");
    let dir = staged(&wish.destdir, &seen);
    fs::create_dir_all(&dir)?;
    let mut told = put_split(program, Path::new("bin"), PROGRAM, wish)?;
    told += &install_units(wish)?;
    let mut linked = Vec::new();
    let is_wanted = |name: &str| match wish.links {
        Links::Yes => true,
        Links::No => false,
        Links::Own => NAMES_OF_OTHERS.iter().all(|(other, _)| *other != name),
    };
    // In a staged tree only the tree itself determines which names are free.
    let search = if wish.destdir.as_os_str().is_empty() { search } else { &[] };
    let applets = all.iter().filter(|command| command.is_applet).map(|command| command.name.as_str());
    for applet in applets.filter(|name| is_wanted(name)) {
        told += &match link(&dir, applet, search)? {
            Name::Linked => {
                linked.push(applet);
                format!("linked {}\n", dir.join(applet).display())
            }
            Name::Taken(by) => format!(
                "left alone: {applet} is {}; ours is `{PROGRAM} {applet}`, or make a link to {PROGRAM} by another name\n",
                by.display()
            ),
        };
    }
    Ok((told, linked))
}

/// Copies a program or a shared library without debug information to a directory below the prefix, and the debug information to
/// the debuggers' directory.
fn put_split(file: &Path, below: &Path, name: &str, wish: &Wish) -> io::Result<String> {
    let seen = wish.prefix.join(below);
    let dir = staged(&wish.destdir, &seen);
    let split = match file.exists().then(|| debug_info::split(file, name)).transpose()? {
        Some(debug_info::Outcome::Split(split)) => split,
        Some(debug_info::Outcome::Failed) => {
            let told = put(file, &dir, name, 0o755)?;
            return Ok(told + &format!("hint: objcopy (apt-get install binutils) makes {name} smaller\n"));
        }
        Some(debug_info::Outcome::Whole) | None => return put(file, &dir, name, 0o755),
    };
    let debug =
        staged(&wish.destdir, &wish.prefix.join("lib/debug").join(seen.strip_prefix("/").unwrap_or(&seen)));
    fs::create_dir_all(&debug)?;
    let told = put(&split.program, &dir, name, 0o755)?;
    Ok(told + &put(&split.debug, &debug, &format!("{name}.debug"), 0o644)?)
}

/// Copies the library of the release build and its header, and links the name that linkers look for.
fn install_library(release: &Path, wish: &Wish) -> io::Result<String> {
    let place = |dir: &Path| staged(&wish.destdir, &wish.prefix.join(dir));
    let (lib, include) = (place(&wish.libdir), place(Path::new("include")));
    fs::create_dir_all(&lib)?;
    fs::create_dir_all(&include)?;
    let header = Path::new(HEADER);
    let name = header.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut told = put(header, &include, &name, 0o644)?;
    told += &put(&release.join(STATIC), &lib, STATIC, 0o644)?;
    told += &put_split(&release.join(SHARED), &wish.libdir, SHARED_NAME, wish)?;
    make_link(SHARED_NAME, &lib.join(SHARED))?;
    told += &format!("linked {}\n", lib.join(SHARED).display());
    if wish.destdir.as_os_str().is_empty() {
        told += "hint: ldconfig lets programs find the shared library\n";
    }
    Ok(told)
}

/// Copies the library for real-time programs, the one for `LD_PRELOAD`, the headers, the manual and the pkg-config file.
fn install_rt(release: &Path, wish: &Wish) -> io::Result<String> {
    let place = |dir: &str| staged(&wish.destdir, &wish.prefix.join(dir));
    let lib = staged(&wish.destdir, &wish.prefix.join(&wish.libdir));
    let (include, pkg, man) = (place("include/millpond"), lib.join("pkgconfig"), place("share/man/man3"));
    for dir in [&lib, &include, &pkg, &man] {
        fs::create_dir_all(dir)?;
    }
    let mut told = put_all(Path::new(RT_HEADERS), &include)?;
    told += &put(&release.join(RT_STATIC), &lib, RT_STATIC, 0o644)?;
    told += &put_split(&release.join(RT_SHARED), &wish.libdir, RT_SHARED_NAME, wish)?;
    make_link(RT_SHARED_NAME, &lib.join(RT_SHARED))?;
    told += &format!("linked {}\n", lib.join(RT_SHARED).display());
    told += &put_split(&release.join(MALLOC), &wish.libdir, MALLOC, wish)?;
    let text = RT_PKG_CONFIG
        .replace("@PREFIX@", &wish.prefix.display().to_string())
        .replace("@LIBDIR@", &wish.libdir.display().to_string());
    let path = pkg.join("millpond-rt.pc");
    fs::write(&path, text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
    told += &format!("installed {}\n", path.display());
    told += &put_all(Path::new(RT_MANUAL), &man)?;
    Ok(told)
}

/// Copies all files of a directory of this tree, recursively and in order.
pub fn put_all(from: &Path, dir: &Path) -> io::Result<String> {
    fs::create_dir_all(dir)?;
    let mut files = fs::read_dir(from)?.collect::<io::Result<Vec<_>>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let copy = |file: &fs::DirEntry| {
        let name = file.file_name();
        match file.file_type()?.is_dir() {
            true => put_all(&file.path(), &dir.join(name)),
            false => put(&file.path(), dir, &name.to_string_lossy(), 0o644),
        }
    };
    files.iter().map(copy).collect()
}

/// Writes a text file, and creates its parent directories.
pub fn write(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut new = beside(dir, name)?;
    new.write_all(text.as_bytes())?;
    take_name(new, &dir.join(name), 0o644)
}

/// A new file in `dir` with an unpredictable name, so that no existing link is followed. Dropping it removes it.
fn beside(dir: &Path, name: &str) -> io::Result<NamedTempFile> {
    // Report a missing directory without the temporary name.
    fs::metadata(dir)?;
    tempfile::Builder::new().prefix(&format!(".{name}.")).tempfile_in(dir)
}

/// Sets the mode of a file and renames it. An existing link is replaced.
fn take_name(new: NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    new.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

/// Copies a file. A running program cannot be written, but it can be replaced by a rename.
pub fn put(file: &Path, dir: &Path, name: &str, mode: u32) -> io::Result<String> {
    let copied = fs::File::open(file).and_then(|mut from| {
        let mut new = beside(dir, name)?;
        io::copy(&mut from, &mut new).map(|_| new)
    });
    let new = copied.map_err(|error| {
        let help = if file.exists() { "" } else { "; build it first (make build)" };
        let why = format!("cannot copy {} to {}: {error}{help}", file.display(), dir.display());
        io::Error::new(error.kind(), why)
    })?;
    take_name(new, &dir.join(name), mode)?;
    Ok(format!("installed {}\n", dir.join(name).display()))
}

/// `destdir` + `prefix`. The prefix is absolute in the target system.
pub fn staged(destdir: &Path, prefix: &Path) -> PathBuf {
    if destdir.as_os_str().is_empty() {
        return prefix.to_path_buf();
    }
    destdir.join(prefix.strip_prefix("/").unwrap_or(prefix))
}

fn link(dir: &Path, applet: &str, search: &[PathBuf]) -> io::Result<Name> {
    let place = dir.join(applet);
    let places = std::iter::once(place.clone()).chain(search.iter().map(|dir| dir.join(applet)));
    for other in places.filter(|path| fs::symlink_metadata(path).is_ok()) {
        if !is_ours(&other) {
            return Ok(Name::Taken(other));
        }
    }
    make_link(PROGRAM, &place).map(|()| Name::Linked)
}

/// Creates a link. An existing file is kept.
pub fn make_link(to: &str, path: &Path) -> io::Result<()> {
    match symlink(to, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether a path is a link to a file with our program's name.
fn is_ours(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|to| to.file_name().is_some_and(|name| name == PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLETS: [&str; 3] = ["psrset", "mpstat", "poold"];

    fn all() -> Vec<Described> {
        let applets = APPLETS.map(|name| format!("{name} {name} 8 applet\n")).concat();
        documents::parse(&(applets + "doctor millpond-doctor 8 command\n"))
    }

    struct Place {
        dir: tempfile::TempDir,
        wish: Wish,
    }

    impl Place {
        fn new() -> Place {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("built"), "program").unwrap();
            let wish = Wish { prefix: dir.path().join("usr"), ..Wish::default() };
            Place { dir, wish }
        }

        fn install(&self, search: &[PathBuf]) -> String {
            install(&self.dir.path().join("built"), &all(), &self.wish, search).unwrap().0
        }

        fn bin(&self) -> PathBuf {
            staged(&self.wish.destdir, &self.wish.prefix.join("bin"))
        }
    }

    #[test]
    fn what_is_said_to_make_does_not_reach_the_builds_of_libraries() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let told = std::process::Command::new("make")
            .args(["--silent", "--eval", "told: ; @env", "told", "DESTDIR=/staged", "PREFIX=/staged"])
            .current_dir(root)
            .output()
            .unwrap();
        let environment = String::from_utf8(told.stdout).unwrap();
        assert!(environment.contains("MAKEFLAGS="), "{environment}{}", String::from_utf8_lossy(&told.stderr));
        assert!(!environment.contains("/staged"), "{environment}");
    }

    #[test]
    fn the_program_and_its_names_are_installed() {
        let place = Place::new();
        let told = place.install(&[]);
        assert_eq!(fs::read(place.bin().join("millpond")).unwrap(), b"program");
        assert_eq!(fs::metadata(place.bin().join("millpond")).unwrap().permissions().mode() & 0o777, 0o755);
        for applet in APPLETS {
            assert_eq!(fs::read_link(place.bin().join(applet)).unwrap(), Path::new("millpond"));
        }
        assert_eq!(told.lines().count(), 1 + UNITS.len() + APPLETS.len());
    }

    #[test]
    fn debug_information_of_the_program_is_installed_beside_it() {
        let test = "debug_information_of_the_program_is_installed_beside_it";
        if std::process::Command::new("objcopy").arg("--version").output().is_err() {
            println!("skipped: {test}: there is no objcopy (apt-get install binutils)");
            return;
        }
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/usr".into();
        let itself = env::current_exe().unwrap();
        let (told, _) = install(&itself, &all(), &place.wish, &[]).unwrap();
        let program = place.bin().join("millpond");
        let debug = place.dir.path().join("stage/usr/lib/debug/usr/bin/millpond.debug");
        assert!(told.contains(&format!("installed {}\n", debug.display())), "{told}");
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(size(&program) < size(&itself) / 2 && size(&debug) > size(&program));
        let link = fs::read(&program).unwrap();
        assert!(link.windows(14).any(|name| name == b"millpond.debug"));
        let listed = std::process::Command::new(&program).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains(test));
    }

    #[test]
    fn the_library_is_installed_with_its_header_and_under_both_names() {
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/usr".into();
        for (name, text) in [(STATIC, "static"), (SHARED, "shared")] {
            fs::write(place.dir.path().join(name), text).unwrap();
        }
        let first = install_library(place.dir.path(), &place.wish).unwrap();
        assert_eq!(install_library(place.dir.path(), &place.wish).unwrap(), first);
        let usr = place.dir.path().join("stage/usr");
        let header = fs::read_to_string(usr.join("include/millpond_pool.h")).unwrap();
        assert!(header.contains("int mp_pool_open(const char *name, struct mp_pool **pool);"));
        assert_eq!(fs::read(usr.join("lib/libmillpond_pool.a")).unwrap(), b"static");
        assert_eq!(fs::read(usr.join("lib/libmillpond_pool.so.0")).unwrap(), b"shared");
        let link = fs::read_link(usr.join("lib/libmillpond_pool.so")).unwrap();
        assert_eq!(link, Path::new("libmillpond_pool.so.0"));
        let lines: Vec<&str> = first.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["installed", "installed", "installed", "linked"]);
    }

    #[test]
    fn what_was_not_built_is_named_with_what_helps() {
        let place = Place::new();
        let dir = place.dir.path();
        let said = put(&dir.join("lacking.so"), dir, "lacking.so", 0o755).unwrap_err().to_string();
        let begin = format!("cannot copy {}/lacking.so to {0}: ", dir.display());
        assert!(said.starts_with(&begin) && said.ends_with("; build it first (make build)"), "{said}");
        let said = put(&dir.join("built"), &dir.join("nowhere"), "built", 0o755).unwrap_err().to_string();
        assert!(said.ends_with("No such file or directory (os error 2)"), "{said}");
    }

    #[test]
    fn the_library_for_real_time_programs_is_installed_with_its_headers_and_for_pkg_config() {
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/opt/mill".into();
        place.wish.libdir = "lib/x86_64-linux-gnu".into();
        for (name, text) in [(RT_STATIC, "static"), (RT_SHARED, "shared"), (MALLOC, "malloc")] {
            fs::write(place.dir.path().join(name), text).unwrap();
        }
        let first = install_rt(place.dir.path(), &place.wish).unwrap();
        assert_eq!(install_rt(place.dir.path(), &place.wish).unwrap(), first);
        let mill = place.dir.path().join("stage/opt/mill");
        let header = fs::read_to_string(mill.join("include/millpond/rt.h")).unwrap();
        assert!(header.contains("void *stack_alloc(size_t size);"));
        let header = fs::read_to_string(mill.join("include/millpond/umem.h")).unwrap();
        assert!(header.contains("void *umem_alloc(size_t size, int flags);"));
        assert_eq!(fs::read(mill.join("lib/x86_64-linux-gnu/libmillpond_malloc.so")).unwrap(), b"malloc");
        assert_eq!(fs::read(mill.join("lib/x86_64-linux-gnu/libmillpond_rt.a")).unwrap(), b"static");
        assert_eq!(fs::read(mill.join("lib/x86_64-linux-gnu/libmillpond_rt.so")).unwrap(), b"shared");
        let pkg = fs::read_to_string(mill.join("lib/x86_64-linux-gnu/pkgconfig/millpond-rt.pc")).unwrap();
        assert!(
            pkg.starts_with("prefix=/opt/mill\nlibdir=${prefix}/lib/x86_64-linux-gnu\n")
                && !pkg.contains('@'),
            "{pkg}"
        );
        for page in ["stack_alloc", "umem_alloc", "umem_free", "umem_debug"] {
            assert!(mill.join(format!("share/man/man3/{page}.3")).is_file(), "{page}");
        }
    }

    #[test]
    fn pkg_config_says_where_the_library_for_real_time_programs_is() {
        let test = "pkg_config_says_where_the_library_for_real_time_programs_is";
        if std::process::Command::new("pkg-config").arg("--version").output().is_err() {
            println!("skipped: {test}: there is no pkg-config (apt-get install pkg-config)");
            return;
        }
        let place = Place::new();
        for name in [RT_STATIC, RT_SHARED, MALLOC] {
            fs::write(place.dir.path().join(name), "library").unwrap();
        }
        install_rt(place.dir.path(), &place.wish).unwrap();
        let usr = place.wish.prefix.display().to_string();
        let said = |more: &[&str]| {
            let mut command = std::process::Command::new("pkg-config");
            command.env("PKG_CONFIG_PATH", format!("{usr}/lib/pkgconfig")).args(more).arg("millpond-rt");
            let out = command.output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8(out.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let wanted = format!("-I{usr}/include -L{usr}/lib -lmillpond_rt");
        assert_eq!(said(&["--cflags", "--libs"]), wanted);
        assert_eq!(said(&["--cflags", "--libs", "--static"]), wanted + " -lgcc_s -lpthread -ldl -lm");
        assert_eq!(said(&["--modversion"]), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn installing_twice_is_installing_once() {
        let place = Place::new();
        let first = place.install(&[]);
        assert_eq!(place.install(&[place.bin()]), first);
    }

    #[test]
    fn an_mpstat_of_somebody_else_is_left_alone_wherever_users_find_it() {
        let place = Place::new();
        let other = place.dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mpstat"), "sysstat").unwrap();
        let told = place.install(std::slice::from_ref(&other));
        assert!(fs::symlink_metadata(place.bin().join("mpstat")).is_err());
        let line =
            format!("left alone: mpstat is {}; ours is `millpond mpstat`", other.join("mpstat").display());
        assert!(told.lines().any(|said| said.starts_with(&line)), "{told}");

        fs::write(place.bin().join("mpstat"), "sysstat").unwrap();
        place.install(&[]);
        assert_eq!(fs::read(place.bin().join("mpstat")).unwrap(), b"sysstat");
    }

    #[test]
    fn a_staged_tree_stands_for_the_root_and_knows_nothing_of_this_system() {
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/usr".into();
        let other = place.dir.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mpstat"), "sysstat").unwrap();
        place.install(&[other]);
        let bin = place.dir.path().join("stage/usr/bin");
        assert_eq!(fs::read_link(bin.join("mpstat")).unwrap(), Path::new("millpond"));
    }

    #[test]
    fn without_links_only_the_program_is_installed() {
        let mut place = Place::new();
        place.wish.links = Links::No;
        assert_eq!(place.install(&[]).lines().count(), 1 + UNITS.len());
        assert_eq!(fs::read_dir(place.bin()).unwrap().count(), 1);
    }

    #[test]
    fn names_of_other_packages_are_left_out_where_only_own_ones_are_wanted() {
        let mut place = Place::new();
        place.wish.links = Links::Own;
        place.install(&[]);
        assert!(fs::symlink_metadata(place.bin().join("mpstat")).is_err());
        assert_eq!(fs::read_link(place.bin().join("psrset")).unwrap(), Path::new("millpond"));
    }

    /// The values of a key, in order. The test fails for a line that is not a section, a comment or `Key=value`.
    fn values<'t>(text: &'t str, wanted: &str) -> Vec<&'t str> {
        let mut section = "";
        let mut found = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(name) => section = name,
                None => {
                    let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
                    assert!(key.bytes().all(|b| b.is_ascii_alphanumeric()) && !section.is_empty(), "{line}");
                    found.extend((format!("{section}.{key}") == wanted).then_some(value));
                }
            }
        }
        found
    }

    #[test]
    fn units_name_the_program_where_the_system_will_see_it() {
        let mut place = Place::new();
        place.wish.destdir = place.dir.path().join("stage");
        place.wish.prefix = "/opt/mill".into();
        place.install(&[]);
        let dir = place.dir.path().join("stage/opt/mill/lib/systemd/system");
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let pools = read("millpond-pools.service");
        let bin = "/opt/mill/bin/millpond";
        assert_eq!(
            values(&pools, "Service.ExecStart"),
            [format!("{bin} pooladm -e"), format!("{bin} pooladm -c")]
        );
        assert_eq!(values(&pools, "Service.ExecStopPost"), [format!("-{bin} pooladm -d")]);
        assert_eq!(values(&pools, "Unit.ConditionPathExists"), ["/etc/pooladm.conf"]);
        assert_eq!(values(&pools, "Unit.After"), ["dbus.socket"]);
        let poold = read("poold.service");
        assert_eq!(values(&poold, "Service.ExecStart"), [format!("{bin} poold")]);
        assert_eq!(values(&poold, "Service.Type"), ["notify"]);
        assert_eq!(values(&poold, "Unit.After"), ["millpond-pools.service"]);
        let fences = read("millpond-fences.service");
        assert_eq!(values(&fences, "Service.ExecStart"), [format!("{bin} fence --watch")]);
        assert_eq!(values(&fences, "Unit.After"), ["dbus.socket millpond-pools.service"]);
        let record = read("millpond-record.service");
        assert_eq!(values(&record, "Service.ExecStart"), [format!("{bin} record")]);
        assert_eq!(values(&record, "Service.StateDirectory"), ["millpond/recordings"]);
        // Other users can neither read the recordings nor hold the lock.
        assert_eq!(values(&record, "Service.StateDirectoryMode"), ["0700"]);
        assert_eq!(values(&record, "Service.UMask"), ["0077"]);
        let gauge = read("gauge.service");
        assert_eq!(values(&gauge, "Service.ExecStart"), [format!("{bin} gauge")]);
        let schedd = read("schedd.service");
        assert_eq!(values(&schedd, "Service.ExecStart"), [format!("{bin} schedd")]);
        assert_eq!(values(&schedd, "Unit.ConditionPathExists"), ["/sys/kernel/sched_ext/state"]);
        for (name, _) in UNITS {
            assert!(!read(name).contains('@'), "{name}");
            assert_eq!(values(&read(name), "Service.NoNewPrivileges"), ["yes"], "{name}");
        }
    }

    #[test]
    fn systemd_finds_nothing_wrong_with_the_units() {
        let test = "systemd_finds_nothing_wrong_with_the_units";
        if std::process::Command::new("systemd-analyze").arg("--version").output().is_err() {
            println!("skipped: {test}: there is no systemd-analyze (apt-get install systemd)");
            return;
        }
        let place = Place::new();
        place.install(&[]);
        let dir = place.wish.prefix.join("lib/systemd/system");
        let verify = std::process::Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .args(UNITS.map(|(name, _)| dir.join(name)))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verify.stderr);
        assert!(
            verify.status.success()
                && !said.contains("millpond-pools")
                && !said.contains("millpond-record")
                && !said.contains("poold")
                && !said.contains("schedd"),
            "{said}"
        );
    }

    #[test]
    fn no_link_that_was_left_for_a_new_file_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [from, target, to] = ["from", "target", "to"].map(|name| dir.path().join(name));
        fs::write(&from, "program").unwrap();
        fs::write(&target, "precious").unwrap();
        for name in [".to.new", "to"] {
            symlink(&target, dir.path().join(name)).unwrap();
        }
        put(&from, dir.path(), "to", 0o755).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert_eq!(fs::read(&to).unwrap(), b"program");
        assert!(fs::symlink_metadata(&to).unwrap().is_file());
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }
}
