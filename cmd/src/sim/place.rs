//! The position of a line, for messages.

use crate::ctx::Ctx;

/// The position of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    script: Option<(String, usize)>,
    /// The columns at which the line was continued, after a backslash at the end of a line.
    breaks: Vec<usize>,
}

impl Place {
    /// The position of a line in a script, counted from 1.
    pub fn in_script(name: &str, line: usize) -> Place {
        Place { script: Some((name.to_owned(), line)), breaks: Vec::new() }
    }

    /// The position of a line that was typed at a terminal.
    pub fn at_terminal() -> Place {
        Place { script: None, breaks: Vec::new() }
    }

    /// Replaces the backslash at the end of the line by the text of the next line.
    pub fn go_on(&mut self, text: &mut String, next: &str) {
        text.pop();
        self.breaks.push(text.chars().count());
        text.push_str(next);
    }

    /// The number of lines before this column, and the column in its own line.
    fn within(&self, column: usize) -> (usize, usize) {
        let before = self.breaks.iter().take_while(|end| **end < column).count();
        let end = before.checked_sub(1).and_then(|at| self.breaks.get(at)).copied().unwrap_or(0);
        (before, column - end)
    }

    /// Whether the line is in a script.
    pub fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Reports the error at a column, and a remedy.
    pub fn tell(&self, column: usize, what: &str, remedy: Option<&str>, ctx: &mut Ctx<'_>) {
        ctx.out.flush();
        let (lines, column) = self.within(column);
        match &self.script {
            Some((name, line)) => ctx.err.line(format_args!("{name}:{}:{column}: {what}", line + lines)),
            None if lines > 0 => ctx.err.line(format_args!("line {}, column {column}: {what}", lines + 1)),
            None => ctx.err.line(format_args!("column {column}: {what}")),
        }
        if let Some(remedy) = remedy {
            ctx.hint(remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::Output;

    #[test]
    fn a_place_in_a_line_that_goes_on_is_that_of_its_own_line() {
        let told = |mut place: Place, column| {
            let mut text = "ps | \\".to_owned();
            place.go_on(&mut text, " wc \\");
            place.go_on(&mut text, "-l x");
            assert_eq!(text, "ps |  wc -l x");
            let mut err = Vec::new();
            place.tell(column, "no", None, &mut Ctx::new(Output::to(std::io::sink()), Output::to(&mut err)));
            String::from_utf8(err).unwrap()
        };
        // `ps | ` has 5 columns, ` wc ` four.
        for (column, is) in [(1, "s:7:1: no\n"), (5, "s:7:5: no\n"), (7, "s:8:2: no\n"), (13, "s:9:4: no\n")]
        {
            assert_eq!(told(Place::in_script("s", 7), column), is);
        }
        assert_eq!(told(Place::at_terminal(), 1), "column 1: no\n");
        assert_eq!(told(Place::at_terminal(), 7), "line 2, column 2: no\n");
    }
}
