//! Undo is exact on trees with foreign settings: random changes are all undone, and then every file is unchanged.
//!
//! The observer is [`HandMade::snapshot`](crate::common::HandMade::snapshot), which reads files and uses nothing of the crate.
//! `MILLPOND_ENVIRONMENTS` sets the number of trees (200); `MILLPOND_ENVIRONMENT` runs a single one by its number.

mod changes;
mod mutants;
mod random;
mod world;

use changes::{change, undo};
use millpond_linux::LinuxMachine;
use millpond_machine::{Journal, Machine, MemoryJournal, Writer};
use millpond_model::{CpuId, State};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use world::World;

const TREES: u64 = 200;

/// The injected defects of a mutant.
struct Broken {
    journal: fn() -> Box<dyn Journal>,
    /// Damage to the tree before everything is undone.
    damage: fn(&World),
}

const WHOLE: Broken = Broken { journal: || Box::new(MemoryJournal::default()), damage: |_| {} };

type Files = BTreeMap<PathBuf, String>;

/// The files that differ.
fn differing(before: &Files, after: &Files) -> Vec<String> {
    let paths: BTreeSet<&PathBuf> = before.keys().chain(after.keys()).collect();
    let differing = paths.into_iter().filter(|path| before.get(*path) != after.get(*path));
    differing
        .map(|path| format!("{}: {:?} -> {:?}", path.display(), before.get(path), after.get(path)))
        .collect()
}

/// Changes the tree with this number, undoes everything, and compares. Returns the number of changes. The error lists the
/// differences.
fn run(number: u64, broken: &Broken) -> Result<u64, String> {
    let mut random = Random::new(number);
    let world = World::new(&mut random);
    let machine = world.made.machine_with((broken.journal)());
    let states: BTreeMap<CpuId, State> =
        machine.processors().unwrap().states().unwrap().iter().map(|p| (p.cpu, p.state)).collect();
    let (before, masks) = (world.files(), world.masks());
    let (mut story, mut changed) = (Vec::new(), 0);
    let check = |story: &[String], before: &Files, after: &Files| {
        let differing = differing(before, after);
        let shown = || format!("tree {number}: {story:#?}\n{}", differing.join("\n"));
        if differing.is_empty() { Ok(()) } else { Err(shown()) }
    };
    for _ in 0..1 + random.below(8) {
        let ready = world.files();
        let done = change(&machine, &world, &mut random);
        changed += u64::from(done.result.is_ok());
        let shown = done.result.as_ref().err().map_or_else(|| "done".to_owned(), ToString::to_string);
        story.push(format!("{}: {shown}", done.what));
        if let (Ok(()), Some(back)) = (&done.result, done.back) {
            (broken.damage)(&world);
            back(&machine);
            story.push("undone at once".to_owned());
            check(&story, &ready, &world.files())?;
        }
    }
    (broken.damage)(&world);
    story.extend(undo(&machine, &world, &states, &mut random));
    check(&story, &before, &world.files())?;
    // A kernel before 6.2 restores an off-line CPU in a thread's mask only when the CPU returns.
    if !world.off.is_empty() && !machine.os().remembers_masks() {
        world.all_return();
        settle(&machine);
        story.push("all CPUs are on-line".to_owned());
    }
    check(&story, &masks, &world.masks())?;
    Ok(changed)
}

fn settle(machine: &LinuxMachine) {
    Writer::open(machine).unwrap().settle().unwrap();
}

#[test]
fn everything_returns_whatever_other_programs_made() {
    let count = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let numbers = match count("MILLPOND_ENVIRONMENT") {
        Some(one) => one..one + 1,
        None => 0..count("MILLPOND_ENVIRONMENTS").unwrap_or(TREES),
    };
    let (next, changed) = (AtomicU64::new(numbers.start), AtomicU64::new(0));
    let work = || {
        let mut failed = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return failed;
            }
            match run(number, &WHOLE) {
                Ok(count) => drop(changed.fetch_add(count, Ordering::Relaxed)),
                Err(shown) => failed.push(shown),
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{} trees:\n{}", failed.len(), failed.join("\n\n"));
    let changed = changed.into_inner();
    println!("{changed} changes were made and undone");
    assert!(changed > 0);
}
