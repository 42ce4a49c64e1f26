//! Pools on this machine, which push no thread out and are taken away at the end.

use crate::trial::{Bench, Trouble, run_ms};
use std::process::Command;

/// The pool of ours.
pub const POOL: &str = "bench";

/// Enabled pools, with one of our own. Dropping it disables them.
pub struct Pools<'b>(&'b Bench);

impl Pools<'_> {
    /// Enables pools and makes one of the last CPU that this process may use.
    ///
    /// # Errors
    /// There are pools or sets already, or there can be none.
    pub fn make(bench: &Bench) -> Result<Pools<'_>, Trouble> {
        let cpu = crate::goals::tools::processor()?;
        crate::goals::tools::must_be_free(bench)?;
        run_ms(&mut bench.command(&["pooladm", "-e", "--keep-others"]))?;
        let pools = Pools(bench);
        let script = format!(
            "create pset {POOL} ( uint pset.max = 64 ) create pool {POOL} associate pool {POOL} ( pset {POOL} ) \
             transfer to pset {POOL} ( cpu {cpu} ) modify pset {POOL} ( uint pset.min = 1 )"
        );
        run_ms(&mut bench.command(&["poolcfg", "-d", "-c", &script]))?;
        Ok(pools)
    }

    /// A program in the pool.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command(&["poolbind", "-p", POOL, "-e"]);
        command.args(words);
        command
    }
}

impl Drop for Pools<'_> {
    fn drop(&mut self) {
        let _ = run_ms(&mut self.0.command(&["pooladm", "-x"]));
        let _ = run_ms(&mut self.0.command(&["pooladm", "-d"]));
    }
}
