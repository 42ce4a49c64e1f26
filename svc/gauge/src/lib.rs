//! Serves what the observers know over HTTP: metrics for Prometheus, JSON, events, and a dashboard.
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
//! Everything is read, and nothing can be changed here. The figures are those of `top`: the fields of `docs/reference/fields.md`.
//!
//! # Access
//!
//! It listens on the loopback, port 9909. There it answers requests to `localhost` alone, so that no page of another host reads it
//! in a browser. Beyond the loopback it needs `--token-file`: a file with at least 16 letters and digits that others cannot read. A
//! request has the token in a field `Authorization: Bearer`; a browser goes to `/?token=` once. HTTP is not encrypted: put a proxy
//! with TLS before it.
//!
//! `--listen unix:/run/millpond/gauge.sock` is a Unix socket. It answers root, the user of the service, and those of `--allow`.
//!
//! A service manager may pass a socket (socket activation); `--listen` then has no effect, and the rules above hold for the socket.
//!
//! # Viewers
//!
//! 200 viewers at a time get events, of which 16 may ask for `threads` or `processes`. Where all places are taken, one more takes the
//! place of the peer with the most, unless it has as many itself. One that is too slow gets the latest frame next;
//! `millpond_exporter_dropped_frames_total` counts what it missed.
//!
//! # Limits
//!
//! There are 256 connections at a time, or a quarter of the open files that it may have. One more takes the place of another one: of the peer
//! with the most connections (an address, or the user of a Unix socket), that which has moved no byte for the longest time. A
//! connection that takes no byte of its answer for thirty seconds is closed.
//!
//! Where the machine cannot be read for a while, the latest frame is served on; `millpond_exporter_failed_reads_total` counts that.
//!
//! # Simulated machines
//!
//! With `--machine` a simulated machine lives on in real time, or `--speed` times as fast. With `--stand 10s` it goes on to that
//! moment and stands still.

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
