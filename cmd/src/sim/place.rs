//! Where a line stands, for messages.

use crate::ctx::Ctx;

/// Where a line stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    script: Option<(String, usize)>,
}

impl Place {
    /// In a script, on that line, from 1.
    pub fn in_script(name: &str, line: usize) -> Place {
        Place { script: Some((name.to_owned(), line)) }
    }

    /// At a terminal, just typed.
    pub fn at_terminal() -> Place {
        Place { script: None }
    }

    /// Whether it is a script's.
    pub fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Tells what is wrong at a column, and what would help.
    pub fn tell(&self, column: usize, what: &str, remedy: Option<&str>, ctx: &mut Ctx<'_>) {
        ctx.out.flush();
        match &self.script {
            Some((name, line)) => ctx.err.line(format_args!("{name}:{line}:{column}: {what}")),
            None => ctx.err.line(format_args!("column {column}: {what}")),
        }
        if let Some(remedy) = remedy {
            ctx.hint(remedy);
        }
    }
}
