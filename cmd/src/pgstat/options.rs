//! What `pgstat` is asked for: the rules of its options.

use crate::failure::Failure;
use crate::interval::Repetition;
use crate::processor_groups::Choice;
use crate::stamp::Stamp;
use crate::values;
use millpond_cli::Parsed;

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The number of the group.
    Pg,
    /// What was used of the hardware.
    Hardware,
    /// What was used of the time.
    Software,
    /// In user programs.
    User,
    /// In the kernel.
    Sys,
    /// What was not used.
    Idle,
    /// Each group before those in it, and these before the next one beside it.
    Depth,
    /// The system, then all groups directly in it, and so on.
    Breadth,
}

/// The keys by their words.
const KEYS: [(&str, Key); 8] = [
    ("pg", Key::Pg),
    ("hw", Key::Hardware),
    ("sw", Key::Software),
    ("user", Key::User),
    ("sys", Key::Sys),
    ("idle", Key::Idle),
    ("depth", Key::Depth),
    ("breadth", Key::Breadth),
];

/// An order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub key: Key,
    /// Whether the largest comes first.
    pub descends: bool,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which groups.
    pub choice: Choice,
    /// A summary at the end.
    pub summary: bool,
    /// Rows of CPUs.
    pub cpus: bool,
    /// Parts of the machine behind the names.
    pub physical: bool,
    /// User, kernel and idle time.
    pub verbose: bool,
    /// In which order; depth first when not given.
    pub order: Option<Order>,
    /// So many groups at most.
    pub top: Option<usize>,
    /// The time before each report.
    pub stamp: Option<Stamp>,
    /// In JSON.
    pub json: bool,
    /// How often; once, for a second, when not given.
    pub repetition: Option<Repetition>,
}

impl Options {
    /// Understands what was typed.
    ///
    /// # Errors
    /// [`Failure`] with the rule that was broken.
    pub fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let key = |letter| {
            let word = parsed.value(letter)?;
            let known = KEYS.iter().find(|(name, _)| *name == word);
            let order = |(_, key): &(&str, Key)| Order { key: *key, descends: letter == 's' };
            Some(known.map(order).ok_or_else(|| {
                let keys: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
                Failure::Usage(format!("there is no key `{word}`; {} are", keys.join(", ")))
            }))
        };
        let stamp = Stamp::parse(parsed, 'T')?;
        let top = |word: String| {
            values::count(&word)
                .ok_or_else(|| Failure::Operand(format!("-t takes a number, 1 or more, not `{word}`")))
        };
        Ok(Options {
            choice: Choice::of(parsed, &parsed.values('P'))?,
            summary: parsed.has('A'),
            cpus: parsed.has('C'),
            physical: parsed.has('p'),
            verbose: parsed.has('v'),
            order: key('s').or_else(|| key('S')).transpose()?,
            top: parsed.value('t').map(top).transpose()?,
            stamp,
            json: parsed.common.json,
            repetition: Repetition::parse(&parsed.words())?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn options(text: &str) -> Result<Options, Failure> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Options::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words)?)
    }

    #[test]
    fn everything_has_its_place() {
        let options = options("-ACpv -s sw -t 3 -T d -r l2 -R data -P 0,3-5 -c 0-3 --json 0.5 4").unwrap();
        assert!(options.summary && options.cpus && options.physical && options.verbose && options.json);
        assert_eq!(options.order, Some(Order { key: Key::Software, descends: true }));
        assert_eq!((options.top, options.stamp), (Some(3), Some(Stamp::Date)));
        assert_eq!(options.repetition.unwrap().count, Some(4));
    }

    #[test]
    fn letters_tell_the_direction() {
        let order = |text| options(text).unwrap().order.unwrap();
        assert_eq!(order("-S breadth"), Order { key: Key::Breadth, descends: false });
        assert_eq!(order("-s pg"), Order { key: Key::Pg, descends: true });
        assert_eq!(options("").unwrap().order, None);
    }

    #[test]
    fn broken_rules_are_usage_errors() {
        for (text, why) in [
            ("-s sw -S sw", "options -s and -S are mutually exclusive"),
            ("-s cpu", "there is no key `cpu`; pg, hw, sw, user, sys, idle, depth, breadth are"),
            ("-T x", "-T takes u or d, not `x`"),
            ("-t 0", "-t takes a number, 1 or more, not `0`"),
            ("-t few", "-t takes a number, 1 or more, not `few`"),
            (
                "-P x",
                "cannot read `x` as processor groups: column 1: `x` is not the number of a processor group",
            ),
            ("-r l1,", "-r takes a part of a relationship's name, such as cache; pginfo -s lists them"),
            ("1 0", "a count is at least 1; without one reports go on until you interrupt them"),
        ] {
            let (Err(Failure::Usage(said)) | Err(Failure::Operand(said))) = options(text) else {
                panic!("{text}")
            };
            assert_eq!(said, why, "{text}");
        }
    }
}
