//! A network device of the machine, moved into a network namespace of this process.
//!
//! Between two devices of one machine a stream takes a short path through the kernel, unless each end is in a namespace of
//! its own with one of them. As with [`Namespaces`](super::Namespaces), the namespaces have no names: when the last thread in a
//! namespace ends, the kernel removes it and returns a physical device to where it came from.

use super::namespaces::namespace_of;
use super::netlink::Netlink;
use crate::Error;
use crate::clock::STOP_POLL;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// The loopback's interface number in every namespace.
const LOOPBACK: u32 = 1;

/// Timeout for the return of a device from the namespace of a process that has just ended.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

/// An address with its network, as in `10.0.0.1/30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The device's own address.
    pub address: Ipv4Addr,
    /// Bits of the network part.
    pub prefix_bits: u8,
}

/// The text is not an address with its network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use address {0}: it is not of the form 10.0.0.1/30")]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address = address.parse().map_err(|_| bad())?;
        let prefix_bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(bad)?;
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Moves the calling thread, and its later threads, into a new network namespace with the device called `name`, which has the address
/// of `place` and is up. Waits a little for a device that is returning from such a namespace.
///
/// Intended for the first thread of a process before it starts others. After an error the thread may be in a namespace without the
/// device.
///
/// # Errors
///
/// [`Error::Namespace`], with the step that the kernel refused.
pub fn take_device(name: &str, place: Place) -> Result<(), Error> {
    let refused = |step| move |source| Error::Namespace { step, source };
    let mut outside = Netlink::open().map_err(refused("open a netlink socket"))?;
    let device = await_device(name).map_err(refused("find the network device"))?;
    // SAFETY: only the network namespace of this thread changes; descriptors and memory stay shared, so no invariant of other
    // code is affected.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| refused("make a network namespace")(errno.into()))?;
    let mut inside = Netlink::open().map_err(refused("open a netlink socket"))?;
    let own = namespace_of(inside.as_fd()).map_err(refused("make a network namespace"))?;
    outside.move_device(device, own.as_fd()).map_err(refused("take the network device"))?;
    // Its interface number may differ here.
    let device = find_device(name).map_err(refused("find the network device"))?;
    inside
        .add_address(device, place.address, place.prefix_bits)
        .map_err(refused("give the device its address"))?;
    for device in [LOOPBACK, device] {
        inside.set_up(device).map_err(refused("bring up the network device"))?;
    }
    Ok(())
}

/// Waits until the calling thread's namespace has the device called `name`. The kernel returns a device some time after the last
/// process of a namespace has ended, and only its presence shows when.
///
/// # Errors
///
/// [`Error::Namespace`] when it is not present after ten seconds.
pub fn await_return(name: &str) -> Result<(), Error> {
    let step = "wait for the network device to come back";
    await_device(name).map(|_| ()).map_err(|source| Error::Namespace { step, source })
}

fn await_device(name: &str) -> io::Result<u32> {
    let since = Instant::now();
    loop {
        match find_device(name) {
            Err(_) if since.elapsed() < RETURN_TIMEOUT => thread::sleep(STOP_POLL),
            found => return found,
        }
    }
}

/// The interface number of a device in the calling thread's namespace.
fn find_device(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name is a zero-terminated string and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        device => Ok(device),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Server, StreamSpec, connect};
    use super::*;
    use crate::clock::SetOnDrop;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_is_no_place_is_named() {
        for text in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "/8", "::1/64"] {
            let bad = text.parse::<Place>().unwrap_err();
            assert_eq!(
                bad.to_string(),
                format!("cannot use address {text}: it is not of the form 10.0.0.1/30")
            );
        }
    }

    #[test]
    fn the_loopback_is_found_by_its_name() {
        assert_eq!(find_device("lo").unwrap(), LOOPBACK);
        assert!(find_device("no-such-device").is_err());
    }

    /// Takes a device and runs `task` in its namespace, in a thread of its own.
    fn with_device<T: Send>(name: &str, place: &str, task: impl FnOnce() -> T + Send) -> T {
        let place = place.parse().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| take_device(name, place).map(|()| task()).unwrap()).join().unwrap()
        })
    }

    #[test]
    fn two_devices_of_a_machine_have_a_stream_between_their_namespaces() {
        // A simulated machine: a namespace that contains both ends of a cable.
        let machine = || {
            // SAFETY: as in `take_device`; this thread is the test's own.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)?;
            let mut netlink = Netlink::open()?;
            let here = namespace_of(netlink.as_fd())?;
            netlink.add_cable(100, 101, here.as_fd())
        };
        let test = "two_devices_of_a_machine_have_a_stream_between_their_namespaces";
        thread::scope(|scope| {
            let outcome = scope.spawn(|| {
                if let Err(error) = machine() {
                    println!("skipped: {test}: {error}");
                    return;
                }
                let server = with_device("veth0", "10.0.0.1/30", || {
                    Server::bind("10.0.0.1:0".parse().unwrap()).unwrap()
                });
                let (is_over, spec) = (AtomicBool::new(false), StreamSpec::new(Duration::from_millis(100)));
                let result = thread::scope(|scope| {
                    scope.spawn(|| server.serve(None, &is_over, &mut |_| ()));
                    let _end = SetOnDrop(&is_over);
                    with_device("veth1", "10.0.0.2/30", || {
                        connect(&spec, server.address(), None, &is_over, &mut |_| ()).unwrap()
                    })
                });
                assert!(result.out_flow.bytes > 0 && result.in_flow.bytes > 0, "{result:?}");
                assert_eq!(result.here.ip().to_string(), "10.0.0.2");
            });
            outcome.join().unwrap();
        });
    }

    #[test]
    fn a_device_is_awaited_until_it_is_there() {
        let test = "a_device_is_awaited_until_it_is_there";
        thread::scope(|scope| {
            let outcome = scope.spawn(|| {
                // SAFETY: as in `take_device`; this thread is the test's own.
                let own = unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from);
                let made = own.and_then(|()| Ok((Netlink::open()?, Netlink::open()?)));
                let (mut netlink, here) = match made {
                    Ok(made) => made,
                    Err(error) => return println!("skipped: {test}: {error}"),
                };
                let here = namespace_of(here.as_fd()).unwrap();
                thread::scope(|scope| {
                    let waiter = scope.spawn(|| await_return("veth0").and_then(|()| await_return("veth1")));
                    if let Err(error) = netlink.add_cable(100, 101, here.as_fd()) {
                        return println!("skipped: {test}: {error}");
                    }
                    waiter.join().unwrap().unwrap();
                });
            });
            outcome.join().unwrap();
        });
    }

    proptest! {
        #[test]
        fn a_place_reads_back(address: u32, prefix_bits in 0_u8..=32) {
            let place = Place { address: Ipv4Addr::from(address), prefix_bits };
            prop_assert_eq!(place.to_string().parse::<Place>().unwrap(), place);
        }
    }
}
