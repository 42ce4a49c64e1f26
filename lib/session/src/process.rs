//! This process itself: its number, and becoming another program.

use crate::output::reason;
use millpond_model::Pid;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The number of this process.
#[must_use]
pub fn own_pid() -> Pid {
    Pid(std::process::id())
}

/// The file of the program that is running: what starts another one like it.
///
/// # Errors
/// The system's reason, in words.
pub fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| reason(&error))
}

/// The file of a program on the search path; `None` where there is none.
#[must_use]
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Becomes another program: same process, same bindings, and in its environment what is given beside. Comes back only when that fails.
///
/// # Errors
/// The system's reason, in words.
pub fn exec(
    program: &OsString,
    arguments: &[OsString],
    environment: &[(&str, OsString)],
) -> Result<Infallible, String> {
    let environment = environment.iter().map(|(name, value)| (name, value));
    Err(reason(&Command::new(program).args(arguments).envs(environment).exec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_told_in_words() {
        let said = exec(&"/nonexistent/program".into(), &[], &[]).unwrap_err();
        assert_eq!(said, "No such file or directory");
    }

    #[test]
    fn a_program_is_found_where_shells_find_it() {
        assert!(program_on_path("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(program_on_path("no-such-program-at-all"), None);
    }
}
