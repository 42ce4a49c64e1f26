//! Response time of an agent to its container runtime, measured by a socket proxy between them.
//!
//! The runtime's plugin interface multiplexes two ttrpc connections: each frame has the number of its connection (1: requests to the plugin) and a
//! length. Inside, a ttrpc message has a length, the stream number, and 1 for a request or 2 for a response.

use crate::trial::Trouble;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The connection of requests to the plugin.
const TO_PLUGIN: u32 = 1;
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;

/// Unanswered requests, and response times.
#[derive(Default)]
struct Seen {
    asked: HashMap<u32, Instant>,
    took: Vec<Duration>,
}

/// A socket proxy in place of the runtime's socket.
pub(super) struct Between {
    socket: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

impl Between {
    /// Listens at `socket` for an agent, and forwards to the runtime at `runtime`.
    pub(super) fn begin(socket: &Path, runtime: &Path) -> Result<Between, Trouble> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).map_err(|error| error.to_string())?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (kept, runtime) = (Arc::clone(&seen), runtime.to_owned());
        thread::spawn(move || {
            for agent in listener.incoming().flatten() {
                let Ok(runtime) = UnixStream::connect(&runtime) else { return };
                pass_on(&agent, &runtime, ANSWER, &kept);
                pass_on(&runtime, &agent, QUESTION, &kept);
            }
        });
        Ok(Between { socket: socket.to_owned(), seen })
    }

    /// The proxy's socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The response times since the last call.
    pub(super) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner).took)
    }
}

fn pass_on(from: &UnixStream, to: &UnixStream, kind: u8, seen: &Arc<Mutex<Seen>>) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        // High priority, so that the proxy's own waits do not count as the agent's.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20);
        while let Some((connection, frame)) = frame_of(&mut from) {
            // Take a request's time before forwarding it, and a response's on arrival.
            if connection == TO_PLUGIN {
                note(&frame[8..], kind, &seen);
            }
            if to.write_all(&frame).is_err() {
                return;
            }
        }
    });
}

fn frame_of(from: &mut UnixStream) -> Option<(u32, Vec<u8>)> {
    let mut head = [0; 8];
    from.read_exact(&mut head).ok()?;
    let connection = u32::from_be_bytes(head[..4].try_into().ok()?);
    let length = u32::from_be_bytes(head[4..].try_into().ok()?);
    let mut frame = head.to_vec();
    frame.resize(8 + usize::try_from(length).ok()?, 0);
    from.read_exact(&mut frame[8..]).ok()?;
    Some((connection, frame))
}

/// Records a message. A ttrpc header has ten bytes.
fn note(message: &[u8], kind: u8, seen: &Mutex<Seen>) {
    let (Some(number), Some(is)) = (message.get(4..8), message.get(8)) else { return };
    let Ok(number) = number.try_into().map(u32::from_be_bytes) else { return };
    if *is != kind {
        return;
    }
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if kind == QUESTION {
        seen.asked.insert(number, Instant::now());
    } else if let Some(asked) = seen.asked.remove(&number) {
        seen.took.push(asked.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32, kind: u8) -> Vec<u8> {
        [&[0, 0, 0, 0][..], &number.to_be_bytes(), &[kind, 0]].concat()
    }

    #[test]
    fn an_answer_ends_its_question() {
        let seen = Mutex::new(Seen::default());
        note(&message(1, QUESTION), QUESTION, &seen);
        note(&message(3, QUESTION), QUESTION, &seen);
        note(&message(3, ANSWER), ANSWER, &seen);
        note(&message(5, ANSWER), ANSWER, &seen);
        note(&[0; 3], ANSWER, &seen);
        let seen = seen.into_inner().unwrap_or_default();
        assert_eq!((seen.took.len(), seen.asked.len()), (1, 1));
    }
}
