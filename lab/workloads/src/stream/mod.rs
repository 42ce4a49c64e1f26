//! A two-way TCP stream: as much as will go, each way at once.
//!
//! # Theory
//!
//! Two connections, each carrying one way, so that the ways do not share a window. The client makes both, which works where only one
//! end can be reached; a greeting on each says which way it is, and carries the parameters, so a server is told nothing in advance.
//!
//! ```text
//! client                                          server
//!   connection 1, greeting "out"  ──────────────▶   counts, and says at the end how much came and how long it took
//!   connection 2, greeting "in"   ◀──────────────   sends
//!                      ◀── go, on both ──
//! ```
//!
//! Both ends send for the duration, then shut their way down. What is reported for a way is what its *receiver* had, over the
//! time from go to the end of the data: bytes in a sender's buffer are not yet a stream. When one way ends long before its time (a
//! stop at either end, a lost peer), the other end stops sending too.
//!
//! The ends may be in one process ([`run`]): over the loopback, between two addresses of the machine, or between two network
//! namespaces that exist for the time of the run. Or they may be on two machines: [`Server`] there, [`connect`] here.
//!
//! A sender normally sleeps when the other side cannot take more. With `is_spinning` it asks again and again instead, and with small
//! `write_bytes` it makes system calls by the hundred thousand each second: the thread of the published experiment did so.

mod client;
mod device;
mod flow;
mod greeting;
mod namespaces;
mod netlink;
mod report;
mod server;

pub use client::connect;
pub use device::{BadPlace, Place, await_return, take_device};
pub use namespaces::Namespaces;
pub use server::Server;

use crate::Error;
use crate::clock::SetOnDrop;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// For how long, to the millisecond: 1 ms to 7 days.
    pub duration: Duration,
    /// How much each write offers, at most 16 MiB.
    pub write_bytes: NonZeroU32,
    /// Senders never sleep: they offer again at once what was not taken.
    pub is_spinning: bool,
    /// How often [`StreamEvent::Progress`] is told; without it never.
    pub interval: Option<Duration>,
}

impl StreamSpec {
    /// The usual size of a write.
    pub const WRITE_BYTES_DEFAULT: NonZeroU32 = NonZeroU32::new(128 << 10).unwrap();
    /// The longest duration.
    pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
    /// The largest write.
    pub const WRITE_BYTES_MAX: u32 = 16 << 20;

    /// Large writes by senders that sleep, for `duration`.
    pub fn new(duration: Duration) -> Self {
        Self { duration, write_bytes: Self::WRITE_BYTES_DEFAULT, is_spinning: false, interval: None }
    }

    /// # Errors
    ///
    /// [`Error::BadStream`] when a field is out of range.
    fn check(&self) -> Result<(), Error> {
        let range = Duration::from_millis(1)..=Self::DURATION_MAX;
        if !range.contains(&self.duration) {
            let what = format!("for {} s", self.duration.as_secs_f64());
            return Err(Error::BadStream { what, reason: "it takes 1 ms to 7 days" });
        }
        if self.write_bytes.get() > Self::WRITE_BYTES_MAX {
            let what = format!("in writes of {} bytes", self.write_bytes);
            return Err(Error::BadStream { what, reason: "they have 16 MiB at most" });
        }
        Ok(())
    }
}

/// Where a stream whose ends are both in this process goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Over the loopback.
    Loopback,
    /// Between two addresses of this machine.
    Between {
        /// The server's end.
        server: IpAddr,
        /// The client's end.
        client: IpAddr,
    },
    /// Between two network namespaces, made for the run and joined by a pair of virtual Ethernet devices. Needs root.
    Namespaces,
}

/// What happens while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StreamEvent<'a> {
    /// Both connections are there and data begins to flow.
    Connected {
        /// This end of the first connection.
        here: SocketAddr,
        /// Its other end.
        there: SocketAddr,
    },
    /// An interval has passed.
    Progress {
        /// Time since the beginning.
        seconds: f64,
        /// Bytes sent by this end until now.
        out_bytes: u64,
        /// Bytes received by this end until now.
        in_bytes: u64,
    },
    /// A server turned a connection away.
    Refused {
        /// Who it was.
        peer: SocketAddr,
        /// Why.
        reason: &'a str,
    },
}

/// One way of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// What its receiver had.
    pub bytes: u64,
    /// From go to the end of the data, by the receiver's clock.
    pub seconds: f64,
    /// Reads or writes of this end.
    pub calls: u64,
}

/// What came of a run, as one end sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// This end of the first connection.
    pub here: SocketAddr,
    /// Its other end.
    pub there: SocketAddr,
    /// How much each write offered.
    pub write_bytes: u32,
    /// Whether senders spun.
    pub is_spinning: bool,
    /// What this end sent.
    pub out_flow: Flow,
    /// What this end received.
    pub in_flow: Flow,
    /// The stop flag of this end ended it.
    pub stopped: bool,
}

/// Runs both ends in this process; the result is the client's.
///
/// # Errors
///
/// [`Error::BadStream`], [`Error::Listen`], [`Error::Connect`], [`Error::Stream`] when a connection fails,
/// [`Error::PeerLost`] when the other end goes away or says nothing, [`Error::Namespace`] when namespaces cannot be had, [`Error::StartThread`].
pub fn run(
    spec: &StreamSpec,
    route: Route,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(StreamEvent<'_>),
) -> Result<StreamResult, Error> {
    spec.check()?;
    match route {
        Route::Loopback => {
            let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
            let to = server.address();
            both_ends(&server, stop, || connect(spec, to, None, stop, on_event))
        }
        Route::Between { server, client } => {
            let server = Server::bind(SocketAddr::new(server, 0))?;
            let to = server.address();
            both_ends(&server, stop, || connect(spec, to, Some(client), stop, on_event))
        }
        Route::Namespaces => {
            let namespaces = Namespaces::make()?;
            let address = SocketAddr::from((Namespaces::SERVER, 0));
            let server = namespaces.in_server(|| Server::bind(address))??;
            let to = server.address();
            both_ends(&server, stop, || {
                let connected = namespaces.in_client(|| client::connect_pair(spec, to, None, stop))??;
                client::exchange(spec, connected, stop, on_event)
            })
        }
    }
}

/// Runs the server's end in a thread beside `client`. When the client's end fails, its error counts, since the server's follows from it.
fn both_ends(
    server: &Server,
    stop: &AtomicBool,
    client: impl FnOnce() -> Result<StreamResult, Error>,
) -> Result<StreamResult, Error> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serve = || server.serve(None, &is_over, &mut |_| ());
        let serving = thread::Builder::new().name("stream-server".to_owned()).spawn_scoped(scope, serve);
        let serving = serving.map_err(|source| Error::StartThread { index: 0, of: 1, source })?;
        let result = {
            let _end = SetOnDrop(&is_over);
            client()
        }?;
        let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match served {
            Err(error) if !stop.load(std::sync::atomic::Ordering::Relaxed) => Err(error),
            _ => Ok(result),
        }
    })
}
