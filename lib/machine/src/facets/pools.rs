//! Pools: the configuration, and the members of each pool.
//!
//! The facet stores a configuration and applies it to the machine. The rules for configurations, and the effects of commands,
//! are in `pools`. While pools are enabled, they own the sets: the facets of sets, threads and zones refuse with
//! [`crate::Reason::PoolsEnabled`].

use crate::{Change, Refusal};
use millpond_model::pools::PoolsState;
use millpond_model::{Pid, PoolId};
use std::collections::BTreeMap;
use std::fmt;

/// An object that can be bound to a pool.
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

/// A setting of another manager that makes a group of processes start in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartOption {
    /// The manager.
    pub whom: String,
    /// The setting, in the syntax of the manager.
    pub text: String,
    /// Whether it names the present CPUs and does not follow changes.
    pub is_fixed: bool,
}

/// The facet.
pub trait Pools {
    /// The dynamic configuration, with the present sets and states of CPUs. `None` if pools are disabled.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn state(&self) -> Result<Option<PoolsState>, Refusal>;

    /// Whether the caller may change the configuration at all.
    ///
    /// # Errors
    /// [`Refusal`] if it may not.
    fn may_change(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Every process in a pool other than the default one.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn members(&self) -> Result<BTreeMap<Pid, PoolId>, Refusal>;

    /// Prepares to replace the present configuration in one change: created and destroyed sets, their CPUs and the
    /// states of these, pools with the processes that follow them, properties. `None` disables pools; from `None` they are enabled.
    /// Pools and sets without a number get one; the outcome is the new configuration. Processes of destroyed pools go to the
    /// default pool. Threads that are bound to a CPU that changes sets are unbound from it.
    ///
    /// # Errors
    /// [`Refusal`]: there are sets that pools did not create, a set with processes or the default set would be empty, a CPU does
    /// not exist or cannot get its state, no permission.
    fn prepare_commit(&self, to: Option<PoolsState>) -> Result<Change<Option<PoolsState>>, Refusal>;

    /// The key of a zone in [`PoolsState::zones`]. A configuration with this key binds the zone when it is committed.
    ///
    /// # Errors
    /// [`Refusal`]: no such zone, a zone that another manager owns, a zone that stays in another set until it is restarted.
    fn zone_key(&self, zone: &str) -> Result<String, Refusal>;

    /// Prepares to bind a process or a zone to a pool; [`PoolId::DEFAULT`] returns it to its former place.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool, process or zone, a part of the kernel, a pool with an empty set, a thread
    /// bound to a CPU elsewhere, a zone that another manager owns, no permission.
    fn prepare_join(&self, member: &Member, to: PoolId) -> Result<Change<()>, Refusal>;

    /// Prepares to bind a zone to a pool persistently: it also starts there, from its next start on and after a boot.
    /// [`PoolId::DEFAULT`] removes the binding. A zone that was started in a set stays there until it is restarted. Notes report that, and other
    /// settings that determine where it starts.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool or zone, a zone whose start Millpond cannot configure, no permission.
    fn prepare_persist(&self, zone: &str, to: PoolId) -> Result<Change<()>, Refusal>;

    /// Settings for other managers that make their processes start in a pool; empty for a pool with the default set.
    ///
    /// # Errors
    /// [`Refusal`]: pools are disabled, no such pool, zones cannot be started there.
    fn start_options(&self, to: PoolId) -> Result<Vec<StartOption>, Refusal>;
}
