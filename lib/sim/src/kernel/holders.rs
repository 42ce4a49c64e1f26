//! Holders of CPU shares and caps. A zone holds projects, a project holds processes. A thread is held by its process or its project.
//!
//! ```text
//!   zone ◀── project ◀── process (only one with a control of its own) ◀── thread
//! ```
//!
//! The class FSS uses shares ([`super::fss`]). Caps apply to threads of all classes ([`super::caps`]). Kernel threads,
//! interrupt handlers and devices have no holder.

use super::holder::{Holder, Level};
use super::ids::{HolderIndex, ThreadId};
use super::state::Kernel;
use super::thread::RunState;

impl Kernel {
    /// Creates a holder without controls, within another one.
    pub fn hold(&mut self, level: Level, parent: Option<HolderIndex>) -> HolderIndex {
        let holder = Holder { level, parent, shares: None, cap: None, free: false };
        let free = self.holders.with_ids().find(|(_, holder)| holder.free).map(|(at, _)| at);
        if let Some(at) = free {
            self.holders[at] = holder;
            return at;
        }
        self.holders.add(holder)
    }

    /// Deletes an empty holder.
    pub fn release_holder(&mut self, number: HolderIndex) {
        self.set_cap(number, None);
        self.holders[number].free = true;
        self.forget_usage(number);
    }

    /// Moves a process, with its threads, into another project.
    pub fn set_project(&mut self, process: HolderIndex, project: HolderIndex) {
        self.holders[process].parent = Some(project);
    }

    /// Sets the shares of a holder; `None` for the default.
    pub fn set_shares(&mut self, number: HolderIndex, shares: Option<u32>) {
        self.holders[number].shares = shares;
    }

    /// Sets the holder of a thread and of its later children; `None` for none. Interrupt handlers and devices always have none.
    pub fn set_holder(&mut self, thread: ThreadId, holder: Option<HolderIndex>) {
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

    /// The kind of a holder; `None` if it does not exist.
    #[must_use]
    pub fn level_of(&self, number: HolderIndex) -> Option<Level> {
        self.holders.row(number).filter(|holder| !holder.free).map(|holder| holder.level)
    }

    /// The holders of a thread, its own first.
    pub(super) fn holders_of(&self, thread: ThreadId) -> impl Iterator<Item = HolderIndex> + '_ {
        let parent = |number: &HolderIndex| self.holders[*number].parent;
        std::iter::successors(self.thread(thread).holder, parent)
    }

    /// Checks that every holder exists, and belongs to one of the level above.
    pub(super) fn check_holders(&self) -> Result<(), String> {
        let above = |holder: &Holder| holder.parent.and_then(|parent| self.holders.row(parent));
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
