//! Zones: named groups of processes that can be bound to a set as they are.

use crate::{Change, Refusal};
use millpond_model::{Pid, PsetId};
use std::collections::BTreeMap;

/// A named group of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its number.
    pub id: u32,
    /// What users call it.
    pub name: String,
    /// What sort of group it is, in a word (`unit`, `container`, `group`).
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

    /// Prepares binding a whole zone to a set; `None` gives it back to the default set.
    ///
    /// # Errors
    /// [`Refusal`]: no such zone or set, an empty set, a zone that another manager owns.
    fn prepare_bind(&self, zone: &str, to: Option<PsetId>) -> Result<Change<Zone>, Refusal>;

    /// Tells what users call containers of pods: the names that they get in place of those by which [`Zones::list`] gave them. These replace what was
    /// told before. Whoever tells a name answers for the container: it can be bound, although the kubelet owns its group. A machine without pods takes
    /// no names.
    ///
    /// # Errors
    /// [`Refusal`] when they cannot be kept.
    fn name_containers(&self, names: &BTreeMap<String, String>) -> Result<(), Refusal> {
        let _ = names;
        Ok(())
    }
}
