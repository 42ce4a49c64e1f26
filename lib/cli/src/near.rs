//! The nearest known word to a misspelt one.

/// Below this length more than one changed letter is not a misspelling.
const SHORT: usize = 5;

/// The known word with the fewest changed letters, if it is close enough: one letter in short words, two in longer ones.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let limit = if word.chars().count() < SHORT { 1 } else { 2 };
    let with_distance = known.into_iter().map(|name| (distance(word, name), name));
    with_distance
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, n)| n)
}

/// The number of letters to change, insert or remove (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = corner + usize::from(from != *to);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters_to_change() {
        assert_eq!(distance("psrst", "psrset"), 1);
        assert_eq!(distance("", "run"), 3);
        assert_eq!(distance("mpsatt", "mpstat"), 2);
    }

    #[test]
    fn a_word_that_is_far_from_all_has_no_nearest_one() {
        assert_eq!(nearest("keep-other", ["whole-cores", "keep-others"]), Some("keep-others"));
        assert_eq!(nearest("frobnicate", ["whole-cores", "keep-others"]), None);
        assert_eq!(nearest("al", ["all"]), Some("all"));
        assert_eq!(nearest("xy", ["all"]), None);
    }
}
