//! The Zones facet: existing cgroups that are bound to a set in place.
//!
//! A zone is identified by the name that its manager uses (`nginx.service`, the first twelve digits of a container id) or by its
//! path. Containers of pods have names from the node agent (`web/nginx-7c/nginx`). Cgroups below managers that write CPU lists
//! themselves are refused, because the manager would overwrite our lists. Cgroups of the kubelet are accepted if the node agent
//! manages them.

use crate::files::{Replacing, replace_file};
use crate::messages::reason;
use crate::names;
use crate::os::knob_error;
use crate::plan::{Wanted, plan};
use crate::view::{RootTasks, View, is_within};
use crate::{LinuxMachine, Os, is_gone};
use millpond_machine::facets::Zone;
use millpond_machine::{Change, Reason, Refusal, Subject, Zones};
use millpond_model::pools::PoolsState;
use millpond_model::{Pid, PoolId, PsetId, printable};
use std::collections::{BTreeMap, BTreeSet};

/// The record with the names of pod containers.
const CONTAINERS: &str = "containers";

/// Maximal depth of the search. A container is at: slice, QoS class, pod, container.
const DEPTH_MAX: usize = 6;

/// Number of ended zones that are kept per set: a restarted container may return under its name.
const ENDED_MAX: usize = 32;

/// Kind and name of the zone at a cgroup path. `None` for the root.
pub(crate) fn classify(path: &str) -> Option<(&'static str, String)> {
    sort(path).map(|(kind, name)| (kind, printable(name).into_owned()))
}

fn sort(path: &str) -> Option<(&'static str, &str)> {
    let name = path.rsplit('/').next()?;
    let hex = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let bare = name.strip_suffix(".scope").unwrap_or(name);
    for prefix in ["docker-", "libpod-", "cri-containerd-", "crio-", "nerdctl-", ""] {
        if let Some(id) = bare.strip_prefix(prefix).filter(|id| hex(id)) {
            return Some(("container", &id[..12]));
        }
    }
    if let Some(container) = name.strip_prefix("lxc.payload.") {
        return Some(("container", container));
    }
    if let Some(machine) = bare.strip_prefix("machine-") {
        return Some(("container", machine));
    }
    if name.ends_with(".service") || name.ends_with(".scope") {
        return Some(("unit", name));
    }
    if name.ends_with(".slice") {
        return Some(("slice", name));
    }
    Some(("group", path))
}

/// Names of pod containers, by their names from [`classify`].
#[derive(Debug, Default)]
pub(crate) struct ContainerNames(BTreeMap<String, String>);

impl ContainerNames {
    /// The names that the node agent sent last. Empty if the record is invalid.
    pub(crate) fn told(os: &Os) -> ContainerNames {
        let text = os.record(CONTAINERS).unwrap_or_default();
        ContainerNames(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Kind and name of the zone, with names of pod containers. `None` for the root.
    pub(crate) fn classify(&self, path: &str) -> Option<(&'static str, String)> {
        let (kind, name) = classify(path)?;
        let told = self.0.get(&name).filter(|_| kind == "container" && names::is_of_pod(path));
        Some((kind, told.map_or(name, |told| printable(told).into_owned())))
    }

    /// Whether the node agent manages a container.
    fn knows(&self, path: &str) -> bool {
        classify(path).is_some_and(|(kind, name)| kind == "container" && self.0.contains_key(&name))
    }
}

/// The kubelet's name in [`manager`].
pub(crate) const KUBELET: &str = "the kubelet";

/// The manager that writes the lists of a cgroup, if there is one.
pub(crate) fn manager(path: &str) -> Option<(&'static str, &'static str)> {
    let parts = || path.split('/');
    if names::is_of_pod(path) {
        let hint =
            "run the agent (millpond node), and let the pod name a pool (annotation millpond.dev/pool)";
        return Some((KUBELET, hint));
    }
    if parts().any(|p| p.starts_with("user@")) {
        return Some(("a user's own manager", "bind the processes instead (psrset -b)"));
    }
    None
}

/// The number of services, scopes and containers above a cgroup. Each of these creates its own child cgroups, with arbitrary
/// names.
pub(crate) fn managers_above(path: &str) -> usize {
    let above = path.match_indices('/').skip(1).filter_map(|(at, _)| classify(&path[..at]));
    above.filter(|(kind, _)| matches!(*kind, "unit" | "container")).count()
}

impl LinuxMachine {
    /// Every zone, with its path.
    fn zone_paths(&self) -> Result<Vec<(String, Zone)>, Refusal> {
        let view = self.view(RootTasks::Unlisted)?;
        let sets = view.sets();
        let mut found = Vec::new();
        self.collect_zones("", 0, &mut found)?;
        let names = ContainerNames::told(&self.os);
        Ok(found
            .into_iter()
            .filter_map(|path| names.classify(&path).map(|(kind, name)| (path.clone(), kind, name)))
            .zip(0..)
            .map(|((path, kind, name), id)| {
                let set =
                    sets.iter().find(|(_, s)| s.zones.contains(&path)).map_or(PsetId::DEFAULT, |s| *s.0);
                (path, Zone { id, name, kind: kind.to_owned(), set })
            })
            .collect())
    }

    fn collect_zones(&self, path: &str, depth: usize, found: &mut Vec<String>) -> Result<(), Refusal> {
        let whole = if path.is_empty() { "/" } else { path };
        let broken = |e| Refusal::operation(Reason::Machine(format!("{whole} cannot be read: {e}")));
        let dir = self.os.group(whole).map_err(broken)?;
        for name in self.os.root.dirs(&dir).map_err(|e| broken(knob_error(e)))? {
            let child = format!("{path}/{name}");
            if names::owner(&child).is_some() {
                if depth == 0 && self.os.systemd {
                    found.extend(self.units_in(&child).map_err(broken)?);
                }
            } else {
                found.push(child.clone());
                if depth < DEPTH_MAX {
                    self.collect_zones(&child, depth + 1, found)?;
                }
            }
        }
        Ok(())
    }
}

impl LinuxMachine {
    /// The zone with this name, and its path. Refuses zones with another manager.
    pub(crate) fn zone_called(&self, zone: &str) -> Result<(String, Zone), Refusal> {
        let refuse = |reason| Refusal::new(Subject::Zone(zone.to_owned()), reason);
        let zones = self.zone_paths()?;
        let is_meant = |(path, found): &(String, Zone)| {
            path == zone || found.name == zone || classify(path).is_some_and(|(_, name)| name == zone)
        };
        let mut matching: Vec<(String, Zone)> = zones.into_iter().filter(is_meant).collect();
        // Users can choose cgroup names in their own part of the tree, so a cgroup of the system takes precedence.
        matching.sort_by_key(|(path, _)| (path != zone, managers_above(path)));
        let rank = |found: &(String, Zone)| (found.0 != zone, managers_above(&found.0));
        let mut matching = matching.into_iter();
        let Some(best) = matching.next() else { return Err(refuse(Reason::NoSuchZone)) };
        let rival = matching.next().filter(|second| rank(second) == rank(&best));
        let (path, found) = best;
        if let Some((second, _)) = rival {
            let why = format!("two groups are called so: {} and {}", printable(&path), printable(&second));
            return Err(refuse(Reason::Machine(why)).hint("name it by its path"));
        }
        match manager(&path) {
            Some((KUBELET, _)) if ContainerNames::told(&self.os).knows(&path) => Ok((path, found)),
            Some((who, hint)) => Err(refuse(Reason::ManagedElsewhere(who.to_owned())).hint(hint)),
            None => Ok((path, found)),
        }
    }
}

impl LinuxMachine {
    /// Removes ended zones beyond the last [`ENDED_MAX`] from a label. Only containers and scopes: their names are not reused,
    /// while a stopped unit starts under the same name.
    pub(crate) fn forget_ended(&self, zones: &mut Vec<String>) {
        let has_ended = |path: &String| {
            let comes_back =
                classify(path).is_none_or(|(kind, name)| kind != "container" && !name.ends_with(".scope"));
            !comes_back && self.os.group(path).is_ok_and(|dir| !dir.exists())
        };
        let mut excess = zones.iter().filter(|path| has_ended(path)).count().saturating_sub(ENDED_MAX);
        zones.retain(|path| {
            let goes = excess > 0 && has_ended(path);
            excess -= usize::from(goes);
            !goes
        });
    }
}

impl LinuxMachine {
    /// The same for the zones of each pool.
    pub(crate) fn forget_ended_of(&self, state: &mut PoolsState) {
        let pools: BTreeSet<PoolId> = state.zones.values().copied().collect();
        for pool in pools {
            let of_pool = state.zones.iter().filter(|(_, of)| **of == pool);
            let mut zones: Vec<String> = of_pool.map(|(path, _)| path.clone()).collect();
            self.forget_ended(&mut zones);
            state.zones.retain(|path, of| *of != pool || zones.contains(path));
        }
    }
}

impl Zones for LinuxMachine {
    fn list(&self) -> Result<Vec<Zone>, Refusal> {
        Ok(self.zone_paths()?.into_iter().map(|(_, zone)| zone).collect())
    }

    fn processes(&self, zone: &str) -> Result<Vec<Pid>, Refusal> {
        let (path, _) = self.zone_called(zone)?;
        let machine = |error: std::io::Error| Refusal::operation(Reason::Machine(error.to_string()));
        let mut pids = self.os.pids().map_err(machine)?;
        pids.retain(|pid| self.os.place(*pid, None).ok().flatten().is_some_and(|at| is_within(&at, &path)));
        Ok(pids.into_iter().map(Pid).collect())
    }

    fn name_containers(&self, names: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let cannot = |error: &std::io::Error| {
            let why = format!("the names of containers cannot be written: {}", reason(error));
            Refusal::operation(Reason::Machine(why)).hint("check the state directory and its file system")
        };
        let file = self.os.record_file(CONTAINERS);
        if names.is_empty() {
            return match std::fs::remove_file(&file) {
                Err(error) if !is_gone(&error) => Err(cannot(&error)),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_string(names).unwrap_or_default();
        if self.os.record(CONTAINERS).as_ref() == Some(&text) {
            return Ok(());
        }
        let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| replace_file(&file, text.as_bytes(), Replacing::default())).map_err(|e| cannot(&e))
    }

    fn prepare_bind(&self, zone: &str, to: Option<PsetId>) -> Result<Change<Zone>, Refusal> {
        self.sets_are_free()?;
        let refuse = |reason| Refusal::new(Subject::Zone(zone.to_owned()), reason);
        let (path, mut outcome) = self.zone_called(zone)?;
        self.may_be_steered(zone, &path)?;
        let further = std::slice::from_ref(&path);
        let view = View::read_with(&self.os, self.journal.as_ref(), RootTasks::ForLiveSets, further)?;
        let mut sets = view.sets();
        for set in sets.values_mut() {
            set.zones.retain(|z| *z != path);
            self.forget_ended(&mut set.zones);
        }
        let to = to.filter(|s| !s.is_default());
        if let Some(id) = to {
            let Some(set) = sets.get_mut(&id) else { return Err(refuse(Reason::NoSuchPset)) };
            if (&set.cpus() & &view.online).is_empty() {
                return Err(
                    refuse(Reason::EmptyPset(id)).hint(format!("assign a CPU first (psrset -a {id} …)"))
                );
            }
            set.zones.push(path.clone());
        }
        outcome.set = to.unwrap_or(PsetId::DEFAULT);
        let steps = self.noting_masks(&view, &[], plan(&view, &Wanted::of(&view, sets, Vec::new())))?;
        let what = match to {
            Some(id) => format!("bind zone {zone} to set {id}"),
            None => format!("unbind zone {zone} from its set"),
        };
        Ok(Change::new(what, steps, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_called_as_their_managers_call_them() {
        let id = "0123456789abcdef".repeat(4);
        let name = |path: &str| classify(path).map(|(kind, name)| format!("{kind} {name}"));
        assert_eq!(name("/system.slice/nginx.service").as_deref(), Some("unit nginx.service"));
        assert_eq!(name(&format!("/docker/{id}")).as_deref(), Some("container 0123456789ab"));
        assert_eq!(
            name(&format!("/system.slice/docker-{id}.scope")).as_deref(),
            Some("container 0123456789ab")
        );
        assert_eq!(name("/lxc.payload.web").as_deref(), Some("container web"));
        assert_eq!(name("/user.slice/user-1000.slice").as_deref(), Some("slice user-1000.slice"));
        assert_eq!(name("/a/b").as_deref(), Some("group /a/b"));
    }

    #[test]
    fn what_is_inside_of_services_and_containers_counts_less() {
        let id = "0123456789abcdef".repeat(4);
        for (path, above) in [
            ("/system.slice/nginx.service", 0),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service", 1),
            (&format!("/docker/{id}/system.slice/nginx.service"), 1),
            (&format!("/machine.slice/machine-a.scope/docker/{id}/x.service"), 2),
            (&format!("/docker/{id}"), 0),
        ] {
            assert_eq!(managers_above(path), above, "{path}");
        }
    }

    #[test]
    fn containers_of_pods_are_called_as_the_agent_told() {
        let id = "0123456789abcdef".repeat(4);
        let names = [("0123456789ab", "web/nginx-7c/nginx"), ("nginx.service", "web/x/y")];
        let names = names.map(|(id, name)| (id.to_owned(), name.to_owned()));
        let names = ContainerNames(names.into_iter().collect());
        let name = |path: &str| names.classify(path).map(|(kind, name)| format!("{kind} {name}"));
        let of_pod = format!("/kubepods/burstable/pod7/{id}");
        assert_eq!(name(&of_pod).as_deref(), Some("container web/nginx-7c/nginx"));
        // Cgroups that the kubelet did not create.
        assert_eq!(name(&format!("/docker/{id}")).as_deref(), Some("container 0123456789ab"));
        assert_eq!(name("/system.slice/nginx.service").as_deref(), Some("unit nginx.service"));
        let other = "1".repeat(64);
        let unknown = format!("/kubepods.slice/cri-containerd-{other}.scope");
        assert_eq!(name(&unknown).as_deref(), Some("container 111111111111"));
        assert!(names.knows(&of_pod) && !names.knows(&unknown) && !names.knows("/kubepods"));
    }

    #[test]
    fn trees_with_owners_of_their_own_are_known() {
        assert!(manager("/kubepods.slice/kubepods-burstable.slice/x.scope").is_some());
        assert!(manager("/user.slice/user-1000.slice/user@1000.service/app.slice").is_some());
        assert!(manager("/system.slice/nginx.service").is_none());
    }
}
