//! The rtnetlink requests for a veth pair between two namespaces.
//!
//! Each request is one message with nested attributes. The response is an error number (0 for success). All numbers are in native
//! byte order; attributes are padded to four bytes.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The kind of device that comes in pairs.
const CABLE_KIND: &[u8] = b"veth";

/// The peer's description inside a pair's data; the kernel's `VETH_INFO_PEER`.
const VETH_INFO_PEER: u16 = 1;

/// Length of a message's header, and of the response's error number after it.
const HEADER_BYTES: usize = 16;

/// An rtnetlink socket of the namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        // `None` is protocol 0, which is that of network configuration (NETLINK_ROUTE).
        let protocol = None;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { socket, sequence: 0 })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Adds a veth pair: number `here` in this namespace, number `there` in `other`.
    pub(super) fn add_cable(&mut self, here: u32, there: u32, other: BorrowedFd<'_>) -> io::Result<()> {
        self.request(
            libc::RTM_NEWLINK,
            flags(libc::NLM_F_CREATE | libc::NLM_F_EXCL),
            &cable(here, there, other.as_raw_fd()),
        )
    }

    /// Moves a device of this namespace to another one. It is down there and has no addresses.
    pub(super) fn move_device(&mut self, device: u32, other: BorrowedFd<'_>) -> io::Result<()> {
        let mut body = link_header(device, 0, 0);
        body.extend(attribute(libc::IFLA_NET_NS_FD, &other.as_raw_fd().to_ne_bytes()));
        self.request(libc::RTM_NEWLINK, 0, &body)
    }

    /// Adds an address to a device.
    pub(super) fn add_address(&mut self, device: u32, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
        let body = device_address(device, address, prefix_bits);
        self.request(libc::RTM_NEWADDR, flags(libc::NLM_F_CREATE | libc::NLM_F_EXCL), &body)
    }

    /// Brings a device up.
    pub(super) fn set_up(&mut self, device: u32) -> io::Result<()> {
        let up = libc::IFF_UP.unsigned_abs();
        self.request(libc::RTM_NEWLINK, 0, &link_header(device, up, up))
    }

    /// Sends one request and reads its response, which the kernel queues before `send` returns.
    fn request(&mut self, kind: u16, extra_flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let message =
            message(kind, flags(libc::NLM_F_REQUEST | libc::NLM_F_ACK) | extra_flags, self.sequence, body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0; 4096];
        let (_, length) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        parse_answer(answer.get(..length).unwrap_or(&answer), self.sequence)
    }
}

/// Flags are 16 bits in messages, and wider in the headers that define them.
fn flags(flags: i32) -> u16 {
    u16::try_from(flags).unwrap_or(u16::MAX)
}

/// A message with its header: length, type, flags, sequence number, sender (0: the kernel sets it).
fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    // Messages of this file have some hundred bytes.
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    let (kinds, numbers) = ([kind, flags], [sequence, 0]);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kinds.into_iter().flat_map(u16::to_ne_bytes));
    message.extend(numbers.into_iter().flat_map(u32::to_ne_bytes));
    message.extend(body);
    message
}

/// An attribute: length without the padding, type, value, padding.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut attribute: Vec<u8> = [length, kind].into_iter().flat_map(u16::to_ne_bytes).collect();
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Unspecified family and device type, the device's number, flags and their mask.
fn link_header(device: u32, flags: u32, mask: u32) -> Vec<u8> {
    [0, device, flags, mask].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The attributes of a veth pair.
fn cable(here: u32, there: u32, other: i32) -> Vec<u8> {
    let mut peer = link_header(there, 0, 0);
    peer.extend(attribute(libc::IFLA_NET_NS_FD, &other.to_ne_bytes()));
    let data = attribute(libc::IFLA_INFO_DATA, &attribute(VETH_INFO_PEER, &peer));
    let info = [attribute(libc::IFLA_INFO_KIND, CABLE_KIND), data].concat();
    [link_header(here, 0, 0), attribute(libc::IFLA_LINKINFO, &info)].concat()
}

/// Family, prefix, no flags, global scope, device; then the address twice, as the interface's own and as the subnet's.
fn device_address(device: u32, address: Ipv4Addr, prefix_bits: u8) -> Vec<u8> {
    let mut body = vec![u8::try_from(libc::AF_INET).unwrap_or(u8::MAX), prefix_bits, 0, 0];
    body.extend(device.to_ne_bytes());
    body.extend(attribute(libc::IFA_LOCAL, &address.octets()));
    body.extend(attribute(libc::IFA_ADDRESS, &address.octets()));
    body
}

/// The error number in a response to the message with this sequence number.
fn parse_answer(answer: &[u8], sequence: u32) -> io::Result<()> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not understood");
    let (words, _) = answer.as_chunks::<4>();
    let &[_, kind, answered, _, error, ..] = words else { return Err(strange()) };
    let kind = u16::from_ne_bytes([kind[0], kind[1]]);
    if i32::from(kind) != libc::NLMSG_ERROR || u32::from_ne_bytes(answered) != sequence {
        return Err(strange());
    }
    match i32::from_ne_bytes(error) {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.saturating_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_padded_to_four_bytes_but_do_not_count_the_padding() {
        let expected: Vec<u8> =
            [5_u16, 3].into_iter().flat_map(u16::to_ne_bytes).chain([b'x', 0, 0, 0]).collect();
        assert_eq!(attribute(3, b"x"), expected);
    }

    #[test]
    fn a_refusal_is_the_error_that_the_kernel_names() {
        let mut body = (-libc::EOPNOTSUPP).to_ne_bytes().to_vec();
        body.resize(20, 0);
        let answer = message(flags(libc::NLMSG_ERROR), 0, 7, &body);
        assert_eq!(parse_answer(&answer, 7).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(parse_answer(&answer, 8).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(parse_answer(&answer[..16], 7).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn fuzz_answers_of_the_kernel() {
        let good = message(flags(libc::NLMSG_ERROR), 0, 1, &(-libc::EPERM).to_ne_bytes());
        millpond_fuzz::check("workloads-netlink", &[&good], |answer| {
            if parse_answer(answer, 1).is_ok() {
                assert_eq!(answer[16..20], [0; 4]);
            }
        });
    }

    proptest! {
        #[test]
        fn messages_say_their_own_length(body in prop::collection::vec(any::<u8>(), 0..200), sequence: u32) {
            let message = message(16, 5, sequence, &body);
            let length = u32::from_ne_bytes([message[0], message[1], message[2], message[3]]);
            prop_assert_eq!(length as usize, message.len());
            prop_assert_eq!(&message[16..], &body[..]);
        }

        #[test]
        fn answers_of_any_bytes_are_judged_without_a_panic(answer in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_answer(&answer, 1);
        }
    }
}
