//! Parameters, events and results of a stream.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Run time, to the millisecond: 1 ms to 7 days.
    pub duration: Duration,
    /// Size of each write, at most 16 MiB.
    pub write_bytes: NonZeroU32,
    /// Senders never sleep: they retry writes at once.
    pub is_spinning: bool,
    /// Interval of [`StreamEvent::Progress`]; by default never.
    pub interval: Option<Duration>,
}

impl StreamSpec {
    /// The default size of a write.
    pub const WRITE_BYTES_DEFAULT: NonZeroU32 = NonZeroU32::new(128 << 10).unwrap();
    /// Maximum duration.
    pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
    /// Maximum size of a write.
    pub const WRITE_BYTES_MAX: u32 = 16 << 20;

    /// Large writes by senders that sleep, for `duration`.
    pub fn new(duration: Duration) -> Self {
        Self { duration, write_bytes: Self::WRITE_BYTES_DEFAULT, is_spinning: false, interval: None }
    }

    /// # Errors
    ///
    /// [`Error::BadStream`] when a field is out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        let range = Duration::from_millis(1)..=Self::DURATION_MAX;
        if !range.contains(&self.duration) {
            let what = format!("for {} s", self.duration.as_secs_f64());
            return Err(Error::BadStream { what, reason: "it takes 1 ms to 7 days" });
        }
        if self.write_bytes.get() > Self::WRITE_BYTES_MAX {
            let what = format!("in writes of {} bytes", self.write_bytes);
            return Err(Error::BadStream { what, reason: "they have 16 MiB at most" });
        }
        Ok(())
    }
}

/// An event during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum StreamEvent<'a> {
    /// Both connections exist and data begins to flow.
    #[serde(rename = "started")]
    Connected {
        /// This end of the first connection.
        here: SocketAddr,
        /// Its other end.
        there: SocketAddr,
    },
    /// An interval has passed.
    Progress {
        /// Time since the beginning.
        seconds: f64,
        /// Bytes sent by this end until now.
        out_bytes: u64,
        /// Bytes received by this end until now.
        in_bytes: u64,
    },
    /// A server refused a connection.
    Refused {
        /// Its address.
        peer: SocketAddr,
        /// The reason.
        reason: &'a str,
    },
}

/// One direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Flow {
    /// Bytes that the receiver got.
    pub bytes: u64,
    /// Seconds from the start to the end of the data, by the receiver's clock.
    pub seconds: f64,
    /// Reads or writes of this end.
    pub calls: u64,
}

/// The result of a run, at one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StreamResult {
    /// This end of the first connection.
    pub here: SocketAddr,
    /// Its other end.
    pub there: SocketAddr,
    /// Bytes per write call.
    pub write_bytes: u32,
    /// Whether senders spin.
    pub is_spinning: bool,
    /// The data that this end sent.
    pub out_flow: Flow,
    /// The data that this end received.
    pub in_flow: Flow,
    /// Whether this end's stop flag ended it.
    pub stopped: bool,
}
