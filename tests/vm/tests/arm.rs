//! Hardware counters of a 64-bit ARM CPU, which the emulator implements. Only with `MILLPOND_VM=all`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::path::Path;

use millpond_vm::{ArmTools, Cache, Unavailable, is_required, obtain_arm_kernel};

/// The output of the guest.
fn said() -> Result<String, Unavailable> {
    let tools = ArmTools::find()?;
    let cache = Cache::from_environment()?;
    let kernel = obtain_arm_kernel(&cache, &|line| println!("vm: {line}"))?;
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("init");
    tools.compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/arm_counters.c"), &program)?;
    tools.boot(&kernel, &program, dir.path())
}

/// Instructions in user mode for the system calls that start and stop the counters: at most a hundred.
const CALLS: u64 = 100;

#[test]
fn a_group_counts_the_instructions_of_a_loop_in_a_thread_and_on_a_processor() {
    if !std::env::var("MILLPOND_VM").is_ok_and(|v| v == "all") {
        println!("vm: arm: skipped: only with MILLPOND_VM=all");
        return;
    }
    let said = match said() {
        Ok(said) => said,
        Err(why) if is_required() => panic!("{why}"),
        Err(why) => {
            println!("vm: arm: skipped: {why}");
            return;
        }
    };
    let told: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("COUNTED ")).collect();
    assert_eq!(told.last(), Some(&"end"), "{said}");
    let mut counted = Vec::new();
    for line in &told[..told.len() - 1] {
        let (whom, figures) = line.split_once(' ').unwrap();
        let figures: Vec<u64> = figures.split(' ').map(|word| word.parse().expect(line)).collect();
        let [turns, cycles, instructions, all_the_time] = figures[..] else { panic!("{line}") };
        // Two instructions per iteration, and one cycle per instruction, because guest time counts instructions.
        assert!((2 * turns..2 * turns + CALLS).contains(&instructions), "{line}");
        assert!(cycles.abs_diff(instructions) < CALLS, "{line}");
        assert_eq!(all_the_time, 1, "{line}");
        counted.push((whom.to_owned(), turns));
    }
    let expected = ["thread", "processor"].map(|whom| [1, 2, 4].map(|n| (whom.to_owned(), n * 1_000_000)));
    assert_eq!(counted, expected.concat());
}
