//! The end that connects.

use super::flow::{self, Connected};
use super::greeting::{Greeting, Terms, Way};
use super::server::{GO, ends};
use super::{StreamEvent, StreamResult, StreamSpec};
use crate::Error;
use crate::clock::STOP_POLL;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Timeout of a connection, and of the server's start signal.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Streams with the server at `server`, optionally from the local address `from`.
///
/// # Errors
///
/// [`Error::BadStream`], [`Error::Connect`] (also when stopped before the stream began), [`Error::Stream`], [`Error::PeerLost`],
/// [`Error::StartThread`].
pub fn connect(
    spec: &StreamSpec,
    server: SocketAddr,
    from: Option<IpAddr>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(StreamEvent<'_>),
) -> Result<StreamResult, Error> {
    spec.check()?;
    let connected = connect_pair(spec, server, from, stop)?;
    exchange(spec, connected, stop, on_event)
}

/// Exchanges data over connections that are established and greeted.
pub(super) fn exchange(
    spec: &StreamSpec,
    connected: Connected,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(StreamEvent<'_>),
) -> Result<StreamResult, Error> {
    let started = Instant::now();
    let (here, there) = ends(&connected.out)?;
    on_event(StreamEvent::Connected { here, there });
    let (out_flow, in_flow, stopped) = flow::exchange(spec, &connected, started, stop, on_event)?;
    let (write_bytes, is_spinning) = (spec.write_bytes.get(), spec.is_spinning);
    Ok(StreamResult { here, there, write_bytes, is_spinning, out_flow, in_flow, stopped })
}

/// Opens both connections, sends the greetings, and waits for the start signal.
pub(super) fn connect_pair(
    spec: &StreamSpec,
    server: SocketAddr,
    from: Option<IpAddr>,
    stop: &AtomicBool,
) -> Result<Connected, Error> {
    let failed = |source| Error::Connect { address: server, source };
    let terms = Terms::of(spec, fresh_id());
    let connect = |way| -> io::Result<TcpStream> {
        let mut socket = connect_one(server, from, stop)?;
        socket.write_all(&Greeting { way, terms }.encode())?;
        Ok(socket)
    };
    let connected =
        Connected { out: connect(Way::Out).map_err(failed)?, incoming: connect(Way::In).map_err(failed)? };
    for socket in [&connected.out, &connected.incoming] {
        await_go(socket, stop).map_err(failed)?;
    }
    Ok(connected)
}

/// An id from the time and the process id. It only distinguishes streams of different clients.
fn fresh_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() << 30 | u64::from(now.subsec_nanos())) ^ u64::from(std::process::id()) << 42
}

fn stopped() -> io::Error {
    io::Error::new(ErrorKind::Interrupted, "stopped")
}

/// A connection from a given local address; the standard library can only choose the remote one.
fn connect_one(to: SocketAddr, from: Option<IpAddr>, stop: &AtomicBool) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) => (),
        Err(Errno::INPROGRESS) => {
            let since = Instant::now();
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(STOP_POLL.subsec_nanos()) };
            while matches!(
                poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timeout)),
                Ok(0) | Err(Errno::INTR)
            ) {
                if stop.load(Ordering::Relaxed) {
                    return Err(stopped());
                }
                if since.elapsed() >= CONNECT_TIMEOUT {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            sockopt::socket_error(&socket)??;
        }
        Err(errno) => return Err(errno.into()),
    }
    let socket = TcpStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Waits for the server's start signal.
fn await_go(mut socket: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(STOP_POLL))?;
    let (since, mut byte) = (Instant::now(), [0]);
    loop {
        match socket.read(&mut byte) {
            Ok(1) if byte == [GO] => return Ok(()),
            Ok(0) => return Err(io::Error::new(ErrorKind::ConnectionRefused, "the server turned it away")),
            Ok(_) => return Err(io::Error::new(ErrorKind::InvalidData, "no such server is there")),
            Err(_) if stop.load(Ordering::Relaxed) => return Err(stopped()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if since.elapsed() >= CONNECT_TIMEOUT {
                    return Err(io::Error::new(ErrorKind::TimedOut, "the server does not begin"));
                }
            }
            Err(error) => return Err(error),
        }
    }
}
