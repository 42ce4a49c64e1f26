//! Several connections on one socket. A frame is a connection id, a length and a payload; numbers are 32 bits, big-endian. The plugin answers
//! on connection 1 and sends requests on connection 2.

use crate::ttrpc::{DATA_MAX, HEADER};
use std::future::Future;
use std::io::{self, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The plugin's services.
pub(crate) const PLUGIN: u32 = 1;
/// The runtime's services.
pub(crate) const RUNTIME: u32 = 2;

/// Maximum frame: a ttrpc message and its header.
const FRAME_MAX: usize = DATA_MAX + HEADER;

/// Buffered bytes per connection.
const WINDOW: usize = 64 << 10;

/// Frames that wait to be written.
const QUEUE: usize = 64;

/// The local ends of both connections, the plugin's first, and the task that carries them, which ends with the socket. Dropping it closes the
/// connections.
pub(crate) fn carry(
    socket: impl AsyncRead + AsyncWrite + Send + 'static,
) -> (DuplexStream, DuplexStream, impl Future<Output = io::Error> + Send) {
    let (from, to) = tokio::io::split(socket);
    let (frames, queue) = mpsc::channel(QUEUE);
    let mut tasks = JoinSet::new();
    let mut open = |id: u32| {
        let (near, far) = duplex(WINDOW);
        let (read, write) = tokio::io::split(far);
        tasks.spawn(cut(id, read, frames.clone()));
        (near, (id, write))
    };
    let (plugin, to_plugin) = open(PLUGIN);
    let (runtime, to_runtime) = open(RUNTIME);
    tasks.spawn(send(queue, to));
    tasks.spawn(deal(from, vec![to_plugin, to_runtime]));
    let end = async move {
        loop {
            match tasks.join_next().await {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(why))) => return why,
                Some(Err(_)) | None => return io::Error::from(ErrorKind::BrokenPipe),
            }
        }
    };
    (plugin, runtime, end)
}

/// Cuts written data into frames, until the writer closes.
async fn cut(
    id: u32,
    mut read: impl AsyncRead + Unpin,
    frames: mpsc::Sender<(u32, Vec<u8>)>,
) -> io::Result<()> {
    let mut buffer = vec![0; WINDOW];
    loop {
        let length = read.read(&mut buffer).await?;
        if length == 0 || frames.send((id, buffer[..length].to_vec())).await.is_err() {
            return Ok(());
        }
    }
}

async fn send(mut queue: mpsc::Receiver<(u32, Vec<u8>)>, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    while let Some((id, payload)) = queue.recv().await {
        let length = u32::try_from(payload.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let mut frame = Vec::with_capacity(8 + payload.len());
        frame.extend(id.to_be_bytes());
        frame.extend(length.to_be_bytes());
        frame.extend(payload);
        to.write_all(&frame).await?;
    }
    Ok(())
}

/// Delivers each frame to its connection. A frame for an unknown connection is dropped.
async fn deal(
    mut from: impl AsyncRead + Unpin,
    mut connections: Vec<(u32, WriteHalf<DuplexStream>)>,
) -> io::Result<()> {
    loop {
        let (id, length) = (from.read_u32().await?, from.read_u32().await?);
        let length = usize::try_from(length).ok().filter(|length| *length <= FRAME_MAX);
        let length = length.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidData, format!("a frame is longer than {FRAME_MAX} bytes"))
        })?;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        if let Some((_, write)) = connections.iter_mut().find(|(one, _)| *one == id) {
            write.write_all(&payload).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block_on<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
    }

    #[test]
    fn what_is_written_on_a_connection_arrives_on_it() {
        block_on(async {
            let (here, there) = duplex(1 << 10);
            let (mut plugin, mut runtime, _end) = carry(here);
            let (mut far_plugin, mut far_runtime, _far_end) = carry(there);
            let long = vec![7; 3 * WINDOW];
            let answer = async {
                let mut got = vec![0; long.len()];
                far_plugin.read_exact(&mut got).await.unwrap();
                assert_eq!(got, long);
                far_runtime.write_all(b"ok").await.unwrap();
                let mut got = [0; 2];
                runtime.read_exact(&mut got).await.unwrap();
                assert_eq!(&got, b"ok");
            };
            let (sent, ()) = tokio::join!(plugin.write_all(&long), answer);
            sent.unwrap();
        });
    }

    #[test]
    fn a_frame_is_a_number_a_length_and_bytes() {
        block_on(async {
            let (here, mut there) = duplex(1 << 10);
            let (mut plugin, _runtime, _end) = carry(here);
            plugin.write_all(b"abc").await.unwrap();
            let mut frame = [0; 11];
            there.read_exact(&mut frame).await.unwrap();
            assert_eq!(&frame, b"\0\0\0\x01\0\0\0\x03abc");
            // A frame for an unknown connection is dropped.
            there.write_all(b"\0\0\0\x09\0\0\0\x01x\0\0\0\x01\0\0\0\x02de").await.unwrap();
            let mut got = [0; 2];
            plugin.read_exact(&mut got).await.unwrap();
            assert_eq!(&got, b"de");
        });
    }

    #[test]
    fn the_end_of_the_socket_ends_connections() {
        block_on(async {
            let (here, there) = duplex(1 << 10);
            let (mut plugin, _runtime, end) = carry(here);
            drop(there);
            assert_eq!(end.await.kind(), ErrorKind::UnexpectedEof);
            assert_eq!(plugin.read(&mut [0; 1]).await.unwrap(), 0);
        });
    }

    #[test]
    fn a_frame_that_is_too_long_ends_it() {
        block_on(async {
            let (here, mut there) = duplex(1 << 10);
            let (_plugin, _runtime, end) = carry(here);
            there.write_all(b"\0\0\0\x01\xff\xff\xff\xff").await.unwrap();
            assert_eq!(end.await.kind(), ErrorKind::InvalidData);
        });
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), first in 0u32..4, length in 0u32..40) {
            block_on(async {
                let (here, mut there) = duplex(1 << 10);
                let (mut plugin, mut runtime, end) = carry(here);
                let mut sent = [first.to_be_bytes(), length.to_be_bytes()].concat();
                sent.extend(&bytes);
                there.write_all(&sent).await.unwrap();
                drop(there);
                let _why = end.await;
                let mut got = Vec::new();
                plugin.read_to_end(&mut got).await.unwrap();
                runtime.read_to_end(&mut got).await.unwrap();
                assert!(got.len() <= bytes.len());
            });
        }
    }
}
