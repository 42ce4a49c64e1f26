//! Pools with shared CPUs on the real machine, removed at the end.

use crate::trial::{Bench, Trouble, run_ms};
use std::process::Command;

/// The name of the pool.
pub const POOL: &str = "bench";

/// Enabled pools with one additional pool. Dropping the value disables them.
pub struct Pools<'b>(&'b Bench);

impl Pools<'_> {
    /// Enables pools and creates one with the last CPU that this process may use.
    ///
    /// # Errors
    /// Pools or sets exist already, or pools are impossible.
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

    /// A command in the pool.
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
