//! The listing of `prctl`, in columns and for scripts, and the values that the command accepts.
//!
//! ```text
//! project: 10: group.staff
//! NAME    PRIVILEGE       VALUE    FLAG   ACTION                       RECIPIENT
//! project.cpu-shares
//!         usage              10
//!         privileged         10       -   none                                 -
//!         system          65.5K     max   none                                 -
//! ```
//!
//! Columns are those of prctl(1); numbers from a thousand on have three digits and a decimal unit.

use std::fmt::Display;

/// The line above the controls of a holder.
pub const HEAD: &str = "NAME    PRIVILEGE       VALUE    FLAG   ACTION                       RECIPIENT";

/// A line of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// The usage.
    Usage(u64),
    /// A value set by an administrator, and the action if the holder exceeds it.
    Privileged(u64, &'static str),
    /// The largest value of the control.
    System {
        /// The value.
        value: u64,
        /// Whether it means no limit.
        unlimited: bool,
        /// The action if the holder exceeds it.
        action: &'static str,
    },
}

impl Row {
    /// The privilege that `-t` selects by; usage has none.
    #[must_use]
    pub fn privilege(self) -> Option<&'static str> {
        match self {
            Row::Usage(_) => None,
            Row::Privileged(..) => Some("privileged"),
            Row::System { .. } => Some("system"),
        }
    }

    /// The line below the name of the control.
    #[must_use]
    pub fn line(self) -> String {
        let (word, value, flag, action) = self.parts();
        if flag.is_empty() {
            return format!("        {word:<15}{:>6}", scaled(value));
        }
        format!("        {word:<15}{:>6}{flag:>8}   {action:<29}{:>9}", scaled(value), "-")
    }

    /// The line for scripts, with the name of the control (`-P`).
    #[must_use]
    pub fn parseable(self, control: impl Display) -> String {
        let (word, value, flag, action) = self.parts();
        let or_dash = |text: &'static str| if text.is_empty() { "-" } else { text };
        format!("{control} {word} {value} {} {} -", or_dash(flag), or_dash(action))
    }

    fn parts(self) -> (&'static str, u64, &'static str, &'static str) {
        match self {
            Row::Usage(value) => ("usage", value, "", ""),
            Row::Privileged(value, action) => ("privileged", value, "-", action),
            Row::System { value, unlimited, action } => {
                ("system", value, if unlimited { "inf" } else { "max" }, action)
            }
        }
    }
}

/// The title line of a holder: `project: 10: group.staff`, `process: 204: httpd`.
#[must_use]
pub fn title(kind: &str, id: impl Display, name: &str) -> String {
    format!("{kind}: {id}: {name}")
}

/// A number in at most five characters: `128`, `8.19K`, `10.0K`, `4.29G`.
#[must_use]
pub fn scaled(value: u64) -> String {
    if value < 1_000 {
        return value.to_string();
    }
    let mut factor: u128 = 1_000;
    for letter in "KMGTPE".chars() {
        for decimals in [2u32, 1, 0] {
            let unit = factor / 10u128.pow(decimals);
            let digits = (u128::from(value) + unit / 2) / unit;
            if digits < 1_000 {
                let text = digits.to_string();
                let (whole, rest) = text.split_at(text.len() - usize::try_from(decimals).unwrap_or(0));
                let point = if decimals == 0 { "" } else { "." };
                return format!("{whole}{point}{rest}{letter}");
            }
        }
        factor *= 1_000;
    }
    value.to_string()
}

/// Parses a value: digits, an optional unit, and before a unit an optional fraction (`10`, `1.5K`, `4G`).
///
/// # Errors
/// The error, as half a sentence.
pub fn parse_value(text: &str) -> Result<u64, &'static str> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            let power = "KMGTPE".find(letter.to_ascii_uppercase());
            let power = power.ok_or("the factors are K, M, G, T, P and E")?;
            let power = u32::try_from(power).unwrap_or(0) + 1;
            (&text[..at], 1_000u128.pow(power))
        }
        _ => (text, 1),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 20;
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits.ends_with('.') {
        return Err("it is no number");
    }
    let parsed = |text: &str| text.parse::<u128>().unwrap_or(0);
    let below = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let (part, rest) = (parsed(fraction) * factor / below, parsed(fraction) * factor % below);
    if rest != 0 {
        return Err("it is no whole number");
    }
    u64::try_from(parsed(whole) * factor + part).map_err(|_| "it is too large")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_are_listed_as_the_manual_shows_them() {
        let rows = [
            Row::Usage(10),
            Row::Privileged(10, "none"),
            Row::System { value: 65_535, unlimited: false, action: "none" },
            Row::Usage(5),
            Row::Privileged(350, "deny"),
            Row::System { value: 4_294_967_295, unlimited: true, action: "deny" },
        ];
        let lines: Vec<String> = rows.iter().map(|row| row.line()).collect();
        assert_eq!(
            lines,
            [
                "        usage              10",
                "        privileged         10       -   none                                 -",
                "        system          65.5K     max   none                                 -",
                "        usage               5",
                "        privileged        350       -   deny                                 -",
                "        system          4.29G     inf   deny                                 -",
            ]
        );
        assert!(lines.iter().all(|line| line.len() <= HEAD.len()));
        assert_eq!(lines[1].len(), HEAD.len());
        assert_eq!(title("project", 10, "group.staff"), "project: 10: group.staff");
    }

    #[test]
    fn scripts_get_whole_numbers_and_dashes() {
        let row = |row: Row| row.parseable("zone.cpu-shares");
        assert_eq!(row(Row::Usage(60)), "zone.cpu-shares usage 60 - - -");
        assert_eq!(row(Row::Privileged(60, "none")), "zone.cpu-shares privileged 60 - none -");
        let system = Row::System { value: 65_535, unlimited: false, action: "none" };
        assert_eq!(row(system), "zone.cpu-shares system 65535 max none -");
    }

    #[test]
    fn large_numbers_have_three_digits_and_a_factor() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00K"),
            (8_192, "8.19K"),
            (10_000, "10.0K"),
            (65_535, "65.5K"),
            (999_499, "999K"),
            (999_999, "1.00M"),
            (16_777_215, "16.8M"),
            (2_147_483_647, "2.15G"),
            (u64::MAX, "18.4E"),
        ] {
            assert_eq!(scaled(value), text, "{value}");
        }
    }

    #[test]
    fn values_may_have_a_factor() {
        for (text, value) in [("10", 10), ("1.5K", 1_500), ("2k", 2_000), ("18E", 18_000_000_000_000_000_000)]
        {
            assert_eq!(parse_value(text), Ok(value), "{text}");
        }
        for (text, why) in [
            ("", "it is no number"),
            ("-1", "it is no number"),
            ("1.", "it is no number"),
            ("K", "it is no number"),
            ("1.5", "it is no whole number"),
            ("3B", "the factors are K, M, G, T, P and E"),
            ("19E", "it is too large"),
        ] {
            assert_eq!(parse_value(text), Err(why), "{text}");
        }
    }

    #[test]
    fn fuzz_values_of_controls() {
        millpond_fuzz::check_text("formats-prctl", &["10", "1.5K", "18E", "0.001M"], |text| {
            if let Ok(value) = parse_value(text) {
                assert_eq!(parse_value(&value.to_string()), Ok(value));
            }
        });
    }

    proptest! {
        #[test]
        fn every_number_keeps_to_its_column(value in any::<u64>()) {
            prop_assert!(scaled(value).len() <= 5, "{}", scaled(value));
        }
    }
}
