//! Identifiers: one type per noun, so that a CPU number cannot be used as a set number.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// The highest CPU number in a list or a record. Linux supports at most 8,192 CPUs; the margin is for simulated machines. It limits the
/// memory that a typing error such as `0-4000000000` can allocate.
pub const CPU_MAX: u32 = 1 << 20;

/// A text that is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {noun}")]
pub struct ParseIdError {
    /// The offending text.
    pub text: String,
    /// The expected noun.
    pub noun: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $noun:literal $(, at most $max:expr)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = u32::deserialize(deserializer)?;
                $(if value > $max {
                    let what = format!("{} {value} is beyond {}", $noun, $max);
                    return Err(serde::de::Error::custom(what));
                })?
                Ok($name(value))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Decimal digits only: no sign, no blank, no prefix.
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                let value = if digits { text.parse().ok() } else { None };
                value.map($name).ok_or_else(|| ParseIdError { text: text.to_owned(), noun: $noun })
            }
        }
    };
}

id!(
    /// A CPU, numbered as the machine numbers it. Numbers may have holes.
    CpuId,
    "CPU number",
    at most CPU_MAX
);
id!(
    /// A core: strands that share execution units. Numbered across the whole machine by us, from 0, in
    /// order of each core's lowest CPU.
    CoreId,
    "core number"
);
id!(
    /// A chip (physical package, socket), with the machine's own number.
    ChipId,
    "chip number"
);
id!(
    /// A locality group: CPUs and memory at one distance.
    LgrpId,
    "lgroup number"
);
id!(
    /// A processor set. Users see 1 and up; 0 is the default set.
    PsetId,
    "processor set number"
);
id!(
    /// A pool, as the machine numbers it. 0 is the default pool.
    PoolId,
    "pool number"
);
id!(
    /// A process.
    Pid,
    "process number"
);
id!(
    /// A thread (LWP) of a process. On Linux the kernel's thread number, on the simulator 1 and up.
    LwpId,
    "lwp number"
);

impl PoolId {
    /// The default pool, which has every process that is in no other pool.
    pub const DEFAULT: PoolId = PoolId(0);

    /// Whether this is the default pool.
    #[must_use]
    pub fn is_default(self) -> bool {
        self == PoolId::DEFAULT
    }
}

impl PsetId {
    /// The default set: every CPU that is in no other. Solaris calls it `PS_NONE` in its interfaces
    /// and 0 in `mpstat`; it is never listed by `psrset`.
    pub const DEFAULT: PsetId = PsetId(0);

    /// Whether this is the default set.
    #[must_use]
    pub fn is_default(self) -> bool {
        self == PsetId::DEFAULT
    }
}

/// One thread of one process, printed `pid/lwp` as Solaris prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lwp {
    /// The process.
    pub pid: Pid,
    /// The thread in it.
    pub lwp: LwpId,
}

impl fmt::Display for Lwp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pid, self.lwp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_identifier_survives_printing_and_parsing(n in any::<u32>()) {
            prop_assert_eq!(CpuId(n).to_string().parse(), Ok(CpuId(n)));
            prop_assert_eq!(PsetId(n).to_string().parse(), Ok(PsetId(n)));
            prop_assert_eq!(Pid(n).to_string().parse(), Ok(Pid(n)));
            prop_assert_eq!(LwpId(n).to_string().parse(), Ok(LwpId(n)));
            prop_assert_eq!(ChipId(n).to_string().parse(), Ok(ChipId(n)));
            prop_assert_eq!(CoreId(n).to_string().parse(), Ok(CoreId(n)));
            prop_assert_eq!(LgrpId(n).to_string().parse(), Ok(LgrpId(n)));
        }

        #[test]
        fn parsing_any_text_never_panics(text in ".{0,20}") {
            let _ = text.parse::<CpuId>();
        }
    }

    #[test]
    fn a_record_cannot_name_a_processor_that_no_list_could() {
        assert_eq!(serde_json::from_str::<CpuId>("1048576").unwrap(), CpuId(CPU_MAX));
        let error = serde_json::from_str::<CpuId>("1048577").unwrap_err();
        assert!(error.to_string().starts_with("CPU number 1048577 is beyond 1048576"), "{error}");
        assert_eq!(serde_json::from_str::<Pid>("4294967295").unwrap(), Pid(u32::MAX));
    }

    #[test]
    fn signs_blanks_and_overflow_are_refused() {
        for text in ["", "+1", "-1", " 1", "1 ", "0x1", "4294967296", "1-2"] {
            assert!(text.parse::<CpuId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_thread_prints_as_process_slash_lwp() {
        assert_eq!(Lwp { pid: Pid(204), lwp: LwpId(1) }.to_string(), "204/1");
    }
}
