//! The test suites: their builds and their cases.

use crate::cargo::TestBinary;

/// A part of all tests, with a target in the Makefile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Suite {
    /// `make test`: the tests to run before a commit. One guest, no cluster, no second C compiler, no browser.
    #[default]
    Commit,
    /// `make test-kernels`: the laws, the commands and the classes in guests with several kernels, and a hundred thousand random
    /// operations on simulated machines.
    Kernels,
    /// `make test-rt`: the libraries for real-time programs, with each C compiler, and the programs that read their caches.
    Rt,
    /// `make test-cluster`: the controller, the agent with a real container runtime, and the benchmarks' own tests.
    Cluster,
    /// `make test-pages`: the dashboard in a browser, packages, and the figures and fits of the published experiments.
    Pages,
    /// Every test of the two workspaces.
    All,
}

/// Crates of the cluster suite. No other suite builds them.
const CLUSTER: [(&str, &str); 3] =
    [("controller", "millpond-controller"), ("node", "millpond-node-tests"), ("benches", "millpond-benches")];

/// A part of the names of tests that start a browser.
const BROWSER: &str = "in_a_browser";

/// The longest run of random scripts on simulated machines: five minutes.
const LONG_LAWS: &str = "a_hundred_thousand_random_operations_break_no_law";

/// The test of all published experiments on simulated machines: four minutes.
const PUBLISHED: &str = "without_options_everything_that_was_published";

/// The tables of the experiments e4 and e5 in the documents: many machines with 20 seeds each.
const LONG_FIGURES: &str = "figures_of_e";

/// The crate of the rt suite that belongs to the root workspace.
const CACHES: &str = "caches";

impl Suite {
    /// All suites with a target, in the order in which CI runs them.
    pub const NAMED: [Suite; 5] = [Suite::Commit, Suite::Kernels, Suite::Rt, Suite::Cluster, Suite::Pages];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Commit => "commit",
            Suite::Kernels => "kernels",
            Suite::Rt => "rt",
            Suite::Cluster => "cluster",
            Suite::Pages => "pages",
            Suite::All => "all",
        }
    }

    /// The suite with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Suite> {
        Suite::NAMED.into_iter().chain([Suite::All]).find(|suite| suite.name() == name)
    }

    /// Cargo arguments of its build in the root workspace; `None` if the suite has no crate there.
    #[must_use]
    pub fn build_arguments(self) -> Option<Vec<&'static str>> {
        let packages = |names: &[&'static str]| {
            Some(names.iter().flat_map(|name| ["--package", name]).collect::<Vec<_>>())
        };
        match self {
            Suite::Commit => Some(Vec::new()),
            // Includes the programs that run in guests.
            Suite::Kernels => packages(&[
                "millpond-vm",
                "millpond-sim",
                "millpond",
                "millpond-live-laws",
                "millpond-node-tests",
                "millpond-bpf",
            ]),
            Suite::Rt => packages(&["millpond-caches-tests"]),
            Suite::Cluster => packages(&CLUSTER.map(|(_, package)| package))
                .map(|all| [all, vec!["--package", "millpond"]].concat()),
            Suite::Pages => {
                packages(&["millpond", "millpond-xtask", "millpond-experiments", "millpond-golden"])
            }
            Suite::All => Some(vec!["--workspace"]),
        }
    }

    /// Whether it builds the workspace of the real-time libraries.
    #[must_use]
    pub fn has_rt(self) -> bool {
        matches!(self, Suite::Rt | Suite::All)
    }

    /// Whether it runs the documentation examples of the root workspace.
    #[must_use]
    pub fn has_documents(self) -> bool {
        matches!(self, Suite::Commit | Suite::All)
    }

    /// The value of `MILLPOND_VM`: the guests to boot.
    #[must_use]
    pub fn guests(self) -> Option<&'static str> {
        match self {
            Suite::Commit => Some("newest"),
            Suite::All => Some("all"),
            _ => None,
        }
    }

    /// The harness arguments for an executable of the root workspace; `None` if the suite omits it. Each case is in at least one
    /// suite: cases that `Commit` omits are in another one.
    #[must_use]
    pub fn arguments(self, test: &TestBinary) -> Option<Vec<&'static str>> {
        let (package, target) = (test.package.as_str(), test.target.as_str());
        let is_rt = test.dir.iter().any(|part| part == "rt");
        let is_pages = package == "millpond" && target == "all";
        match self {
            Suite::All => Some(Vec::new()),
            Suite::Rt => (is_rt || package == CACHES).then(Vec::new),
            Suite::Cluster => CLUSTER.iter().any(|(dir, _)| *dir == package).then(Vec::new),
            // The guests of arm64 and systemd are in `test-all` only: each reports its skip.
            Suite::Kernels => match (package, target) {
                ("vm", _) => Some(Vec::new()),
                ("sim", "all" | "laws") => Some(vec![LONG_LAWS]),
                _ => None,
            },
            Suite::Pages if is_pages => Some(vec![BROWSER]),
            Suite::Pages => match (package, target) {
                ("xtask", _) => Some(vec!["packages::"]),
                ("experiments", "refit") => Some(Vec::new()),
                ("experiments", _) => Some(vec![PUBLISHED]),
                ("golden", "all") => Some(vec![LONG_FIGURES]),
                _ => None,
            },
            Suite::Commit => match (package, target) {
                ("vm", "arm" | "systemd" | "nginx") => None,
                ("experiments", "refit") => None,
                ("experiments", _) => Some(vec!["--skip", PUBLISHED]),
                ("golden", "all") => Some(vec!["--skip", LONG_FIGURES]),
                ("sim", "all" | "laws") => Some(vec!["--skip", LONG_LAWS]),
                ("millpond", "all") => Some(vec!["--skip", BROWSER]),
                ("xtask", _) => Some(vec!["--skip", "packages::"]),
                _ => Some(Vec::new()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(dir: &str, target: &str) -> TestBinary {
        let package = dir.rsplit('/').next().unwrap().to_owned();
        TestBinary { package, target: target.into(), dir: dir.into(), path: "x".into() }
    }

    #[test]
    fn what_make_test_leaves_out_is_in_another_suite() {
        let executables = [
            binary("/w/lib/linux", "all"),
            binary("/w/tests/vm", "vm"),
            binary("/w/lib/sim", "all"),
            binary("/w/lab/experiments", "refit"),
            binary("/w/lab/experiments", "millpond_experiments"),
            binary("/w/tests/vm", "systemd"),
            binary("/w/tests/caches", "programs"),
            binary("/w/bin/millpond", "all"),
            binary("/w/tests/golden", "all"),
            binary("/w/xtask", "millpond-xtask"),
        ];
        for test in &executables {
            let suites: Vec<_> = Suite::NAMED.into_iter().filter_map(|suite| suite.arguments(test)).collect();
            let is_whole = suites.contains(&Vec::new());
            let halves = suites.iter().filter(|arguments| !arguments.is_empty()).count();
            assert!(is_whole || halves == 2, "{} of {}: {suites:?}", test.target, test.package);
        }
    }

    #[test]
    fn a_suite_is_found_by_its_name() {
        assert_eq!(Suite::named("kernels"), Some(Suite::Kernels));
        assert_eq!(Suite::named("all"), Some(Suite::All));
        assert_eq!(Suite::named("kernel"), None);
    }
}
