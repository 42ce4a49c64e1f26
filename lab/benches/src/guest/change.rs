//! `psrset -c` and `-d` as whole programs, compared with a small static program that only makes the writes that the kernel needs.

use crate::line::Pairs;
use crate::trial::{CGROUP, Trouble, run_ms};
use std::process::Command;

/// Pairs of milliseconds. Both restore the machine.
pub fn measure(pairs: usize) -> Result<Pairs, Trouble> {
    let mut result = Pairs::default();
    // Discard the first round, which loads both into memory.
    for round in 0..=pairs {
        let ours = run_ms(Command::new("psrset").args(["-c", "2", "3"]))?
            + run_ms(Command::new("psrset").args(["-d", "1"]))?;
        let peer = run_ms(Command::new("bare").args(["create", CGROUP, "bare", "2-3"]))?
            + run_ms(Command::new("bare").args(["destroy", CGROUP, "bare"]))?;
        if round > 0 {
            result.push(ours, peer);
        }
    }
    Ok(result)
}
