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
mod spec;

pub use client::connect;
pub use device::{BadPlace, Place, await_return, take_device};
pub use namespaces::Namespaces;
pub use server::Server;
pub use spec::{Flow, StreamEvent, StreamResult, StreamSpec};

use crate::Error;
use crate::clock::SetOnDrop;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::thread;

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
