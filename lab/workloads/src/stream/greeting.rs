//! The first bytes of each connection, which declare its purpose.

use super::StreamSpec;
use std::num::NonZeroU32;
use std::time::Duration;

/// Length of a greeting.
pub(super) const GREETING_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"mpstream";
const VERSION: u8 = 1;

/// The direction of a connection, from the client's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the client to the server.
    Out,
    /// From the server to the client.
    In,
}

/// A client's first message. All numbers are big-endian:
///
/// ```text
/// 0 "mpstream" | 8 version | 9 way | 10 spinning | 11 zero | 12 write bytes, 4 | 16 id, 8 | 24 duration in ms, 8
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) way: Way,
    pub(super) terms: Terms,
}

/// The parameters that both connections of a stream share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) id: u64,
    pub(super) write_bytes: NonZeroU32,
    pub(super) is_spinning: bool,
    /// Whole milliseconds.
    pub(super) duration: Duration,
}

impl Terms {
    pub(super) fn of(spec: &StreamSpec, id: u64) -> Self {
        let (write_bytes, is_spinning) = (spec.write_bytes, spec.is_spinning);
        Self { id, write_bytes, is_spinning, duration: Duration::from_millis(millis(spec.duration)) }
    }

    /// The parameters for the server.
    pub(super) fn spec(&self, interval: Option<Duration>) -> StreamSpec {
        let Self { write_bytes, is_spinning, duration, .. } = *self;
        StreamSpec { duration, write_bytes, is_spinning, interval }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The reason why a greeting was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadGreeting {
    #[error("it does not speak this protocol")]
    Magic,
    #[error("it speaks version {0} of the protocol, and this is version {VERSION}")]
    Version(u8),
    #[error("its greeting is out of range")]
    Range,
}

impl Greeting {
    pub(super) fn encode(&self) -> [u8; GREETING_BYTES] {
        let terms = self.terms;
        let small = [VERSION, u8::from(self.way == Way::In), u8::from(terms.is_spinning), 0];
        let write_bytes = terms.write_bytes.get().to_be_bytes();
        let large = [terms.id.to_be_bytes(), millis(terms.duration).to_be_bytes()];
        let mut bytes = [0; GREETING_BYTES];
        let parts = MAGIC.into_iter().chain(small).chain(write_bytes).chain(large.into_iter().flatten());
        for (place, byte) in bytes.iter_mut().zip(parts) {
            *place = byte;
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8; GREETING_BYTES]) -> Result<Self, BadGreeting> {
        if bytes[..8] != MAGIC {
            return Err(BadGreeting::Magic);
        }
        if bytes[8] != VERSION {
            return Err(BadGreeting::Version(bytes[8]));
        }
        let eight = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(number)
        };
        let flag = |at: usize| match bytes[at] {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadGreeting::Range),
        };
        let write_bytes = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        let write_bytes = NonZeroU32::new(write_bytes).ok_or(BadGreeting::Range)?;
        let way = if flag(9)? { Way::In } else { Way::Out };
        let duration = Duration::from_millis(eight(24));
        let terms = Terms { id: eight(16), write_bytes, is_spinning: flag(10)?, duration };
        if bytes[11] != 0 || terms.spec(None).check().is_err() {
            return Err(BadGreeting::Range);
        }
        Ok(Self { way, terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn greeting() -> impl Strategy<Value = Greeting> {
        let parts = (
            any::<bool>(),
            any::<u64>(),
            1..=StreamSpec::WRITE_BYTES_MAX,
            any::<bool>(),
            1_u64..=604_800_000,
        );
        parts.prop_map(|(is_in, id, write_bytes, is_spinning, duration_ms)| Greeting {
            way: if is_in { Way::In } else { Way::Out },
            terms: Terms {
                id,
                write_bytes: NonZeroU32::new(write_bytes).unwrap(),
                is_spinning,
                duration: Duration::from_millis(duration_ms),
            },
        })
    }

    #[test]
    fn a_greeting_has_the_documented_bytes() {
        let terms = Terms {
            id: 0x0102_0304_0506_0708,
            write_bytes: NonZeroU32::new(131_072).unwrap(),
            is_spinning: true,
            duration: Duration::from_secs(60),
        };
        let expected = b"mpstream\x01\x01\x01\x00\x00\x02\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x00\xea\x60";
        assert_eq!(&Greeting { way: Way::In, terms }.encode(), expected);
    }

    #[test]
    fn strangers_later_versions_and_impossible_terms_are_told_apart() {
        let text = |bytes: &[u8; 32]| Greeting::decode(bytes).unwrap_err().to_string();
        assert_eq!(text(b"GET / HTTP/1.1\r\nHost: somehost\r\n"), "it does not speak this protocol");
        let mut bytes = *b"mpstream\x01\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01";
        assert!(Greeting::decode(&bytes).is_ok());
        bytes[31] = 0;
        assert_eq!(text(&bytes), "its greeting is out of range");
        bytes[8] = 2;
        assert_eq!(text(&bytes), "it speaks version 2 of the protocol, and this is version 1");
    }

    #[test]
    fn fuzz_greetings() {
        let terms = Terms {
            id: 7,
            write_bytes: NonZeroU32::MIN,
            is_spinning: true,
            duration: Duration::from_millis(1500),
        };
        let good = [Way::Out, Way::In].map(|way| Greeting { way, terms }.encode());
        millpond_fuzz::check("workloads-greeting", &[&good[0], &good[1]], |bytes| {
            let Some(bytes) = bytes.first_chunk() else { return };
            if let Ok(greeting) = Greeting::decode(bytes) {
                assert_eq!(&greeting.encode(), bytes);
            }
        });
    }

    proptest! {
        #[test]
        fn a_greeting_reads_back_as_itself(greeting in greeting()) {
            prop_assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
        }

        #[test]
        fn any_bytes_that_are_accepted_are_a_greeting(good in greeting(), changes in prop::collection::vec((0_usize..32, any::<u8>()), 0..6)) {
            let mut bytes = good.encode();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            if let Ok(greeting) = Greeting::decode(&bytes) {
                prop_assert_eq!(greeting.encode(), bytes);
            }
        }
    }
}
