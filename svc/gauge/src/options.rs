//! Command-line options of gauge.

use crate::access::{Access, Address, TOKEN_LEAST, is_token};
use millpond_cli::{Answer, Example, Flag, Group, Parsed, Spec, ValueKind, units};
use millpond_collect::{Options as Collected, THREADS_EVERY};
use millpond_model::Nanos;
use millpond_session::{MachineName, OpenOptions};
use std::ffi::OsString;
use std::path::PathBuf;

/// The description of the command.
pub const SPEC: Spec = Spec {
    name: "gauge",
    applet: false,
    summary: "serve metrics, JSON and a dashboard over HTTP, read-only",
    section: 8,
    group: Group::Slow,
    forms: &[
        "[--listen address] [--token-file file] [--allow user] [--interval time] [--threads time] [--events] [--noise] [[--machine name] [--state file] [--load workload] [--speed number] [--stand time]]",
        "--help | --version",
    ],
    flags: &[
        Flag::long("listen", "listen here: host:port by numbers, or unix:path (127.0.0.1:9909)")
            .value("address", ValueKind::Text),
        Flag::long("token-file", "answer only requests that have the token in this file")
            .value("file", ValueKind::File),
        Flag::long("allow", "answer this user on a Unix socket, too; may be repeated")
            .value("user", ValueKind::Text)
            .repeats(),
        Flag::long("interval", "read the machine so often (1s)").value("time", ValueKind::Time),
        Flag::long("threads", "read threads and processes so often (5s; of a simulated machine each time)")
            .value("time", ValueKind::Time),
        Flag::long("events", "count every event of mpstat on each CPU"),
        Flag::long("noise", "tell OS noise on the CPUs of sets, by cause"),
        Flag::long("machine", "serve this simulated machine").value("name", ValueKind::Machine),
        Flag::long("state", "serve the simulated machine that this file keeps; the file stays as it is")
            .value("file", ValueKind::File),
        Flag::long("load", "start this workload on a simulated machine first; may be repeated")
            .value("workload", ValueKind::Text)
            .repeats(),
        Flag::long("speed", "let a simulated machine live so many times as fast, to 1000")
            .value("number", SPEED),
        Flag::long("stand", "let a simulated machine go on to this moment and stand still there")
            .value("time", ValueKind::Time),
        Flag::both('h', "help", "print this help"),
        Flag::long("version", "print the version"),
    ],
    common: &[],
    permutes: true,
    examples: &[
        Example { words: "", what: "serve this machine to itself: http://localhost:9909" },
        Example {
            words: "--listen 0.0.0.0:9909 --token-file token",
            what: "serve it to those that have the token",
        },
        Example { words: "--machine t2000 --load 'spin -t 40'", what: "serve a simulated machine" },
    ],
    status: &[
        ("0", "stopped by a signal"),
        ("1", "it cannot listen, or the machine cannot be read"),
        ("2", "the command line is wrong"),
    ],
    see_also: &["millpond-top(1)", "millpond-record(1)", "poold(8)"],
    prose: millpond_cli::head!(include_str!("lib.rs")),
    ..Spec::NEW
};

/// The parsed options.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The address to listen on.
    pub listen: Address,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// Users that a Unix socket answers, by name or number, in addition to root and the user of the service.
    pub allow: Vec<String>,
    /// The time between frames.
    pub interval: Nanos,
    /// The tables and details to read.
    pub collected: Collected,
    /// The machine.
    pub open: OpenOptions,
    /// Workloads of a simulated machine.
    pub loads: Vec<String>,
    /// The speed of a simulated machine: simulated seconds per second.
    pub speed: u64,
    /// The simulated time at which the machine stops.
    pub stand: Option<Nanos>,
}

/// The default of `--listen`.
const LISTEN: &str = "127.0.0.1:9909";
/// The default of `--interval`.
const INTERVAL: Nanos = Nanos::from_secs(1);
/// The shortest interval. Shorter ones would cost more CPU time than the figures are worth.
const INTERVAL_LEAST: Nanos = Nanos::from_millis(100);
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// The same range as in `top`.
const SPEED: ValueKind = ValueKind::Count(1, 1000);

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
    let time = |name: &str| {
        let Some(text) = parsed.long_value(name) else { return Ok(None) };
        let time = units::time(&text, SECOND).filter(|time| *time >= INTERVAL_LEAST);
        time.map(Some).ok_or_else(|| {
            format!(
                "--{name} takes seconds or a time with a unit ({}) from 100ms on, not `{text}`",
                units::NAMES
            )
        })
    };
    let text = parsed.long_value("listen").unwrap_or_else(|| LISTEN.to_owned());
    let listen = Address::parse(&text).ok_or_else(|| {
        format!("--listen takes numbers as in {LISTEN}, localhost:9909, or unix: with an absolute path, not `{text}`")
    })?;
    let token_file = parsed.long_value("token-file").map(PathBuf::from);
    let allow = parsed.long_values("allow");
    if !allow.is_empty() && !matches!(listen, Address::Socket(_)) {
        return Err("--allow is for a Unix socket: --listen unix:/run/millpond/gauge.sock".to_owned());
    }
    let machine = parsed.long_value("machine");
    let state = parsed.long_value("state").map(PathBuf::from);
    let is_simulated = machine.is_some() || state.is_some();
    for name in ["load", "speed", "stand"] {
        if !is_simulated && parsed.long(name) {
            return Err(format!("--{name} is for a simulated machine: --machine t2000"));
        }
    }
    let speed = parsed.long_value("speed").unwrap_or_else(|| "1".to_owned());
    let speeds = SPEED.read(&speed).map_err(|why| format!("--speed {speed}: {why}"))?;
    Ok(Options {
        listen,
        token_file,
        allow,
        interval: time("interval")?.unwrap_or(INTERVAL),
        collected: Collected {
            threads_every: time("threads")?.unwrap_or(if is_simulated { Nanos(0) } else { THREADS_EVERY }),
            events: parsed.long("events"),
            noise: parsed.long("noise"),
            ..Collected::default()
        },
        open: OpenOptions {
            machine: machine.map_or_else(MachineName::default, MachineName::Simulated),
            kept_in: state,
            ..OpenOptions::default()
        },
        loads: parsed.long_values("load"),
        speed: speeds.first().copied().unwrap_or(1),
        stand: time("stand")?,
    })
}

/// Which requests are answered at this address, with this token.
///
/// # Errors
/// Why the service may not listen there, and a remedy.
pub fn access(address: &Address, token: Option<&str>) -> Result<Access, String> {
    match (address, token) {
        (_, Some(token)) if !is_token(token) => Err(format!(
            "a token has at least {TOKEN_LEAST} bytes: letters, digits and any of -._~+/= (openssl rand -hex 32)"
        )),
        (Address::Socket(_), None) => Ok(Access::Peers),
        (_, Some(token)) => Ok(Access::Token(token.to_owned())),
        (address, None) if address.is_beyond_loopback() => Err(format!(
            "{address} can be reached from other machines: that needs --token-file, or listen on 127.0.0.1 or on a Unix socket"
        )),
        (_, None) => Ok(Access::Loopback),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn asked(words: &[&str]) -> Result<Options, Answer> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let plain = asked(&[]).unwrap();
        assert_eq!(plain.listen, Address::parse("127.0.0.1:9909").unwrap());
        assert_eq!((plain.interval, plain.speed, plain.stand), (Nanos::from_secs(1), 1, None));
        assert_eq!(plain.open.machine, MachineName::default());
        let words = ["--machine", "t2000", "--load", "spin -t 40", "--speed", "10", "--stand", "1m"];
        let simulated = asked(&words).unwrap();
        assert_eq!(simulated.open.machine, MachineName::Simulated("t2000".into()));
        assert_eq!((simulated.speed, simulated.stand), (10, Some(Nanos::from_secs(60))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, said) in [
            (
                ["--interval", "0.01"].as_slice(),
                "--interval takes seconds or a time with a unit (ns, us, ms, s, m, h or d) from 100ms on, not `0.01`",
            ),
            (
                &["--listen", "9909"],
                "--listen takes numbers as in 127.0.0.1:9909, localhost:9909, or unix: with an absolute path, not `9909`",
            ),
            (&["--allow", "web"], "--allow is for a Unix socket: --listen unix:/run/millpond/gauge.sock"),
            (&["--speed", "2"], "--speed is for a simulated machine: --machine t2000"),
            (&["--machine", "t2000", "--speed", "0"], "--speed 0: it is not within 1 and 1000"),
            (&["on"], "it takes no operand, and got `on`"),
        ] {
            let answer = asked(words).unwrap_err();
            assert_eq!(answer.err.lines().next(), Some(format!("gauge: {said}").as_str()));
        }
    }

    #[test]
    fn beyond_the_loopback_there_is_a_token() {
        let at = |text| Address::parse(text).unwrap();
        assert_eq!(
            access(&at("0.0.0.0:1"), None),
            Err("http://0.0.0.0:1 can be reached from other machines: that needs --token-file, or listen on 127.0.0.1 or on a Unix socket".into())
        );
        assert!(
            access(&at("0.0.0.0:1"), Some("short")).unwrap_err().starts_with("a token has at least 16 bytes")
        );
        let token = "0123456789abcdef";
        assert_eq!(access(&at("[::]:1"), Some(token)), Ok(Access::Token(token.into())));
        assert_eq!(access(&at("127.0.0.1:1"), None), Ok(Access::Loopback));
        assert_eq!(access(&at("127.0.0.1:1"), Some(token)), Ok(Access::Token(token.into())));
        assert_eq!(access(&at("unix:/run/a"), None), Ok(Access::Peers));
    }
}
