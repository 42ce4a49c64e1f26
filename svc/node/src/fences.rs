//! Fences of the node's configuration and of pods. A pod's fence exists while a container of the pod runs. Each fence
//! is the set of a pool with its name.

use crate::annotations::{PodFenceRule, is_of_pod};
use crate::desk::Known;
use millpond_formats::fence_profile::{self, BUILT_IN, Profile};
use millpond_formats::node_files::{FENCE_PREFIX, NodeFence};
use millpond_machine::facets::FenceWish;
use millpond_machine::{ActiveCores, Fences, Machine, Refusal, Writer};
use millpond_model::{CpuId, Fence, FenceName};
use millpond_session::{profile_file, read_text};
use std::collections::BTreeMap;

/// The fences that pods request, and the failures to make them.
#[derive(Debug)]
pub(crate) struct PodFences {
    /// The fences that pods may request.
    rule: PodFenceRule,
    /// Why a fence could not be made. It is tried again at the next periodic check.
    failed: BTreeMap<FenceName, String>,
}

impl PodFences {
    pub(crate) fn new(rule: PodFenceRule) -> PodFences {
        PodFences { rule, failed: BTreeMap::new() }
    }

    /// Makes requested fences that do not exist, and removes fences that are no longer requested. Returns the lines
    /// to log. With `again`, it also retries fences that failed before.
    pub(crate) fn follow(
        &mut self,
        machine: &dyn Machine,
        known: &Known,
        of_node: Option<&[NodeFence]>,
        again: bool,
    ) -> Vec<String> {
        let asked = known.containers.values().filter(|kept| kept.runs);
        let asked = asked.filter_map(|kept| Some((kept.fence.as_ref()?, kept.name.as_str())));
        let wanted: BTreeMap<&FenceName, (&NodeFence, &str)> = of_node
            .unwrap_or_default()
            .iter()
            .map(|fence| (fence, "the node's pool"))
            .chain(asked)
            .map(|(fence, whose)| (&fence.name, (fence, whose)))
            .collect();
        self.failed.retain(|name, _| wanted.contains_key(name));
        let Ok(fences) = machine.fences() else { return Vec::new() };
        let standing = match fences.list() {
            Ok(standing) => standing,
            Err(refusal) => return vec![refusal.to_string()],
        };
        // While the list of containers is incomplete, a pod of a fence may be missing from it. A fence of the node
        // with a changed configuration is removed and made again.
        let is_over = |fence: &Fence| match wanted.get(&fence.fencing.name) {
            None if is_of_node(&fence.fencing.name) => of_node.is_some(),
            None => is_of_pod(&fence.fencing.name) && known.is_whole,
            Some((asked, _)) => is_of_node(&asked.name) && !is_same(machine, fence, asked),
        };
        let (over, standing): (Vec<&Fence>, Vec<&Fence>) = standing.iter().partition(|fence| is_over(fence));
        let mut said = Vec::new();
        for name in over.into_iter().map(|fence| &fence.fencing.name) {
            match take_down(machine, fences, name) {
                Ok(()) => said.push(format!("fence {name} is gone")),
                Err(refusal) => said.push(refusal.to_string()),
            }
        }
        let stands = |name: &FenceName| standing.iter().any(|fence| fence.fencing.name == *name);
        for (name, (asked, whose)) in wanted.iter().filter(|(name, _)| !stands(name)) {
            if self.failed.contains_key(name) && !again {
                continue;
            }
            match self.put_up(machine, fences, asked) {
                Ok(notes) => {
                    self.failed.remove(name);
                    said.push(format!("{whose} is behind fence {name}: {}", asked.cpus.named()));
                    said.extend(notes);
                }
                Err(why) => {
                    let line = format!("{whose} cannot be fenced: {why}");
                    if self.failed.insert((*name).clone(), why.clone()).as_ref() != Some(&why) {
                        said.push(line);
                    }
                }
            }
        }
        said
    }

    fn put_up(
        &self,
        machine: &dyn Machine,
        fences: &dyn Fences,
        asked: &NodeFence,
    ) -> Result<Vec<String>, String> {
        let profile = profile(&asked.profile)?;
        let said = |refusal: Refusal| refusal.to_string();
        let cpus = cpus_of(machine, &profile, asked)?;
        if is_of_pod(&asked.name) {
            // A profile may take whole cores, with CPUs that the pod did not name.
            self.rule.allows_cpus(&cpus.iter().copied().collect())?;
        }
        let mut shelter = profile.shelter;
        // A pod may not change settings of the whole machine.
        shelter.global.clear();
        let wish = FenceWish { name: asked.name.clone(), profile: asked.profile.clone(), shelter, cpus };
        let writer = Writer::open(machine).map_err(said)?;
        let done = writer.commit(fences.prepare_fence(&wish, false).map_err(said)?).map_err(said)?;
        Ok(done.notes.into_iter().chain(done.outcome.absent).collect())
    }

    /// Why a fence of the node's configuration could not be made.
    pub(crate) fn refusal(&self) -> Option<String> {
        let mut of_node = self.failed.iter().filter(|(name, _)| is_of_node(name));
        of_node.next().map(|(name, why)| format!("fence {name}: {why}"))
    }
}

/// Whether a fence belongs to the node's configuration.
fn is_of_node(fence: &FenceName) -> bool {
    fence.as_str().starts_with(FENCE_PREFIX)
}

/// Whether a fence has the requested profile and CPUs. A fence whose profile no longer exists stays.
fn is_same(machine: &dyn Machine, fence: &Fence, asked: &NodeFence) -> bool {
    let cpus = profile(&asked.profile).and_then(|profile| cpus_of(machine, &profile, asked));
    let has = |cpu: &CpuId| fence.cpus.contains(*cpu) || fence.fencing.stopped.contains_key(cpu);
    let all = fence.cpus.len() + fence.fencing.stopped.len();
    fence.fencing.profile == asked.profile
        && cpus
            .is_ok_and(|cpus| fence.fencing.shelter.siblings_off || cpus.len() == all && cpus.iter().all(has))
}

/// The CPUs of a fence: the requested ones, and their sibling CPUs if the profile takes whole cores.
fn cpus_of(machine: &dyn Machine, profile: &Profile, asked: &NodeFence) -> Result<Vec<CpuId>, String> {
    let cpus: Vec<CpuId> = asked.cpus.iter().collect();
    if !profile.whole_cores || profile.shelter.siblings_off {
        return Ok(cpus);
    }
    Ok(ActiveCores::of(machine, &cpus).map_err(|refusal| refusal.to_string())?.whole(&cpus))
}

fn take_down(machine: &dyn Machine, fences: &dyn Fences, name: &FenceName) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(fences.prepare_off(name)?).map(drop)
}

/// A profile of this node, or a built-in one.
fn profile(name: &str) -> Result<Profile, String> {
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
