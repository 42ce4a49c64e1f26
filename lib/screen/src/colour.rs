//! Colours, as many as a terminal has. Colour is never the only indication.

use ratatui::style::{Color, Modifier, Style};

/// The colours of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Bold and reverse only.
    #[default]
    Mono,
    /// The sixteen colours of every terminal.
    Sixteen,
    /// 24-bit colours.
    Full,
}

impl Depth {
    /// The depth by the environment: `NO_COLOR` (no-color.org), `TERM`, and `COLORTERM` for 24-bit colours.
    #[must_use]
    pub fn of(no_color: Option<&str>, term: Option<&str>, colorterm: Option<&str>) -> Depth {
        let is_plain = term.is_none_or(|t| {
            matches!(t, "dumb" | "vt100" | "vt220" | "vt102") || t.ends_with("-m") || t.ends_with("-mono")
        });
        if no_color.is_some_and(|text| !text.is_empty()) || is_plain {
            return Depth::Mono;
        }
        match colorterm {
            Some("truecolor" | "24bit") => Depth::Full,
            _ => Depth::Sixteen,
        }
    }

    /// The style of a load from 0 to 1: low, busy, full.
    #[must_use]
    pub fn heat(self, part: f64) -> Style {
        let style = Style::new();
        match self {
            Depth::Mono => style,
            Depth::Sixteen => style.fg(match part {
                p if p < 0.5 => Color::Green,
                p if p < 0.9 => Color::Yellow,
                _ => Color::Red,
            }),
            Depth::Full => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
                let between = |low: f64, high: f64| (low + (high - low) * part.clamp(0.0, 1.0)) as u8;
                style.fg(Color::Rgb(between(40.0, 235.0), between(190.0, 70.0), between(150.0, 60.0)))
            }
        }
    }

    /// Headings.
    #[must_use]
    pub fn heading(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self == Depth::Mono { style } else { style.fg(Color::Cyan) }
    }

    /// The selected row.
    #[must_use]
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Errors and refusals.
    #[must_use]
    pub fn alarm(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self == Depth::Mono { style } else { style.fg(Color::Red) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_how_many_colours_there_are() {
        assert_eq!(Depth::of(None, Some("xterm-256color"), Some("truecolor")), Depth::Full);
        assert_eq!(Depth::of(None, Some("xterm-256color"), None), Depth::Sixteen);
        assert_eq!(Depth::of(Some("1"), Some("xterm-256color"), Some("truecolor")), Depth::Mono);
        assert_eq!(
            Depth::of(Some(""), Some("xterm"), None),
            Depth::Sixteen,
            "an empty NO_COLOR says nothing"
        );
        assert_eq!(Depth::of(None, Some("dumb"), None), Depth::Mono);
        assert_eq!(Depth::of(None, None, None), Depth::Mono);
    }

    #[test]
    fn a_terminal_without_colours_gets_none() {
        for part in [0.0, 0.6, 1.0] {
            assert_eq!(Depth::Mono.heat(part), Style::new());
        }
        assert_eq!((Depth::Mono.heading().fg, Depth::Mono.alarm().fg), (None, None));
    }
}
