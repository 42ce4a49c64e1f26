//! The tables of `poolstat`, exact to the byte.
//!
//! Field widths, separated by one blank: id 3, pool 20, type 4, rid 3, rset 20, and min, max, size, used and load 4 each. Names are
//! left-aligned, numbers right-aligned. A name longer than its field is cut to 16 characters and `...`.

use std::fmt;

millpond_model::words! {
    /// A field of a table.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Field {
        /// The number of the pool.
        Id = "id",
        /// The name of the pool.
        Pool = "pool",
        /// The type of its resource, always `pset`.
        Type = "type",
        /// The number of its set.
        Rid = "rid",
        /// The name of its set.
        Rset = "rset",
        /// The minimum number of CPUs.
        Min = "min",
        /// The maximum number of CPUs.
        Max = "max",
        /// The number of CPUs.
        Size = "size",
        /// The number of busy CPUs.
        Used = "used",
        /// The number of running and runnable threads.
        Load = "load",
    }
}

/// The fields of the default table.
pub const DEFAULT_FIELDS: [Field; 5] = [Field::Id, Field::Pool, Field::Size, Field::Used, Field::Load];

/// The first line of the default table: the type of the resources, above their numbers.
pub const DEFAULT_TOP: &str = "                              pset";

/// The line before a table if pools have changed since the last one.
pub const STATE_CHANGE: &str = "<<State change>>";

/// A pool and its set.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The number of the pool.
    pub pool_id: i64,
    /// Its name.
    pub pool: String,
    /// The number of the set, -1 for the default one.
    pub pset_id: i64,
    /// Its name.
    pub pset: String,
    /// The minimum number of CPUs.
    pub min: u64,
    /// The maximum number of CPUs.
    pub max: u64,
    /// The number of CPUs.
    pub size: u64,
    /// The number of busy CPUs over the interval; `None` prints as `-`.
    pub used: Option<f64>,
    /// The average number of running and runnable threads.
    pub load: f64,
}

impl Field {
    /// A text with the width and alignment of the field.
    fn aligned(self, text: &str) -> String {
        match self {
            Field::Id | Field::Rid => format!("{text:>3}"),
            Field::Pool | Field::Rset => format!("{text:<NAME_WIDTH$}"),
            Field::Type => format!("{text:<4}"),
            _ => format!("{text:>NUMBER_WIDTH$}"),
        }
    }

    fn of(self, row: &Row) -> String {
        match self {
            Field::Id => row.pool_id.to_string(),
            Field::Pool => cut(&row.pool),
            Field::Type => "pset".to_owned(),
            Field::Rid => row.pset_id.to_string(),
            Field::Rset => cut(&row.pset),
            Field::Min => scaled(row.min),
            Field::Max => scaled(row.max),
            Field::Size => row.size.to_string(),
            Field::Used => row.used.map_or_else(|| "-".to_owned(), fraction),
            Field::Load => fraction(row.load),
        }
    }
}

/// The width of a number.
const NUMBER_WIDTH: usize = 4;
/// The width of a name.
const NAME_WIDTH: usize = 20;
/// The characters of a longer name that stay.
const CUT_NAME: usize = 16;

/// A table: heading and rows. Several lines with newlines.
#[must_use]
pub fn table(fields: &[Field], rows: &[Row]) -> String {
    let head = line(fields, |field| field.word().to_owned());
    rows.iter().fold(head, |text, row| text + &line(fields, |field| field.of(row)))
}

/// The default table, without requested fields and resources. Several lines with newlines.
#[must_use]
pub fn default_table(rows: &[Row]) -> String {
    format!("{DEFAULT_TOP}\n{}", table(&DEFAULT_FIELDS, rows))
}

fn line(fields: &[Field], of: impl Fn(Field) -> String) -> String {
    let cells: Vec<String> = fields.iter().map(|field| field.aligned(&of(*field))).collect();
    cells.join(" ") + "\n"
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME_WIDTH {
        return name.to_owned();
    }
    name.chars().take(CUT_NAME).chain("...".chars()).collect()
}

/// A number of CPUs; from 1000 on in thousands, millions and so on, rounded.
fn scaled(value: u64) -> String {
    if value < 1000 {
        return value.to_string();
    }
    let mut unit = 1u64;
    let mut rounded = value;
    let mut letter = 'K';
    for next in ['K', 'M', 'G', 'T', 'P', 'E'] {
        unit *= 1000;
        letter = next;
        rounded = (value / unit) + u64::from(value % unit >= unit / 2);
        // 999,500 is 1M rather than 1000K.
        if rounded < 1000 {
            break;
        }
    }
    format!("{rounded}{letter}")
}

/// Two decimals below 10, one below 100, none above. A value that rounds up to 10 or 100 has the form of these, so that
/// its column keeps its width.
fn fraction(value: f64) -> String {
    let forms = [format!("{value:.2}"), format!("{value:.1}")];
    forms.into_iter().find(|text| text.len() <= NUMBER_WIDTH).unwrap_or_else(|| format!("{value:.0}"))
}

/// A list with an invalid word. Displays as the message of Solaris.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    /// The column at which the word begins, in bytes from 1.
    pub column: usize,
    /// The word; empty for an empty list.
    pub text: String,
    /// The expected items.
    pub noun: Listed,
}

/// The kind of items in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// `-o`: fields.
    Fields,
    /// `-r`: types of resources.
    Resources,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.noun {
            Listed::Fields => write!(f, "unsupported statistic field: {}", self.text),
            Listed::Resources => write!(f, "unsupported resource type: {}", self.text),
        }
    }
}

impl std::error::Error for ListError {}

impl ListError {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self.noun {
            Listed::Fields => format!("the fields are {}", Field::ALL.map(Field::word).join(" ")),
            Listed::Resources => "the types are pset, and all for every type".to_owned(),
        }
    }
}

/// `-o`: fields separated by commas or blanks, in any order. Repetition is allowed.
///
/// # Errors
/// [`ListError`] for the first word that is not a field, and for an empty list.
pub fn parse_fields(text: &str) -> Result<Vec<Field>, ListError> {
    let field = |word: &str| Field::ALL.into_iter().find(|field| field.word() == word);
    listed(text, Listed::Fields, field)
}

/// `-r`: types of resources separated by commas or blanks. There is only one type, so the list has no effect.
///
/// # Errors
/// [`ListError`] for the first word that is not a type, and for an empty list.
pub fn parse_resources(text: &str) -> Result<(), ListError> {
    let known = |word: &str| matches!(word, "pset" | "all").then_some(());
    listed(text, Listed::Resources, known).map(|_| ())
}

fn listed<T>(text: &str, noun: Listed, meaning: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, ListError> {
    let mut all = Vec::new();
    let mut column = 1;
    for word in text.split([',', ' ', '\t']) {
        if !word.is_empty() {
            let error = || ListError { column, text: word.to_owned(), noun };
            all.push(meaning(word).ok_or_else(error)?);
        }
        column += word.len() + 1;
    }
    if all.is_empty() { Err(ListError { column: 1, text: String::new(), noun }) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The published examples.
    const DEFAULT: &str = "                              pset
 id pool                 size used load
  0 pool_default            4 0.61 1.20
  1 pool_web                3 2.85 14.6
  2 pool_batch              1 1.00 3.07
";
    const RESOURCES: &str = " id pool                 type rid rset                  min  max size used load
  0 pool_default         pset  -1 pset_default            1  66K    4 0.61 1.20
  1 pool_web             pset   1 pset_web                2    4    3 2.85 14.6
  2 pool_batch           pset   2 pset_batch              1    1    1 1.00 3.07
";
    const CHOSEN: &str = "pool                 rset                 size load
pool_web             pset_web                3 14.6
";
    // A name in the last column keeps its trailing blanks, which are written | here.
    const LONG: &str = "\
used  max rid pool||||||||||||||||
   -   1M  12 a_pool_with_20_chars
 100 999K 123 a_pool_with_21_c...|
";

    fn row(ids: (i64, i64), name: &str, [min, max, size]: [u64; 3], used: f64, load: f64) -> Row {
        let (pool, pset) = (format!("pool_{name}"), format!("pset_{name}"));
        Row { pool_id: ids.0, pool, pset_id: ids.1, pset, min, max, size, used: Some(used), load }
    }

    fn rows() -> [Row; 3] {
        [
            row((0, -1), "default", [1, 65_536, 4], 0.61, 1.2),
            row((1, 1), "web", [2, 4, 3], 2.85, 14.6),
            row((2, 2), "batch", [1, 1, 1], 1.0, 3.07),
        ]
    }

    #[test]
    fn the_published_tables_come_out_to_the_byte() {
        assert_eq!(default_table(&rows()), DEFAULT);
        assert_eq!(table(&Field::ALL, &rows()), RESOURCES);
        let fields = parse_fields("pool,rset,size,load").unwrap();
        assert_eq!(table(&fields, &rows()[1..2]), CHOSEN);
        assert_eq!(DEFAULT_TOP.len(), 34);
    }

    #[test]
    fn long_names_are_cut_and_what_is_not_known_is_a_dash() {
        let mut first = row((1, 12), "", [0, 999_500, 0], 0.0, 0.0);
        (first.pool, first.used) = ("a_pool_with_20_chars".to_owned(), None);
        let mut second = row((2, 123), "", [0, 999_499, 0], 99.96, 0.0);
        second.pool = "a_pool_with_21_chars_".to_owned();
        let fields = parse_fields("used max,rid pool").unwrap();
        assert_eq!(table(&fields, &[first, second]), LONG.replace('|', " "));
    }

    #[test]
    fn numbers_fit_into_four_places() {
        let fractions = [
            (0.0, "0.00"),
            (0.004, "0.00"),
            (9.99, "9.99"),
            (9.996, "10.0"),
            (10.0, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (128.4, "128"),
            (4096.0, "4096"),
            (12_345.6, "12346"),
        ];
        for (value, text) in fractions {
            assert_eq!(fraction(value), text);
        }
        let whole = [
            (0, "0"),
            (999, "999"),
            (1000, "1K"),
            (1499, "1K"),
            (1500, "2K"),
            (65_536, "66K"),
            (1_000_000, "1M"),
            (2_600_000_000, "3G"),
            (7_000_000_000_000, "7T"),
            (7_000_000_000_000_000, "7P"),
            (u64::MAX, "18E"),
        ];
        for (value, text) in whole {
            assert_eq!(scaled(value), text);
        }
    }

    #[test]
    fn fields_are_chosen_by_their_words() {
        use Field::{Load, Pool, Size};
        assert_eq!(parse_fields("pool,size load").unwrap(), [Pool, Size, Load]);
        assert_eq!(parse_fields(" load, pool\tload,").unwrap(), [Load, Pool, Load]);
        let error = parse_fields("pool,sizes,load").unwrap_err();
        assert_eq!((error.column, error.to_string()), (6, "unsupported statistic field: sizes".to_owned()));
        assert_eq!(error.hint(), "the fields are id pool type rid rset min max size used load");
        assert_eq!(parse_fields("POOL").unwrap_err().column, 1);
        assert_eq!(parse_fields(" ,").unwrap_err().to_string(), "unsupported statistic field: ");
    }

    #[test]
    fn sets_are_the_only_resources() {
        assert_eq!(parse_resources("pset"), Ok(()));
        assert_eq!(parse_resources("all pset"), Ok(()));
        let error = parse_resources("pset,mset").unwrap_err();
        assert_eq!((error.column, error.to_string()), (6, "unsupported resource type: mset".to_owned()));
        assert_eq!(error.hint(), "the types are pset, and all for every type");
    }

    #[test]
    fn fuzz_lists() {
        millpond_fuzz::check_text("formats-poolstat", &["id,pool rset", "all,pset"], |text| {
            match parse_fields(text) {
                Ok(fields) => {
                    let words: Vec<&str> = fields.iter().map(|f| f.word()).collect();
                    assert_eq!(parse_fields(&words.join(",")), Ok(fields));
                }
                Err(error) => assert!(text[error.column - 1..].starts_with(&error.text)),
            }
            let _ = parse_resources(text);
        });
    }

    proptest! {
        #[test]
        fn columns_stay_where_they_are(min: u64, max: u64, size in 0u64..10_000, used in 0.0..9999.4f64, load in 0.0..9999.4f64) {
            let row = row((1, 1), "web", [min, max, size], used, load);
            let text = table(&Field::ALL, &[row]);
            let lengths: Vec<usize> = text.lines().map(str::len).collect();
            prop_assert_eq!(lengths[0], lengths[1]);
        }
    }
}
