//! Pools: the configuration, and the members of each pool.
//!
//! The facet keeps a configuration and makes the machine follow it; whether a configuration makes sense, and what a command does to
//! it, is decided by `pools`. While pools are enabled, sets are theirs: the facets of sets, threads and zones refuse with
//! [`crate::Reason::PoolsEnabled`].

use crate::{Change, Refusal};
use millpond_model::pools::PoolsState;
use millpond_model::{Pid, PoolId};
use std::collections::BTreeMap;
use std::fmt;

/// What can be bound to a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A process with all its threads.
    Process(Pid),
    /// A zone, by its name.
    Zone(String),
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Process(pid) => write!(f, "process {pid}"),
            Member::Zone(name) => write!(f, "zone {name}"),
        }
    }
}

/// What makes a group of processes that another manager starts begin in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartOption {
    /// What starts it.
    pub whom: String,
    /// What he is told, in his own words.
    pub text: String,
    /// It names the CPUs as they are now, and does not follow them.
    pub is_fixed: bool,
}

/// The facet.
pub trait Pools {
    /// The dynamic configuration, with CPUs where they are now and in the state that they have. `None` while pools are disabled.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn state(&self) -> Result<Option<PoolsState>, Refusal>;

    /// Whether the configuration may be changed by who asks, whatever it is to be.
    ///
    /// # Errors
    /// [`Refusal`] where it may not.
    fn may_change(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Every process that is in another pool than the default one.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn members(&self) -> Result<BTreeMap<Pid, PoolId>, Refusal>;

    /// Prepares another configuration in the place of the present one, as one change: sets that come and go, their CPUs and the
    /// states of these, pools with the processes that follow them, properties. `None` disables pools; from `None` they are enabled.
    /// Pools and sets without a number get one; the outcome is what the machine will have. Processes of pools that are gone go to the
    /// default pool. Threads that are bound to a CPU which changes sets are unbound from it.
    ///
    /// # Errors
    /// [`Refusal`]: sets exist that no pool made, a set with processes would be empty, the default set would be, a CPU that does
    /// not exist or cannot get its state, no rights.
    fn prepare_commit(&self, to: Option<PoolsState>) -> Result<Change<Option<PoolsState>>, Refusal>;

    /// The key of a zone in [`PoolsState::zones`]. A configuration that has it there binds the zone when it is committed.
    ///
    /// # Errors
    /// [`Refusal`]: no such zone, one that another manager owns, one that stands in another set until it is started again.
    fn zone_key(&self, zone: &str) -> Result<String, Refusal>;

    /// Prepares binding a process or a zone to a pool; [`PoolId::DEFAULT`] returns it to where it was.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool, process or zone, a part of the kernel, a pool whose set is empty, a thread that is
    /// bound to a CPU elsewhere, a zone that another manager owns, no rights.
    fn prepare_join(&self, member: &Member, to: PoolId) -> Result<Change<()>, Refusal>;

    /// Prepares binding a zone to a pool so that it lasts: it also starts there, from its next start on and after a boot;
    /// [`PoolId::DEFAULT`] forgets that. One that was started in a set stays there until it is started again. Notes tell that, and who else
    /// has a say in where it starts.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool or zone, a zone that is started by no rule of ours, no rights.
    fn prepare_persist(&self, zone: &str, to: PoolId) -> Result<Change<()>, Refusal>;

    /// What others can be told so that what they start begins in a pool; nothing for a pool that has the default set.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool, zones are not started there.
    fn start_options(&self, to: PoolId) -> Result<Vec<StartOption>, Refusal>;
}
