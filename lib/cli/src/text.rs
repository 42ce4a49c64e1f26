//! Wraps text to lines of a given width.

/// The width of help, in columns.
pub const WIDTH: usize = 80;

/// Breaks a text at blanks into lines of at most `WIDTH` columns, each indented by `indent` blanks. A longer word is a line of its own.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let columns = indent + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && columns > WIDTH {
            push(&mut lines, &line, indent);
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        push(&mut lines, &line, indent);
    }
    lines
}

fn push(lines: &mut String, line: &str, indent: usize) {
    lines.extend(std::iter::repeat_n(' ', indent));
    lines.push_str(line);
    lines.push('\n');
}

/// A table of two columns: names, and wrapped texts. A name longer than `width_max` has its text on the next line.
pub fn table<'t>(
    rows: impl IntoIterator<Item = (String, &'t str)>,
    indent: usize,
    width_max: usize,
) -> String {
    let rows: Vec<(String, &str)> = rows.into_iter().collect();
    let widths = rows.iter().map(|(name, _)| name.chars().count()).filter(|width| *width <= width_max);
    let column = indent + widths.max().unwrap_or(width_max) + 2;
    let mut text = String::new();
    for (name, what) in rows {
        let beside = wrap(what, column);
        let head = format!("{:indent$}{name}", "");
        let columns = head.chars().count();
        if columns + 2 > column || beside.is_empty() {
            text += &format!("{head}\n{beside}");
        } else {
            let gap = column - columns;
            text += &format!("{head}{:gap$}{}", "", beside.trim_start());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("a b", 2), "  a b\n");
        assert_eq!(wrap(" ", 2), "");
        let long = "word ".repeat(30);
        assert!(wrap(&long, 4).lines().all(|line| line.len() <= WIDTH && line.starts_with("    word")));
    }

    #[test]
    fn a_long_name_has_its_text_below_it() {
        let rows =
            [("-a".to_owned(), "one"), ("--a-very-long-name".to_owned(), "two"), ("-bc".to_owned(), "three")];
        assert_eq!(table(rows, 2, 6), "  -a   one\n  --a-very-long-name\n       two\n  -bc  three\n");
    }
}
