//! Process-wide settings that many threads can request: the first request changes the setting, the last release restores it.

use super::outcome::Refusal;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Holders of a setting, and its original value.
#[derive(Debug)]
pub(super) struct Holders<B>(Mutex<Option<Held<B>>>);

#[derive(Debug)]
struct Held<B> {
    count: usize,
    before: B,
    /// The process of the holders. The child of a fork has none of its parent's locks, and holds nothing.
    process: u32,
}

impl<B> Holders<B> {
    pub(super) const fn new() -> Holders<B> {
        Holders(Mutex::new(None))
    }

    fn held(&self) -> MutexGuard<'_, Option<Held<B>>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|held| held.process != std::process::id()) {
            *held = None;
        }
        held
    }

    /// Makes a request. `make` runs for each; `before` saves the original value for the first.
    pub(super) fn enter(
        &self,
        before: impl FnOnce() -> B,
        make: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut held = self.held();
        let first = held.is_none().then(before);
        make()?;
        match (held.as_mut(), first) {
            (Some(held), _) => held.count += 1,
            (None, Some(before)) => *held = Some(Held { count: 1, before, process: std::process::id() }),
            (None, None) => {}
        }
        Ok(())
    }

    /// Releases a request. The last release restores the original value.
    pub(super) fn leave<T>(&self, restore: impl FnOnce(B) -> T) -> Option<T> {
        let mut held = self.held();
        let count = &mut held.as_mut()?.count;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        held.take().map(|held| restore(held.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_notes_how_it_was_and_the_last_puts_it_back() {
        let holders = Holders::new();
        holders.enter(|| 7, || Ok(())).unwrap();
        holders.enter(|| 8, || Ok(())).unwrap();
        assert_eq!(holders.leave(|before| before), None);
        assert_eq!(holders.leave(|before| before), Some(7));
        assert_eq!(holders.leave(|before| before), None);
    }

    #[test]
    fn who_is_refused_is_no_holder() {
        let holders = Holders::new();
        let refusal = Refusal::new(libc::EPERM, "no");
        assert_eq!(holders.enter(|| 7, || Err(refusal.clone())), Err(refusal));
        assert_eq!(holders.leave(|before| before), None);
    }
}
