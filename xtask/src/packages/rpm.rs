//! Packages for distributions with rpm, made by `rpmbuild`: one spec file, with each part as a subpackage.

use super::parts::{PARTS, Part, divide};
use super::run::{AFTER_INSTALLATION, AFTER_REMOVAL, BEFORE_REMOVAL, RELEASE, Run, VERSION};
use super::tool::{said, text};
use super::tree;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Nothing is compiled or changed, and no time or name of this machine is written.
const SETTINGS: [&str; 8] = [
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_build_id_links none",
    "_buildhost localhost",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "_binary_payload w9.gzdio",
    "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
];

/// Makes one package per part.
pub fn make(run: &Run) -> io::Result<Vec<PathBuf>> {
    let root = run.install("rpm", "/usr", "lib64")?;
    let top = run.work.path().join("rpmbuild");
    fs::create_dir_all(&top)?;
    let spec = top.join("millpond.spec");
    fs::write(&spec, description(run, &root)?)?;
    let mut tool = Command::new("rpmbuild");
    tool.env("SOURCE_DATE_EPOCH", &run.epoch).arg("-bb").args(["--target", run.machine.name]);
    for setting in SETTINGS {
        tool.args(["--define", setting]);
    }
    tool.args(["--define", &format!("_topdir {}", text(&top))]);
    tool.args(["--define", &format!("_rpmdir {}", text(&run.out))]);
    said(tool.arg(&spec))?;
    let name = |part: Part| format!("{}-{VERSION}-{RELEASE}.{}.rpm", part.rpm(), run.machine.name);
    Ok(PARTS.map(|part| run.out.join(name(part))).into())
}

/// The spec file.
fn description(run: &Run, root: &Path) -> io::Result<String> {
    let parts = divide(&tree::files(root)?)?;
    let mut preamble = String::new();
    let mut rest = format!("%install\ncp -a {}/. %{{buildroot}}\n\n", text(root));
    // The suite is the main package, which comes first.
    for (part, files) in parts.iter().rev() {
        preamble += &head(run, part);
        let package = if part.is_suite() { String::new() } else { format!("-n {}", part.rpm()) };
        let _ = writeln!(rest, "%files {package}\n{}", listed(files));
        if part.is_library {
            let _ =
                writeln!(rest, "%post {package} -p /sbin/ldconfig\n%postun {package} -p /sbin/ldconfig\n");
        }
        if part.is_suite() {
            let last = |body: &str| format!("if [ \"$1\" -eq 0 ]; then\n{body}\nfi\n");
            let _ = writeln!(
                rest,
                "%preun\n{}\n%post\n{AFTER_INSTALLATION}\n%postun\n{}",
                last(BEFORE_REMOVAL),
                last(AFTER_REMOVAL)
            );
        }
    }
    let date = run.date("+%a %b %d %Y")?;
    let changes = format!(
        "%changelog\n* {date} {} - {VERSION}-{RELEASE}\n- The package of version {VERSION}.\n",
        run.maintainer
    );
    Ok(preamble + &rest + &changes)
}

/// The head of a package.
fn head(run: &Run, part: &Part) -> String {
    let mut text = match part.is_suite() {
        true => format!(
            "Name: {}\nVersion: {VERSION}\nRelease: {RELEASE}\nLicense: Apache-2.0 OR MIT\nPackager: {}\n",
            part.rpm(),
            run.maintainer
        ),
        false => format!("%package -n {}\n", part.rpm()),
    };
    let _ = writeln!(text, "Summary: {}", sentence(part.summary));
    if let Some(needs) = PARTS.iter().find(|other| Some(other.name) == part.needs) {
        let _ = writeln!(text, "Requires: {} = {VERSION}-{RELEASE}", needs.rpm());
    }
    if part.section == "debug" {
        // Debug information provides and requires nothing.
        text += "AutoReqProv: no\n";
    }
    let package = if part.is_suite() { String::new() } else { format!("-n {}", part.rpm()) };
    let _ = writeln!(text, "\n%description {package}\n{}\n", part.description);
    text
}

/// Capitalises the first letter, by convention.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// The files of a package, and its own directories.
fn listed(files: &[String]) -> String {
    let is_own = |dir: &&str| dir.rsplit('/').any(|part| part == "millpond");
    let above = |file: &'_ String| {
        let ends = file.match_indices('/').map(|(at, _)| at).collect::<Vec<_>>();
        ends.into_iter().map(|at| file[..at].to_owned()).collect::<Vec<_>>()
    };
    let dirs: BTreeSet<String> = files.iter().flat_map(above).filter(|dir| is_own(&dir.as_str())).collect();
    let mut text = String::from("%defattr(-,root,root,-)\n");
    for dir in dirs {
        let _ = writeln!(text, "%dir /{dir}");
    }
    for file in files {
        let kind = if file.contains("/share/man/") || file.contains("/share/doc/") { "%doc " } else { "" };
        let _ = writeln!(text, "{kind}/{file}");
    }
    text
}
