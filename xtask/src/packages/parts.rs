//! The packages: their files and descriptions. Files that no other package takes belong to the suite.

use crate::install::{MALLOC, RT_SHARED, RT_SHARED_NAME, RT_STATIC, SHARED, SHARED_NAME, STATIC};
use std::io;

/// A package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its name. [`Part::rpm`] is the name for rpm.
    pub name: &'static str,
    /// Its section in Debian.
    pub section: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Paragraphs of lines.
    pub description: &'static str,
    /// Its files: file names, and directories with a `/` at the end, at any path. Each must match something.
    takes: &'static [&'static str],
    /// Another package with the same version that it depends on.
    pub needs: Option<&'static str>,
    /// Whether it has shared libraries for the dynamic linker.
    pub is_library: bool,
}

/// The suite. It is the last one in [`PARTS`], and the only one with maintainer scripts.
pub const SUITE: &str = "millpond";

/// Default values.
const PLAIN: Part = Part {
    name: SUITE,
    section: "admin",
    summary: "",
    description: "",
    takes: &[],
    needs: None,
    is_library: false,
};

/// All packages. A file is in the first one that takes it.
pub const PARTS: [Part; 7] = [
    Part {
        name: "millpond-dbgsym",
        section: "debug",
        summary: "debug information for millpond and its libraries",
        description: "Debuggers find these files by themselves.",
        takes: &["lib/debug/"],
        needs: Some(SUITE),
        ..PLAIN
    },
    Part {
        name: "libmillpond-rt0",
        section: "libs",
        summary: "real-time programs: stacks, set-up, mutexes and object caches",
        description: "Thread stacks that do not fault, set-up of real-time threads,\n\
            priority-inheritance mutexes, and object caches that find memory errors.",
        takes: &[RT_SHARED_NAME],
        is_library: true,
        ..PLAIN
    },
    Part {
        name: "libmillpond-rt-dev",
        section: "libdevel",
        summary: "headers and manual pages for libmillpond-rt0",
        description: "Headers, the static library, manual pages and examples in C and Rust.",
        takes: &[
            "include/millpond/",
            "millpond-rt.pc",
            RT_SHARED,
            RT_STATIC,
            "share/man/man3/",
            "doc/millpond/rt/",
        ],
        needs: Some("libmillpond-rt0"),
        ..PLAIN
    },
    Part {
        name: "libmillpond-malloc",
        section: "libs",
        summary: "debugging malloc for LD_PRELOAD",
        description: "Finds leaks, buffer overflows and uses after free in programs that are\n\
            started with LD_PRELOAD. Nothing is linked with it. The command\n\
            `millpond umem` of the package millpond reads its records.",
        takes: &[MALLOC],
        is_library: true,
        ..PLAIN
    },
    Part {
        name: "libmillpond-pool0",
        section: "libs",
        summary: "notification of programs about the size of their pool",
        description: "A program in a resource pool learns how many CPUs it has, and when that\n\
            changes.",
        takes: &[SHARED_NAME],
        is_library: true,
        ..PLAIN
    },
    Part {
        name: "libmillpond-pool-dev",
        section: "libdevel",
        summary: "header for libmillpond-pool0",
        description: "The header, the static library and an example in C.",
        takes: &["millpond_pool.h", SHARED, STATIC, "doc/millpond/lib/member-c/"],
        needs: Some("libmillpond-pool0"),
        ..PLAIN
    },
    Part {
        summary: "processor sets, resource pools and CPU isolation",
        description: "Gives jobs their own CPUs, measures OS noise, and undoes each change\n\
            exactly. It has psrset, psradm, pooladm, poolcfg, poold, prstat and more\n\
            commands, with the options and listings of Solaris.\n\
            \n\
            The names mpstat (of sysstat), cpustat and prctl are those of other\n\
            packages, which stay in force. The commands of this package are\n\
            `millpond mpstat`, `millpond cpustat` and `millpond prctl`.\n\
            \n\
            The units for systemd are neither enabled nor started.",
        ..PLAIN
    },
];

impl Part {
    /// Its name for rpm, by rpm's conventions.
    pub fn rpm(&self) -> String {
        self.name.replace("-dbgsym", "-debuginfo").replace("-dev", "-devel")
    }

    /// Whether it is the package with the programs.
    pub fn is_suite(&self) -> bool {
        self.name == SUITE
    }
}

/// The files of each package, in the order of [`PARTS`].
///
/// # Errors
/// An expected file of a package was not installed.
pub fn divide(files: &[String]) -> io::Result<Vec<(Part, Vec<String>)>> {
    let mut parts: Vec<(Part, Vec<String>)> = PARTS.map(|part| (part, Vec::new())).into();
    for file in files {
        let has = |part: &Part| part.is_suite() || part.takes.iter().any(|taken| is_taken(file, taken));
        if let Some((_, own)) = parts.iter_mut().find(|(part, _)| has(part)) {
            own.push(file.clone());
        }
    }
    for (part, own) in &parts {
        if let Some(lacking) = part.takes.iter().find(|taken| !own.iter().any(|file| is_taken(file, taken))) {
            let why = format!("{} takes `{lacking}`, which is not among what is installed", part.name);
            return Err(io::Error::other(why));
        }
    }
    Ok(parts)
}

fn is_taken(file: &str, taken: &str) -> bool {
    match taken.ends_with('/') {
        true => format!("/{file}").contains(&format!("/{taken}")),
        false => file.rsplit('/').next() == Some(taken),
    }
}
