//! The format of a report: text, or the format that an option selects.

use crate::failure::Failure;
use millpond_cli::Parsed;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dress {
    /// Text for people.
    Text,
    /// `--csv`, for spreadsheets.
    Csv,
    /// `--json`, for programs.
    Json,
    /// `--svg`, a picture.
    Svg,
}

impl Dress {
    /// The chosen format, among those that a command has in addition to text. `json` tells whether `--json` was
    /// given.
    ///
    /// # Errors
    /// [`Failure::Usage`] for more than one format.
    pub fn of(parsed: &Parsed, json: bool, offered: &[Dress]) -> Result<Dress, Failure> {
        let names: Vec<&str> = offered.iter().map(|dress| dress.name()).collect();
        let is_chosen = |dress: &&Dress| (**dress == Dress::Json && json) || parsed.long(dress.name());
        match offered.iter().filter(is_chosen).collect::<Vec<_>>()[..] {
            [] => Ok(Dress::Text),
            [one] => Ok(*one),
            _ => {
                let list = format!("--{}", names.join(", --"));
                let list =
                    list.rsplit_once(", ").map_or(list.clone(), |(all, last)| format!("{all} and {last}"));
                Err(Failure::Usage(format!("options {list} are mutually exclusive")))
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Dress::Text => "text",
            Dress::Csv => "csv",
            Dress::Json => "json",
            Dress::Svg => "svg",
        }
    }
}
