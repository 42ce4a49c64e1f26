//! Command-line options of the controller.

use millpond_cli::{Answer, Example, Flag, Group, Parsed, Spec, ValueKind};
use std::ffi::OsString;
use std::path::PathBuf;

/// The description of the command.
pub const SPEC: Spec = Spec {
    name: "millpond-controller",
    // The program is started by its own name.
    applet: true,
    summary: "give the nodes of a Kubernetes cluster their pools",
    section: 8,
    group: Group::Divide,
    forms: &[
        "[--namespace name] [--config-map name] [--token-file file] [--port number]",
        "--crd",
        "--help | --version",
    ],
    flags: &[
        Flag::long("namespace", "the namespace of the agents (millpond)").value("name", ValueKind::Text),
        Flag::long("config-map", "the ConfigMap that the agents mount (millpond-nodes)")
            .value("name", ValueKind::Text),
        Flag::long("token-file", "the token of gauge on the nodes").value("file", ValueKind::File),
        Flag::long("port", "where gauge listens on the nodes (9909)").value("number", ValueKind::Text),
        Flag::long("crd", "print the definition of the resource NodePools, as JSON"),
        Flag::both('h', "help", "print this help"),
        Flag::long("version", "print the version"),
    ],
    common: &[],
    permutes: true,
    examples: &[Example {
        words: "--token-file /etc/millpond/token/token",
        what: "what deploy/kubernetes/controller runs",
    }],
    status: &[
        ("0", "stopped by a signal"),
        ("1", "there is no cluster, or a right is missing"),
        ("2", "the command line is wrong"),
    ],
    see_also: &["millpond-node(8)", "millpond-gauge(8)", "poold(8)"],
    prose: millpond_cli::head!(include_str!("lib.rs")),
    ..Spec::NEW
};

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Print the definition of the resource.
    Definition,
    /// Run the service.
    Service(Options),
}

/// The options of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the agents.
    pub namespace: String,
    /// The ConfigMap that the agents mount.
    pub config_map: String,
    /// The file with the token of gauge.
    pub token_file: Option<PathBuf>,
    /// The port of gauge.
    pub port: u16,
}

/// Parses the command line after the program name.
///
/// # Errors
/// The text to print instead of running: help, version, or a message about the first invalid argument.
pub fn parse(words: &[OsString]) -> Result<Asked, Answer> {
    millpond_cli::service(&SPEC, env!("CARGO_PKG_VERSION"), words, asked)
}

fn asked(parsed: &Parsed) -> Result<Asked, String> {
    if let Some(word) = parsed.words().first() {
        return Err(format!("it takes no operand, and got `{word}`"));
    }
    if parsed.long("crd") {
        return Ok(Asked::Definition);
    }
    let named = |flag: &str, usual: &str| {
        let name = parsed.long_value(flag).unwrap_or_else(|| usual.to_owned());
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        match !name.is_empty() && name.chars().all(fits) {
            true => Ok(name),
            false => Err(format!("--{flag} takes a name of Kubernetes, not `{name}`")),
        }
    };
    let port = match parsed.long_value("port") {
        None => 9909,
        Some(word) => match word.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("--port takes a number from 1 to 65535, not `{word}`")),
        },
    };
    Ok(Asked::Service(Options {
        namespace: named("namespace", "millpond")?,
        config_map: named("config-map", "millpond-nodes")?,
        token_file: parsed.long_value("token-file").map(PathBuf::from),
        port,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(line: &str) -> Result<Asked, Answer> {
        parse(&line.split_ascii_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let Asked::Service(plain) = asked("").unwrap() else { panic!("a service") };
        assert_eq!((plain.namespace.as_str(), plain.config_map.as_str()), ("millpond", "millpond-nodes"));
        assert_eq!((plain.token_file, plain.port), (None, 9909));
        let all = Options {
            namespace: "n".to_owned(),
            config_map: "c".to_owned(),
            token_file: Some(PathBuf::from("t")),
            port: 1,
        };
        let line = "--namespace n --config-map c --token-file t --port 1";
        assert_eq!(asked(line).unwrap(), Asked::Service(all));
        assert_eq!(asked("--crd").unwrap(), Asked::Definition);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, said) in [
            ("web", "it takes no operand, and got `web`"),
            ("--port 0", "--port takes a number from 1 to 65535, not `0`"),
            ("--namespace A/b", "--namespace takes a name of Kubernetes, not `A/b`"),
        ] {
            let answer = asked(line).unwrap_err();
            assert_eq!(
                answer.err.lines().next(),
                Some(format!("millpond-controller: {said}").as_str()),
                "{line}"
            );
        }
    }
}
