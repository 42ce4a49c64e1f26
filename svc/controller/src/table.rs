//! The current objects of a watch, with the value that is kept of each.

use kube::runtime::watcher::Event;
use std::collections::BTreeMap;

/// Values by name. `None` until all objects were listed once.
pub(crate) struct Table<V> {
    now: Option<BTreeMap<String, V>>,
    /// The part of an unfinished list that has arrived.
    next: BTreeMap<String, V>,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table { now: None, next: BTreeMap::new() }
    }
}

impl<V> Table<V> {
    /// All values, once they were listed.
    pub(crate) fn whole(&self) -> Option<&BTreeMap<String, V>> {
        self.now.as_ref()
    }

    /// Applies an event. Returns whether something has changed, where `differs` compares two states of one object.
    pub(crate) fn take<K>(
        &mut self,
        event: Event<K>,
        keep: impl Fn(K) -> Option<(String, V)>,
        differs: impl Fn(&V, &V) -> bool,
    ) -> bool {
        match event {
            Event::Init => {
                self.next.clear();
                false
            }
            Event::InitApply(thing) => {
                self.next.extend(keep(thing));
                false
            }
            Event::InitDone => {
                let next = std::mem::take(&mut self.next);
                let same = self.now.as_ref().is_some_and(|now| {
                    now.len() == next.len()
                        && now.iter().zip(&next).all(|((a, was), (b, is))| a == b && !differs(was, is))
                });
                self.now = Some(next);
                !same
            }
            Event::Apply(thing) => {
                let (Some(now), Some((name, is))) = (self.now.as_mut(), keep(thing)) else { return false };
                let changed = now.get(&name).is_none_or(|was| differs(was, &is));
                now.insert(name, is);
                changed
            }
            Event::Delete(thing) => {
                let (Some(now), Some((name, _))) = (self.now.as_mut(), keep(thing)) else { return false };
                now.remove(&name).is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(table: &mut Table<u32>, event: Event<(&str, u32)>) -> bool {
        table.take(event, |(name, value)| Some((name.to_owned(), value)), |was, is| was != is)
    }

    #[test]
    fn nothing_is_known_before_everything_was_listed() {
        let mut table = Table::default();
        assert!(!take(&mut table, Event::Init));
        assert!(!take(&mut table, Event::InitApply(("a", 1))));
        assert_eq!(table.whole(), None);
        assert!(take(&mut table, Event::InitDone));
        assert_eq!(table.whole(), Some(&BTreeMap::from([("a".to_owned(), 1)])));
    }

    #[test]
    fn what_is_the_same_is_no_news() {
        let mut table = Table::default();
        take(&mut table, Event::InitApply(("a", 1)));
        take(&mut table, Event::InitDone);
        assert!(!take(&mut table, Event::Apply(("a", 1))));
        assert!(take(&mut table, Event::Apply(("a", 2))));
        assert!(take(&mut table, Event::Apply(("b", 1))));
        // A restarted watch lists everything again. Objects missing from that list are gone.
        take(&mut table, Event::Init);
        take(&mut table, Event::InitApply(("a", 2)));
        assert_eq!(table.whole().map(BTreeMap::len), Some(2));
        assert!(take(&mut table, Event::InitDone));
        take(&mut table, Event::Init);
        take(&mut table, Event::InitApply(("a", 2)));
        assert!(!take(&mut table, Event::InitDone));
        assert!(take(&mut table, Event::Delete(("a", 2))));
        assert!(!take(&mut table, Event::Delete(("a", 2))));
    }
}
