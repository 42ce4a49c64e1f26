//! Tests of streams through their interface: bytes in both directions, over the loopback, between addresses, namespaces and two parties.

use millpond_workloads::Error;
use millpond_workloads::stream::{
    Namespaces, Route, Server, StreamEvent, StreamResult, StreamSpec, connect, run,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn short() -> StreamSpec {
    StreamSpec::new(Duration::from_millis(200))
}

fn is_running() -> AtomicBool {
    AtomicBool::new(false)
}

fn assert_moved_both_ways(result: &StreamResult) {
    for flow in [&result.out_flow, &result.in_flow] {
        assert!(flow.bytes > 0 && flow.calls > 0 && flow.seconds > 0.0, "{result:?}");
        assert!(flow.mbits_per_second() > 0.0);
    }
    assert!(!result.stopped);
}

#[test]
fn a_loopback_stream_moves_bytes_both_ways_for_its_duration() {
    let result = run(&short(), Route::Loopback, &is_running(), &mut |_| ()).unwrap();
    assert_moved_both_ways(&result);
    // The server counts from before the start signal, and the client sends for the whole time after it.
    assert!(result.out_flow.seconds >= 0.2, "{result:?}");
    assert!(result.here.ip().is_loopback() && result.there.ip().is_loopback());
}

#[test]
fn a_spinning_sender_of_small_writes_makes_a_call_for_every_few_bytes() {
    let write_bytes = NonZeroU32::new(16).unwrap();
    let spec = StreamSpec { write_bytes, is_spinning: true, ..short() };
    let result = run(&spec, Route::Loopback, &is_running(), &mut |_| ()).unwrap();
    assert_moved_both_ways(&result);
    assert_eq!((result.write_bytes, result.is_spinning), (16, true));
    // Every byte that arrived was written by a call of at most 16; calls that found no room are counted too.
    assert!(result.out_flow.calls * 16 >= result.out_flow.bytes, "{result:?}");
}

#[test]
fn a_stream_between_two_addresses_uses_these() {
    let (server, client) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let route = Route::Between { server: server.into(), client: client.into() };
    let result = run(&short(), route, &is_running(), &mut |_| ()).unwrap();
    assert_moved_both_ways(&result);
    assert_eq!((result.here.ip(), result.there.ip()), (IpAddr::V4(client), IpAddr::V4(server)));
}

#[test]
fn an_address_of_nobody_is_refused_by_name() {
    let nobody = Ipv4Addr::new(192, 0, 2, 77);
    let route = Route::Between { server: nobody.into(), client: nobody.into() };
    let error = run(&short(), route, &is_running(), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot listen at 192.0.2.77:0");
}

#[test]
fn a_server_that_is_not_there_is_reported_with_its_address() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect(&short(), address, None, &is_running(), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot connect to {address}"));
    assert!(
        matches!(error, Error::Connect { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused)
    );
}

#[test]
fn server_and_client_see_the_same_stream_from_both_ends() {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let (served, result) = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(None, &is_running(), &mut |_| ()).unwrap().unwrap());
        let result = connect(&short(), server.address(), None, &is_running(), &mut |_| ()).unwrap();
        (serving.join().unwrap(), result)
    });
    assert_moved_both_ways(&result);
    assert_eq!((served.here, served.there), (result.there, result.here));
    assert_eq!((served.in_flow.bytes, served.out_flow.bytes), (result.out_flow.bytes, result.in_flow.bytes));
}

#[test]
fn a_server_turns_strangers_away_and_serves_on() {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let refused = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut refused = Vec::new();
            let mut on_event = |event: StreamEvent<'_>| {
                if let StreamEvent::Refused { reason, .. } = event {
                    refused.push(reason.to_owned());
                }
            };
            assert!(server.serve(None, &is_running(), &mut on_event).unwrap().is_some());
            refused
        });
        let mut stranger = TcpStream::connect(server.address()).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: somebody.example\r\n\r\n").unwrap();
        // Rejected: an end of file, or a reset because not all data was read.
        let _ = stranger.read(&mut [0; 1]);
        drop(TcpStream::connect(server.address()).unwrap());
        assert_moved_both_ways(
            &connect(&short(), server.address(), None, &is_running(), &mut |_| ()).unwrap(),
        );
        serving.join().unwrap()
    });
    assert_eq!(refused, ["it does not speak this protocol", "it did not greet"]);
}

#[test]
fn a_stopped_server_returns_without_a_result() {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    assert_eq!(server.serve(None, &AtomicBool::new(true), &mut |_| ()).unwrap(), None);
}

#[test]
fn a_stop_at_the_client_ends_both_ends_early() {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let stop = AtomicBool::new(false);
    let spec =
        StreamSpec { interval: Some(Duration::from_millis(1)), ..StreamSpec::new(StreamSpec::DURATION_MAX) };
    let (served, result) = thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(None, &is_running(), &mut |_| ()).unwrap().unwrap());
        let result = connect(&spec, server.address(), None, &stop, &mut |event| {
            if let StreamEvent::Progress { out_bytes, in_bytes, .. } = event
                && out_bytes > 0
                && in_bytes > 0
            {
                stop.store(true, Ordering::Relaxed);
            }
        });
        (serving.join().unwrap(), result.unwrap())
    });
    assert!(result.stopped && !served.stopped);
    assert_eq!((served.in_flow.bytes, served.out_flow.bytes), (result.out_flow.bytes, result.in_flow.bytes));
}

#[test]
fn a_panic_in_the_callback_ends_both_ends() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let spec = StreamSpec::new(StreamSpec::DURATION_MAX);
        let _ = run(&spec, Route::Loopback, &is_running(), &mut |_| panic!("as the test wants"));
    }));
    assert!(outcome.is_err());
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused =
        |spec: &StreamSpec| run(spec, Route::Loopback, &is_running(), &mut |_| ()).unwrap_err().to_string();
    assert_eq!(refused(&StreamSpec::new(Duration::ZERO)), "cannot stream for 0 s: it takes 1 ms to 7 days");
    let spec = StreamSpec { write_bytes: NonZeroU32::new(16_777_217).unwrap(), ..short() };
    assert_eq!(refused(&spec), "cannot stream in writes of 16777217 bytes: they have 16 MiB at most");
}

/// If namespaces cannot be created, the error says so; otherwise they carry a stream.
#[test]
fn namespaces_carry_a_stream_or_say_why_they_cannot_be_made() {
    match run(&short(), Route::Namespaces, &is_running(), &mut |_| ()) {
        Ok(result) => {
            assert_moved_both_ways(&result);
            assert_eq!(result.here.ip(), IpAddr::V4(Namespaces::CLIENT));
            assert_eq!(result.there.ip(), IpAddr::V4(Namespaces::SERVER));
            // Nothing of it is visible outside.
            let outside = TcpListener::bind((Namespaces::SERVER, 0));
            assert!(outside.is_err(), "the address is of the namespace alone");
        }
        Err(error) => {
            assert!(matches!(error, Error::Namespace { .. }), "{error:?}");
            assert!(error.to_string().starts_with("cannot "));
            assert!(std::error::Error::source(&error).is_some());
        }
    }
}

/// Runs in a thread that has dropped its privileges, so that it is certainly refused.
#[test]
fn without_rights_namespaces_are_refused_with_a_hint() {
    let unprivileged = || {
        // SAFETY: the raw call only changes the user of the calling thread (unlike the library's function); that thread ends here.
        let dropped = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        let is_root = user() == 0;
        assert!(dropped == 0 || !is_root);
        run(&short(), Route::Namespaces, &is_running(), &mut |_| ()).unwrap_err()
    };
    let error = thread::scope(|scope| scope.spawn(unprivileged).join().unwrap());
    assert_eq!(error.to_string(), "cannot make a network namespace");
    assert_eq!(error.hint().as_deref(), Some("run as root, or stream over the loopback"));
}

/// The user of the calling thread.
fn user() -> u32 {
    // SAFETY: it only reads.
    unsafe { libc::geteuid() }
}
