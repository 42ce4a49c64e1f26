//! Cache and memory bandwidth of fences, by the kernel's `resctrl` file system, if the hardware supports it and it is mounted.
//!
//! A fence that requests ways of the L3 cache gets the lowest ways of the default group, on each cache of its CPUs, and the
//! default group (the root) loses them. The upper ways are not used, because on many machines devices write to them. A fence that
//! limits the bandwidth of others limits the root group on these caches. The group of a fence is a directory with the name of its
//! set. The original schema of the root is recorded and restored.
//!
//! File formats: Documentation/filesystems/resctrl.rst.

use crate::LinuxMachine;
use crate::fences::{Baselines, Labels, toward};
use crate::knob::{ControlFile, LinuxKnob, RESCTRL, Resource, list_value};
use crate::names;
use crate::view::SetLabel;
use millpond_machine::{Knob, Knobs, Step};
use millpond_model::{CpuId, CpuSet, PsetId, Shelter, ShelterItem};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Directories that are not groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// The resources that the root group loses, and the parts of a profile that cause it.
const ROOT: [(ShelterItem, Resource); 2] =
    [(ShelterItem::CacheWays, Resource::L3), (ShelterItem::OthersBandwidth, Resource::Bandwidth)];

/// A schema: the portion of each cache, by cache number, such as `0=ff;1=ff`.
type Portions = BTreeMap<u32, u64>;

/// Parses a schema with numbers in this base. `None` if invalid.
fn portions(text: &str, base: u32) -> Option<Portions> {
    let portion = |part: &str| {
        let (cache, portion) = part.split_once('=')?;
        Some((cache.trim().parse().ok()?, u64::from_str_radix(portion.trim(), base).ok()?))
    };
    text.split(';').map(portion).collect()
}

fn text_of(portions: &Portions, resource: Resource) -> String {
    let part = |(cache, portion): (&u32, &u64)| match resource {
        Resource::L3 => format!("{cache}={portion:x}"),
        Resource::Bandwidth => format!("{cache}={portion}"),
    };
    portions.iter().map(part).collect::<Vec<_>>().join(";")
}

const fn base(resource: Resource) -> u32 {
    match resource {
        Resource::L3 => 16,
        Resource::Bandwidth => 10,
    }
}

/// The lowest `ways` bits of a mask.
fn lowest(mask: u64, ways: u32) -> u64 {
    let (mut rest, mut taken) = (mask, 0);
    for _ in 0..ways {
        let way = rest & rest.wrapping_neg();
        taken |= way;
        rest ^= way;
    }
    taken
}

/// A fence that requests a part of some caches.
struct Asking<'l> {
    set: PsetId,
    cpus: CpuSet,
    caches: BTreeSet<u32>,
    shelter: &'l Shelter,
}

/// The wanted schemas.
struct Shares {
    root: Portions,
    /// The schema of each set with ways of its own.
    groups: BTreeMap<PsetId, Portions>,
}

/// Assigns ways to fences in order of their sets. A fence gets none if one of its caches has not enough.
fn ways(root: &Portions, least: u32, asking: &[Asking<'_>]) -> Shares {
    let mut shares = Shares { root: root.clone(), groups: BTreeMap::new() };
    for fence in asking {
        let Some(ways) = fence.shelter.l3_ways else { continue };
        let has_room = |cache: &u32| {
            shares.root.get(cache).is_some_and(|mask| mask.count_ones() >= ways.saturating_add(least.max(1)))
        };
        if fence.caches.is_empty() || ways < least || !fence.caches.iter().all(has_room) {
            continue;
        }
        let mut own = root.clone();
        for cache in &fence.caches {
            let Some(mask) = shares.root.get_mut(cache) else { continue };
            let taken = lowest(*mask, ways);
            *mask &= !taken;
            own.insert(*cache, taken);
        }
        shares.groups.insert(fence.set, own);
    }
    shares
}

impl LinuxMachine {
    /// The steps that create groups, and assign ways and bandwidth as the fences request.
    pub(crate) fn steps_of_caches(&self, sets: &Labels, baselines: &Baselines) -> Vec<(ShelterItem, Step)> {
        let asking = self.asking(sets);
        let own: Vec<String> = self.cache_groups().into_iter().filter(|name| is_ours(name)).collect();
        let is_kept =
            |knob: &Knob| matches!(LinuxKnob::parse(knob), Ok(LinuxKnob::File(ControlFile::Schema(..))));
        if asking.is_empty() && own.is_empty() && !baselines.keys().any(is_kept) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        let originals = ROOT.map(|(_, resource)| self.shared_out(resource, baselines));
        let [l3, bandwidth] = &originals;
        let shares = l3.as_ref().map(|root| ways(root, self.least_ways(), &asking));
        let limited = bandwidth.as_ref().and_then(|root| limited(root, &asking));
        for fence in &asking {
            let share = shares.as_ref().and_then(|shares| shares.groups.get(&fence.set));
            let limits = limited.is_some() && fence.shelter.others_bandwidth.is_some();
            if share.is_some() || limits {
                let item =
                    if share.is_some() { ShelterItem::CacheWays } else { ShelterItem::OthersBandwidth };
                steps.extend(self.steps_of_group(fence, share).into_iter().map(|step| (item, step)));
            }
        }
        let wanted = [shares.as_ref().map(|shares| &shares.root), limited.as_ref()];
        for (((item, resource), wanted), original) in ROOT.into_iter().zip(wanted).zip(&originals) {
            let knob = LinuxKnob::File(ControlFile::Schema(None, resource));
            let is = self.read(&knob.knob()).ok().flatten();
            let changed = wanted.filter(|wanted| original.as_ref() != Some(*wanted));
            let changed = changed.map(|wanted| text_of(wanted, resource));
            steps.extend(toward(baselines, &knob, is, changed).map(|step| (item, step)));
        }
        let is_needless = |name: &String| !asking.iter().any(|fence| group_name(fence.set) == *name);
        let present = || Some("present".to_owned());
        let gone = |name: String| Step::new(LinuxKnob::CacheGroup(name).knob(), present(), None).tolerant();
        steps.extend(own.into_iter().filter(is_needless).map(|name| (ShelterItem::CacheWays, gone(name))));
        steps
    }

    /// The steps that bring the group of a fence into the wanted state.
    fn steps_of_group(&self, fence: &Asking<'_>, share: Option<&Portions>) -> Vec<Step> {
        let name = group_name(fence.set);
        let to = |knob: LinuxKnob, wanted: Option<String>| {
            let knob = knob.knob();
            let is = self.read(&knob).ok().flatten();
            (is != wanted).then(|| Step::new(knob, is, wanted).tolerant())
        };
        let schema = ControlFile::Schema(Some(name.clone()), Resource::L3);
        let schema = share.map(|share| to(LinuxKnob::File(schema), Some(text_of(share, Resource::L3))));
        let steps = [
            to(LinuxKnob::CacheGroup(name.clone()), Some("present".to_owned())),
            schema.flatten(),
            to(LinuxKnob::File(ControlFile::CacheCpus(name)), list_value(&fence.cpus)),
        ];
        steps.into_iter().flatten().collect()
    }

    /// The fences that request cache or bandwidth, in order of their sets.
    fn asking<'l>(&self, sets: &'l Labels) -> Vec<Asking<'l>> {
        let asking = |(set, label): (&PsetId, &'l SetLabel)| {
            let shelter = &label.fence.as_ref()?.shelter;
            if shelter.l3_ways.is_none() && shelter.others_bandwidth.is_none() {
                return None;
            }
            let cpus = label.cpus();
            let caches = cpus.iter().filter_map(|cpu| self.l3_of(cpu)).collect();
            (self.stranger(&cpus).is_none()).then_some(Asking { set: *set, cpus, caches, shelter })
        };
        sets.iter().filter_map(asking).collect()
    }

    /// The number of the L3 cache of a CPU.
    fn l3_of(&self, cpu: CpuId) -> Option<u32> {
        let dir = self.os.root.sys.join(format!("devices/system/cpu/cpu{cpu}/cache/index3"));
        let value = |file: &str| self.os.root.read_value(&dir.join(file)).ok().flatten();
        (value("level")? == "3").then(|| value("id")?.parse().ok()).flatten()
    }

    /// A foreign group with some of these CPUs.
    fn stranger(&self, cpus: &CpuSet) -> Option<String> {
        let is_stranger = |name: &String| {
            let list = self.os.root.read_value(&self.os.cache_group(name).join("cpus_list")).ok().flatten();
            list.and_then(|list| list.parse::<CpuSet>().ok()).is_some_and(|list| !list.is_disjoint(cpus))
        };
        self.cache_groups().into_iter().filter(|name| !is_ours(name)).find(is_stranger)
    }

    fn cache_groups(&self) -> Vec<String> {
        let dirs = self.os.root.dirs(&self.resctrl()).unwrap_or_default();
        dirs.into_iter().filter(|name| !NO_GROUPS.contains(&name.as_str())).collect()
    }

    fn resctrl(&self) -> PathBuf {
        self.os.root.sys.join(RESCTRL)
    }

    /// The schema of the root group for a resource, before any fence took a part.
    fn shared_out(&self, resource: Resource, baselines: &Baselines) -> Option<Portions> {
        let knob = LinuxKnob::File(ControlFile::Schema(None, resource)).knob();
        let kept = baselines.get(&knob).cloned().flatten();
        portions(&kept.or_else(|| self.read(&knob).ok().flatten())?, base(resource))
    }

    /// The smallest number of ways of a group.
    fn least_ways(&self) -> u32 {
        let file = self.resctrl().join("info/L3/min_cbm_bits");
        self.os.root.read_value(&file).ok().flatten().and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    /// Why a fence does not get the requested cache or bandwidth, one line per reason.
    pub(crate) fn absent_of_caches(&self, cpus: &CpuSet, shelter: &Shelter, sets: &Labels) -> Vec<String> {
        let baselines = self.journal.baselines();
        let caches: BTreeSet<u32> = cpus.iter().filter_map(|cpu| self.l3_of(cpu)).collect();
        let is_asked = [shelter.l3_ways.is_some(), shelter.others_bandwidth.is_some()];
        let mut lines = Vec::new();
        for ((item, resource), _) in ROOT.into_iter().zip(is_asked).filter(|(_, is_asked)| *is_asked) {
            let portions = self.shared_out(resource, &baselines);
            let why = if !self.resctrl().join("schemata").exists() {
                Some("resctrl is not mounted, or this machine has none (mount -t resctrl resctrl /sys/fs/resctrl)".to_owned())
            } else if let Some(group) = self.stranger(cpus) {
                Some(format!("group {} of resctrl has CPUs of it already", group.escape_debug()))
            } else if portions.is_none() {
                Some(format!("resctrl has no {} here", resource.name()))
            } else if caches.is_empty() {
                Some("the L3 caches of these CPUs have no numbers".to_owned())
            } else if resource == Resource::Bandwidth
                && portions.iter().flatten().any(|(_, portion)| *portion > 100)
            {
                Some("this machine limits bandwidth by amounts, not by percent".to_owned())
            } else {
                None
            };
            lines.extend(why.map(|why| format!("{}: {why}", item.key())));
        }
        if lines.is_empty() && shelter.l3_ways.is_some() && !self.has_ways(cpus, sets, &baselines) {
            lines.push(format!("{}: there are not so many ways", ShelterItem::CacheWays.key()));
        }
        lines
    }

    /// Whether the fence of these CPUs gets the requested ways.
    fn has_ways(&self, cpus: &CpuSet, sets: &Labels, baselines: &Baselines) -> bool {
        let root = self.shared_out(Resource::L3, baselines);
        let asking = self.asking(sets);
        let set = asking.iter().find(|fence| fence.cpus == *cpus).map(|fence| fence.set);
        root.zip(set)
            .is_some_and(|(root, set)| ways(&root, self.least_ways(), &asking).groups.contains_key(&set))
    }
}

/// The root's bandwidth: the lowest limit that a fence requests on each cache. `None` if bandwidth is not in percent.
fn limited(root: &Portions, asking: &[Asking<'_>]) -> Option<Portions> {
    if root.values().any(|portion| *portion > 100) {
        return None;
    }
    let mut limited = root.clone();
    for fence in asking {
        let Some(percent) = fence.shelter.others_bandwidth else { continue };
        for cache in &fence.caches {
            if let Some(portion) = limited.get_mut(cache) {
                *portion = (*portion).min(u64::from(percent));
            }
        }
    }
    Some(limited)
}

/// Whether a group is the group of a set.
fn is_ours(name: &str) -> bool {
    names::owner(&format!("/{name}")).is_some()
}

/// The directory name of a set's group.
fn group_name(set: PsetId) -> String {
    names::set_group(set).trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking<'a>(set: u32, caches: &[u32], shelter: &'a Shelter) -> Asking<'a> {
        Asking { set: PsetId(set), cpus: CpuSet::new(), caches: caches.iter().copied().collect(), shelter }
    }

    #[test]
    fn fences_get_the_lowest_ways_in_order_and_the_root_keeps_the_rest() {
        let root = portions("0=fff;1=ff0", 16).unwrap();
        let (three, two) = (
            Shelter { l3_ways: Some(3), ..Shelter::default() },
            Shelter { l3_ways: Some(2), ..Shelter::default() },
        );
        let all = [asking(1, &[0], &three), asking(2, &[0, 1], &two)];
        let shares = ways(&root, 1, &all);
        assert_eq!(text_of(&shares.root, Resource::L3), "0=fe0;1=fc0");
        assert_eq!(text_of(&shares.groups[&PsetId(1)], Resource::L3), "0=7;1=ff0");
        assert_eq!(text_of(&shares.groups[&PsetId(2)], Resource::L3), "0=18;1=30");
    }

    #[test]
    fn who_finds_no_room_gets_none_and_nobody_loses_a_way() {
        let root = portions("0=f", 16).unwrap();
        for (number, least) in [(4, 1), (3, 2), (1, 2)] {
            let wish = Shelter { l3_ways: Some(number), ..Shelter::default() };
            let shares = ways(&root, least, &[asking(1, &[0], &wish)]);
            assert_eq!(shares.root, root, "{number} of 4, {least} at least");
            assert!(shares.groups.is_empty());
        }
        let wish = Shelter { l3_ways: Some(1), ..Shelter::default() };
        assert!(ways(&root, 1, &[asking(1, &[7], &wish)]).groups.is_empty());
    }

    #[test]
    fn the_lowest_limit_of_bandwidth_counts_and_amounts_stay() {
        let (low, high) = (
            Shelter { others_bandwidth: Some(30), ..Shelter::default() },
            Shelter { others_bandwidth: Some(60), ..Shelter::default() },
        );
        let all = [asking(1, &[0], &high), asking(2, &[0, 1], &low)];
        let root = portions("  0=100;1=50;2=100", 10).unwrap();
        assert_eq!(text_of(&limited(&root, &all).unwrap(), Resource::Bandwidth), "0=30;1=30;2=100");
        let amounts = portions("0=2048;1=2048", 10).unwrap();
        assert_eq!(limited(&amounts, &all), None);
    }
}
