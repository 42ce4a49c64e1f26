//! Requests and their answers. Nothing here changes the machine.

use crate::access::Access;
use crate::exposition::Format;
use crate::families::{Counts, USUAL, of_service};
use crate::hub::{BRIEF, Hub, Published, TIME_LINE, Viewer};
use crate::room::{Guest, Room, Visitor};
use crate::texts::is_long;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use millpond_observe::Frame;
use millpond_observe::catalogue::{Entity, fields};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

/// The most viewers at a time.
const VIEWERS_MAX: usize = 200;
/// The most viewers of long tables, as part of [`VIEWERS_MAX`]. A slow viewer may keep an old frame in memory.
const LONG_VIEWERS_MAX: usize = 16;
/// The most single answers with long tables at a time, for the same reason.
const LONG_ANSWERS_MAX: usize = 16;

/// Places for long requests.
#[derive(Debug, Clone)]
struct Rooms {
    viewers: Arc<Room>,
    long_viewers: Arc<Room>,
    long_answers: Arc<Room>,
}

/// The version of the documents, as in `--json` of commands.
const VERSION: u64 = 1;

/// The state that all requests share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Frames.
    pub hub: Arc<Hub>,
    /// Which requests are answered.
    pub access: Access,
    /// The time between frames, in seconds.
    pub interval_s: f64,
}

/// The routes.
pub fn router(shared: Shared) -> Router {
    let rooms = Rooms {
        viewers: Room::new(VIEWERS_MAX),
        long_viewers: Room::new(LONG_VIEWERS_MAX),
        long_answers: Room::new(LONG_ANSWERS_MAX),
    };
    Router::new()
        .route("/", get(|| page("text/html; charset=utf-8", include_str!("page/index.html"))))
        .route("/gauge.css", get(|| page("text/css; charset=utf-8", include_str!("page/gauge.css"))))
        .route("/gauge.js", get(|| page("text/javascript; charset=utf-8", include_str!("page/gauge.js"))))
        .route("/metrics", get(metrics))
        .route("/events", get(events))
        .route("/api/v1", get(index))
        .route("/api/v1/frame", get(frame))
        .route("/api/v1/time-line", get(time_line))
        .route("/api/v1/fields", get(catalogue))
        .fallback(|| async {
            refused(StatusCode::NOT_FOUND, "there is no such page", "GET /api/v1 lists them")
        })
        .layer(Extension(rooms))
        .layer(from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Refuses requests without access. Adds the security headers of answers.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    if let Some(cookie) = shared.access.cookie(query) {
        let to = HeaderValue::from_static("/");
        return (StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, to)])
            .into_response();
    }
    let mut response = match shared.access.refusal(request.headers()) {
        None => next.run(request).await,
        Some(why) => {
            let status = if matches!(shared.access, Access::Token(_)) {
                StatusCode::UNAUTHORIZED
            } else {
                StatusCode::FORBIDDEN
            };
            refused(status, why, "").into_response()
        }
    };
    let headers = response.headers_mut();
    let mut say = |name, value| headers.insert(name, HeaderValue::from_static(value));
    say(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    say(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    say(header::REFERRER_POLICY, "no-referrer");
    say(header::CACHE_CONTROL, "no-store");
    response
}

async fn page(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// The refusal of a request.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    what: &'static str,
    /// The remedy. May be empty.
    hint: String,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.what});
        if !self.hint.is_empty() {
            body["hint"] = self.hint.into();
        }
        (self.status, as_json(&body)).into_response()
    }
}

fn refused(status: StatusCode, what: &'static str, hint: &str) -> Refused {
    Refused { status, what, hint: hint.to_owned() }
}

fn as_json(body: &Json) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n"))
}

/// The first frame is read before the first request, so only tests see this error.
fn latest(shared: &Shared) -> Result<Arc<Published>, Refused> {
    shared.hub.latest().ok_or_else(|| {
        refused(StatusCode::SERVICE_UNAVAILABLE, "no frame was read yet", "ask again in a second")
    })
}

/// The tables that a request names, in the order of the catalogue.
fn tables(query: Option<&str>, usual: &[Entity]) -> Result<Vec<Entity>, Refused> {
    let Some(named) = query.and_then(|query| query.split('&').find_map(|part| part.strip_prefix("tables=")))
    else {
        return Ok(usual.to_vec());
    };
    let words: Vec<&str> = named.split(',').filter(|word| !word.is_empty()).collect();
    let known = |word: &&&str| Entity::ALL.iter().any(|entity| Frame::plural(*entity) == **word);
    if words.iter().find(|word| !known(word)).is_some() || words.is_empty() {
        let all: Vec<&str> = Entity::ALL.iter().map(|entity| Frame::plural(*entity)).collect();
        let hint = format!("tables={} are known, with commas between them", all.join(","));
        return Err(refused(StatusCode::BAD_REQUEST, "there is no such table", &hint));
    }
    Ok(Entity::ALL.iter().copied().filter(|entity| words.contains(&Frame::plural(*entity))).collect())
}

async fn index(State(shared): State<Shared>) -> Result<Response, Refused> {
    let latest = latest(&shared)?;
    let machine = latest.totals.frame.rows(Entity::Machine).first();
    let name = machine.map(|row| row.text(millpond_observe::catalogue::machine::NAME));
    let all: Vec<&str> = Entity::ALL.iter().map(|entity| Frame::plural(*entity)).collect();
    Ok(as_json(&json!({
        "machine": name,
        "version": env!("CARGO_PKG_VERSION"),
        "interval_s": shared.interval_s,
        "frames": latest.number,
        "viewers": shared.hub.viewers(),
        "dropped_frames": shared.hub.dropped(),
        "tables": all,
        "paths": {
            "/api/v1/frame": "the latest interval; ?tables=cpus,threads for these alone, ?totals for counters as totals",
            "/api/v1/time-line": "the intervals of the last minutes",
            "/api/v1/fields": "each field: its unit, kind, help, source, exactness and cost",
            "/events": "each interval as it ends, as server-sent events",
            "/metrics": "totals, for Prometheus",
        },
    }))
    .into_response())
}

/// An answer of pieces that other answers share. One with long tables holds a `place` until it is sent.
fn pieces(kind: &'static str, pieces: Vec<Bytes>, place: Option<Guest>) -> Response {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let sent = stream::iter(pieces).map(move |piece| {
        let _held = &place;
        Ok::<_, Infallible>(piece)
    });
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_LENGTH, length.to_string())];
    (headers, Body::from_stream(sent)).into_response()
}

/// Takes a place if one of the tables is long.
fn place(tables: &[Entity], room: &Arc<Room>, visitor: &Visitor) -> Result<Option<Guest>, Refused> {
    if !tables.iter().any(|entity| is_long(*entity)) {
        return Ok(None);
    }
    let full = || {
        let what = "there are too many requests for threads and processes";
        refused(StatusCode::SERVICE_UNAVAILABLE, what, "tables=cpus names shorter ones; or ask again later")
    };
    room.share(visitor).map(Some).ok_or_else(full)
}

async fn frame(
    State(shared): State<Shared>,
    Extension(rooms): Extension<Rooms>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let latest = latest(&shared)?;
    let tables = tables(query.as_deref(), &Entity::ALL)?;
    let wants_totals = query.is_some_and(|query| query.split('&').any(|part| part == "totals"));
    let place = place(&tables, &rooms.long_answers, &visitor)?;
    let texts = if wants_totals { &latest.totals } else { &latest.interval };
    let mut body = texts.json(&tables, &format!(",\"version\":{VERSION}")).await;
    body.push(Bytes::from_static(b"\n"));
    Ok(pieces("application/json", body, place))
}

async fn time_line(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Result<Response, Refused> {
    let mut tables = tables(query.as_deref(), &TIME_LINE)?;
    // The time line keeps only these tables.
    tables.retain(|entity| TIME_LINE.contains(entity));
    let mut body = vec![Bytes::from_static(b"[")];
    for (number, texts) in shared.hub.past_intervals().iter().enumerate() {
        if number > 0 {
            body.push(Bytes::from_static(b","));
        }
        body.extend(texts.json(&tables, "").await);
    }
    body.push(Bytes::from_static(b"]\n"));
    Ok(pieces("application/json", body, None))
}

async fn catalogue() -> Response {
    let of = |entity: &Entity| {
        let own = fields(*entity).iter().map(|field| {
            json!({
                "name": field.name,
                "heading": field.heading,
                "kind": field.kind.word(),
                "unit": field.unit.word(),
                "exactness": field.exactness.word(),
                "cost": field.cost.word(),
                "help": field.help,
                "source": field.source,
            })
        });
        (Frame::plural(*entity).to_owned(), own.collect())
    };
    as_json(&Json::Object(Entity::ALL.iter().map(of).collect())).into_response()
}

async fn metrics(
    State(shared): State<Shared>,
    Extension(rooms): Extension<Rooms>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let latest = latest(&shared)?;
    let tables = tables(query.as_deref(), &USUAL)?;
    let place = place(&tables, &rooms.long_answers, &visitor)?;
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let mut body = latest.totals.metrics(&tables, format).await;
    let counts = Counts {
        frames: latest.number,
        failures: shared.hub.failures(),
        viewers: shared.hub.viewers(),
        dropped: shared.hub.dropped(),
    };
    let own = of_service(counts, &latest.totals.frame);
    body.push(Bytes::from(format.families(&own)));
    body.push(Bytes::from_static(format.end().as_bytes()));
    Ok(pieces(format.content_type(), body, place))
}

async fn events(
    State(shared): State<Shared>,
    Extension(rooms): Extension<Rooms>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let tables = tables(query.as_deref(), &BRIEF)?;
    let full = || {
        let hint = "close other pages of it";
        refused(StatusCode::SERVICE_UNAVAILABLE, "there are too many viewers", hint)
    };
    let long = place(&tables, &rooms.long_viewers, &visitor)?;
    let places = (rooms.viewers.share(&visitor).ok_or_else(full)?, long);
    let viewing = Viewing { viewer: shared.hub.view(), tables, left: VecDeque::new(), _places: places };
    let next = |mut viewing: Viewing| async move {
        let piece = viewing.next().await?;
        Some((Ok::<_, Infallible>(piece), viewing))
    };
    let body = Body::from_stream(stream::unfold(viewing, next));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// The state of a viewer's connection.
struct Viewing {
    viewer: Viewer,
    tables: Vec<Entity>,
    /// The rest of an event that is being sent.
    left: VecDeque<Bytes>,
    _places: (Guest, Option<Guest>),
}

impl Viewing {
    async fn next(&mut self) -> Option<Bytes> {
        if self.left.is_empty() {
            let latest = self.viewer.next().await?;
            self.left = latest.interval.event(latest.number, &self.tables).await.into();
        }
        self.left.pop_front()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::listen::serve;
    use millpond_model::{Nanos, WallTime};
    use millpond_session::Listening;
    use std::net::{Ipv4Addr, SocketAddr};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::sync::watch;

    /// Sends a request for a path from an address of this host. Returns the connection and the first line of the
    /// answer.
    async fn ask(from: [u8; 4], to: SocketAddr, path: &str) -> (TcpStream, String) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
        let mut stream = socket.connect(to).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(stream.read_u8().await.unwrap());
        }
        (stream, String::from_utf8(line).unwrap().trim_end().to_owned())
    }

    #[test]
    fn one_address_cannot_take_all_views() {
        const HOSTILE: [u8; 4] = [127, 0, 0, 2];
        const HONEST: [u8; 4] = [127, 0, 0, 1];
        const OK: &str = "HTTP/1.1 200 OK";
        let work = async {
            for (path, most) in [("/events?tables=threads", LONG_VIEWERS_MAX), ("/events", VIEWERS_MAX)] {
                let hub = Arc::new(Hub::default());
                hub.publish(Frame::at(Nanos(1), WallTime(0)));
                let listening = Listening::at_port((HONEST, 0).into()).unwrap();
                let Listening::Port(port) = &listening else { panic!("it is no port") };
                let to = port.local_addr().unwrap();
                let router = router(Shared { hub, access: Access::Loopback, interval_s: 1.0 });
                let (_stop, stopped) = watch::channel(false);
                let clients = async {
                    let mut views = Vec::new();
                    for _ in 0..most {
                        let (stream, line) = ask(HOSTILE, to, path).await;
                        assert_eq!(line, OK, "{path}");
                        views.push(stream);
                    }
                    let refused = ask(HOSTILE, to, path).await.1;
                    assert_eq!(refused, "HTTP/1.1 503 Service Unavailable", "{path}");
                    let (_view, line) = ask(HONEST, to, path).await;
                    assert_eq!(line, OK, "{path}");
                };
                tokio::select! {
                    _ = serve(listening, router, Vec::new(), stopped) => panic!("it ends by itself"),
                    () = clients => {}
                }
            }
        };
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    }
}
