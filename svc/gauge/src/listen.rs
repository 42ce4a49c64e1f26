//! The connections that are accepted.

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use millpond_session::Listening;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Connections at a time: one more is closed at once.
const CONNECTIONS_MAX: usize = 256;
/// A request is complete after this time, and a connection that asks nothing is closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers until it is told to stop.
///
/// # Errors
/// The system's, where the socket cannot be listened on.
pub async fn serve(
    listening: Listening,
    router: Router,
    allowed: Vec<u32>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let for_nobody = Router::new().fallback(|| async {
        (StatusCode::FORBIDDEN, "{\"error\": \"this user is not allowed\", \"hint\": \"--allow\"}\n")
    });
    match listening {
        Listening::Port(port) => {
            let port = TcpListener::from_std(port)?;
            let accept = async || Ok((port.accept().await?.0, router.clone()));
            each(accept, &mut stop).await;
        }
        Listening::Socket(socket, _owned) => {
            let socket = UnixListener::from_std(socket)?;
            let accept = async || {
                let (stream, _) = socket.accept().await?;
                let is_allowed = stream.peer_cred().is_ok_and(|peer| allowed.contains(&peer.uid()));
                Ok((stream, if is_allowed { router.clone() } else { for_nobody.clone() }))
            };
            each(accept, &mut stop).await;
        }
    }
    Ok(())
}

/// Answers each connection that is accepted, by the routes that it gets, until it is told to stop.
async fn each<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    accept: impl AsyncFn() -> io::Result<(S, Router)>,
    stop: &mut watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        tokio::select! {
            accepted = accept() => match accepted {
                Ok((stream, router)) => answer(stream, router, &room),
                Err(_) => pause().await,
            },
            _ = stop.changed() => return,
        }
    }
}

/// There are no descriptors left, for example: the connection waits meanwhile.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    room: &Arc<Semaphore>,
) {
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else { return };
    tokio::spawn(connection(stream, router, permit));
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    router: Router,
    _permit: OwnedSemaphorePermit,
) {
    let service = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A connection that ends in any way is of no more interest.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
