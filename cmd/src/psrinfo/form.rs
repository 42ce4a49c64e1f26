//! The listing that the option letters of `psrinfo` select.

use crate::failure::Failure;
use millpond_cli::Parsed;
use millpond_model::State;

/// A form of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Without an option letter.
    List,
    /// `-v`.
    Details,
    /// `-p`.
    Chips,
    /// `-pv`.
    ChipDetails,
    /// `-s`.
    State,
    /// `-s -p`.
    StateOfChip,
    /// `-t`.
    Total(Total),
    /// `-r`.
    Property(String),
}

/// The unit that `-t` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Without another letter, or with `-S all`.
    Processors,
    /// `-S`.
    InState(State),
    /// `-c`.
    Cores,
    /// `-p`.
    Chips,
}

impl Form {
    /// The requested form.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the violated rule.
    pub fn of(parsed: &Parsed) -> Result<Form, Failure> {
        let has = |letter| parsed.has(letter);
        let no_operands = parsed.operands.is_empty();
        let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
        if let Some(name) = parsed.value('r') {
            if !no_operands {
                return usage("cannot specify CPUs with -r");
            }
            if parsed.letters().any(|l| l != 'r') {
                return usage("cannot specify other arguments with -r");
            }
            return Ok(Form::Property(name));
        }
        if has('t') {
            if !no_operands {
                return usage("cannot specify CPUs with -t");
            }
            if has('s') || has('v') {
                return usage("cannot specify -s or -v with -t");
            }
            if has('S') && (has('c') || has('p')) {
                return usage("cannot specify CPU state with -c or -p");
            }
            if has('c') && has('p') {
                return usage("cannot specify -c and -p");
            }
            return Ok(Form::Total(Total::of(parsed)?));
        }
        if has('S') || has('c') {
            return usage("cannot specify -S or -c without -t");
        }
        if has('s') && has('v') {
            return usage("options -s and -v are mutually exclusive");
        }
        if has('s') && parsed.operands.len() != 1 {
            return usage("must specify exactly one processor if -s used");
        }
        Ok(match (has('s'), has('p'), has('v')) {
            (true, true, _) => Form::StateOfChip,
            (true, false, _) => Form::State,
            (_, true, true) => Form::ChipDetails,
            (_, true, false) => Form::Chips,
            (_, false, true) => Form::Details,
            _ => Form::List,
        })
    }
}

impl Total {
    fn of(parsed: &Parsed) -> Result<Total, Failure> {
        if parsed.has('c') {
            return Ok(Total::Cores);
        }
        if parsed.has('p') {
            return Ok(Total::Chips);
        }
        match parsed.value('S').as_deref() {
            None | Some("all") => Ok(Total::Processors),
            Some(word) => {
                word.parse().map(Total::InState).map_err(|error| Failure::Usage(format!("{error}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Result<Form, String> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        Form::of(&millpond_cli::parse(&super::super::COMMAND.spec, &words).unwrap()).map_err(|f| match f {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn every_form_has_its_letters() {
        assert_eq!(form(""), Ok(Form::List));
        assert_eq!(form("0 1"), Ok(Form::List));
        assert_eq!(form("-v 1"), Ok(Form::Details));
        assert_eq!(form("-p"), Ok(Form::Chips));
        assert_eq!(form("-pv"), Ok(Form::ChipDetails));
        assert_eq!(form("-vp 3"), Ok(Form::ChipDetails));
        assert_eq!(form("-s 0"), Ok(Form::State));
        assert_eq!(form("-sp 0"), Ok(Form::StateOfChip));
        assert_eq!(form("-t"), Ok(Form::Total(Total::Processors)));
        assert_eq!(form("-tc"), Ok(Form::Total(Total::Cores)));
        assert_eq!(form("-tp"), Ok(Form::Total(Total::Chips)));
        assert_eq!(form("-t -S all"), Ok(Form::Total(Total::Processors)));
        assert_eq!(form("-t -S no-intr"), Ok(Form::Total(Total::InState(State::NoIntr))));
        assert_eq!(form("-r all"), Ok(Form::Property("all".into())));
    }

    #[test]
    fn each_broken_rule_is_told() {
        let refused = |text, why: &str| assert_eq!(form(text), Err(why.to_owned()), "{text}");
        refused("-r all 0", "cannot specify CPUs with -r");
        refused("-r all -v", "cannot specify other arguments with -r");
        refused("-t 0", "cannot specify CPUs with -t");
        refused("-ts", "cannot specify -s or -v with -t");
        refused("-tv", "cannot specify -s or -v with -t");
        refused("-tc -S all", "cannot specify CPU state with -c or -p");
        refused("-tcp", "cannot specify -c and -p");
        refused("-c", "cannot specify -S or -c without -t");
        refused("-S all", "cannot specify -S or -c without -t");
        refused("-sv 0", "options -s and -v are mutually exclusive");
        refused("-s", "must specify exactly one processor if -s used");
        refused("-s 0 1", "must specify exactly one processor if -s used");
        refused("-t -S idle", "`idle` is not a CPU state");
    }
}
