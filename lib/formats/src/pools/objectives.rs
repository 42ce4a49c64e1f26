//! The syntax of objectives of the system and of sets, by poold(8) of Solaris.
//!
//! ```text
//!   objectives = objective { ";" objective }
//!   objective  = [ importance ":" ] keyword [ op value | value ]
//!   system     : wt-load
//!   pset       : locality tight|loose|none    utilization <|>|~ PERCENT
//! ```
//!
//! There are no errors here: poold ignores invalid objectives. An invalid expression, or one that contradicts an
//! earlier objective, is ignored with a warning. Of two contradictory objectives the first one stays.
//!
//! `~` may be combined with `<` and `>`: the Solaris manuals forbid it, the command accepts it. It contradicts them only if its
//! value is outside their range: `utilization < 40; utilization ~ 50`.

use millpond_model::pools::{
    Bound, Complaint, ElementKind, Importance, Locality, Objective, Objectives, Warning, Weighted,
};

/// Parses the objectives of an element. Only the system and sets have objectives. Empty expressions are skipped.
#[must_use]
pub fn parse(text: &str, kind: ElementKind) -> Objectives {
    let mut parsed = Objectives { text: text.to_owned(), ..Objectives::default() };
    let mut start = 0;
    for piece in text.split(';') {
        let expression = piece.trim();
        let column = start + piece.len() - piece.trim_start().len() + 1;
        start += piece.len() + 1;
        if expression.is_empty() {
            continue;
        }
        let found = expression_of(expression, kind).and_then(|found| accept(&parsed.hold, found));
        match found {
            Ok(found) => parsed.hold.push(found),
            Err(what) => parsed.warnings.push(Warning { column, text: expression.to_owned(), what }),
        }
    }
    parsed
}

/// Returns the objective, unless an earlier one contradicts it.
fn accept(hold: &[Weighted], new: Weighted) -> Result<Weighted, Complaint> {
    let mut before = hold.iter().map(|w| w.objective);
    if before.clone().any(|old| old == new.objective) {
        return Err(Complaint::Duplicate);
    }
    match before.find(|old| contradict(*old, new.objective)) {
        Some(old) => Err(Complaint::Contradictory(old)),
        None => Ok(new),
    }
}

/// Whether two different objectives contradict each other.
fn contradict(a: Objective, b: Objective) -> bool {
    match (a, b) {
        (Objective::Locality(_), Objective::Locality(_)) => true,
        (Objective::Utilization(a, x), Objective::Utilization(b, y)) => match (a, b) {
            _ if a == b => true,
            // A lower and an upper bound with the same value leave no range.
            (Bound::Above, Bound::Below) => x >= y,
            (Bound::Below, Bound::Above) => y >= x,
            // A bound may be equal to the target of `~`.
            (Bound::Near, Bound::Below) | (Bound::Above, Bound::Near) => x > y,
            (Bound::Below, Bound::Near) | (Bound::Near, Bound::Above) => y > x,
            _ => false,
        },
        _ => false,
    }
}

fn expression_of(text: &str, kind: ElementKind) -> Result<Weighted, Complaint> {
    let (importance, rest) = match text.split_once(':') {
        Some((number, rest)) => (number_of(number.trim()), rest.trim_start()),
        None => (Some(1), text),
    };
    let end = rest.find(|c: char| !(c.is_ascii_alphabetic() || c == '-')).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let objective = match (kind, name) {
        (_, "") => return Err(Complaint::Expression),
        (ElementKind::System, "wt-load") => rest.is_empty().then_some(Objective::WtLoad),
        (ElementKind::Pset, "locality") => locality_of(rest),
        (ElementKind::Pset, "utilization") => utilization_of(rest),
        _ => return Err(Complaint::Name(kind)),
    };
    match (importance, objective) {
        (Some(importance), Some(objective)) => Ok(Weighted { importance, objective }),
        _ => Err(Complaint::Expression),
    }
}

/// Parses ` tight`. The keyword has ended before it, so a blank must follow unless the text is empty.
fn locality_of(text: &str) -> Option<Objective> {
    let word = text.strip_prefix(|c: char| c.is_whitespace())?.trim_start();
    let all = [Locality::Tight, Locality::Loose, Locality::None];
    all.into_iter().find(|l| l.to_string() == word).map(Objective::Locality)
}

/// Parses ` < 80`, with any number of blanks.
fn utilization_of(text: &str) -> Option<Objective> {
    let text = text.trim_start();
    let bound = match text.chars().next()? {
        '<' => Bound::Below,
        '>' => Bound::Above,
        '~' => Bound::Near,
        _ => return None,
    };
    let percent = number_of(text[1..].trim_start())?;
    u8::try_from(percent).ok().filter(|p| *p <= 100).map(|p| Objective::Utilization(bound, p))
}

/// Digits only.
fn number_of(text: &str) -> Option<Importance> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Objectives as text, and warnings with their columns.
    fn told(text: &str, kind: ElementKind) -> (String, Vec<String>) {
        let parsed = parse(text, kind);
        (print(&parsed.hold), parsed.warnings.iter().map(|w| format!("{}: {w}", w.column)).collect())
    }

    fn print(objectives: &[Weighted]) -> String {
        objectives.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn clean(text: &str, kind: ElementKind) -> String {
        let (objectives, warnings) = told(text, kind);
        assert_eq!(warnings, [""; 0], "{text}");
        objectives
    }

    #[test]
    fn the_examples_of_the_reference_are_understood() {
        let parsed = parse("2: wt-load", ElementKind::System);
        assert_eq!(parsed.hold, [Weighted { importance: 2, objective: Objective::WtLoad }]);
        let parsed = parse("locality tight; 3: utilization < 80", ElementKind::Pset);
        let tight = Weighted { importance: 1, objective: Objective::Locality(Locality::Tight) };
        let below = Weighted { importance: 3, objective: Objective::Utilization(Bound::Below, 80) };
        assert_eq!((parsed.hold, parsed.warnings), (vec![tight, below], vec![]));
        let text = "utilization > 30; utilization < 80";
        assert_eq!(clean(text, ElementKind::Pset), text);
    }

    #[test]
    fn blanks_are_free_except_behind_locality() {
        assert_eq!(clean("  2  :wt-load ", ElementKind::System), "2: wt-load");
        assert_eq!(
            clean("utilization<80;utilization\t>  5", ElementKind::Pset),
            "utilization < 80; utilization > 5"
        );
        assert_eq!(clean("1:locality   loose", ElementKind::Pset), "locality loose");
        assert_eq!(clean("", ElementKind::Pset), "");
        assert_eq!(clean(" ; wt-load ;", ElementKind::System), "wt-load");
        assert_eq!(
            told("localitytight", ElementKind::Pset).1,
            ["1: unrecognized objective name for pset: localitytight"]
        );
    }

    #[test]
    fn names_belong_to_the_system_or_to_sets() {
        assert_eq!(
            told("wt-load; locality none", ElementKind::Pset),
            ("locality none".into(), vec!["1: unrecognized objective name for pset: wt-load".into()])
        );
        assert_eq!(
            told("wt-load;  locality none", ElementKind::System),
            ("wt-load".into(), vec!["11: unrecognized objective name for system: locality none".into()])
        );
        let pool = parse("wt-load", ElementKind::Pool);
        assert_eq!(pool.warnings[0].to_string(), "unrecognized objective name for pool: wt-load");
        assert_eq!(pool.warnings[0].hint(), "a pool has no objectives; the system and sets have");
    }

    #[test]
    fn what_is_wrong_behind_a_name_is_an_unrecognized_expression() {
        for wrong in [
            "utilization",
            "utilization 80",
            "utilization < 101",
            "utilization < -1",
            "utilization < +1",
            "utilization < 80%",
            "utilization <= 80",
            "utilization < 80 90",
            "locality",
            "locality near",
            "locality tight loose",
            "x: locality tight",
            ": locality tight",
            "-1: locality tight",
            "4294967296: locality tight",
            "3:",
            "1: 2: locality tight",
            "< 80",
        ] {
            let text = format!("locality none; {wrong}");
            assert_eq!(
                told(&text, ElementKind::Pset),
                ("locality none".into(), vec![format!("16: unrecognized expression: {wrong}")])
            );
        }
        assert_eq!(told("wt-load 5", ElementKind::System).1, ["1: unrecognized expression: wt-load 5"]);
    }

    #[test]
    fn contradictions_are_left_out_and_the_first_one_stays() {
        let told = |text: &str| told(text, ElementKind::Pset);
        let contradiction = |kept: &str, column, text: &str| {
            (kept.to_owned(), vec![format!("{column}: contradictory objectives: {text}")])
        };
        assert_eq!(
            told("locality tight; locality loose"),
            contradiction("locality tight", 17, "locality loose")
        );
        assert_eq!(
            told("utilization < 80; utilization < 70"),
            contradiction("utilization < 80", 19, "utilization < 70")
        );
        for (first, then) in [("> 80", "< 80"), ("< 30", "> 80"), ("< 40", "~ 50"), ("~ 50", "> 60")] {
            assert_eq!(
                told(&format!("utilization {first}; utilization {then}")),
                contradiction(&format!("utilization {first}"), 19, &format!("utilization {then}"))
            );
        }
        let warning = parse("locality tight; locality loose", ElementKind::Pset).warnings.remove(0);
        assert_eq!(warning.hint(), "`locality tight` stands before it and is kept; both cannot hold");
        assert_eq!(
            told("locality tight; 5: locality tight"),
            ("locality tight".into(), vec!["17: duplicate objective: 5: locality tight".into()])
        );
        assert_eq!(
            self::told("wt-load; 2: wt-load", ElementKind::System),
            ("wt-load".into(), vec!["10: duplicate objective: 2: wt-load".into()])
        );
    }

    #[test]
    fn near_may_stand_between_a_floor_and_a_ceiling() {
        for text in
            ["utilization < 80; utilization ~ 50", "utilization ~ 50; utilization > 50; utilization < 51"]
        {
            assert_eq!(clean(text, ElementKind::Pset), text);
        }
    }

    #[test]
    fn fuzz_objectives() {
        let seeds =
            ["2: wt-load", "locality tight; 3: utilization < 80", "utilization>30;utilization < 80", "1:x;;"];
        millpond_fuzz::check_text("formats-objectives", &seeds, |text| {
            for kind in [ElementKind::System, ElementKind::Pset, ElementKind::Pool] {
                let parsed = parse(text, kind);
                let again = parse(&print(&parsed.hold), kind);
                assert_eq!((again.hold, again.warnings), (parsed.hold, vec![]));
                for warning in &parsed.warnings {
                    assert!(text[warning.column - 1..].starts_with(&warning.text));
                    assert!(!warning.hint().is_empty());
                }
            }
        });
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_itself(
            locality in proptest::option::of(0usize..3),
            bounds in (0u8..=100, 0u8..=100, 0u8..=100),
            importances in proptest::array::uniform4(0u32..9),
        ) {
            let [low, near, high] = { let mut all = [bounds.0, bounds.1, bounds.2]; all.sort_unstable(); all };
            prop_assume!(low < high);
            let localities = [Locality::Tight, Locality::Loose, Locality::None];
            let all = locality.map(|l| Objective::Locality(localities[l])).into_iter().chain([
                Objective::Utilization(Bound::Near, near),
                Objective::Utilization(Bound::Above, low),
                Objective::Utilization(Bound::Below, high),
            ]);
            let objectives: Vec<Weighted> =
                all.zip(importances).map(|(objective, importance)| Weighted { importance, objective }).collect();
            let parsed = parse(&print(&objectives), ElementKind::Pset);
            prop_assert_eq!((parsed.hold, parsed.warnings), (objectives, vec![]));
        }
    }
}
