//! `load stream`.

use super::job::{Job, Load, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::{seconds, value};
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_workloads::stream::{self, Place, Route, Server, StreamEvent, StreamResult, StreamSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load stream",
        summary: "a two-way TCP stream: interrupts and system calls",
        group: Group::Try,
        forms: &["[--seconds T] [--bytes N] [--spin] [--namespaces | --server ADDR | --connect \
                 ADDR [--from ADDRESS]] [--nic DEVICE --address A/BITS]"],
        flags: &[
            Flag::long("seconds", "how long (10)").value("t", ValueKind::Time),
            Flag::long("bytes", "how much each write offers (131072)").value("n", ValueKind::Text),
            Flag::long(
                "spin",
                "senders never sleep; with small writes, some hundred thousand system calls a second",
            ),
            Flag::long("interval", "tell the bytes so often").value("t", ValueKind::Time),
            Flag::long("namespaces", "between two network namespaces, made for the time of the run"),
            Flag::long("server", "serve streams at this address and port, until stopped")
                .value("addr", ValueKind::Text),
            Flag::long("connect", "stream with the server there").value("addr", ValueKind::Text),
            Flag::long("from", "with --connect: from this address of ours").value("address", ValueKind::Text),
            Flag::long(
                "nic",
                "take this network device away from the system for the time of the run; needs \
                 --address",
            )
            .value("device", ValueKind::Text),
            Flag::long("address", "the device's address then, with its network: 10.0.0.1/30")
                .value("a/bits", ValueKind::Text),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum StreamReady {
    /// It is prepared, and waits for the start line.
    Ready {
        /// The server's address; null for other streams.
        address: Option<SocketAddr>,
    },
}

/// The default duration of a stream.
const SECONDS_DEFAULT: Duration = Duration::from_secs(10);

/// The locations of both ends.
enum Ends {
    /// Both in this process.
    Here(Route),
    /// This process is the server, and waits for clients.
    Server(SocketAddr),
    /// This process is the client of that server. Its own address is optional.
    Client(SocketAddr, Option<IpAddr>),
}

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let ends = ends(options)?;
    let spec = StreamSpec {
        write_bytes: value::<NonZeroU32>(options, "bytes")?.unwrap_or(StreamSpec::WRITE_BYTES_DEFAULT),
        is_spinning: options.long("spin"),
        interval: seconds(options, "interval")?,
        ..StreamSpec::new(seconds(options, "seconds")?.unwrap_or(SECONDS_DEFAULT))
    };
    take_nic(options, job)?;
    let result = match ends {
        Ends::Server(address) => return serve(address, &spec, job, ctx),
        Ends::Here(route) => {
            ready(job, ctx, None);
            stream::run(&spec, route, job.stop, &mut |event| tell(&event, job, ctx))
        }
        Ends::Client(server, from) => {
            ready(job, ctx, None);
            stream::connect(&spec, server, from, job.stop, &mut |event| tell(&event, job, ctx))
        }
    };
    let result = result.map_err(|error| job.failed(&error))?;
    report(&result, job, ctx);
    Ok(Exit::DONE)
}

fn ends(options: &Parsed) -> Result<Ends, Failure> {
    let (server, client) = (value(options, "server")?, value(options, "connect")?);
    let from = value(options, "from")?;
    match (server, client, options.long("namespaces")) {
        (None, Some(client), false) => Ok(Ends::Client(client, from)),
        _ if from.is_some() => Err(Failure::Usage("option --from needs --connect".into())),
        (None, None, false) => Ok(Ends::Here(Route::Loopback)),
        (None, None, true) => Ok(Ends::Here(Route::Namespaces)),
        (Some(server), None, false) => Ok(Ends::Server(server)),
        _ => {
            Err(Failure::Usage("options --server, --connect and --namespaces are mutually exclusive".into()))
        }
    }
}

/// Moves a network device into a network namespace of this load, if a device is named.
fn take_nic(options: &Parsed, job: &Job) -> Result<(), Failure> {
    match (options.long_value("nic"), value::<Place>(options, "address")?) {
        (None, None) => Ok(()),
        (Some(nic), Some(place)) => stream::take_device(&nic, place).map_err(|error| job.failed(&error)),
        _ => Err(Failure::Usage("options --nic and --address need each other".into())),
    }
}

/// Serves streams one after another, until it is stopped.
fn serve(address: SocketAddr, spec: &StreamSpec, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let server = Server::bind(address).map_err(|error| job.failed(&error))?;
    job.text(ctx, &format!("serving at {}\n", server.address()));
    ready(job, ctx, Some(server.address()));
    let mut exit = Exit::DONE;
    while !job.stop.load(Ordering::Relaxed) {
        match server.serve(spec.interval, job.stop, &mut |event| tell(&event, job, ctx)) {
            Ok(Some(result)) => report(&result, job, ctx),
            Ok(None) => {}
            Err(error) => {
                // A client that disconnects ends only its own stream.
                match job.failed(&error) {
                    Failure::Refused(complaint) => ctx.complain(&complaint),
                    failure => return Err(failure),
                }
                exit = Exit::REFUSED;
            }
        }
    }
    Ok(exit)
}

fn ready(job: &Job, ctx: &mut Ctx<'_>, address: Option<SocketAddr>) {
    job.event(ctx, StreamReady::Ready { address });
    job.wait_to_begin();
}

fn tell(event: &StreamEvent<'_>, job: &Job, ctx: &mut Ctx<'_>) {
    match event {
        StreamEvent::Connected { .. } => {}
        StreamEvent::Progress { seconds, out_bytes, in_bytes } => {
            job.text(ctx, &format!("{seconds:.1} s: {out_bytes} bytes out, {in_bytes} bytes in\n"));
        }
        StreamEvent::Refused { peer, reason } => {
            ctx.warn(format_args!("{peer} was turned away: {reason}"));
        }
    }
    job.event(ctx, event);
}

fn report(result: &StreamResult, job: &Job, ctx: &mut Ctx<'_>) {
    job.result(ctx, &result.report(), result);
    job.mind_reader(ctx);
}
