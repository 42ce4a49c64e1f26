//! Serves the figures of `top` over HTTP: metrics for Prometheus, JSON, events, and a dashboard.
//!
//! ```text
//! $ millpond gauge &
//! gauge: http://127.0.0.1:9909
//! $ curl -s localhost:9909/metrics | grep set_busy_seconds_total
//! millpond_set_busy_seconds_total{set="0"} 5721.33
//!
//! /                 a page: sets and pools over time, the use of each CPU, decisions of poold with their reasons, fences
//! /metrics          totals, as OpenMetrics or in Prometheus' text format; ?tables=processes for more
//! /events           each interval as it ends, as server-sent events
//! /api/v1           what there is as JSON; docs/guides/dashboard.md describes it
//! ```
//!
//! It only reads, and changes nothing. The figures are those of `top`: the fields of `docs/reference/fields.md`.
//!
//! # Access
//!
//! It listens on the loopback, port 9909. There it answers only requests to `localhost`, so that no page of another host can read it in a
//! browser. On other addresses it needs `--token-file`: a file with at least 16 letters and digits that other users cannot read. A request
//! has the token in a field `Authorization: Bearer`; a browser opens `/?token=` once. HTTP is not encrypted: put a proxy with TLS before
//! it.
//!
//! `--listen unix:/run/millpond/gauge.sock` is a Unix socket. It answers root, the user of the service, and the users of `--allow`.
//!
//! A service manager may pass a socket (socket activation); `--listen` then has no effect, and the rules above apply to the socket.
//!
//! # Viewers
//!
//! 200 viewers at a time get events, of which 16 may request `threads` or `processes`. If all places are taken, a new viewer replaces one
//! of the peer with the most viewers, unless its own peer has as many. A viewer that is too slow skips to the latest frame;
//! `millpond_exporter_dropped_frames_total` counts the skipped ones.
//!
//! # Limits
//!
//! There are 256 connections at a time, or a quarter of the open files that it may have. A further connection replaces one of the peer with
//! the most connections (an address, or the user of a Unix socket): the one that has moved no byte for the longest time. A connection that
//! accepts no byte of its answer for thirty seconds is closed.
//!
//! If the machine cannot be read for a while, the latest frame is still served; `millpond_exporter_failed_reads_total` counts these
//! failures.
//!
//! # Simulated machines
//!
//! With `--machine` a simulated machine runs in real time, or `--speed` times as fast. With `--stand 10s` it advances to that time and
//! stops.

mod access;
mod exposition;
mod families;
mod hub;
mod listen;
mod native;
mod options;
mod room;
mod server;
mod service;
mod texts;

pub use options::{Options, SPEC, parse};
pub use service::run;
