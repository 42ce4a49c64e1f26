//! The end that listens.

use super::flow::{self, Connected};
use super::greeting::{GREETING_BYTES, Greeting, Terms, Way};
use super::{StreamEvent, StreamResult};
use crate::Error;
use crate::clock::STOP_POLL;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a connection's greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the first connection of a stream waits for the second.
const PAIR_TIMEOUT: Duration = Duration::from_secs(10);

/// The start signal: this byte on both connections.
pub(super) const GO: u8 = b'!';

/// A listening end. It serves one stream at a time.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// A greeted connection that waits for the other one.
#[derive(Debug)]
struct Half {
    socket: TcpStream,
    greeting: Greeting,
    since: Instant,
}

impl Server {
    /// Listens at `address`; port 0 for any free port.
    ///
    /// # Errors
    ///
    /// [`Error::Listen`].
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // Non-blocking, although it is polled before: a connection that is closed in between must not block accept.
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a stream and serves it. Returns the result of this end, or `None` if stopped while waiting. Progress is
    /// reported every `interval`. Connections with an invalid greeting are closed and reported as events.
    ///
    /// # Errors
    ///
    /// [`Error::Accept`] when waiting fails; [`Error::Stream`] and [`Error::PeerLost`] when the stream fails: the
    /// server may continue with the next one.
    pub fn serve(
        &self,
        interval: Option<Duration>,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<Option<StreamResult>, Error> {
        let mut halves: Vec<Half> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            halves.retain(|half| half.since.elapsed() < PAIR_TIMEOUT);
            let Some((socket, peer)) = self.accept()? else { continue };
            let greeting = match read_greeting(&socket) {
                Ok(greeting) => greeting,
                Err(reason) => {
                    on_event(StreamEvent::Refused { peer, reason: &reason });
                    continue;
                }
            };
            let is_fellow =
                |half: &Half| half.greeting.terms == greeting.terms && half.greeting.way != greeting.way;
            match halves.iter().position(is_fellow) {
                Some(at) => {
                    let fellow = halves.swap_remove(at).socket;
                    let (incoming, out) =
                        if greeting.way == Way::Out { (socket, fellow) } else { (fellow, socket) };
                    let connected = Connected { out, incoming };
                    return serve_one(connected, greeting.terms, interval, stop, on_event).map(Some);
                }
                None => halves.push(Half { socket, greeting, since: Instant::now() }),
            }
        }
        Ok(None)
    }

    /// Accepts a connection, if one arrives soon.
    fn accept(&self) -> Result<Option<(TcpStream, SocketAddr)>, Error> {
        let failed = |source| Error::Accept { address: self.address, source };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(STOP_POLL.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => (),
            Err(errno) => return Err(failed(errno.into())),
        }
        match self.listener.accept() {
            Ok((socket, peer)) => {
                socket.set_nonblocking(false).map(|()| Some((socket, peer))).map_err(failed)
            }
            Err(error) if is_passing(&error) => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}

/// Whether accepting may be retried: the connection, not the listener, has failed.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// The greeting of a new connection, or the reason why it is invalid.
fn read_greeting(mut socket: &TcpStream) -> Result<Greeting, String> {
    let mut bytes = [0; GREETING_BYTES];
    socket.set_read_timeout(Some(GREETING_TIMEOUT)).map_err(|error| error.to_string())?;
    socket.read_exact(&mut bytes).map_err(|_| "it did not greet".to_owned())?;
    Greeting::decode(&bytes).map_err(|bad| bad.to_string())
}

/// Sends the start signal and exchanges data.
fn serve_one(
    connected: Connected,
    terms: Terms,
    interval: Option<Duration>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(StreamEvent<'_>),
) -> Result<StreamResult, Error> {
    let failed = |source| Error::Stream { verb: "begin", source };
    // The client's first connection is the one on which this end receives.
    let (here, there) = ends(&connected.incoming)?;
    // Before the start signal: all data of the client is counted from here, so that no rate is too high.
    let started = Instant::now();
    for mut socket in [&connected.out, &connected.incoming] {
        socket.write_all(&[GO]).map_err(failed)?;
    }
    on_event(StreamEvent::Connected { here, there });
    let spec = terms.spec(interval);
    let (out_flow, in_flow, stopped) = flow::exchange(&spec, &connected, started, stop, on_event)?;
    let (write_bytes, is_spinning) = (terms.write_bytes.get(), terms.is_spinning);
    Ok(StreamResult { here, there, write_bytes, is_spinning, out_flow, in_flow, stopped })
}

/// Both addresses of a connection, the local one first.
pub(super) fn ends(socket: &TcpStream) -> Result<(SocketAddr, SocketAddr), Error> {
    let ends = socket.local_addr().and_then(|here| Ok((here, socket.peer_addr()?)));
    ends.map_err(|source| Error::Stream { verb: "begin", source })
}
