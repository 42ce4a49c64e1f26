//! Zones: named groups of processes that can be bound to a set as a whole.

use crate::{Change, Refusal};
use millpond_model::{Pid, PsetId};
use std::collections::BTreeMap;

/// A named group of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its number.
    pub id: u32,
    /// Its name for users.
    pub name: String,
    /// Its kind, in a word (`unit`, `container`, `group`).
    pub kind: String,
    /// The set that it is bound to; [`PsetId::DEFAULT`] for none.
    pub set: PsetId,
}

/// The facet.
pub trait Zones {
    /// Every zone.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self) -> Result<Vec<Zone>, Refusal>;

    /// The processes of a zone, ascending.
    ///
    /// # Errors
    /// [`Refusal`]: no such zone, or the machine cannot be read.
    fn processes(&self, zone: &str) -> Result<Vec<Pid>, Refusal>;

    /// Prepares binding a whole zone to a set; `None` returns it to the default set.
    ///
    /// # Errors
    /// [`Refusal`]: no such zone or set, an empty set, a zone that another manager owns.
    fn prepare_bind(&self, zone: &str, to: Option<PsetId>) -> Result<Change<Zone>, Refusal>;

    /// Sets the names of pod containers for users. They replace the names in [`Zones::list`], and any names set earlier. The caller takes
    /// responsibility for a named container: it can be bound, although the kubelet owns its group. A machine without pods ignores names.
    ///
    /// # Errors
    /// [`Refusal`] if they cannot be stored.
    fn name_containers(&self, names: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let _ = names;
        Ok(())
    }
}
