//! The local time zone, from the environment or the machine.
//!
//! Reads one file, and only when a time is printed. The time zone database of time libraries looks at every zone file first, which takes
//! longer than all the rest of `psrinfo`.

use jiff::tz::TimeZone;
use millpond_linux::open_plain;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The machine's zone file. Files of named zones are in another directory.
const LOCAL: &str = "/etc/localtime";
const BY_NAME: &str = "/usr/share/zoneinfo";

/// The zone that `TZ` names, else the machine's, else UTC.
#[must_use]
pub fn read_zone() -> TimeZone {
    let tz = std::env::var("TZ").ok();
    zone_of(tz.as_deref(), Path::new(LOCAL), Path::new(BY_NAME))
}

/// The zone of the variable `TZ`: `None` for the machine's own zone; otherwise a path, a name, or a rule such as
/// `CET-1CEST,M3.5.0,M10.5.0/3`. A leading colon is allowed and ignored.
fn zone_of(tz: Option<&str>, local: &Path, by_name: &Path) -> TimeZone {
    let found = match tz.map(|t| t.strip_prefix(':').unwrap_or(t)) {
        None => from_file(local.to_path_buf()),
        Some("") => None,
        Some(path) if path.starts_with('/') => from_file(PathBuf::from(path)),
        Some(name) => {
            let inside = !name.split('/').any(|part| part.is_empty() || part == "..");
            let file = if inside { from_file(by_name.join(name)) } else { None };
            file.or_else(|| TimeZone::posix(name).ok())
        }
    };
    found.unwrap_or(TimeZone::UTC)
}

/// Maximum size in bytes: larger than any zone file.
const BYTES_MAX: u64 = 1 << 20;

fn from_file(path: PathBuf) -> Option<TimeZone> {
    let mut data = Vec::new();
    open_plain(&path, BYTES_MAX).ok()?.take(BYTES_MAX).read_to_end(&mut data).ok()?;
    TimeZone::tzif(&path.to_string_lossy(), &data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn hour(tz: Option<&str>) -> i8 {
        let nowhere = Path::new("/nonexistent");
        Timestamp::UNIX_EPOCH.to_zoned(zone_of(tz, nowhere, nowhere)).hour()
    }

    #[test]
    fn a_rule_is_understood_without_any_file() {
        assert_eq!(hour(Some("XYZ-3")), 3);
        assert_eq!(hour(Some(":XYZ-3")), 3);
    }

    #[test]
    fn what_cannot_be_had_is_universal_time() {
        for tz in [None, Some(""), Some("Nowhere/City"), Some("/nonexistent/zone"), Some("../../etc/passwd")]
        {
            assert_eq!(hour(tz), 0, "{tz:?}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        for tz in ["/dev/zero", "/dev/tty", fifo.to_str().unwrap()] {
            assert_eq!(hour(Some(tz)), 0, "{tz}");
        }
    }
}
