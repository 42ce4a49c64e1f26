//! Persistent pool membership: units by a drop-in, containers by an option of their engine.

use crate::LinuxMachine;
use crate::knob::LinuxKnob;
use crate::names;
use crate::os::knob_error;
use crate::records::recorded_pools;
use crate::systemd::{is_stronger, section};
use millpond_machine::facets::StartOption;
use millpond_machine::{Change, KnobError, Reason, Refusal, Step, Subject};
use millpond_model::pools::PoolsState;
use millpond_model::{PoolId, PsetId};

impl LinuxMachine {
    fn pools_and_set(&self, of: PoolId) -> Result<(PoolsState, PsetId), Refusal> {
        let Some(state) = recorded_pools(&self.os)? else {
            return Err(Refusal::operation(Reason::PoolsDisabled));
        };
        let set = state.sets().get(&of).copied();
        let set = set.ok_or_else(|| Refusal::new(Subject::Pool(of), Reason::NoSuchPool))?;
        Ok((state, set))
    }

    /// The change that makes a unit start in a pool.
    pub(crate) fn persist_unit(&self, zone: &str, to: PoolId) -> Result<Change<()>, Refusal> {
        let (mut state, set) = self.pools_and_set(to)?;
        let subject = || Subject::Zone(zone.to_owned());
        let refuse = |why: &str, hint: &str| {
            Err(Refusal::new(subject(), Reason::Machine(why.to_owned())).hint(hint.to_owned()))
        };
        let (path, _) = self.zone_called(zone)?;
        if !self.os.systemd {
            return refuse(
                "systemd does not manage the CPUs of this machine, so that no unit can start in a pool",
                "bind it again when it was started, without --persist",
            );
        }
        let Some(unit) = names::unit(&path) else {
            return refuse("it is no unit of systemd", "name a unit, or what makes the group");
        };
        if section(&unit).is_none() {
            return refuse(
                "nothing can be kept for a unit of its kind: systemd starts services, sockets, mounts and swaps where they are told to",
                "bind it without --persist, or keep the services that are in it",
            );
        }
        let read = self.os.persistent_slice(&unit);
        let before = read.map_err(|error| error.into_refusal(subject(), "the drop-in"))?;
        let after = (!to.is_default() && !set.is_default())
            .then(|| names::set_slice(set).trim_start_matches('/').to_owned());
        let stands_in = names::owner(&path);
        if stands_in.is_none() {
            state.zones.remove(&path);
            self.forget_ended_of(&mut state);
            if !to.is_default() {
                state.zones.insert(path.clone(), to);
            }
        }
        let stays = stands_in.is_some_and(|stands_in| stands_in != set);
        let steps = match stays {
            true => Vec::new(),
            false => self.join_zone(&path, zone, (set, after.is_some()), state)?,
        };
        let mut change = Change::new(format!("bind {unit} to pool {to} and keep it there"), steps, ());
        for (file, slice) in self.os.other_slices(&unit) {
            let shown = file.display();
            change.notes.push(match &after {
                Some(ours) if is_stronger(&file) => {
                    format!("{unit} will not start in {ours}: {shown} is read later and says {slice}")
                }
                Some(ours) => format!("{unit} stands in {slice} by {shown}; it will start in {ours}"),
                None => format!("{unit} starts in {slice} by {shown}, which is not ours"),
            });
        }
        if after.is_none() && before.is_none() {
            change.notes.push(format!("nothing was kept for {unit}"));
        }
        if stays {
            change.notes.push(format!("{unit} stays where it is until it is started again"));
        }
        let knob = LinuxKnob::UnitSlice(unit.clone()).knob();
        if before != after {
            change.steps.push(Step::new(knob, before, after));
        } else if after.is_some() && self.os.is_kept_unordered(&unit) {
            change.notes.push(format!(
                "the drop-in of an earlier version is written anew: {unit} waits for the pools"
            ));
            change.steps.push(Step::new(knob.clone(), before, None));
            change.steps.push(Step::new(knob, None, after));
        }
        Ok(change)
    }

    /// The options that make a container start in a pool, one per container engine.
    pub(crate) fn options_of(&self, to: PoolId) -> Result<Vec<StartOption>, Refusal> {
        let (_, set) = self.pools_and_set(to)?;
        if set.is_default() {
            return Ok(Vec::new());
        }
        let (view, sets) = self.live_sets()?;
        let cpus = sets.get(&set).map(|label| &label.cpus() & &view.online).unwrap_or_default();
        let group = if self.os.systemd { names::set_slice(set) } else { names::set_group(set) };
        let slice = group.trim_start_matches('/');
        let fixed = (true, format!("--cpuset-cpus={cpus}"));
        // On version 1, CPUs that a set gains later are not passed on to its children.
        let (docker, cgroupfs, cri) = match (self.os.systemd, view.v1) {
            (true, _) => ((false, format!("--cgroup-parent={slice}")), fixed.clone(), Some(slice.to_owned())),
            (false, false) => {
                (fixed.clone(), (false, format!("--cgroup-parent={group}")), Some(group.clone()))
            }
            (false, true) => (fixed.clone(), fixed.clone(), None),
        };
        let option = |whom: &str, (is_fixed, text): (bool, String)| StartOption {
            whom: whom.to_owned(),
            text,
            is_fixed,
        };
        let lxc = if view.v1 { "lxc.cgroup.cpuset.cpus" } else { "lxc.cgroup2.cpuset.cpus" };
        let mut all = vec![
            option("docker run, podman run, with the systemd driver", docker),
            option("docker run, podman run, with the cgroupfs driver", cgroupfs),
        ];
        if let Some(parent) = cri {
            all.push(option(
                "containerd, CRI-O (linux of a sandbox)",
                (false, format!("\"cgroup_parent\": \"{parent}\"")),
            ));
        }
        if self.os.systemd {
            all.push(option("systemd-nspawn", (false, format!("--slice={slice}"))));
        }
        all.push(option("LXC (its configuration)", (true, format!("{lxc} = {cpus}"))));
        Ok(all)
    }

    /// A unit that was started in a set stays there until it is restarted.
    pub(crate) fn may_be_steered(&self, zone: &str, path: &str) -> Result<(), Refusal> {
        let Some(set) = names::owner(path) else { return Ok(()) };
        let why = format!("it was started in set {set}, and stays there until it is started again");
        Err(Refusal::new(Subject::Zone(zone.to_owned()), Reason::Machine(why))
            .hint("say with --persist where it should start, and restart it"))
    }

    /// Foreign units that were started in one of our slices.
    pub(crate) fn units_in(&self, slice: &str) -> Result<Vec<String>, KnobError> {
        let dir = self.os.group(slice)?;
        let names = self.os.root.dirs(&dir).map_err(knob_error)?;
        let paths = names.into_iter().map(|name| format!("{slice}/{name}"));
        Ok(paths.filter(|path| names::unit(path).is_some() && !names::is_scope(path)).collect())
    }
}
