//! Which processes and threads are shown.

use crate::failure::Failure;
use crate::values::{ranges, words};
use millpond_cli::Parsed;
use millpond_model::{CpuId, GroupId, Named, Pid, ProcessEntry, PsetId, Standing};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// What was typed; everything where a list is lacking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pids: Option<BTreeSet<Pid>>,
    cpus: Option<BTreeSet<CpuId>>,
    sets: Option<BTreeSet<PsetId>>,
    homes: Option<BTreeSet<GroupId>>,
    tasks: Option<BTreeSet<u32>>,
    effective: Option<BTreeSet<String>>,
    real: Option<BTreeSet<String>>,
    projects: Option<BTreeSet<String>>,
    zones: Option<BTreeSet<String>>,
    /// Names or numbers of pools, which the machine's pools understand.
    pub pools: Vec<String>,
}

impl Choice {
    /// Understands the lists.
    ///
    /// # Errors
    /// [`Failure::Operand`] for a word that is no number where one is wanted.
    pub fn read(parsed: &Parsed) -> Result<Choice, Failure> {
        let mut sets: Option<BTreeSet<PsetId>> = several(parsed, 'C', PsetId)?;
        if parsed.long("set") {
            let named = ranges(&parsed.long_values("set"), "--set")?;
            sets.get_or_insert_default().extend(named.into_iter().map(PsetId));
        }
        Ok(Choice {
            pids: numbers(parsed, 'p')?,
            cpus: several(parsed, 'P', CpuId)?,
            sets,
            homes: several(parsed, 'h', GroupId)?,
            tasks: numbers::<Pid>(parsed, 'k')?.map(|tasks| tasks.into_iter().map(|task| task.0).collect()),
            effective: names(parsed, 'u'),
            real: names(parsed, 'U'),
            projects: names(parsed, 'j'),
            zones: names(parsed, 'z'),
            pools: words(&parsed.long_values("pool")).collect(),
        })
    }

    /// Users that were named and are not there, where users are known at all.
    pub fn strangers<'c>(&'c self, users: &'c BTreeMap<u32, String>) -> impl Iterator<Item = &'c str> {
        let named = [&self.effective, &self.real].into_iter().flatten().flatten().map(String::as_str);
        let is_known = |name: &str| users.is_empty() || users.values().any(|user| user == name);
        named.filter(move |name| name.parse::<u32>().is_err() && !is_known(name))
    }

    /// Whether somebody must look where processes are.
    pub fn needs_places(&self) -> bool {
        self.sets.is_some() || self.homes.is_some() || self.zones.is_some()
    }

    /// Whether a process is meant.
    pub fn takes(&self, process: &ProcessEntry, users: &BTreeMap<u32, String>) -> bool {
        let user = |list: &Option<BTreeSet<String>>, uid: u32| {
            let named = |list: &BTreeSet<String>| users.get(&uid).is_some_and(|name| list.contains(name));
            list.as_ref().is_none_or(|list| list.contains(&uid.to_string()) || named(list))
        };
        let named = |list: &Option<BTreeSet<String>>, it: &Named| {
            list.as_ref().is_none_or(|list| list.contains(&it.name) || list.contains(&it.id.to_string()))
        };
        has(self.pids.as_ref(), process.pid)
            && has(self.tasks.as_ref(), process.task)
            && user(&self.effective, process.euid)
            && user(&self.real, process.uid)
            && named(&self.projects, &process.project)
            && named(&self.zones, &process.zone)
    }

    /// Whether a thread, or a process by the thread that stands for it, is where it is meant to be. `home`: its home lgroup.
    pub fn takes_place(&self, standing: &Standing, home: Option<GroupId>) -> bool {
        has(self.sets.as_ref(), standing.set)
            && self.cpus.as_ref().is_none_or(|list| standing.cpu.is_some_and(|cpu| list.contains(&cpu)))
            && self.homes.as_ref().is_none_or(|list| home.is_some_and(|home| list.contains(&home)))
    }
}

fn has<T: Ord>(list: Option<&BTreeSet<T>>, value: T) -> bool {
    list.is_none_or(|list| list.contains(&value))
}

fn names(parsed: &Parsed, letter: char) -> Option<BTreeSet<String>> {
    parsed.has(letter).then(|| words(&parsed.values(letter)).collect())
}

/// Numbers of CPUs, sets or lgroups, of which a range stands for several.
fn several<T: Ord>(parsed: &Parsed, letter: char, of: fn(u32) -> T) -> Result<Option<BTreeSet<T>>, Failure> {
    if !parsed.has(letter) {
        return Ok(None);
    }
    let numbers = ranges(&parsed.values(letter), &format!("-{letter}"))?;
    Ok(Some(numbers.into_iter().map(of).collect()))
}

fn numbers<T: FromStr + Ord>(parsed: &Parsed, letter: char) -> Result<Option<BTreeSet<T>>, Failure>
where
    T::Err: std::fmt::Display,
{
    if !parsed.has(letter) {
        return Ok(None);
    }
    let lists = parsed.values(letter);
    let found: Result<BTreeSet<T>, _> = words(&lists).map(|word| word.parse::<T>()).collect();
    found.map(Some).map_err(|error| Failure::Operand(format!("-{letter}: {error}")))
}
