//! D-Bus with nobody between: one request, one answer, over the socket that systemd keeps for the administrator.
//!
//! Messages are made and read by zbus; the conversation is held here, because systemd signs its answers on this socket with a name
//! that only a bus would have resolved, and a connection of zbus's refuses those.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zbus::message::Message;
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{DynamicType, Endian, Type, Variant};

/// How long an answer may take: the first process may be waiting for the kernel to rearrange itself.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest message that the protocol allows.
const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// The part of a header that has a fixed length, with the length of the fields after it.
const FIXED_BYTES: usize = 16;

const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
/// Header fields.
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;

/// Why there is no answer, or which one there is.
#[derive(Debug)]
pub(super) enum Trouble {
    /// systemd says no: the error's name, and its words.
    Refused(String, String),
    /// The conversation broke down.
    Broken(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Trouble::Broken(format!("no answer for {} s", TIMEOUT.as_secs())),
            _ => Trouble::Broken(error.to_string()),
        }
    }
}

impl From<zbus::Error> for Trouble {
    fn from(error: zbus::Error) -> Self {
        Trouble::Broken(error.to_string())
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    endian: Endian,
}

impl Answer {
    pub fn read<T>(&self) -> Result<T, Trouble>
    where
        T: for<'de> serde::Deserialize<'de> + Type,
    {
        let data = Data::new(&self.bytes[..], Context::new(self.endian, 0));
        Ok(data.deserialize::<T>()?.0)
    }
}

#[derive(Debug)]
pub(super) struct Conversation {
    stream: UnixStream,
}

impl Conversation {
    /// Connects and says who we are: the kernel vouches for it.
    pub fn open(socket: &str) -> Result<Self, Trouble> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut conversation = Conversation { stream };
        let user = rustix::process::geteuid().as_raw().to_string();
        let hex: String = user.bytes().map(|b| format!("{b:02x}")).collect();
        // In one piece, and no request before the answer: a request that systemd reads together with the last of these lines it
        // leaves lying until more comes, while we wait for its answer.
        let greeting = format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n");
        conversation.stream.write_all(greeting.as_bytes())?;
        let line = conversation.read_line()?;
        if !line.starts_with("OK ") {
            return Err(Trouble::Broken(format!("it does not know us: {line}")));
        }
        Ok(conversation)
    }

    fn read_line(&mut self) -> Result<String, Trouble> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Asks, and waits for the answer.
    pub fn call<B>(&mut self, path: &str, interface: &str, method: &str, body: &B) -> Result<Answer, Trouble>
    where
        B: serde::Serialize + DynamicType,
    {
        let message = Message::method_call(path, method).interface(interface).build(body)?;
        let serial = message.primary_header().serial_num().get();
        self.stream.write_all(message.data())?;
        loop {
            if let Some(answer) = self.read_message(serial)? {
                return answer;
            }
        }
    }

    /// The next message, if it answers the request with this number.
    fn read_message(&mut self, serial: u32) -> Result<Option<Result<Answer, Trouble>>, Trouble> {
        let mut fixed = [0; FIXED_BYTES];
        self.stream.read_exact(&mut fixed)?;
        let endian = if fixed[0] == b'B' { Endian::Big } else { Endian::Little };
        let number = |at: usize| {
            let bytes = [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
            let number = if fixed[0] == b'B' { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
            number as usize
        };
        let (body, fields) = (number(4), number(12));
        if body.saturating_add(fields) > MESSAGE_BYTES_MAX {
            return Err(Trouble::Broken("it sent a message that is too long".into()));
        }
        let mut rest = vec![0; fields.next_multiple_of(8) + body];
        self.stream.read_exact(&mut rest)?;
        let bytes = rest.split_off(fields.next_multiple_of(8));
        // The length of the fields is part of them, and they are aligned as in the whole message.
        let header = [&fixed[12..], &rest[..fields]].concat();
        let header = Data::new(&header[..], Context::new(endian, 12));
        let fields = header.deserialize::<Vec<(u8, Variant<'_>)>>()?.0;
        let field = |code: u8| fields.iter().find(|(c, _)| *c == code).map(|(_, value)| value);
        if !matches!(field(REPLY_SERIAL), Some(Variant::U32(to)) if *to == serial) {
            return Ok(None);
        }
        let answer = Answer { bytes, endian };
        Ok(match (fixed[1], field(ERROR_NAME)) {
            (METHOD_RETURN, _) => Some(Ok(answer)),
            (ERROR, Some(Variant::Str(name))) => {
                let words: String = answer.read().unwrap_or_default();
                Some(Err(Trouble::Refused(name.to_string(), words)))
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_greeting_comes_in_one_piece_and_no_request_before_it_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("private");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = || {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).unwrap();
                stream.write_all(b"OK 0123456789abcdef\r\n").unwrap();
                bytes[..count].to_vec()
            };
            (read(), read())
        });
        let mut conversation = Conversation::open(socket.to_str().unwrap()).unwrap();
        // The server ends without an answer.
        assert!(conversation.call("/a", "b.c", "D", &()).is_err());
        let (greeting, request) = server.join().unwrap();
        let greeting = String::from_utf8(greeting).unwrap();
        assert!(
            greeting.starts_with("\0AUTH EXTERNAL ") && greeting.ends_with("\r\nBEGIN\r\n"),
            "{greeting:?}"
        );
        assert!(matches!(request.first(), Some(b'l' | b'B')), "{request:?}");
    }
}
