//! Shared readings: several queries (sets, pools, their contents) are answered from one reading of the machine.
//!
//! While a guard exists, all queries use the first reading. Becoming the writer, or a write, ends this, because a change must
//! start from the current state. A writer prepares a change from one reading of its own, which ends with its first write. After
//! that, everything is read again each time.

use crate::records::SharedRecords;
use crate::view::{RootTasks, View};
use millpond_machine::{Guard, Knob, Value};
use millpond_model::{CpuId, State};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Everything read since the first guard was created.
#[derive(Debug, Default)]
struct Seen {
    view: Option<Rc<View>>,
    states: Option<BTreeMap<CpuId, State>>,
    baselines: Option<Rc<BTreeMap<Knob, Option<Value>>>>,
}

/// The cache of readings.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedReads {
    /// Number of existing guards.
    depth: Rc<Cell<u32>>,
    /// This process became the writer meanwhile.
    is_over: Rc<Cell<bool>>,
    /// This process is the writer.
    is_writing: Rc<Cell<bool>>,
    seen: Rc<RefCell<Seen>>,
    records: SharedRecords,
}

/// Readings are shared as long as one of these guards exists.
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

/// A writer's lock. While it exists, readings are shared between writes.
struct Writing {
    _lock: Box<dyn Guard>,
    reads: SharedReads,
}

impl Guard for Writing {}

impl Drop for Writing {
    fn drop(&mut self) {
        self.reads.is_writing.set(false);
        self.reads.forget();
    }
}

impl SharedReads {
    /// An empty cache. `records` are cached in the same way.
    pub(crate) fn of(records: SharedRecords) -> Self {
        SharedReads { records, ..SharedReads::default() }
    }

    fn are_kept(&self) -> bool {
        self.is_writing.get() || (self.depth.get() > 0 && !self.is_over.get())
    }

    pub(crate) fn begin(&self) -> Box<dyn Guard> {
        if self.depth.replace(self.depth.get() + 1) == 0 {
            self.is_over.set(false);
            self.forget();
        }
        Box::new(Lasting(self.clone()))
    }

    /// Clears the cache.
    pub(crate) fn forget(&self) {
        *self.seen.borrow_mut() = Seen::default();
        self.records.begin(self.are_kept());
    }

    /// Clears the cache when this process becomes the writer; earlier readings are not used again before the next first guard.
    /// The writer's readings are shared until it writes, settles or releases the lock.
    pub(crate) fn begin_writing(&self, lock: Box<dyn Guard>) -> Box<dyn Guard> {
        self.is_over.set(true);
        self.is_writing.set(true);
        self.forget();
        Box::new(Writing { _lock: lock, reads: self.clone() })
    }

    /// Clears the cache of a writer: it has changed something, or looks for changes by others.
    pub(crate) fn forget_as_writer(&self) {
        if self.is_writing.get() {
            self.forget();
        }
    }

    /// The tree, from the cache or from `read`. A view with the tasks of the root cgroup also serves queries without them, but
    /// not the reverse.
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

    /// The states of CPUs, from the cache or from `read`.
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

    /// The baselines of the journal, from the cache or from `read`.
    pub(crate) fn baselines(
        &self,
        read: impl FnOnce() -> BTreeMap<Knob, Option<Value>>,
    ) -> Rc<BTreeMap<Knob, Option<Value>>> {
        if let Some(baselines) = &self.seen.borrow().baselines {
            return Rc::clone(baselines);
        }
        let baselines = Rc::new(read());
        self.keep(|seen| seen.baselines = Some(Rc::clone(&baselines)));
        baselines
    }

    /// A property of the cached view, if there is one.
    pub(crate) fn of_view<T>(&self, what: impl FnOnce(&View) -> T) -> Option<T> {
        self.seen.borrow().view.as_deref().map(what)
    }

    fn keep(&self, put: impl FnOnce(&mut Seen)) {
        if self.are_kept() {
            put(&mut self.seen.borrow_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    struct Unlocked;

    impl Guard for Unlocked {}

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
        let twice =
            || (reads(&shared, RootTasks::Unlisted, &count), reads(&shared, RootTasks::Unlisted, &count));
        let lock = shared.begin_writing(Box::new(Unlocked));
        assert_eq!(twice(), (6, 6), "a writer sees what is, and prepares from one reading");
        shared.forget_as_writer();
        assert_eq!(twice(), (7, 7), "after a write it reads again");
        drop(lock);
        assert_eq!(twice(), (8, 9), "others may write again");
        drop(outer);
        assert_eq!(reads(&shared, RootTasks::Unlisted, &count), 10);
        let _next = shared.begin();
        assert_eq!(twice(), (11, 11));
        shared.forget_as_writer();
        assert_eq!(twice(), (11, 11), "who is no writer has written nothing");
    }
}
