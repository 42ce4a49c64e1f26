//! Fences of pods: made when a container of the pod runs, and taken down when none does. Each is the set of a pool of its name.

use crate::annotations::{FenceAsked, is_of_pod};
use crate::desk::Known;
use millpond_formats::fence_profile::{self, BUILT_IN};
use millpond_machine::facets::FenceWish;
use millpond_machine::{ActiveCores, Fences, Machine, Refusal, Writer};
use millpond_model::{CpuId, FenceName};
use millpond_session::{profile_file, read_text};
use std::collections::BTreeMap;

/// The fences of pods, as far as they could be made.
#[derive(Debug, Default)]
pub(crate) struct PodFences {
    /// Why one could not be made. It is tried again when the machine is looked at without news.
    failed: BTreeMap<FenceName, String>,
}

impl PodFences {
    /// Makes those that are wanted and do not stand, and takes down those that are wanted no more. Gives what is to be logged. `again`: what failed before is
    /// tried once more.
    pub(crate) fn follow(&mut self, machine: &dyn Machine, known: &Known, again: bool) -> Vec<String> {
        let asked = known.containers.values().filter(|kept| kept.runs);
        let wanted: BTreeMap<&FenceName, (&FenceAsked, &str)> = asked
            .filter_map(|kept| kept.fence.as_ref().map(|fence| (&fence.name, (fence, kept.name.as_str()))))
            .collect();
        self.failed.retain(|name, _| wanted.contains_key(name));
        let Ok(fences) = machine.fences() else { return Vec::new() };
        let standing = match fences.list() {
            Ok(standing) => standing,
            Err(refusal) => return vec![refusal.to_string()],
        };
        let stands = |name: &FenceName| standing.iter().any(|fence| fence.fencing.name == *name);
        let mut said = Vec::new();
        for (name, (asked, container)) in wanted.iter().filter(|(name, _)| !stands(name)) {
            if self.failed.contains_key(name) && !again {
                continue;
            }
            match put_up(machine, fences, asked) {
                Ok(notes) => {
                    self.failed.remove(name);
                    said.push(format!("{container} is behind fence {name}: {}", asked.cpus.named()));
                    said.extend(notes);
                }
                Err(why) => {
                    let line = format!("{container} cannot be fenced: {why}");
                    if self.failed.insert((*name).clone(), why.clone()).as_ref() != Some(&why) {
                        said.push(line);
                    }
                }
            }
        }
        // Before all containers are known, one may be missing here.
        let over = standing.iter().map(|fence| &fence.fencing.name).filter(|name| is_of_pod(name));
        for name in over.filter(|name| known.is_whole && !wanted.contains_key(name)) {
            match take_down(machine, fences, name) {
                Ok(()) => said.push(format!("fence {name} is gone")),
                Err(refusal) => said.push(refusal.to_string()),
            }
        }
        said
    }
}

fn put_up(machine: &dyn Machine, fences: &dyn Fences, asked: &FenceAsked) -> Result<Vec<String>, String> {
    let profile = profile(&asked.profile)?;
    let said = |refusal: Refusal| refusal.to_string();
    let mut cpus: Vec<CpuId> = asked.cpus.iter().collect();
    if profile.whole_cores && !profile.shelter.siblings_off {
        cpus = ActiveCores::of(machine).map_err(said)?.whole(&cpus);
    }
    let mut shelter = profile.shelter;
    // A pod does not decide about the whole machine.
    shelter.global.clear();
    let wish = FenceWish { name: asked.name.clone(), profile: asked.profile.clone(), shelter, cpus };
    let writer = Writer::open(machine).map_err(said)?;
    let done = writer.commit(fences.prepare_fence(&wish, false).map_err(said)?).map_err(said)?;
    Ok(done.notes.into_iter().chain(done.outcome.absent).collect())
}

fn take_down(machine: &dyn Machine, fences: &dyn Fences, name: &FenceName) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(fences.prepare_off(name)?).map(drop)
}

/// A profile of this node, or one that is built in.
fn profile(name: &str) -> Result<fence_profile::Profile, String> {
    let text = match profile_file(name) {
        Some(file) => read_text(&file).map_err(|why| format!("profile {name} cannot be read: {why}"))?,
        None => match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, text)) => (*text).to_owned(),
            None => return Err(format!("there is no profile {name}")),
        },
    };
    fence_profile::parse(&text).map_err(|error| format!("profile {name}:{error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn profiles_are_found_by_their_names() {
        assert!(profile("low-latency").unwrap().whole_cores);
        assert_eq!(profile("own").unwrap_err(), "there is no profile own");
    }
}
