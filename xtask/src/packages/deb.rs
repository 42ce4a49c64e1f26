//! Packages for Debian and Ubuntu, made by `dpkg-deb`.

use super::parts::{Part, divide};
use super::run::{AFTER_INSTALLATION, AFTER_REMOVAL, BEFORE_REMOVAL, RELEASE, Run, VERSION};
use super::tool::said;
use super::tree;
use crate::install::write;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PURGE: &str = include_str!("../../../packages/purge.sh");
const COPYRIGHT: &str = include_str!("../../../packages/copyright");
/// Intentional findings of lintian, in any package.
const OVERRIDES: &str = include_str!("../../../packages/lintian-overrides");

/// Makes one package per part.
pub fn make(run: &Run) -> io::Result<Vec<PathBuf>> {
    let root = run.install("deb", "/usr", run.machine.deb_libraries)?;
    let package = |(part, files): (Part, Vec<String>)| {
        let own = run.work.path().join(part.name);
        files.iter().try_for_each(|file| tree::move_to(file, &root, &own))?;
        build(run, &part, &own)
    };
    divide(&tree::files(&root)?)?.into_iter().map(package).collect()
}

fn build(run: &Run, part: &Part, root: &Path) -> io::Result<PathBuf> {
    write_documents(run, part, root)?;
    let files = tree::files(root)?;
    let control = root.join("DEBIAN");
    write(&control, "control", &fields(run, part, root, &files)?)?;
    let is_file = |file: &&String| !root.join(file).is_symlink();
    let sums = said(Command::new("md5sum").current_dir(root).args(files.iter().filter(is_file)))?;
    write(&control, "md5sums", &sums)?;
    if part.is_library {
        write(&control, "triggers", "activate-noawait ldconfig\n")?;
        for file in files.iter().filter(|file| is_shared(file) && is_file(file)) {
            fs::set_permissions(root.join(file), fs::Permissions::from_mode(0o644))?;
        }
        let linked = shlibs(part, &files);
        if !linked.is_empty() {
            write(&control, "shlibs", &linked)?;
        }
    }
    if part.is_suite() {
        for (name, script) in scripts() {
            write(&control, name, &script)?;
            fs::set_permissions(control.join(name), fs::Permissions::from_mode(0o755))?;
        }
    }
    tree::files(root)?;
    let made = run.out.join(format!("{}_{VERSION}-{RELEASE}_{}.deb", part.name, run.machine.deb));
    let mut dpkg = Command::new("dpkg-deb");
    // With several threads the compressed bytes depend on the memory size of the machine.
    dpkg.env("SOURCE_DATE_EPOCH", &run.epoch).env("DPKG_DEB_THREADS_MAX", "1");
    said(dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(root).arg(&made))?;
    Ok(made)
}

/// Writes the licence, the changelog of the package, and the lintian overrides.
fn write_documents(run: &Run, part: &Part, root: &Path) -> io::Result<()> {
    let doc = root.join("usr/share/doc").join(part.name);
    write(&doc, "copyright", COPYRIGHT)?;
    let (date, maintainer) = (run.date("+%a, %d %b %Y %T +0000")?, &run.maintainer);
    let changes = format!(
        "millpond ({VERSION}-{RELEASE}) unstable; urgency=medium\n\n  * The package of version {VERSION}.\n\n -- {maintainer}  {date}\n"
    );
    write(&doc, "changelog.Debian", &changes)?;
    said(Command::new("gzip").args(["-9", "--no-name"]).arg(doc.join("changelog.Debian")))?;
    let own: Vec<&str> =
        OVERRIDES.lines().filter(|line| line.starts_with(&format!("{}: ", part.name))).collect();
    if own.is_empty() {
        return Ok(());
    }
    write(&root.join("usr/share/lintian/overrides"), part.name, &(own.join("\n") + "\n"))
}

/// The text of `control`.
fn fields(run: &Run, part: &Part, root: &Path, files: &[String]) -> io::Result<String> {
    let mut needs = libraries(root, files)?;
    needs.extend(part.needs.map(|other| format!("{other} (= {VERSION}-{RELEASE})")));
    let mut size = 0;
    for file in files {
        size += fs::symlink_metadata(root.join(file))?.len().div_ceil(1024);
    }
    let mut text = format!(
        "Package: {}\nSource: millpond\nVersion: {VERSION}-{RELEASE}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n",
        part.name, run.machine.deb, run.maintainer
    );
    if !needs.is_empty() {
        let _ = writeln!(text, "Depends: {}", needs.join(", "));
    }
    if !part.is_suite() && part.section != "debug" {
        text += "Multi-Arch: same\n";
    }
    let _ = writeln!(text, "Section: {}\nPriority: optional\nDescription: {}", part.section, part.summary);
    for line in part.description.lines() {
        let _ = writeln!(text, " {}", if line.is_empty() { "." } else { line });
    }
    Ok(text)
}

/// The packages of the libraries that its files are linked with.
fn libraries(root: &Path, files: &[String]) -> io::Result<Vec<String>> {
    let shared: Vec<&String> =
        files.iter().filter(|file| is_shared(file) && !root.join(file).is_symlink()).collect();
    if shared.is_empty() {
        return Ok(Vec::new());
    }
    // The tool expects a source package, and finds this package's own libraries in its directory.
    let source = tempfile::tempdir()?;
    write(&source.path().join("debian"), "control", "Source: x\n\nPackage: x\nArchitecture: any\n")?;
    let mut tool = Command::new("dpkg-shlibdeps");
    tool.current_dir(source.path()).args(["-O", "--warnings=0"]);
    let told = said(tool.args(shared.iter().map(|file| root.join(file))))?;
    let needs = told.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(needs.into_iter().flat_map(|needs| needs.split(", ")).map(str::to_owned).collect())
}

fn is_shared(file: &str) -> bool {
    file.contains(".so") && !file.contains("/debug/")
}

/// The dependencies of programs that are linked with a library of the package: `NAME NUMBER PACKAGE`.
fn shlibs(part: &Part, files: &[String]) -> String {
    let library = |file: &String| {
        let (name, number) = file.rsplit('/').next()?.split_once(".so.")?;
        Some(format!("{name} {number} {} (>= {VERSION})\n", part.name))
    };
    files.iter().filter_map(library).collect()
}

/// The maintainer scripts of the suite. dpkg passes the action as first operand.
fn scripts() -> [(&'static str, String); 3] {
    let case = |when: &str, body: &str| format!("case $1 in\n{when})\n{body}\n;;\nesac\n");
    let script = |cases: &[String]| format!("#!/bin/sh\nset -e\n\n{}", cases.concat());
    [
        ("prerm", script(&[case("remove", BEFORE_REMOVAL)])),
        ("postinst", script(&[case("configure", AFTER_INSTALLATION)])),
        ("postrm", script(&[case("remove", AFTER_REMOVAL), case("purge", PURGE)])),
    ]
}
