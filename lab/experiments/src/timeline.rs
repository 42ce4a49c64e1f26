//! Sizes of two pools over time, as text or as a picture.

use millpond_report::{Line, Lines};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;

/// The sizes of two pools from one time on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sizes {
    /// That time, in seconds.
    pub seconds: f64,
    /// CPUs of the first pool.
    pub a: u64,
    /// CPUs of the second pool.
    pub b: u64,
}

/// Maximum length of a bar.
const WIDTH: u64 = 32;

/// A bar with one mark per CPU, or per `each` CPUs so that it is not too long.
fn bar(size: u64, each: u64) -> String {
    "#".repeat(usize::try_from(size.div_ceil(each)).unwrap_or(usize::MAX))
}

/// A line for each change, with a bar for each pool.
#[must_use]
pub fn text(names: &[&str; 2], sizes: &[Sizes]) -> String {
    let most = |of: fn(&Sizes) -> u64| sizes.iter().map(of).max().unwrap_or(0);
    let (a, b) = (most(|sizes| sizes.a), most(|sizes| sizes.b));
    let each = a.max(b).div_ceil(WIDTH).max(1);
    let width = |most: u64, name: &str| bar(most, each).len().max(name.len().saturating_sub(4));
    let (width_a, width_b) = (width(a, names[0]), width(b, names[1]));
    let line = |first: &str, a: (&str, &str), b: (&str, &str)| {
        let text = format!("{first:>8}  {:>3} {:<width_a$}  {:>3} {:<width_b$}", a.0, a.1, b.0, b.1);
        format!("{}\n", text.trim_end())
    };
    let mut text = format!("{:>8}  {:<2$}  {3}\n", "seconds", names[0], width_a + 4, names[1]);
    for now in sizes {
        let (at, a, b) = (format!("{:.1}", now.seconds), now.a.to_string(), now.b.to_string());
        text += &line(&at, (&a, &bar(now.a, each)), (&b, &bar(now.b, each)));
    }
    if each > 1 {
        let _ = writeln!(text, "{:>8}  # stands for {each} CPUs", "");
    }
    text
}

/// The corners of a step function: times and values. `end` is the end of the measurement.
#[must_use]
pub(crate) fn stairs(sizes: impl IntoIterator<Item = (f64, f64)>, end: Option<f64>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (at, size) in sizes {
        if let Some((_, before)) = points.last().copied() {
            points.push((at, before));
        }
        points.push((at, size));
    }
    if let (Some(end), Some((at, size))) = (end, points.last().copied())
        && end > at
    {
        points.push((end, size));
    }
    points
}

/// A picture with a line for each pool.
#[must_use]
pub fn svg(title: &str, names: [&str; 2], sizes: &[Sizes], end: Option<f64>) -> String {
    let line = |name: &str, of: fn(&Sizes) -> u64| Line {
        name: name.to_owned(),
        points: stairs(sizes.iter().map(|sizes| (sizes.seconds, crate::published::real(of(sizes)))), end),
    };
    let lines = vec![line(names[0], |sizes| sizes.a), line(names[1], |sizes| sizes.b)];
    Lines { title: title.to_owned(), unit_x: "s".into(), unit_y: "processors".into(), log_x: false, lines }
        .svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(rows: &[(f64, u64, u64)]) -> Vec<Sizes> {
        rows.iter().map(|(seconds, a, b)| Sizes { seconds: *seconds, a: *a, b: *b }).collect()
    }

    #[test]
    fn a_line_for_each_change() {
        let expected = [
            " seconds  a      b",
            "     0.0    1 #    1 #",
            "     6.2    0      2 ##",
            "    12.4    1 #    1 #",
            "",
        ];
        let sizes = sizes(&[(0.0, 1, 1), (6.2, 0, 2), (12.4, 1, 1)]);
        assert_eq!(text(&["a", "b"], &sizes), expected.join("\n"));
    }

    #[test]
    fn sizes_stay_until_they_change() {
        let corners = [(0.0, 1.0), (6.0, 1.0), (6.0, 2.0), (9.0, 2.0)];
        assert_eq!(stairs([(0.0, 1.0), (6.0, 2.0)], Some(9.0)), corners);
        assert_eq!(stairs([], Some(9.0)), []);
    }

    #[test]
    fn many_processors_share_a_mark() {
        let expected = [
            " seconds  zone2  zone1",
            "     0.0    1 #   63 ################################",
            "          # stands for 2 CPUs",
            "",
        ];
        assert_eq!(text(&["zone2", "zone1"], &sizes(&[(0.0, 1, 63)])), expected.join("\n"));
    }
}
