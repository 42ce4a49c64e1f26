//! A separate apt instance: reads one suite of the machine's Debian archive without changing the machine's package state.
//!
//! It has its own sources, lists, caches and status file, all in a scratch directory. From the machine's configuration it only
//! takes the network settings (proxies etc.), the login file and the trusted keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::capability::{Unavailable, program};
use crate::sources::{Archive, debian_archive, parse_list, parse_stanzas};

/// The keyring files of Debian's installer; needed on machines of other vendors.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];

/// apt for one suite.
pub(crate) struct Apt {
    dir: PathBuf,
    suite: String,
    uri: String,
    architecture: &'static str,
}

impl Apt {
    /// Writes the configuration below `dir`, which must be empty and exist as long as the value is used.
    pub fn new(dir: &Path, suite: &str) -> Result<Self, Unavailable> {
        Self::of(dir, suite, "amd64")
    }

    /// The same for another architecture.
    pub fn of(dir: &Path, suite: &str, architecture: &'static str) -> Result<Self, Unavailable> {
        program("apt-get", "apt")?;
        program("dpkg-deb", "dpkg")?;
        let archive = machine_archive()?;
        let uri = archive.uri.clone();
        let apt = Self { dir: dir.to_owned(), suite: suite.to_owned(), uri, architecture };
        apt.write_configuration(&archive).map_err(|e| apt.failed("be configured", &e.to_string()))?;
        Ok(apt)
    }

    fn write_configuration(&self, archive: &Archive) -> std::io::Result<()> {
        for sub in
            ["state/lists/partial", "cache/archives/partial", "etc/sources.list.d", "etc/preferences.d"]
        {
            fs::create_dir_all(self.dir.join(sub))?;
        }
        fs::write(self.dir.join("state/status"), "")?;
        fs::write(self.dir.join("etc/sources.list.d/debian.sources"), archive.stanza(&self.suite))?;
        let dump = Command::new("apt-config").arg("dump").stdin(Stdio::null()).output()?;
        let host = String::from_utf8_lossy(&dump.stdout).into_owned();
        fs::write(self.dir.join("apt.conf"), configuration(&self.dir, &host, self.architecture))
    }

    /// Fetches the suite's index.
    pub fn update(&self) -> Result<(), Unavailable> {
        let said = self.run("apt-get", &["update", "-q", "--error-on=any"])?;
        self.check("fetch its index", &said)
    }

    /// Names of the packages that match an extended regular expression.
    pub fn names(&self, pattern: &str) -> Result<Vec<String>, Unavailable> {
        let said = self.run("apt-cache", &["search", "--names-only", pattern])?;
        self.check("search", &said)?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(text.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Downloads packages (their hashes checked against the signed index) and returns the files.
    pub fn download(&self, names: &[String]) -> Result<Vec<PathBuf>, Unavailable> {
        let place = self.dir.join("debs");
        fs::create_dir_all(&place).map_err(|e| self.failed("write", &e.to_string()))?;
        let mut args = vec!["download", "-q"];
        args.extend(names.iter().map(String::as_str));
        let said = self.run("apt-get", &args)?;
        self.check(&format!("download {}", names.join(", ")), &said)?;
        debs_in(&place).map_err(|e| self.failed("read what was downloaded", &e.to_string()))
    }

    /// Downloads packages and everything that they depend on, as if nothing were installed.
    pub fn download_with_dependencies(&self, names: &[&str]) -> Result<Vec<PathBuf>, Unavailable> {
        // apt creates a lock file next to this file.
        let status = format!("Dir::State::status={}", self.dir.join("state/status").display());
        let options = ["-o", &status, "install", "--yes", "-q", "--download-only", "--no-install-recommends"];
        let said = self.run("apt-get", &[&options, names].concat())?;
        self.check(&format!("download {} with what it needs", names.join(" and ")), &said)?;
        debs_in(&self.dir.join("cache/archives"))
            .map_err(|e| self.failed("read what was downloaded", &e.to_string()))
    }

    /// The archive in use, for messages.
    pub fn archive(&self) -> String {
        format!("suite {} of {}", self.suite, self.uri)
    }

    fn run(&self, name: &str, args: &[&str]) -> Result<Output, Unavailable> {
        let place = self.dir.join("debs");
        let mut command = Command::new(name);
        command
            .args(args)
            .env("APT_CONFIG", self.dir.join("apt.conf"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        command.current_dir(if place.is_dir() { &place } else { &self.dir });
        command.output().map_err(|e| self.failed("run", &e.to_string()))
    }

    fn check(&self, verb: &str, said: &Output) -> Result<(), Unavailable> {
        if said.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let mut errors =
            text.lines().filter(|l| l.starts_with("E:")).map(|l| l.trim_start_matches("E:").trim());
        Err(self.failed(verb, errors.next().unwrap_or("no reason given")))
    }

    fn failed(&self, verb: &str, why: &str) -> Unavailable {
        Unavailable::new(
            format!("apt cannot {verb} for {}: {why}", self.archive()),
            "connect to the archive once, or put the kernel's .deb files into the debs directory of the cache",
        )
    }
}

/// All `.deb` files of a directory, sorted by name.
pub(crate) fn debs_in(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "deb"))
        .collect();
    found.sort();
    Ok(found)
}

/// The Debian archive from which this machine installs. On machines of other vendors, Debian's own archive, if its keys are
/// installed.
fn machine_archive() -> Result<Archive, Unavailable> {
    let mut sources = fs::read_to_string("/etc/apt/sources.list").map(|t| parse_list(&t)).unwrap_or_default();
    let mut parts: Vec<PathBuf> = fs::read_dir("/etc/apt/sources.list.d")
        .map(|dir| dir.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    parts.sort();
    for part in parts {
        let text = fs::read_to_string(&part).unwrap_or_default();
        match part.extension().and_then(|e| e.to_str()) {
            Some("list") => sources.extend(parse_list(&text)),
            Some("sources") => sources.extend(parse_stanzas(&text)),
            _ => {}
        }
    }
    if let Some(archive) = debian_archive(&sources) {
        return Ok(archive);
    }
    let keys = KEYRINGS.iter().find(|path| Path::new(path).exists()).ok_or_else(|| {
        Unavailable::new(
            "no package source of this machine is Debian's archive, and Debian's keys are not here",
            "install the package debian-archive-keyring",
        )
    })?;
    Ok(Archive {
        uri: "http://deb.debian.org/debian".to_owned(),
        signed_by: Some((*keys).to_owned()),
        is_trusted: false,
    })
}

/// The text of our `apt.conf`. `host` is the output of `apt-config dump`; only its network settings are kept.
fn configuration(dir: &Path, host: &str, architecture: &str) -> String {
    let dir = dir.display();
    let mut text = format!(
        "Dir \"{dir}\";\nDir::State \"state\";\nDir::State::status \"state/status\";\nDir::Cache \"cache\";\n\
         Dir::Etc \"etc\";\nDir::Etc::parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n\
         Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n\
         Dir::Etc::trusted \"/etc/apt/trusted.gpg\";\nDir::Etc::trustedparts \"/etc/apt/trusted.gpg.d\";\n\
         APT::Architecture \"{architecture}\";\nAPT::Architectures {{ \"{architecture}\"; }};\n"
    );
    // Files are written to a directory that the unprivileged download user cannot enter.
    text.push_str("APT::Sandbox::User \"\";\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n");
    for line in host.lines() {
        let is_network =
            ["http", "https", "ftp", "ForceIPv4", "ForceIPv6", "Check-Valid-Until", "Check-Date"]
                .iter()
                .any(|name| line.strip_prefix("Acquire::").is_some_and(|rest| rest.starts_with(name)));
        if is_network {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_network_settings_of_the_machine_are_taken_over() {
        let host = "APT \"\";\nAcquire::http::Proxy \"http://p.example:3128\";\nAcquire::IndexTargets::deb::DEP-11 \"\";\n\
                    Acquire::Check-Valid-Until \"false\";\nDir::State \"var/lib/apt\";\nDPkg::Post-Invoke \"x\";\n";
        let text = configuration(Path::new("/scratch"), host, "amd64");
        assert!(text.contains("Acquire::http::Proxy \"http://p.example:3128\";\n"));
        assert!(text.contains("Acquire::Check-Valid-Until \"false\";\n"));
        assert!(!text.contains("DEP-11") && !text.contains("var/lib/apt") && !text.contains("Post-Invoke"));
        assert!(text.starts_with("Dir \"/scratch\";\n"));
    }
}
