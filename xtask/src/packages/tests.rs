//! Packages with stand-ins: small programs and libraries instead of those that take minutes to build.

use super::parts::{PARTS, SUITE, divide};
use super::run::{AFTER_INSTALLATION, AFTER_REMOVAL, BEFORE_REMOVAL, MACHINES, VERSION};
use super::tool::said;
use super::{make, tree};
use crate::install::{
    Built, Links, MALLOC, NAMES_OF_OTHERS, RT_SHARED, RT_STATIC, SHARED, STATIC, Wish, install_all,
};
use crate::matrix::has_program;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

const EPOCH: &str = "1700000000";

/// A stand-in that answers the queries of the installation.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[2], "--names"))
        return puts("psrset psrset 8 applet\nmpstat mpstat 1 applet\ncpustat cpustat 1 applet\n"
                    "prctl prctl 8 applet\nquiet millpond-quiet 1 command") < 0;
    for (int i = 1; i < argc; i++)
        printf("%s\n", argv[i]);
    return 0;
}
"#;

/// Required programs, with their Debian packages.
const TOOLS: [(&str, &str); 7] = [
    ("cc", "build-essential"),
    ("objcopy", "binutils"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("rpmbuild", "rpm"),
    ("rpm2cpio", "rpm2cpio"),
    ("cpio", "cpio"),
];

/// Whether a program is missing; prints which.
fn is_skipped(test: &str) -> bool {
    let lacking = TOOLS.iter().find(|(program, _)| !has_program(program));
    if let Some((program, package)) = lacking {
        println!("skipped: {test}: there is no {program} (apt-get install {package})");
    }
    lacking.is_some()
}

fn compile(dir: &Path, text: &str, name: &str, more: &[&str]) {
    let source = dir.join("source.c");
    fs::write(&source, text).unwrap();
    said(Command::new("cc").args(["-g", "-o"]).arg(dir.join(name)).arg(&source).args(more)).unwrap();
}

/// Stand-ins for all build results.
fn built(dir: &Path) -> Built {
    compile(dir, PROGRAM, "millpond", &[]);
    for (name, shared) in
        [(RT_SHARED, "libmillpond_rt.so.0"), (SHARED, "libmillpond_pool.so.0"), (MALLOC, MALLOC)]
    {
        let number = format!("-Wl,-soname,{shared}");
        compile(
            dir,
            "#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n",
            name,
            &["-shared", "-fPIC", &number],
        );
    }
    for name in [RT_STATIC, STATIC] {
        fs::write(dir.join(name), "!<arch>\n").unwrap();
    }
    Built { program: dir.join("millpond"), libraries: dir.to_path_buf() }
}

/// Packages of one run, and their input.
struct Made {
    dir: tempfile::TempDir,
    built: Built,
    packages: Vec<PathBuf>,
}

/// The packages, shared by the running tests. The last test removes them.
fn made() -> Arc<Made> {
    static SHARED: Mutex<Weak<Made>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let dir = tempfile::tempdir().unwrap();
        let built = built(dir.path());
        let packages = make(built.clone(), &dir.path().join("first"), EPOCH).unwrap();
        let made = Arc::new(Made { dir, built, packages });
        *shared = Arc::downgrade(&made);
        made
    })
}

impl Made {
    fn ending<'m>(&'m self, end: &'m str) -> impl Iterator<Item = &'m PathBuf> {
        self.packages.iter().filter(move |package| package.to_string_lossy().ends_with(end))
    }

    /// An unpacked Debian package: its files, and its control files in `DEBIAN`.
    fn unpacked(&self, name: &str) -> PathBuf {
        let to = tempfile::tempdir_in(self.dir.path()).unwrap().keep().join(name);
        let begin = format!("{name}_");
        let is_it = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&begin);
        let package = self.ending(".deb").find(is_it).unwrap();
        said(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&to)).unwrap();
        to
    }

    /// The installed files below `/`, with the same names left out. Manual pages have the suffix that they have in packages.
    fn installed(&self, prefix: &str, libdir: &str) -> BTreeSet<String> {
        let root = self.dir.path().join("installed").join(prefix.trim_start_matches('/')).join(libdir);
        let wish =
            Wish { prefix: prefix.into(), destdir: root.clone(), libdir: libdir.into(), links: Links::Own };
        install_all(&self.built, &wish, &[]).unwrap();
        let page = |file: String| if file.contains("share/man/") { file + ".gz" } else { file };
        tree::files(&root).unwrap().into_iter().map(page).collect()
    }
}

#[test]
fn packages_have_what_is_installed_and_each_file_once() {
    let test = "packages_have_what_is_installed_and_each_file_once";
    if is_skipped(test) {
        return;
    }
    let made = made();
    let machine = MACHINES.into_iter().find(|machine| machine.name == std::env::consts::ARCH).unwrap();

    let mut in_debs = Vec::new();
    for part in PARTS {
        let root = made.unpacked(part.name);
        let own = [
            format!("usr/share/doc/{}/copyright", part.name),
            format!("usr/share/doc/{}/changelog.Debian.gz", part.name),
        ];
        let files = tree::files(&root).unwrap();
        assert!(own.iter().all(|file| files.contains(file)), "{}: {files:?}", part.name);
        let is_installed = |file: &String| {
            !own.contains(file) && !file.starts_with("DEBIAN/") && !file.starts_with("usr/share/lintian/")
        };
        in_debs.extend(files.into_iter().filter(is_installed));
    }
    assert_eq!(in_debs.len(), in_debs.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(in_debs.into_iter().collect::<BTreeSet<_>>(), made.installed("/usr", machine.deb_libraries));

    let mut in_rpms = Vec::new();
    for package in made.ending(".rpm") {
        let root = made.dir.path().join("rpm").join(package.file_name().unwrap());
        fs::create_dir_all(&root).unwrap();
        let mut unpack = Command::new("sh");
        unpack.args(["-c", "rpm2cpio \"$1\" | cpio -id --quiet", "sh"]).arg(package).current_dir(&root);
        said(&mut unpack).unwrap();
        in_rpms.extend(tree::files(&root).unwrap());
    }
    assert_eq!(in_rpms.len(), in_rpms.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(in_rpms.into_iter().collect::<BTreeSet<_>>(), made.installed("/usr", "lib64"));

    let archive = made.ending(".tar.gz").next().unwrap();
    let listed = said(Command::new("tar").arg("--list").arg("--file").arg(archive)).unwrap();
    let is_file = |name: &&str| !name.ends_with('/');
    let in_archive: BTreeSet<String> = listed
        .lines()
        .filter(is_file)
        .map(|file| file.replacen(&format!("millpond-{VERSION}"), "usr/local", 1))
        .collect();
    let mut installed = made.installed("/usr/local", "lib");
    installed.retain(|file| !file.contains("/lib/debug/"));
    assert_eq!(in_archive, installed);
}

#[test]
fn the_same_files_make_the_same_bytes_and_sums_are_those_of_all_packages() {
    let test = "the_same_files_make_the_same_bytes_and_sums_are_those_of_all_packages";
    if is_skipped(test) {
        return;
    }
    let made = made();
    let second = make(made.built.clone(), &made.dir.path().join("second"), EPOCH).unwrap();
    assert_eq!(second.len(), 2 * PARTS.len() + 2);
    for (first, second) in made.packages.iter().zip(&second) {
        assert!(fs::read(first).unwrap() == fs::read(second).unwrap(), "{}", first.display());
    }
    let sums = fs::read_to_string(made.ending("SHA256SUMS").next().unwrap()).unwrap();
    assert_eq!(sums.lines().count(), made.packages.len() - 1);
    said(
        Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(made.dir.path().join("first")),
    )
    .unwrap();
}

#[test]
fn control_files_of_debian_packages_are_those_of_their_parts() {
    let test = "control_files_of_debian_packages_are_those_of_their_parts";
    if is_skipped(test) {
        return;
    }
    let made = made();
    let fields = |name: &str| fs::read_to_string(made.unpacked(name).join("DEBIAN/control")).unwrap();
    let suite = fields(SUITE);
    assert!(
        suite.starts_with(&format!("Package: millpond\nSource: millpond\nVersion: {VERSION}-1\n")),
        "{suite}"
    );
    assert!(!suite.contains("Depends: "), "{suite}");
    let root = made.unpacked("libmillpond-rt0").join("DEBIAN");
    let library = fs::read_to_string(root.join("control")).unwrap();
    assert!(library.contains("\nDepends: libc6") && library.contains("\nMulti-Arch: same\n"), "{library}");
    let headers = fields("libmillpond-rt-dev");
    assert!(headers.contains(&format!("\nDepends: libmillpond-rt0 (= {VERSION}-1)\n")), "{headers}");
    let links = fs::read_to_string(root.join("shlibs")).unwrap();
    assert_eq!(links, format!("libmillpond_rt 0 libmillpond-rt0 (>= {VERSION})\n"));
    assert_eq!(fs::read_to_string(root.join("triggers")).unwrap(), "activate-noawait ldconfig\n");
    let sums = Command::new("md5sum")
        .args(["--check", "--quiet", "DEBIAN/md5sums"])
        .current_dir(root.join(".."))
        .status();
    assert!(sums.unwrap().success());
}

#[test]
fn no_package_has_a_name_of_another_one_and_the_suite_says_so() {
    let test = "no_package_has_a_name_of_another_one_and_the_suite_says_so";
    if is_skipped(test) {
        return;
    }
    let made = made();
    let root = made.unpacked(SUITE);
    let said = fs::read_to_string(root.join("DEBIAN/control")).unwrap();
    assert_eq!(fs::read_link(root.join("usr/bin/psrset")).unwrap(), Path::new("millpond"));
    for (name, _) in NAMES_OF_OTHERS {
        assert!(fs::symlink_metadata(root.join("usr/bin").join(name)).is_err(), "{name}");
        assert!(said.contains(&format!("`millpond {name}`")), "{name}: {said}");
        let pages = tree::files(&root.join("usr/share/man")).unwrap();
        let has = |page: &str| pages.iter().any(|file| file.split('/').nth(1).unwrap().starts_with(page));
        assert!(has(&format!("millpond-{name}.")) && !has(&format!("{name}.")), "{pages:?}");
    }
}

#[test]
fn scripts_of_packages_are_understood_by_a_shell() {
    let test = "scripts_of_packages_are_understood_by_a_shell";
    if is_skipped(test) {
        return;
    }
    let made = made();
    let root = made.unpacked(SUITE).join("DEBIAN");
    for name in ["prerm", "postinst", "postrm"] {
        said(Command::new("sh").arg("-n").arg(root.join(name))).unwrap();
    }
    // In cases of other actions a script does nothing.
    for case in ["upgrade", "abort-remove"] {
        for name in ["prerm", "postinst", "postrm"] {
            assert_eq!(said(Command::new(root.join(name)).arg(case)).unwrap(), "", "{name} {case}");
        }
    }
    let package = made.ending(".rpm").find(|path| path.to_string_lossy().contains("/millpond-0")).unwrap();
    let scripts = said(Command::new("rpm").args(["-qp", "--scripts"]).arg(package)).unwrap();
    for body in [BEFORE_REMOVAL, AFTER_INSTALLATION, AFTER_REMOVAL] {
        assert!(scripts.contains(body.trim()), "{scripts}");
    }
}

#[test]
fn the_package_is_not_removed_while_sets_exist() {
    let dir = tempfile::tempdir().unwrap();
    let removal = |listed: &str| {
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(format!("millpond() {{ {listed}; }}\nsystemctl() {{ :; }}\n{}", BEFORE_REMOVAL));
        shell.current_dir(dir.path()).output().unwrap()
    };
    let refused = removal("echo 'user processor set 1: processor 1'");
    assert_eq!(refused.status.code(), Some(1));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(
        errors.starts_with(
            "millpond: cannot remove the package: processor sets exist:\nuser processor set 1: processor 1\nhint: "
        ),
        "{errors}"
    );
    for listed in [":", "return 1"] {
        let done = removal(listed);
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    }
}

#[test]
fn what_a_package_takes_and_is_not_installed_is_told() {
    let why = divide(&["usr/bin/millpond".to_owned()]).unwrap_err().to_string();
    assert_eq!(why, "millpond-dbgsym takes `lib/debug/`, which is not among what is installed");
}
