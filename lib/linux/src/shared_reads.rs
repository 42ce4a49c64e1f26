//! One reading for several questions: which sets there are, which pools, what is in them. While a guard lives, all are answered from the first
//! reading. Becoming the writer, or a write, ends it: a change is made from what is.

use crate::view::{RootTasks, View};
use millpond_machine::Guard;
use millpond_model::{CpuId, State};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What was read since the first guard was made.
#[derive(Debug, Default)]
struct Seen {
    view: Option<Rc<View>>,
    states: Option<BTreeMap<CpuId, State>>,
}

/// The place where it is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedReads {
    /// How many guards live.
    depth: Rc<Cell<u32>>,
    /// This process became the writer meanwhile.
    is_over: Rc<Cell<bool>>,
    seen: Rc<RefCell<Seen>>,
}

/// Readings are shared as long as one of these lives.
struct Lasting(SharedReads);

impl Guard for Lasting {}

impl Drop for Lasting {
    fn drop(&mut self) {
        let left = self.0.depth.get().saturating_sub(1);
        self.0.depth.set(left);
        if left == 0 {
            self.0.forget();
        }
    }
}

impl SharedReads {
    pub(crate) fn begin(&self) -> Box<dyn Guard> {
        if self.depth.get() == 0 {
            self.is_over.set(false);
        }
        self.depth.set(self.depth.get() + 1);
        Box::new(Lasting(self.clone()))
    }

    /// What is asked for next is read again.
    pub(crate) fn forget(&self) {
        *self.seen.borrow_mut() = Seen::default();
    }

    /// From now on everything is read again, until the next first guard.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.forget();
    }

    /// The tree, as it was read or as `read` reads it. One with the tasks of the root cgroup serves who asks for none, not the other way round.
    pub(crate) fn view<E>(
        &self,
        root: RootTasks,
        read: impl FnOnce() -> Result<View, E>,
    ) -> Result<Rc<View>, E> {
        let serves = |view: &View| match root {
            RootTasks::Unlisted => true,
            RootTasks::ForLiveSets => !view.v1 || view.sets().values().all(|set| !set.mode.is_exclusive()),
            RootTasks::Listed => !view.v1,
        };
        if let Some(view) = self.seen.borrow().view.as_ref().filter(|view| serves(view)) {
            return Ok(Rc::clone(view));
        }
        let view = Rc::new(read()?);
        self.keep(|seen| seen.view = Some(Rc::clone(&view)));
        Ok(view)
    }

    /// The states of CPUs.
    pub(crate) fn states<E>(
        &self,
        read: impl FnOnce() -> Result<BTreeMap<CpuId, State>, E>,
    ) -> Result<BTreeMap<CpuId, State>, E> {
        if let Some(states) = &self.seen.borrow().states {
            return Ok(states.clone());
        }
        let states = read()?;
        self.keep(|seen| seen.states = Some(states.clone()));
        Ok(states)
    }

    /// What the tree that was read says, where one was.
    pub(crate) fn of_view<T>(&self, what: impl FnOnce(&View) -> T) -> Option<T> {
        self.seen.borrow().view.as_deref().map(what)
    }

    fn keep(&self, put: impl FnOnce(&mut Seen)) {
        if self.depth.get() > 0 && !self.is_over.get() {
            put(&mut self.seen.borrow_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn reads(shared: &SharedReads, root: RootTasks, count: &Cell<u32>) -> u32 {
        let read = || {
            count.set(count.get() + 1);
            Ok::<_, Infallible>(View { v1: true, ..View::default() })
        };
        let Ok(view) = shared.view(root, read);
        assert!(view.v1);
        count.get()
    }

    #[test]
    fn what_was_read_is_given_again_while_somebody_wants_it() {
        let (shared, count) = (SharedReads::default(), Cell::new(0));
        assert_eq!(
            (reads(&shared, RootTasks::Unlisted, &count), reads(&shared, RootTasks::Unlisted, &count)),
            (1, 2)
        );
        let outer = shared.begin();
        let inner = shared.begin();
        assert_eq!(
            (reads(&shared, RootTasks::Unlisted, &count), reads(&shared, RootTasks::Unlisted, &count)),
            (3, 3)
        );
        drop(inner);
        assert_eq!(reads(&shared, RootTasks::ForLiveSets, &count), 3, "no set is exclusive");
        assert_eq!(reads(&shared, RootTasks::Listed, &count), 4, "nobody listed the tasks of the root");
        shared.forget();
        assert_eq!(reads(&shared, RootTasks::Unlisted, &count), 5, "somebody changed something");
        shared.end();
        let twice =
            (reads(&shared, RootTasks::Unlisted, &count), reads(&shared, RootTasks::Unlisted, &count));
        assert_eq!(twice, (6, 7), "a writer sees what is");
        drop(outer);
        assert_eq!(reads(&shared, RootTasks::Unlisted, &count), 8);
        let _next = shared.begin();
        let twice =
            (reads(&shared, RootTasks::Unlisted, &count), reads(&shared, RootTasks::Unlisted, &count));
        assert_eq!(twice, (9, 9));
    }
}
