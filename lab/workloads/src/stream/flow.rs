//! Data transfer: one thread sends on one connection, one receives on the other, the calling thread supervises.

use super::{Flow, StreamEvent, StreamSpec};
use crate::Error;
use crate::clock::{STOP_POLL, SetOnDrop, supervise};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for data of the other end, also after a stop. Buffers of megabytes drain slowly over a slow link, and lost segments are retransmitted at
/// increasing intervals.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How much earlier the other end's run time may be over. If its data ends even earlier, it was stopped, and this end stops
/// too.
const SKEW_MAX: Duration = Duration::from_secs(1);

/// Size of a receiver's reads.
const READ_BYTES: usize = 256 << 10;

/// A receiver's final report, both big-endian: bytes, and nanoseconds since the start signal.
const ACCOUNT_BYTES: usize = 16;

/// The two connections of a stream at one end.
#[derive(Debug)]
pub(super) struct Connected {
    /// The connection on which this end sends.
    pub(super) out: TcpStream,
    /// The connection on which it receives.
    pub(super) incoming: TcpStream,
}

/// Common data of both threads.
#[derive(Debug, Default)]
struct Book {
    /// Stop sending, because the other end has stopped.
    is_over: AtomicBool,
    was_stopped: AtomicBool,
    out_bytes: AtomicU64,
    in_bytes: AtomicU64,
}

/// Sends and receives for the duration of `spec`, counted from `started`. Returns both flows, and whether the stream was
/// stopped.
pub(super) fn exchange(
    spec: &StreamSpec,
    connected: &Connected,
    started: Instant,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(StreamEvent<'_>),
) -> Result<(Flow, Flow, bool), Error> {
    let book = Book::default();
    thread::scope(|scope| {
        let _end = (SetOnDrop(&book.is_over), SetOnDrop(&book.was_stopped));
        let (alive, ended) = channel::<()>();
        let alive_too = alive.clone();
        let sending = thread::Builder::new().name("stream-out".to_owned()).spawn_scoped(scope, || {
            let _alive = alive;
            send(spec, &connected.out, started, &book)
        });
        let sending = sending.map_err(|source| Error::StartThread { index: 0, of: 2, source })?;
        let receiving = thread::Builder::new().name("stream-in".to_owned()).spawn_scoped(scope, || {
            let _alive = alive_too;
            let received = receive(&connected.incoming, started, &book);
            if received.is_err() || started.elapsed() + SKEW_MAX < spec.duration {
                book.is_over.store(true, Ordering::Relaxed);
            }
            received
        });
        let receiving = receiving.map_err(|source| Error::StartThread { index: 1, of: 2, source })?;
        let mut progress = |seconds| {
            let [out_bytes, in_bytes] =
                [&book.out_bytes, &book.in_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
            on_event(StreamEvent::Progress { seconds, out_bytes, in_bytes });
        };
        let was_stopped = supervise(&ended, started, spec.interval, stop, &book.was_stopped, &mut progress);
        let out = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let incoming = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((out, incoming, was_stopped))
    })
}

/// Whether a call should be repeated: it was interrupted, or timed out.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Sends until the duration or the stream is over, then waits for the receiver's report.
fn send(spec: &StreamSpec, mut socket: &TcpStream, started: Instant, book: &Book) -> Result<Flow, Error> {
    let failed = |source| Error::Stream { verb: "send", source };
    if spec.is_spinning {
        socket.set_nonblocking(true).map_err(failed)?;
    } else {
        socket.set_write_timeout(Some(STOP_POLL)).map_err(failed)?;
    }
    let message = vec![b'='; spec.write_bytes.get() as usize];
    let mut calls = 0;
    let is_over = || book.is_over.load(Ordering::Relaxed) || book.was_stopped.load(Ordering::Relaxed);
    while !is_over() && started.elapsed() < spec.duration {
        calls += 1;
        match socket.write(&message) {
            Ok(bytes) => {
                book.out_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if is_for_now(&error) => (),
            Err(error) => return Err(failed(error)),
        }
    }
    socket.set_nonblocking(false).map_err(failed)?;
    socket.shutdown(Shutdown::Write).map_err(failed)?;
    let mut account = [0; ACCOUNT_BYTES];
    read_whole(socket, &mut account)?;
    let [bytes, nanos] = [&account[..8], &account[8..]].map(|half| {
        let mut number = [0; 8];
        number.copy_from_slice(half);
        u64::from_be_bytes(number)
    });
    Ok(Flow { bytes, seconds: Duration::from_nanos(nanos).as_secs_f64(), calls })
}

/// Receives until the sender has ended, then sends the report.
fn receive(mut socket: &TcpStream, started: Instant, book: &Book) -> Result<Flow, Error> {
    let failed = |source| Error::Stream { verb: "receive", source };
    let (mut buffer, mut calls, mut bytes) = (vec![0; READ_BYTES], 0, 0);
    loop {
        let (read, tries) = read_some(socket, &mut buffer)?;
        calls += tries;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        book.in_bytes.store(bytes, Ordering::Relaxed);
    }
    let elapsed = started.elapsed();
    let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let account = [bytes.to_be_bytes(), nanos.to_be_bytes()];
    socket.write_all(account.as_flattened()).map_err(failed)?;
    Ok(Flow { bytes, seconds: elapsed.as_secs_f64(), calls })
}

/// Reads data: the number of bytes (0 is the end of the data), and of calls.
fn read_some(mut socket: &TcpStream, buffer: &mut [u8]) -> Result<(usize, u64), Error> {
    let (since, mut tries) = (Instant::now(), 0);
    socket.set_read_timeout(Some(STOP_POLL)).map_err(|source| Error::Stream { verb: "receive", source })?;
    loop {
        tries += 1;
        match socket.read(buffer) {
            Ok(read) => return Ok((read, tries)),
            Err(error) if is_for_now(&error) => {
                if since.elapsed() >= SILENCE_MAX {
                    return Err(Error::PeerLost { reason: "it said nothing for too long" });
                }
            }
            Err(source) => return Err(Error::Stream { verb: "receive", source }),
        }
    }
}

/// Fills `buffer`.
fn read_whole(socket: &TcpStream, mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let (read, _) = read_some(socket, buffer)?;
        if read == 0 {
            return Err(Error::PeerLost { reason: "it closed the connection" });
        }
        buffer = &mut buffer[read..];
    }
    Ok(())
}
