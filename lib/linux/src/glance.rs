//! One reading for several questions. A turn of a daemon asks which sets there are, which pools, and who is in them: while a glance lasts these are
//! answered from what was read for the first of them. Whoever becomes the writer, or writes, ends it: a change is made from what is.

use crate::view::{RootTasks, View};
use millpond_machine::Guard;
use millpond_model::{CpuId, State};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What was read since the glance began.
#[derive(Debug, Default)]
struct Seen {
    view: Option<Rc<View>>,
    states: Option<BTreeMap<CpuId, State>>,
}

/// The place where it is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Glance {
    /// How many want it.
    depth: Rc<Cell<u32>>,
    /// Somebody became the writer meanwhile.
    is_over: Rc<Cell<bool>>,
    seen: Rc<RefCell<Seen>>,
}

/// A glance lasts as long as one of these.
struct Lasting(Glance);

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

impl Glance {
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

    /// From now on everything is read again, until the next glance begins.
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

    /// The states of processors.
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

    fn reads(glance: &Glance, root: RootTasks, count: &Cell<u32>) -> u32 {
        let read = || {
            count.set(count.get() + 1);
            Ok::<_, Infallible>(View { v1: true, ..View::default() })
        };
        let Ok(view) = glance.view(root, read);
        assert!(view.v1);
        count.get()
    }

    #[test]
    fn what_was_read_is_given_again_while_somebody_wants_it() {
        let (glance, count) = (Glance::default(), Cell::new(0));
        assert_eq!(
            (reads(&glance, RootTasks::Unlisted, &count), reads(&glance, RootTasks::Unlisted, &count)),
            (1, 2)
        );
        let outer = glance.begin();
        let inner = glance.begin();
        assert_eq!(
            (reads(&glance, RootTasks::Unlisted, &count), reads(&glance, RootTasks::Unlisted, &count)),
            (3, 3)
        );
        drop(inner);
        assert_eq!(reads(&glance, RootTasks::ForLiveSets, &count), 3, "no set is exclusive");
        assert_eq!(reads(&glance, RootTasks::Listed, &count), 4, "nobody listed the tasks of the root");
        glance.forget();
        assert_eq!(reads(&glance, RootTasks::Unlisted, &count), 5, "somebody changed something");
        glance.end();
        let twice =
            (reads(&glance, RootTasks::Unlisted, &count), reads(&glance, RootTasks::Unlisted, &count));
        assert_eq!(twice, (6, 7), "a writer sees what is");
        drop(outer);
        assert_eq!(reads(&glance, RootTasks::Unlisted, &count), 8);
        let _next = glance.begin();
        let twice =
            (reads(&glance, RootTasks::Unlisted, &count), reads(&glance, RootTasks::Unlisted, &count));
        assert_eq!(twice, (9, 9));
    }
}
