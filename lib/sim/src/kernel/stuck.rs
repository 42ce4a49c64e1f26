//! Who waits for what nobody will do any more, and who never ends. Reads only.

use super::{Kernel, RunState};
use std::collections::BTreeSet;

/// A thread that waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// The thread.
    pub thread: u32,
    /// The channel that it waits at.
    pub channel: u32,
}

impl Kernel {
    /// The threads that wait at a channel to which only threads could post that wait for ever themselves, or nobody at
    /// all; by channel, then in order of arrival.
    #[must_use]
    pub fn stuck(&self) -> Vec<Stuck> {
        let waits = (0u32..)
            .zip(&self.channels)
            .flat_map(|(channel, c)| c.waiting.iter().map(move |thread| Stuck { thread: *thread, channel }));
        let mut stuck: Vec<Stuck> = waits.collect();
        loop {
            let asleep: BTreeSet<u32> = stuck.iter().map(|s| s.thread).collect();
            let live = (0u32..)
                .zip(&self.threads)
                .filter(|(number, thread)| thread.state != RunState::Gone && !asleep.contains(number));
            let posted: BTreeSet<u32> = live.flat_map(|(_, thread)| thread.program.posts()).collect();
            let before = stuck.len();
            stuck.retain(|s| !posted.contains(&s.channel));
            if stuck.len() == before {
                return stuck;
            }
        }
    }

    /// The threads that end only if somebody ends them, ascending.
    #[must_use]
    pub fn endless(&self) -> Vec<u32> {
        let numbered = (0u32..).zip(&self.threads);
        let endless = numbered
            .filter(|(_, t)| t.state != RunState::Gone && (t.left == u64::MAX || t.program.is_endless()));
        endless.map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Layout, Program, Start, Tunables};
    use super::*;
    use millpond_formats::dispadmin::default_tables;
    use millpond_model::ClassParams;

    fn kernel() -> Kernel {
        Kernel::new(&Layout::flat(2), default_tables(false), Tunables::default())
    }

    fn start(kernel: &mut Kernel, program: Program) -> u32 {
        let class = kernel.entry(ClassParams::default());
        kernel.start(Start::new(class, program))
    }

    #[test]
    fn threads_that_wait_for_one_another_are_stuck_and_the_others_are_not() {
        let mut kernel = kernel();
        let [a, b, c] = [(); 3].map(|()| kernel.channel());
        let one = start(&mut kernel, Program::once(vec![Action::Wait(a), Action::Post(b)]));
        let two = start(&mut kernel, Program::once(vec![Action::Wait(b), Action::Post(a)]));
        start(&mut kernel, Program::once(vec![Action::Wait(c)]));
        let late = vec![Action::Sleep(2_000_000), Action::Post(c), Action::User(1_000)];
        start(&mut kernel, Program::once(late));
        kernel.run_until(1_000_000).unwrap();
        let stuck = vec![Stuck { thread: one, channel: a }, Stuck { thread: two, channel: b }];
        assert_eq!(kernel.stuck(), stuck);
        assert_eq!(kernel.endless(), [0u32; 0]);
    }

    #[test]
    fn who_has_posted_for_the_last_time_helps_nobody() {
        let mut kernel = kernel();
        let a = kernel.channel();
        let waits = start(&mut kernel, Program::once(vec![Action::Wait(a), Action::Wait(a)]));
        start(&mut kernel, Program::once(vec![Action::Post(a), Action::Sleep(9_000_000)]));
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.stuck(), [Stuck { thread: waits, channel: a }]);
    }

    #[test]
    fn who_begins_again_or_computes_for_ever_never_ends() {
        let mut kernel = kernel();
        let hog = start(&mut kernel, Program::hog());
        let again = start(&mut kernel, Program::repeat(vec![Action::Sleep(1_000)]));
        start(&mut kernel, Program::once(vec![Action::User(9_000_000)]));
        assert_eq!(kernel.endless(), [hog, again]);
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.endless(), [hog, again]);
    }
}
