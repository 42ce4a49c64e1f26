//! Requests and responses in frames on one connection: the ttrpc protocol without data streams.
//!
//! ```text
//!   ┌──────────────┬──────────────┬────────┬─────────┬────────────────┐
//!   │ length (u32) │ stream (u32) │ kind   │ flags   │ length bytes   │   numbers are big-endian
//!   └──────────────┴──────────────┴────────┴─────────┴────────────────┘
//! ```
//!
//! By the protocol's specification (`PROTOCOL.md` of containerd's ttrpc, versions 1.0 to 1.2). A client numbers its requests
//! 1, 3, 5, …; a response has the number of its request. Data frames and flags belong to streams, which no method here has;
//! both are ignored.
//!
//! A frame that is too long or malformed is an error of one request. The connection stays open.

#[cfg(test)]
mod tests;

use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Length of a frame header in bytes.
pub(crate) const HEADER: usize = 10;

/// Maximum data of a frame in bytes: 4 MiB (specification, "Message Frame").
pub(crate) const DATA_MAX: usize = 4 << 20;

/// The supported frame types (specification, "Message Types").
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;

/// Requests that wait to be written.
const QUEUE: usize = 16;

/// Error codes: those of `google.rpc.Code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Unavailable = 14,
}

/// A code (0 for success) and a message (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code: code as i32, message: message.into() }
    }

    fn too_long(length: usize) -> Status {
        let message = format!("a message has {length} bytes, and {DATA_MAX} is the limit");
        Status::new(Code::ResourceExhausted, message)
    }

    fn ended() -> Status {
        Status::new(Code::Unavailable, "the connection has ended")
    }
}

impl From<prost::DecodeError> for Status {
    fn from(why: prost::DecodeError) -> Status {
        Status::new(Code::InvalidArgument, why.to_string())
    }
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    service: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(bytes = "vec", tag = "3")]
    payload: Vec<u8>,
    /// The caller's timeout in nanoseconds; 0 for none.
    #[prost(int64, tag = "4")]
    timeout_nano: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    /// Absent for success.
    #[prost(message, optional, tag = "1")]
    status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
}

/// A received frame, without its flags.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    stream: u32,
    kind: u8,
    /// The data; or its length in bytes if it exceeds the limit.
    data: Result<Vec<u8>, usize>,
}

impl Frame {
    /// Reads one frame. Data above the limit is read and discarded without being stored.
    ///
    /// # Errors
    /// The connection's error. An end of file within a frame, or before it, is `UnexpectedEof`.
    async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
        let (length, stream) = (from.read_u32().await?, from.read_u32().await?);
        let (kind, _flags) = (from.read_u8().await?, from.read_u8().await?);
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if size > DATA_MAX {
            let discarded = copy(&mut from.take(length.into()), &mut sink()).await?;
            let is_whole = discarded == u64::from(length);
            return if is_whole {
                Ok(Frame { stream, kind, data: Err(size) })
            } else {
                Err(ErrorKind::UnexpectedEof.into())
            };
        }
        let mut data = vec![0; size];
        from.read_exact(&mut data).await?;
        Ok(Frame { stream, kind, data: Ok(data) })
    }

    /// Encodes a frame without flags.
    ///
    /// # Errors
    /// `ResourceExhausted`: the message exceeds the limit.
    fn bytes(stream: u32, kind: u8, message: &impl Message) -> Result<Vec<u8>, Status> {
        let size = message.encoded_len();
        let length = u32::try_from(size).ok().filter(|_| size <= DATA_MAX);
        let length = length.ok_or_else(|| Status::too_long(size))?;
        let mut bytes = Vec::with_capacity(HEADER + size);
        bytes.extend(length.to_be_bytes());
        bytes.extend(stream.to_be_bytes());
        bytes.extend([kind, 0]);
        bytes.extend(message.encode_to_vec());
        Ok(bytes)
    }
}

/// Answers the requests of one service in order, until the connection ends.
///
/// `method` gets a method's name and its payload, and returns at once. So a request is only delayed by the requests before it, and no
/// deadlines are checked here. A request for another service gets `Unimplemented`. An even number or a malformed request gets `InvalidArgument`.
/// A frame or a response above the limit gets `ResourceExhausted`.
///
/// # Errors
/// The connection's error; `UnexpectedEof` for its end.
pub(crate) async fn answer(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    service: &str,
    mut method: impl FnMut(&str, &[u8]) -> Result<Vec<u8>, Status>,
) -> io::Result<Infallible> {
    let mut understand = |stream: u32, data: &[u8]| {
        if stream.is_multiple_of(2) {
            return Err(Status::new(
                Code::InvalidArgument,
                format!("a client's stream is odd, not {stream}"),
            ));
        }
        let request = Request::decode(data)?;
        if request.service != service {
            return Err(Status::new(
                Code::Unimplemented,
                format!("there is no service `{}`", request.service),
            ));
        }
        method(&request.method, &request.payload)
    };
    loop {
        let Frame { stream, kind, data } = Frame::read(&mut from).await?;
        let answer = match data {
            Err(length) => Err(Status::too_long(length)),
            Ok(data) if kind == REQUEST => understand(stream, &data),
            Ok(_) => continue,
        };
        to.write_all(&response(stream, answer)).await?;
    }
}

/// Encodes a response. A response above the limit becomes an error status.
fn response(stream: u32, answer: Result<Vec<u8>, Status>) -> Vec<u8> {
    let frame = |answer| {
        let response = match answer {
            Ok(payload) => Response { status: None, payload },
            Err(status) => Response { status: Some(status), payload: Vec::new() },
        };
        Frame::bytes(stream, RESPONSE, &response)
    };
    // The error status itself is short.
    frame(answer).or_else(|too_long| frame(Err(too_long))).unwrap_or_default()
}

type Answer = oneshot::Sender<Result<Vec<u8>, Status>>;
type Waiting = Mutex<HashMap<u32, Answer>>;

/// Calls the other end's services. Several calls may be in progress. The connection is closed when this is dropped.
pub(crate) struct Client {
    calls: mpsc::Sender<(Request, Answer)>,
    _carrier: JoinSet<()>,
}

impl Client {
    /// Takes the connection. Must be called within a tokio runtime.
    pub fn new(connection: impl AsyncRead + AsyncWrite + Send + 'static) -> Client {
        let (from, to) = split(connection);
        let (calls, queue) = mpsc::channel(QUEUE);
        let mut carrier = JoinSet::new();
        carrier.spawn(async move {
            // When this is dropped, waiting calls fail; when the queue is dropped, later ones do.
            let waiting = Waiting::default();
            tokio::select! {
                _ended = ask(to, queue, &waiting) => {}
                _ended = hear(from, &waiting) => {}
            }
        });
        Client { calls, _carrier: carrier }
    }

    /// Calls a method, and returns the payload of its response. Waits at most `patience`, which is also sent to the other end, in nanoseconds.
    ///
    /// # Errors
    /// The error that the other end returned, or `DeadlineExceeded`, `ResourceExhausted` (the request or its response exceeds
    /// the limit), `InvalidArgument` (the response is malformed), `Unavailable` (the connection has ended).
    pub async fn call(
        &self,
        service: &str,
        method: &str,
        payload: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, Status> {
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload,
            timeout_nano: i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX),
        };
        let (sender, answer) = oneshot::channel();
        let call = async {
            self.calls.send((request, sender)).await.map_err(|_| Status::ended())?;
            answer.await.unwrap_or_else(|_| Err(Status::ended()))
        };
        let late = || Status::new(Code::DeadlineExceeded, format!("no answer came within {patience:?}"));
        timeout(patience, call).await.unwrap_or_else(|_| Err(late()))
    }
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<u32, Answer>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a call. Calls with dropped callers are removed.
fn await_answer(waiting: &Waiting, stream: u32, answer: Answer) {
    let mut waiting = lock(waiting);
    waiting.retain(|_, caller| !caller.is_closed());
    waiting.insert(stream, answer);
}

/// Numbers and writes requests. A request is written completely, even if its caller is dropped. When the numbers are used up, the connection ends.
async fn ask(
    mut to: impl AsyncWrite + Unpin,
    mut calls: mpsc::Receiver<(Request, Answer)>,
    waiting: &Waiting,
) -> io::Result<()> {
    let mut next = Some(1);
    while let Some((request, answer)) = calls.recv().await {
        let stream: u32 = next.ok_or(ErrorKind::QuotaExceeded)?;
        match Frame::bytes(stream, REQUEST, &request) {
            Ok(bytes) => {
                await_answer(waiting, stream, answer);
                to.write_all(&bytes).await?;
                next = stream.checked_add(2);
            }
            Err(status) => drop(answer.send(Err(status))),
        }
    }
    Ok(())
}

/// Delivers responses to their callers. A response without a waiting call is dropped.
async fn hear(mut from: impl AsyncRead + Unpin, waiting: &Waiting) -> io::Result<Infallible> {
    loop {
        let frame = Frame::read(&mut from).await?;
        if frame.kind != RESPONSE {
            continue;
        }
        let Some(caller) = lock(waiting).remove(&frame.stream) else { continue };
        let answer = frame.data.map_err(Status::too_long).and_then(|data| {
            let response = Response::decode(data.as_slice())?;
            match response.status {
                Some(status) if status.code != 0 => Err(status),
                _ => Ok(response.payload),
            }
        });
        let _gone = caller.send(answer);
    }
}
