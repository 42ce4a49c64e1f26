//! Pools for the lifetime of a value: enabled, edited, with members bound; disabled again when the value is dropped.
//!
//! The configuration itself contains its purpose and its process. So the next run can distinguish the pools of a killed
//! experiment from those of an administrator, and removes the former ([`sweep`]). Where pools or sets are in use,
//! nothing is changed ([`are_free`]).

use crate::Failure;
use millpond_machine::facets::Member;
use millpond_machine::{Absent, Machine, Reason, Writer};
use millpond_model::pools::{PoolsState, PropValue, PsetNode, UNBOUNDED};
use millpond_model::{CpuId, Pid, PsetId};
use millpond_pools::{Code, Editor, Element, Place, PoolError, dynamic};
use millpond_session::own_pid;

/// The system property with the owner of these pools: a process.
const OWNER: &str = "millpond.experiment";

/// The owner of a machine's pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// There are no pools.
    Nobodys,
    /// An experiment that still runs.
    Running(Pid),
    /// An experiment that ended without removing them.
    Left,
    /// Another owner.
    Foreign,
}

/// The text of an error, with its details.
fn said(error: &PoolError) -> String {
    error.hint.as_ref().map_or_else(|| error.to_string(), |hint| format!("{error}: {hint}"))
}

fn whose(machine: &dyn Machine) -> Result<Whose, PoolError> {
    let Some(state) = dynamic::state(machine)? else { return Ok(Whose::Nobodys) };
    let Some(owner) = state.conf.system.user.uint(OWNER).and_then(|pid| u32::try_from(pid).ok()).map(Pid)
    else {
        return Ok(Whose::Foreign);
    };
    let is_there = machine.threads().is_ok_and(|threads| threads.lwps(owner).is_ok());
    Ok(if is_there { Whose::Running(owner) } else { Whose::Left })
}

/// Removes the pools of a killed experiment. Returns whether there were any.
///
/// # Errors
/// [`Failure::Pools`] when the machine refuses.
pub(crate) fn sweep(machine: &dyn Machine) -> Result<bool, Failure> {
    if whose(machine).map_err(Failure::pools("read pools"))? != Whose::Left {
        return Ok(false);
    }
    disable(machine)?;
    Ok(true)
}

fn disable(machine: &dyn Machine) -> Result<(), Failure> {
    let what = "disable pools";
    let writer = Writer::open(machine).map_err(Failure::refused(what))?;
    dynamic::commit(&writer, machine, None).map_err(Failure::pools(what)).map(drop)
}

/// Whether pools can be created here; the inner error is the reason why not.
///
/// # Errors
/// [`Failure::NotHere`] with a remedy when pools or processor sets are in use.
pub(crate) fn are_free(machine: &dyn Machine) -> Result<Result<(), Absent>, Failure> {
    match whose(machine) {
        Err(error) => return Ok(Err(Absent::because(said(&error)))),
        Ok(Whose::Nobodys) => {}
        Ok(Whose::Left) => {
            let help = "the next experiment that may change something puts them back, and so does pooladm -d";
            let why = "an experiment was killed, and its pools are still there";
            return Err(Failure::NotHere(Absent::with_help(why, help)));
        }
        Ok(Whose::Running(pid)) => {
            let why =
                format!("the pools of this machine are those of an experiment that runs, process {pid}");
            return Err(Failure::NotHere(Absent::with_help(why, "wait until it is over")));
        }
        Ok(Whose::Foreign) => {
            let help = "pooladm -d disables them, and everything in them comes back to where it was";
            return Err(Failure::NotHere(Absent::with_help("pools are in use on this machine", help)));
        }
    }
    let fresh = dynamic::fresh(machine, true).map_err(Failure::pools("read CPUs"))?;
    let pools = machine.pools().map_err(Failure::NotHere)?;
    match pools.prepare_commit(Some(fresh)) {
        Ok(_) => Ok(Ok(())),
        Err(refusal) => match refusal.reason {
            Reason::PsetsExist(sets) => {
                let sets: Vec<String> = sets.iter().map(PsetId::to_string).collect();
                let why = format!("processor sets are in use on this machine: {}", sets.join(", "));
                let help = format!("psrset -d {} removes them", sets.join(" "));
                Err(Failure::NotHere(Absent::with_help(why, help)))
            }
            _ => Ok(Err(Absent { why: refusal.to_string(), what_would_help: refusal.hint })),
        },
    }
}

/// Enabled pools. Dropping the value disables them and ignores errors; [`MadePools::end`] reports them.
pub(crate) struct MadePools<'m> {
    machine: &'m dyn Machine,
    is_there: bool,
}

impl<'m> MadePools<'m> {
    /// Enables pools and commits the configuration that `edit` creates, as two changes.
    pub fn make(
        machine: &'m dyn Machine,
        keep_others: bool,
        edit: impl FnOnce(&mut Editor) -> Result<(), PoolError>,
    ) -> Result<Self, Failure> {
        let what = "enable pools";
        let writer = Writer::open(machine).map_err(Failure::refused(what))?;
        let mut fresh = dynamic::fresh(machine, keep_others).map_err(Failure::pools(what))?;
        fresh.conf.system.user.set(OWNER, u64::from(own_pid().0));
        dynamic::commit(&writer, machine, Some(fresh)).map_err(Failure::pools(what))?;
        drop(writer);
        let pools = MadePools { machine, is_there: true };
        pools.edit(edit)?;
        Ok(pools)
    }

    /// Commits an edited configuration.
    pub fn edit(&self, edit: impl FnOnce(&mut Editor) -> Result<(), PoolError>) -> Result<(), Failure> {
        let what = "change pools";
        let writer = Writer::open(self.machine).map_err(Failure::refused(what))?;
        let state = dynamic::read(self.machine).map_err(Failure::pools(what))?;
        let mut editor = Editor::new(state.conf.clone(), Place::Machine);
        edit(&mut editor).map_err(Failure::pools(what))?;
        let state = PoolsState { conf: editor.conf, ..state };
        dynamic::commit(&writer, self.machine, Some(state)).map_err(Failure::pools(what)).map(drop)
    }

    /// Binds a program to a pool.
    pub fn bind(&self, pid: Pid, pool: &str) -> Result<(), Failure> {
        let what = || format!("bind process {pid} to pool {pool}");
        let writer = Writer::open(self.machine).map_err(Failure::refused(what()))?;
        let state = dynamic::read(self.machine).map_err(Failure::pools(what()))?;
        let editor = Editor::new(state.conf, Place::Machine);
        let id = editor.pool_id(pool).map_err(Failure::pools(what()))?;
        dynamic::bind(&writer, self.machine, &Member::Process(pid), id)
            .map_err(Failure::pools(what()))
            .map(drop)
    }

    /// Binds a zone to the pool of the same name. `false` if the machine has no such zone.
    pub fn bind_zone(&self, zone: &str) -> Result<bool, Failure> {
        let what = || format!("bind zone {zone}");
        let writer = Writer::open(self.machine).map_err(Failure::refused(what()))?;
        let state = dynamic::read(self.machine).map_err(Failure::pools(what()))?;
        let id = Editor::new(state.conf, Place::Machine).pool_id(zone).map_err(Failure::pools(what()))?;
        match dynamic::bind(&writer, self.machine, &Member::Zone(zone.to_owned()), id) {
            Ok(_) => Ok(true),
            Err(error) if error.code == Code::InvalidSearch => Ok(false),
            Err(error) => Err(Failure::pools(what())(error)),
        }
    }

    /// The present number of CPUs of a pool's set.
    pub fn size(&self, pool: &str) -> Result<u64, Failure> {
        let state = dynamic::read(self.machine).map_err(Failure::pools("read pools"))?;
        let set = state.conf.pool(pool).and_then(|pool| state.conf.pset_of(pool));
        Ok(set.map_or(0, PsetNode::size))
    }

    /// Disables the pools.
    pub fn end(mut self) -> Result<(), Failure> {
        self.is_there = false;
        disable(self.machine)
    }
}

impl Drop for MadePools<'_> {
    fn drop(&mut self) {
        if self.is_there {
            // The error that ended the experiment is reported; an error here would only hide it.
            let _ = disable(self.machine);
        }
    }
}

/// A pool with a set of its own with these CPUs, which keeps at least `min` of them, without an upper limit.
pub(crate) fn own_set(editor: &mut Editor, name: &str, cpus: &[CpuId], min: u64) -> Result<(), PoolError> {
    let set = Element::Pset(name.into());
    editor.create_pset(name)?;
    editor.put(&set, "pset.max", PropValue::Uint(UNBOUNDED))?;
    for cpu in cpus {
        editor.transfer_cpu(*cpu, name)?;
    }
    editor.put(&set, "pset.min", PropValue::Uint(min))?;
    editor.create_pool(name)?;
    editor.associate(name, Some(name))
}

/// Sets the minimum size of a set.
pub(crate) fn put_min(editor: &mut Editor, set: &str, min: u64) -> Result<(), PoolError> {
    editor.put(&Element::Pset(set.into()), "pset.min", PropValue::Uint(min))
}

/// Sets the objectives of a set.
pub(crate) fn put_objectives(editor: &mut Editor, set: &str, objectives: &str) -> Result<(), PoolError> {
    editor.put(&Element::Pset(set.into()), "pset.poold.objectives", PropValue::from(objectives))
}
