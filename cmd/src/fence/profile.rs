//! Profiles: built-in ones, those of this machine, and files.

use crate::failure::{Complaint, Failure};
use millpond_cli::Parsed;
use millpond_formats::fence_profile::{self, BUILT_IN, CommandSetting, Profile};
use millpond_model::{MachineSetting, ShelterItem};
use millpond_session::{profile_file, read_text};
use std::path::Path;

/// Names of the built-in profiles, for completion.
pub(super) const NAMES: &[&str] = &["low-latency", "hpc", "vm-host", "gentle"];

/// A profile and its source.
pub(super) struct Found {
    /// Its name.
    pub name: String,
    /// Its source in messages: a name, or a file.
    pub source: String,
    /// Its settings, combined with options.
    pub profile: Profile,
    /// Items requested by options, with the option.
    pub options: Vec<(ShelterItem, &'static str)>,
    /// Settings of the whole machine that it requests without `--global`.
    pub withheld: Vec<MachineSetting>,
}

impl Found {
    fn new(name: String, source: String, profile: Profile) -> Found {
        Found { name, source, profile, options: Vec::new(), withheld: Vec::new() }
    }

    /// Applies the options `--smt off`, `--flush` and `--global`.
    #[must_use]
    pub fn with_options(mut self, parsed: &Parsed) -> Found {
        let shelter = &mut self.profile.shelter;
        if parsed.long("smt") {
            shelter.siblings_off = true;
            self.options.push((ShelterItem::Smt, "--smt off"));
        }
        if parsed.long("flush") {
            shelter.flush = true;
            self.options.push((ShelterItem::Flush, "--flush"));
        }
        if !parsed.long("global") {
            self.withheld = std::mem::take(&mut shelter.global).into_keys().collect();
        }
        // Siblings that go off-line cannot be in the fence.
        self.profile.whole_cores &= !shelter.siblings_off;
        self
    }

    /// Settings of the command, each with the profile and its line.
    pub fn command(&self) -> impl Iterator<Item = (CommandSetting, String)> {
        self.profile.command.iter().map(|(setting, line)| (*setting, format!("{}:{line}", self.source)))
    }

    /// The origin of an item: an option, or the profile and its line.
    pub fn asked_by(&self, item: ShelterItem) -> String {
        let option = self.options.iter().find(|(asked, _)| *asked == item).map(|(_, option)| *option);
        match (option, self.profile.lines.get(&item)) {
            (Some(option), _) => option.to_owned(),
            (None, Some(line)) => format!("{}:{line}", self.source),
            (None, None) => self.source.clone(),
        }
    }
}

/// The profile of this name. A name with a `/` is a file; else it is a profile of this machine, or a built-in one.
///
/// # Errors
/// [`Failure::Refused`] if it does not exist, or has an error, with its position.
pub(super) fn find(word: &str) -> Result<Found, Failure> {
    let unread = |source: &str, why: String| {
        Failure::from(
            Complaint::new(format!("read profile {source}"), why)
                .hint("millpond fence --profiles lists those that there are"),
        )
    };
    let parsed = |source: &str, text: &str| {
        fence_profile::parse(text).map_err(|error| {
            let hint = "docs/guides/fence.md has all keys";
            Failure::from(
                Complaint::new(format!("use profile {source}"), format!("{source}:{error}")).hint(hint),
            )
        })
    };
    if word.contains('/') {
        let text = read_text(Path::new(word)).map_err(|why| unread(word, why))?;
        let name = Path::new(word).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Found::new(name, word.to_owned(), parsed(word, &text)?));
    }
    let name = word.to_owned();
    if let Some(file) = profile_file(word) {
        let source = file.to_string_lossy().into_owned();
        let text = read_text(&file).map_err(|why| unread(&source, why))?;
        let profile = parsed(&source, &text)?;
        return Ok(Found::new(name, source, profile));
    }
    match BUILT_IN.iter().find(|(name, _)| *name == word) {
        Some((_, text)) => Ok(Found::new(name.clone(), name, parsed(word, text)?)),
        None => Err(unread(word, "there is no such profile".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_understood() {
        assert_eq!(BUILT_IN.map(|(name, _)| name), NAMES);
        for name in NAMES {
            let found = find(name).unwrap_or_else(|_| panic!("{name}"));
            assert!(!found.profile.summary.is_empty());
            assert_eq!(found.source, *name);
        }
    }
}
