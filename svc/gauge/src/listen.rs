//! Accepts connections and serves them.

use crate::room::{Guest, Peer, Room};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use millpond_session::Listening;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// The most connections at a time.
const CONNECTIONS_MAX: u64 = 256;
/// The part of the limit of open files that connections may use. The rest is for reading the machine.
const FILES_PART: u64 = 4;
/// The time limit for a complete request. An idle connection is closed after it, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves until the stop signal.
///
/// # Errors
/// The system error if the socket cannot be listened on.
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
            let accept = async || {
                let (stream, from) = port.accept().await?;
                Ok((stream, Peer::at(from.ip()), router.clone()))
            };
            each(accept, &mut stop).await;
        }
        Listening::Socket(socket, _owned) => {
            let socket = UnixListener::from_std(socket)?;
            let accept = async || {
                let (stream, _) = socket.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| peer.uid());
                let is_allowed = user.is_some_and(|user| allowed.contains(&user));
                let router = if is_allowed { router.clone() } else { for_nobody.clone() };
                Ok((stream, Peer::User(user), router))
            };
            each(accept, &mut stop).await;
        }
    }
    Ok(())
}

/// Serves each accepted connection with its routes, until the stop signal.
async fn each<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    accept: impl AsyncFn() -> io::Result<(S, Peer, Router)>,
    stop: &mut watch::Receiver<bool>,
) {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = Room::new(usize::try_from((files / FILES_PART).min(CONNECTIONS_MAX)).unwrap_or(1));
    loop {
        tokio::select! {
            accepted = accept() => match accepted {
                Ok((stream, peer, router)) => {
                    tokio::spawn(connection(stream, router, room.enter(peer)));
                }
                Err(_) => pause().await,
            },
            _ = stop.changed() => return,
        }
    }
}

/// Waits before the next `accept`, which failed, for example, because no descriptor is left. Pending connections stay
/// in the backlog.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router, guest: Guest) {
    let (router, visitor) = (TowerToHyperService::new(router), guest.visitor());
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(visitor.clone());
        router.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // It does not matter how a connection ends.
    tokio::select! {
        _ = builder.serve_connection(TokioIo::new(guest.watch(stream)), service) => {}
        () = guest.asked_to_leave() => {}
    }
}
