//! Two network namespaces connected by a veth pair, for the lifetime of a value.
//!
//! The namespaces have no names: threads create them by unshare, and descriptors hold them. So nothing is mounted and needs removal.
//! When the last descriptor is closed, with the value or with the process (killed or not), the kernel removes them, with their
//! devices. The rejected alternative, named namespaces of the `ip` program, leaves mounts and devices behind when the process is
//! killed, and needs the program.
//!
//! A socket belongs to the namespace in which it was created, whichever thread uses it later. So only its creation must happen
//! inside ([`Namespaces::in_server`], [`Namespaces::in_client`]).

use super::netlink::Netlink;
use crate::Error;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;

/// Interface number of each end of the veth pair. Numbers are free in a new namespace; this one is beyond those that drivers take
/// automatically (the loopback and fall-back tunnels).
const CABLE: u32 = 100;

/// Bits of the network part of the two addresses.
const PREFIX_BITS: u8 = 30;

/// A pair of network namespaces with one virtual Ethernet cable between them.
#[derive(Debug)]
pub struct Namespaces {
    server: OwnedFd,
    client: OwnedFd,
}

impl Namespaces {
    /// The address of the server's end.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    /// The address of the client's end.
    pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// Creates the namespaces and the veth pair, with both ends up.
    ///
    /// # Errors
    ///
    /// [`Error::Namespace`], with the step that the kernel refused. Nothing is left behind.
    pub fn make() -> Result<Self, Error> {
        let (server, mut server_netlink) = new_namespace()?;
        let (client, mut client_netlink) = new_namespace()?;
        let done = |step: &'static str| move |source| Error::Namespace { step, source };
        server_netlink
            .add_cable(CABLE, CABLE, client.as_fd())
            .map_err(done("join network namespaces by a veth pair"))?;
        for (netlink, address) in [(&mut server_netlink, Self::SERVER), (&mut client_netlink, Self::CLIENT)] {
            netlink
                .add_address(CABLE, address, PREFIX_BITS)
                .map_err(done("give a veth device an address"))?;
            netlink.set_up(CABLE).map_err(done("bring up a veth device"))?;
        }
        Ok(Self { server, client })
    }

    /// Runs `task` in a thread in the server's namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Namespace`] when the namespace cannot be entered, [`Error::StartThread`].
    pub fn in_server<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| enter(self.server.as_fd()).map(|()| task()))?
    }

    /// Runs `task` in a thread in the client's namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Namespace`] when the namespace cannot be entered, [`Error::StartThread`].
    pub fn in_client<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| enter(self.client.as_fd()).map(|()| task()))?
    }
}

/// Runs `task` in a thread of its own, whose namespace ends with it.
fn in_thread<T: Send>(task: impl FnOnce() -> T + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("stream-netns".to_owned()).spawn_scoped(scope, task);
        let thread = thread.map_err(|source| Error::StartThread { index: 0, of: 1, source })?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn enter(namespace: BorrowedFd<'_>) -> Result<(), Error> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|errno| Error::Namespace { step: "enter a network namespace", source: errno.into() })
}

/// A new network namespace, and a netlink socket in it.
fn new_namespace() -> Result<(OwnedFd, Netlink), Error> {
    in_thread(|| {
        let step = "make a network namespace";
        // SAFETY: only the network namespace of this thread changes; descriptors and memory stay shared, so no invariant of other
        // code is affected.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|errno| Error::Namespace { step, source: errno.into() })?;
        let netlink =
            Netlink::open().map_err(|source| Error::Namespace { step: "open a netlink socket", source })?;
        let namespace = namespace_of(netlink.as_fd()).map_err(|source| Error::Namespace { step, source })?;
        Ok((namespace, netlink))
    })?
}

/// The network namespace that a socket belongs to.
pub(super) fn namespace_of(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// From the kernel's `sockios.h`; not in the C library's headers.
    const SIOCGSKNS: libc::c_ulong = 0x894C;
    // SAFETY: this request takes no argument and returns a new descriptor.
    let fd = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for this process; no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
