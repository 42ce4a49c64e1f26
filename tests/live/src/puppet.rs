//! A child process (puppet) that starts threads and children on command, and otherwise waits.
//!
//! Its first thread listens on an abstract socket named by its process id, so that a puppet's child can be reached as well. Each connection
//! carries a command word, and a number as the answer.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, ExitCode};

/// The socket of a puppet.
pub fn address(base: &str, pid: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{base}.{pid}"))
}

/// Sends a command to a puppet and returns its answer.
pub fn tell(base: &str, pid: u32, word: &str) -> std::io::Result<u32> {
    let mut stream = connect(base, pid)?;
    writeln!(stream, "{word}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let broken = || std::io::Error::other(format!("puppet {pid} answered `{}`", answer.trim()));
    answer.trim().parse().map_err(|_| broken())
}

/// Connects to a puppet. One that was just started may not listen yet: retries until it listens or has ended.
fn connect(base: &str, pid: u32) -> std::io::Result<UnixStream> {
    loop {
        match UnixStream::connect_addr(&address(base, pid)?) {
            Ok(stream) => return Ok(stream),
            Err(error) if !std::path::Path::new("/proc").join(pid.to_string()).exists() => return Err(error),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// The main loop of a puppet.
pub fn run(base: &str) -> ExitCode {
    ignore_children();
    let Ok(address) = address(base, std::process::id()) else { return ExitCode::from(1) };
    let Ok(listener) = UnixListener::bind_addr(&address) else { return ExitCode::from(1) };
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        let mut word = String::new();
        let _ = BufReader::new(&stream).read_line(&mut word);
        let answer = match word.trim() {
            "thread" => start_thread(),
            "fork" => start_child(base),
            _ => Ok(std::process::id()),
        };
        let _ = match answer {
            Ok(number) => writeln!(stream, "{number}"),
            Err(error) => writeln!(stream, "error {error}"),
        };
    }
    ExitCode::SUCCESS
}

fn start_thread() -> std::io::Result<u32> {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::Builder::new().stack_size(64 * 1024).spawn(move || {
        let _ = send.send(u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0));
        loop {
            std::thread::park();
        }
    })?;
    receive.recv().map_err(std::io::Error::other)
}

/// Starts another puppet. It is a fork of the calling thread, and inherits its set, bindings and class.
pub fn start_child(base: &str) -> std::io::Result<u32> {
    let child = Command::new(std::env::current_exe()?).args(["puppet", base]).spawn()?;
    Ok(child.id())
}

/// Ended children are reaped by the kernel.
pub fn ignore_children() {
    // SAFETY: SIG_IGN is a valid disposition and no handler is involved; no other thread runs yet.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}
