//! Limits on connections, shared fairly between peers.
//!
//! The number of connections is limited before any byte of a request is read. A new connection is always accepted. If
//! all places are taken, it replaces a connection of the peer with the most connections: the one that has moved no
//! byte for the longest time. So neither connections that never read their answers nor one peer with many connections
//! can lock out other clients.
//!
//! Viewers, and answers with long tables, have separate limits. There, a peer that already has as many places as any
//! other peer is refused, so that its own pages do not replace each other.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

/// A connection is closed if its peer takes no byte of the answer for this long.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// An address. For IPv6 its /64 network, because one host can use all addresses of it.
    Host(IpAddr),
    /// The user at the other end of a Unix socket.
    User(Option<u32>),
}

impl Peer {
    /// The peer at an address.
    pub fn at(address: IpAddr) -> Peer {
        Peer::Host(match address.to_canonical() {
            IpAddr::V6(six) => IpAddr::V6((six.to_bits() >> 64 << 64).into()),
            four => four,
        })
    }
}

/// A limited number of places for connections.
#[derive(Debug)]
pub struct Room {
    most: usize,
    seats: Mutex<BTreeMap<u64, Arc<Seat>>>,
    /// Logical clock: counts connections and moved bytes. A larger number is later.
    steps: AtomicU64,
}

/// The place of a connection.
#[derive(Debug)]
struct Seat {
    peer: Peer,
    /// The step of the last moved byte.
    moved: AtomicU64,
    leave: Notify,
}

impl Room {
    pub fn new(most: usize) -> Arc<Room> {
        Arc::new(Room { most: most.max(1), seats: Mutex::default(), steps: AtomicU64::new(0) })
    }

    fn seats(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a place for a new connection. If all are taken, another connection has to leave.
    pub fn enter(self: &Arc<Room>, peer: Peer) -> Guest {
        let seat = Seat { peer, moved: AtomicU64::new(self.step()), leave: Notify::new() };
        self.admit(Arc::new(seat), self.seats())
    }

    /// Takes a place for a request of a connection. The request ends when another one needs the place. If all places
    /// are taken, `None` for a peer that would then have at least as many places as the others.
    pub fn share(self: &Arc<Room>, visitor: &Visitor) -> Option<Guest> {
        let seats = self.seats();
        let counts = counts(&seats);
        let own = counts.get(&visitor.0.peer).map_or(1, |own| own + 1);
        let is_fair = seats.len() < self.most || counts.values().any(|other| *other > own);
        is_fair.then(|| self.admit(Arc::clone(&visitor.0), seats))
    }

    fn admit(
        self: &Arc<Room>,
        seat: Arc<Seat>,
        mut seats: MutexGuard<'_, BTreeMap<u64, Arc<Seat>>>,
    ) -> Guest {
        let id = self.step();
        seats.insert(id, Arc::clone(&seat));
        if seats.len() > self.most {
            let largest = counts(&seats).into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer);
            let of_largest = seats.iter().filter(|(_, seat)| Some(seat.peer) == largest);
            let stillest = of_largest.min_by_key(|(_, seat)| seat.moved.load(Ordering::Relaxed));
            if let Some(id) = stillest.map(|(id, _)| *id)
                && let Some(seat) = seats.remove(&id)
            {
                seat.leave.notify_one();
            }
        }
        drop(seats);
        Guest { room: Arc::clone(self), id, seat }
    }
}

/// The number of places of each peer.
fn counts(seats: &BTreeMap<u64, Arc<Seat>>) -> BTreeMap<Peer, usize> {
    let mut counts = BTreeMap::new();
    seats.values().for_each(|seat| *counts.entry(seat.peer).or_default() += 1);
    counts
}

/// The connection of a request.
#[derive(Debug, Clone)]
pub struct Visitor(Arc<Seat>);

/// A connection with a place, which is freed when this is dropped.
#[derive(Debug)]
pub struct Guest {
    room: Arc<Room>,
    id: u64,
    seat: Arc<Seat>,
}

impl Guest {
    /// The same connection, for its requests.
    pub fn visitor(&self) -> Visitor {
        Visitor(Arc::clone(&self.seat))
    }

    /// Waits until another connection needs the place.
    pub async fn asked_to_leave(&self) {
        self.seat.leave.notified().await;
    }

    /// Wraps the stream of the connection, to notice moved bytes.
    pub fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched { stream, room: Arc::clone(&self.room), seat: Arc::clone(&self.seat), stalled: None }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.room.seats().remove(&self.id);
    }
}

/// A stream whose writes may not stall for long.
#[derive(Debug)]
pub struct Watched<S> {
    stream: S,
    room: Arc<Room>,
    seat: Arc<Seat>,
    /// The timer of a pending write.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    fn move_on(&mut self) {
        self.stalled = None;
        self.seat.moved.store(self.room.step(), Ordering::Relaxed);
    }

    /// Handles the result of a write: progress resets the timer; a write that stalls for too long is an error.
    fn wrote(&mut self, wrote: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if wrote.is_ready() {
            self.move_on();
            return wrote;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_PATIENCE)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.seat.moved.store(self.room.step(), Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.wrote(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const HOST: Peer = Peer::Host(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    const USER: Peer = Peer::User(Some(7));

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(work)
    }

    fn leaves(guest: &Guest) -> bool {
        run(async { tokio::time::timeout(Duration::from_millis(1), guest.asked_to_leave()).await.is_ok() })
    }

    #[test]
    fn a_newcomer_takes_the_stillest_place_of_the_largest_peer() {
        let room = Room::new(4);
        let other = room.enter(USER);
        let mut many: Vec<Guest> = (0..3).map(|_| room.enter(HOST)).collect();
        many[0].watch(()).move_on();
        let newcomer = room.enter(HOST);
        assert_eq!(many.iter().map(leaves).collect::<Vec<_>>(), [false, true, false]);
        assert!(!leaves(&other) && !leaves(&newcomer));
        // A peer with one connection replaces one of the other peer, not its own.
        let second = room.enter(USER);
        assert_eq!(many.iter().map(leaves).collect::<Vec<_>>(), [false, false, true]);
        many.clear();
        assert_eq!(room.seats().len(), 3);
        drop((other, newcomer, second));
        assert_eq!(room.seats().len(), 0);
    }

    #[test]
    fn one_peer_cannot_take_all_places_of_viewers() {
        let (room, viewers) = (Room::new(100), Room::new(4));
        let come = |peer| {
            let connection = room.enter(peer);
            let view = viewers.share(&connection.visitor());
            (connection, view)
        };
        let hostile: Vec<_> = (0..4).map(|_| come(HOST)).collect();
        assert!(hostile.iter().all(|(_, view)| view.is_some()));
        assert!(come(HOST).1.is_none(), "it has all places");
        let honest: Vec<_> = (0..2).map(|_| come(USER)).collect();
        assert!(honest.iter().all(|(_, view)| view.is_some()));
        let ended: Vec<bool> = hostile.iter().map(|(connection, _)| leaves(connection)).collect();
        assert_eq!(ended, [true, true, false, false], "the connection ends, not the view alone");
        assert!(come(HOST).1.is_none() && come(USER).1.is_none(), "each has half");
        drop(honest);
        assert!(come(HOST).1.is_some());
    }

    #[test]
    fn one_host_has_many_addresses_of_the_sixth_version() {
        let at = |text: &str| Peer::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::2:3:4:5"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn a_write_that_no_peer_takes_ends_the_connection() {
        run(async {
            let (near, mut far) = tokio::io::duplex(16);
            let guest = Room::new(1).enter(HOST);
            let mut stream = guest.watch(near);
            stream.write_all(&[0; 16]).await.unwrap();
            assert_eq!(stream.write(&[0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            far.read_exact(&mut [0; 16]).await.unwrap();
            stream.write_all(&[0; 16]).await.unwrap();
        });
    }
}
