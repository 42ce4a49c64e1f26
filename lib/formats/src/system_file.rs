//! The file of kernel tunables that is read at boot (`/etc/system`): lines of the form `set [module:]name = value`.
//!
//! Comments begin with `*` or `#`. Values are decimal, octal with the prefix 0, or hexadecimal with the prefix 0x, and may have a minus sign. Other
//! directives (`moddir:`, `rootdev:`, `exclude:` and similar) are recognised and ignored.

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The variable, without its module.
    pub name: String,
    /// Its value.
    pub value: i64,
    /// The line of its name, from 1.
    pub line: usize,
    /// The column of its name, from 1.
    pub column: usize,
}

/// A line without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The error.
    pub what: String,
}

/// Directives that do not set a variable.
const DIRECTIVES: [&str; 6] = ["moddir:", "rootfs:", "rootdev:", "exclude:", "include:", "forceload:"];

/// The settings of a file in order, and its errors.
#[must_use]
pub fn parse(text: &str) -> (Vec<Setting>, Vec<Fault>) {
    let (mut settings, mut faults) = (Vec::new(), Vec::new());
    for (content, line) in text.lines().zip(1..) {
        match setting(content) {
            Ok(None) => {}
            Ok(Some((name, value, column))) => settings.push(Setting { name, value, line, column }),
            Err((column, what)) => faults.push(Fault { line, column, what }),
        }
    }
    (settings, faults)
}

/// The tunables of a simulated machine, with the least and the most that each may be.
pub const TUNABLES: [(&str, i64, i64); 6] = [
    ("hz", 1, 10_000),
    ("lgrp_mem_pset_aware", 0, 1),
    ("nosteal_nsec", 0, 1_000_000_000),
    ("rechoose_interval", 0, 1_000_000),
    ("ts_dispatch_extended", -1, 1),
    ("wakeup_parity_nsec", 0, 1_000_000_000),
];

/// The settings of [`TUNABLES`] within their bounds, in order, and the lines without effect.
#[must_use]
pub fn within_bounds(text: &str) -> (Vec<Setting>, Vec<Fault>) {
    let (mut settings, mut without) = parse(text);
    settings.retain(|Setting { name, value, line, column }| {
        let what = match TUNABLES.into_iter().find(|(known, ..)| known == name) {
            None => format!("there is no tunable {name} on a simulated machine"),
            Some((_, least, most)) if !(least..=most).contains(value) => {
                format!("{name} is a number from {least} to {most}, and not {value}")
            }
            Some(_) => return true,
        };
        without.push(Fault { line: *line, column: *column, what });
        false
    });
    without.sort_by_key(|fault| (fault.line, fault.column));
    (settings, without)
}

/// A name, its value and its column.
type Found = (String, i64, usize);

fn setting(line: &str) -> Result<Option<Found>, (usize, String)> {
    let column = |rest: &str| line.chars().count() - rest.chars().count() + 1;
    let text = line.trim();
    if text.is_empty() || text.starts_with(['*', '#']) || DIRECTIVES.iter().any(|word| text.starts_with(word))
    {
        return Ok(None);
    }
    let start = line.trim_start();
    let Some(rest) = start.strip_prefix("set").filter(|rest| rest.starts_with(char::is_whitespace)) else {
        return Err((column(start), "a line begins with set, a directive, or * for a comment".to_owned()));
    };
    let rest = rest.trim_start();
    let Some((left, right)) = rest.split_once('=') else {
        return Err((column(rest), "there is no = behind the name".to_owned()));
    };
    let name = left.trim().rsplit(':').next().unwrap_or_default().trim();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name {
        return Err((column(rest), format!("`{}` is no name of a variable", left.trim())));
    }
    match number(right.trim()) {
        Some(value) => Ok(Some((name.to_owned(), value, column(rest)))),
        None => Err((column(right.trim_start()), format!("`{}` is no number", right.trim()))),
    }
}

/// `10`, `0x1f`, `017`, `-1`.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    i64::from_str_radix(digits, radix).ok().filter(|_| plain)?.checked_mul(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settings_comments_and_directives() {
        let text = "* tuned\nset ts_dispatch_extended=1\n  set TS:ts_maxupri = 0x1E\n\nset hz = 01750 \n# x\nforceload: drv/sd\nset a=-1\n";
        let (settings, faults) = parse(text);
        let shown: Vec<String> =
            settings.iter().map(|s| format!("{}:{} {} {}", s.line, s.column, s.name, s.value)).collect();
        assert_eq!(shown, ["2:5 ts_dispatch_extended 1", "3:7 ts_maxupri 30", "5:5 hz 1000", "8:5 a -1"]);
        assert_eq!(faults, []);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (line, column, what) in [
            ("hz=100", 1, "a line begins with set, a directive, or * for a comment"),
            ("set hz 100", 5, "there is no = behind the name"),
            ("set =1", 5, "`` is no name of a variable"),
            ("set a b=1", 5, "`a b` is no name of a variable"),
            ("set hz = many", 10, "`many` is no number"),
            ("set hz=", 8, "`` is no number"),
            ("set hz=+1", 8, "`+1` is no number"),
            ("set hz=--1", 8, "`--1` is no number"),
        ] {
            let fault = Fault { line: 1, column, what: what.to_owned() };
            assert_eq!(parse(line), (Vec::new(), vec![fault]), "{line}");
        }
    }

    #[test]
    fn fuzz_system_files() {
        millpond_fuzz::check_text("formats-system-file", &["* x\nset a:b = 0x1\nset c=-1\n"], |text| {
            let (settings, faults) = parse(text);
            let lines = text.lines().count();
            assert!(settings.len() + faults.len() <= lines);
            assert!(faults.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column >= 1));
            for setting in settings {
                let line = format!("set {}={}", setting.name, setting.value);
                assert_eq!(parse(&line).0.first().map(|s| s.value), Some(setting.value), "{line}");
            }
        });
    }
}
