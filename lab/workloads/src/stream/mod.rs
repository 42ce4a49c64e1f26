//! A two-way TCP stream: as much data as possible, in both directions at once.
//!
//! # Theory
//!
//! Two connections, one per direction, so that the directions do not share a window. The client opens both, which works where only one
//! end can be reached. A greeting on each declares its direction and contains the parameters, so a server needs no parameters in advance.
//!
//! ```text
//! client                                          server
//!   connection 1, greeting "out"  ──────────────▶   counts, and finally reports the number of bytes and the time
//!   connection 2, greeting "in"   ◀──────────────   sends
//!                      ◀── start signal, on both ──
//! ```
//!
//! Both ends send for the duration, then shut down their direction. The reported figures of a direction are those of its *receiver*, over the
//! time from the start signal to the end of the data: bytes in a sender's buffer do not count. When one direction ends long before its time (a
//! stop at either end, a lost peer), the other end stops sending too.
//!
//! Both ends may be in one process ([`run`]): over the loopback, between two addresses of the machine, or between two network
//! namespaces that exist during the run. Or they may be on two machines: [`Server`] there, [`connect`] here.
//!
//! A sender normally sleeps when the other side cannot take more. With `is_spinning` it retries without sleeping, and with small
//! `write_bytes` it makes hundreds of thousands of system calls per second, like the thread of the published experiment.

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

/// The route of a stream with both ends in this process.
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
    /// Between two network namespaces, created for the run and connected by a veth pair. Needs root.
    Namespaces,
}

/// Runs both ends in this process; the result is the client's.
///
/// # Errors
///
/// [`Error::BadStream`], [`Error::Listen`], [`Error::Connect`], [`Error::Stream`] when a connection fails,
/// [`Error::PeerLost`] when the other end ends or sends nothing, [`Error::Namespace`] when namespaces cannot be created, [`Error::StartThread`].
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

/// Runs the server's end in another thread than `client`. If the client's end fails, its error is returned, because the server's is a consequence.
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
