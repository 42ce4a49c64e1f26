//! Command-line options of the node agent.

use crate::annotations::PodFenceRule;
use millpond_cli::{Answer, Example, Flag, Group, Parsed, Spec, ValueKind};
use millpond_session::{KUBELET_DIR, OpenOptions, PLUGIN_SOCKET};
use std::ffi::OsString;
use std::path::PathBuf;

/// The description of the command.
pub const SPEC: Spec = Spec {
    name: "node",
    applet: false,
    summary: "keep the containers of a Kubernetes node in pools",
    section: 8,
    group: Group::Divide,
    forms: &[
        "[--conf path [--node name]] [--unknown-pool refuse|default] [--fence-namespaces list --fence-profiles list --fence-cpus list] [--socket path] [--kubelet-dir dir] [--state-dir dir]",
        "--help | --version",
    ],
    flags: &[
        Flag::long("conf", "enable pools and commit this configuration, and again when the file changes")
            .value("path", ValueKind::File),
        Flag::long("node", "the path is a directory with the files of all nodes, and this node is called so")
            .value("name", ValueKind::Text),
        Flag::long("unknown-pool", "what becomes of a container whose pool does not exist (refuse)")
            .value("what", ValueKind::Word(&["refuse", "default"])),
        Flag::long("fence-namespaces", "pods of these namespaces may have fences (none)")
            .value("list", ValueKind::Text),
        Flag::long("fence-profiles", "of these profiles (none)").value("list", ValueKind::Text),
        Flag::long("fence-cpus", "of these CPUs of the node (none)").value("list", ValueKind::Cpus),
        Flag::long("socket", "where the container runtime listens for plugins (/var/run/nri/nri.sock)")
            .value("path", ValueKind::File),
        Flag::long("kubelet-dir", "the directory of the kubelet (/var/lib/kubelet)")
            .value("dir", ValueKind::Directory),
        Flag::long("state-dir", "the state directory, in place of MILLPOND_STATE")
            .value("dir", ValueKind::Directory),
        Flag::both('h', "help", "print this help"),
        Flag::long("version", "print the version"),
    ],
    common: &[],
    permutes: true,
    examples: &[
        Example { words: "", what: "keep containers in the pools that there are" },
        Example {
            words: "--conf /etc/millpond/pools/pooladm.conf",
            what: "the same, with the pools of a ConfigMap that is mounted there",
        },
        Example {
            words: "--conf /etc/millpond/nodes --node worker-3",
            what: "the same, with what the controller of the cluster says of this node",
        },
        Example {
            words: "--fence-namespaces trading --fence-profiles low-latency --fence-cpus 8-15",
            what: "pods of namespace trading may have fences of CPUs 8 to 15",
        },
    ],
    files: &[
        ("node.lock", "in the state directory: locked by the running instance"),
        ("records/containers", "in the state directory: what containers are called"),
    ],
    status: &[
        ("0", "stopped by a signal"),
        ("1", "it cannot run on this node, or the runtime dropped it for good"),
        ("2", "the command line is wrong"),
    ],
    see_also: &["poold(8)", "pooladm(8)", "poolbind(8)", "millpond-zones(1)", "millpond-member(3)"],
    prose: millpond_cli::head!(include_str!("lib.rs")),
    ..Spec::NEW
};

/// The handling of a container whose pool does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownPool {
    /// The container is not created.
    Refuse,
    /// The container runs in the default pool.
    Default,
}

/// The parsed options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The configuration to commit.
    pub conf: Option<PathBuf>,
    /// The name of the node, if the configuration is a directory with the files of all nodes.
    pub node: Option<String>,
    /// The handling of a container whose pool does not exist.
    pub unknown_pool: UnknownPool,
    /// The fences that pods may request.
    pub pod_fences: PodFenceRule,
    /// The socket of the container runtime.
    pub socket: PathBuf,
    /// The directory of the kubelet.
    pub kubelet: PathBuf,
    /// The machine.
    pub open: OpenOptions,
}

/// Parses the command line after the program name.
///
/// # Errors
/// The text to print instead of running: help, version, or a message about the first invalid argument.
pub fn parse(words: &[OsString]) -> Result<Options, Answer> {
    millpond_cli::service(&SPEC, env!("CARGO_PKG_VERSION"), words, options)
}

fn options(parsed: &Parsed) -> Result<Options, String> {
    if let Some(word) = parsed.words().first() {
        return Err(format!("it takes no operand, and got `{word}`"));
    }
    let unknown_pool = match parsed.long_value("unknown-pool").as_deref() {
        None | Some("refuse") => UnknownPool::Refuse,
        Some("default") => UnknownPool::Default,
        Some(other) => return Err(format!("--unknown-pool takes refuse or default, not `{other}`")),
    };
    let path = |name: &str| parsed.long_value(name).map(PathBuf::from);
    let node = parsed.long_value("node");
    if node.is_some() && path("conf").is_none() {
        return Err("--node needs --conf, the directory with the files of all nodes".to_owned());
    }
    if node.as_ref().is_some_and(|node| node.is_empty() || node.contains(char::is_whitespace)) {
        return Err("--node takes the name of a node of the cluster".to_owned());
    }
    let pod_fences = pod_fences(parsed)?;
    Ok(Options {
        conf: path("conf"),
        node,
        unknown_pool,
        pod_fences,
        socket: path("socket").unwrap_or_else(|| PathBuf::from(PLUGIN_SOCKET)),
        kubelet: path("kubelet-dir").unwrap_or_else(|| PathBuf::from(KUBELET_DIR)),
        open: OpenOptions { state: path("state-dir"), ..OpenOptions::default() },
    })
}

/// The fences that pods may request: all three lists, or none.
fn pod_fences(parsed: &Parsed) -> Result<PodFenceRule, String> {
    let list = |name: &str| {
        let words = parsed.long_value(name).unwrap_or_default();
        words
            .split(',')
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
    };
    let cpus = parsed.long_value("fence-cpus").unwrap_or_default();
    let cpus = cpus.parse().map_err(|_| "--fence-cpus takes a list of CPUs, such as 2-3,6".to_owned())?;
    let rule = PodFenceRule { namespaces: list("fence-namespaces"), profiles: list("fence-profiles"), cpus };
    let given = [!rule.namespaces.is_empty(), !rule.profiles.is_empty(), !rule.cpus.is_empty()];
    match given.contains(&true) && given.contains(&false) {
        true => Err("--fence-namespaces, --fence-profiles and --fence-cpus go together".to_owned()),
        false => Ok(rule),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(line: &str) -> Result<Options, Answer> {
        parse(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        assert_eq!(asked("--conf d --node worker-3").unwrap().node.as_deref(), Some("worker-3"));
        let plain = asked("").unwrap();
        assert_eq!((plain.conf, plain.unknown_pool), (None, UnknownPool::Refuse));
        assert_eq!(plain.socket, PathBuf::from("/var/run/nri/nri.sock"));
        let all = asked("--conf c --unknown-pool default --socket s --kubelet-dir k --state-dir d").unwrap();
        assert_eq!((all.conf, all.unknown_pool), (Some(PathBuf::from("c")), UnknownPool::Default));
        assert_eq!((all.socket, all.kubelet), (PathBuf::from("s"), PathBuf::from("k")));
        assert_eq!(all.open.state, Some(PathBuf::from("d")));
        assert_eq!(all.pod_fences, PodFenceRule::default(), "pods may fence nothing");
        let words = "--fence-namespaces shop,bank --fence-profiles low-latency --fence-cpus 2-3";
        let fences = asked(words).unwrap().pod_fences;
        assert_eq!((fences.namespaces.len(), fences.profiles.len(), fences.cpus.len()), (2, 1, 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("web", "it takes no operand, and got `web`"),
            ("--node a", "--node needs --conf, the directory with the files of all nodes"),
            ("--fence-cpus 2", "--fence-namespaces, --fence-profiles and --fence-cpus go together"),
            (
                "--fence-namespaces a --fence-profiles b --fence-cpus two",
                "--fence-cpus takes a list of CPUs, such as 2-3,6",
            ),
            ("--unknown-pool create", "--unknown-pool takes refuse or default, not `create`"),
        ] {
            let answer = asked(line).unwrap_err();
            assert_eq!(answer.err.lines().next(), Some(format!("node: {said}").as_str()), "{line}");
        }
    }
}
