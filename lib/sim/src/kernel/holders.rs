//! Holders of CPU shares and caps: a zone holds projects, a project holds processes, and a thread is held by its process or its project.
//!
//! ```text
//!   zone ◀── project ◀── process (only one with a control of its own) ◀── thread
//! ```
//!
//! Shares are used by the class FSS ([`super::fss`]), caps by [`super::caps`], whatever the class. Threads of the kernel, handlers of interrupts and
//! devices are held by nothing.

use super::caps::Cap;
use super::{Kernel, RunState};
use serde::{Deserialize, Serialize};

/// What sort of holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Of projects.
    Zone,
    /// Of processes; belongs to a zone.
    Project,
    /// Of threads; belongs to a project.
    Process,
}

/// A holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Holder {
    /// What sort.
    pub level: Level,
    /// The holder that it belongs to.
    pub parent: Option<u32>,
    /// Its shares, where they were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<u32>,
    /// Its cap, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Cap>,
    /// Nothing belongs to it any more, and its place may be given away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

impl Kernel {
    /// A new holder without controls, which belongs to another one; gives its number.
    pub fn hold(&mut self, level: Level, parent: Option<u32>) -> u32 {
        let holder = Holder { level, parent, shares: None, cap: None, free: false };
        if let Some(at) = self.holders.iter().position(|holder| holder.free) {
            self.holders[at] = holder;
            return u32::try_from(at).unwrap_or(u32::MAX);
        }
        self.holders.push(holder);
        u32::try_from(self.holders.len() - 1).unwrap_or(u32::MAX)
    }

    /// Gives up a holder to which nothing belongs any more.
    pub fn release_holder(&mut self, number: u32) {
        self.set_cap(number, None);
        self.holders[number as usize].free = true;
        self.forget_usage(number);
    }

    /// A process goes with what it holds into another project.
    pub fn set_project(&mut self, process: u32, project: u32) {
        self.holders[process as usize].parent = Some(project);
    }

    /// Sets the shares of a holder; `None` is the default.
    pub fn set_shares(&mut self, number: u32, shares: Option<u32>) {
        self.holders[number as usize].shares = shares;
    }

    /// Puts a thread, and those that it starts from now on, under a holder, or under none. Handlers of interrupts and devices are under none.
    pub fn set_holder(&mut self, thread: u32, holder: Option<u32>) {
        let t = self.thread(thread);
        if t.holder == holder || t.device || t.level > 0 || t.state == RunState::Gone {
            return;
        }
        let waits = t.state == RunState::Capped;
        self.charge_caps(thread);
        self.uncap(thread);
        self.count_at_home(thread, false);
        let t = self.t(thread);
        (t.holder, t.charged) = (holder, t.user + t.sys);
        self.count_at_home(thread, true);
        if waits {
            self.set_runnable(thread);
        }
    }

    /// What sort of holder a number is; `None` for none.
    #[must_use]
    pub fn level_of(&self, number: u32) -> Option<Level> {
        self.holders.get(number as usize).filter(|holder| !holder.free).map(|holder| holder.level)
    }

    /// The holders of a thread, its own first.
    pub(super) fn holders_of(&self, thread: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |number: &u32| self.holders[*number as usize].parent;
        std::iter::successors(self.thread(thread).holder, parent)
    }

    /// Every holder exists, and belongs to one of the level above.
    pub(super) fn check_holders(&self) -> Result<(), String> {
        let above = |holder: &Holder| holder.parent.and_then(|parent| self.holders.get(parent as usize));
        let fits = |holder: &Holder| match (holder.level, above(holder)) {
            (Level::Zone, None) => holder.parent.is_none(),
            (Level::Project, Some(above)) => above.level == Level::Zone,
            (Level::Process, Some(above)) => above.level == Level::Project,
            _ => false,
        };
        let possible = |holder: &Holder| holder.shares.is_none_or(|shares| shares <= 65_535);
        if self.holders.iter().all(|holder| fits(holder) && possible(holder)) {
            Ok(())
        } else {
            Err("a holder of the kernel belongs where none can".into())
        }
    }
}
