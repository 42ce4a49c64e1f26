//! Finds threads that wait for ever, and threads that never end. It only reads.

use super::ids::{BarrierId, ChannelId, ThreadId};
use super::program::{Action, Program};
use super::state::Kernel;
use super::thread::RunState;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A thread that waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// The thread.
    pub thread: ThreadId,
    /// The object that it waits for.
    pub waits_for: WaitsFor,
}

/// An object that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// A post to this channel.
    Channel(ChannelId),
    /// Other threads at a barrier; it waits asleep or spinning.
    Barrier {
        /// Its number.
        barrier: BarrierId,
        /// Number of threads that have arrived.
        there: u32,
        /// Number of threads that it waits for.
        parties: u32,
    },
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsFor::Channel(channel) => write!(f, "channel {channel}"),
            WaitsFor::Barrier { barrier, there, parties } => {
                write!(f, "barrier {barrier} ({there} of {parties} are there)")
            }
        }
    }
}

/// Actions of running threads that could release waiting ones.
#[derive(Default)]
struct Help {
    /// The channels that they may post to.
    posts: BTreeSet<ChannelId>,
    /// Number of them that may arrive at each barrier. A thread arrives once, because it then waits. A thread whose children arrive
    /// may start any number of them.
    comers: BTreeMap<BarrierId, u64>,
}

impl Help {
    fn add(&mut self, program: &Program) {
        self.posts.extend(program.posts());
        let mut meets: BTreeMap<BarrierId, u64> = BTreeMap::new();
        for action in program.to_come() {
            match action {
                Action::Meet(barrier, _) => {
                    meets.entry(*barrier).or_insert(1);
                }
                Action::Fork(child) | Action::Spawn(child) => {
                    meets.extend(child.actions().filter_map(|a| match a {
                        Action::Meet(barrier, _) => Some((*barrier, u64::MAX)),
                        _ => None,
                    }))
                }
                _ => {}
            }
        }
        for (barrier, more) in meets {
            let comers = self.comers.entry(barrier).or_default();
            *comers = comers.saturating_add(more);
        }
    }

    fn reaches(&self, waits_for: WaitsFor) -> bool {
        match waits_for {
            WaitsFor::Channel(channel) => self.posts.contains(&channel),
            WaitsFor::Barrier { barrier, there, parties } => {
                let comers = self.comers.get(&barrier).copied().unwrap_or(0);
                comers.saturating_add(u64::from(there)) >= u64::from(parties)
            }
        }
    }
}

impl Kernel {
    /// The threads that wait for ever: only other such threads, or none, could release them. They wait for a post to a channel, or at a
    /// barrier for more threads than can still arrive. Channels first, then barriers, each by number and in order of arrival.
    #[must_use]
    pub fn stuck(&self) -> Vec<Stuck> {
        let mut stuck = self.waiting();
        // Fixpoint: released threads may release others.
        while !stuck.is_empty() {
            let waits: BTreeSet<ThreadId> = stuck.iter().map(|s| s.thread).collect();
            let mut help = Help::default();
            let numbered = self.threads.with_ids();
            let live = numbered.filter(|(number, t)| t.state != RunState::Gone && !waits.contains(number));
            live.for_each(|(_, thread)| help.add(&thread.program));
            let before = stuck.len();
            stuck.retain(|s| !help.reaches(s.waits_for));
            if stuck.len() == before {
                break;
            }
        }
        stuck
    }

    /// The threads at channels, then those at barriers.
    fn waiting(&self) -> Vec<Stuck> {
        let channels = self.channels.with_ids().flat_map(|(channel, c)| {
            let waits_for = WaitsFor::Channel(channel);
            c.waiting.iter().map(move |thread| Stuck { thread: *thread, waits_for })
        });
        let barriers = self.barriers.with_ids().flat_map(|(barrier, b)| {
            let there = u32::try_from(b.there.len()).unwrap_or(u32::MAX);
            let waits_for = WaitsFor::Barrier { barrier, there, parties: b.parties };
            b.there.iter().map(move |thread| Stuck { thread: *thread, waits_for })
        });
        channels.chain(barriers).collect()
    }

    /// The threads that end only if they are killed, ascending. A thread that spins at a barrier does not count: it stops when the others
    /// arrive.
    #[must_use]
    pub fn endless(&self) -> Vec<ThreadId> {
        let spins: BTreeSet<ThreadId> = self.barriers.iter().flat_map(|b| &b.there).copied().collect();
        let numbered = self.threads.with_ids().filter(|(_, t)| t.state != RunState::Gone);
        let endless = numbered
            .filter(|(number, t)| (t.left == u64::MAX && !spins.contains(number)) || t.program.is_endless());
        endless.map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, Start, Tunables, Waiting};
    use super::*;
    use millpond_formats::dispadmin::default_tables;
    use millpond_model::ClassParams;

    fn kernel() -> Kernel {
        Kernel::new(&Layout::flat(2), default_tables(false), Tunables::default())
    }

    fn start(kernel: &mut Kernel, program: Program) -> ThreadId {
        let class = kernel.entry(ClassParams::default());
        kernel.start(Start::new(class, program))
    }

    fn at_channel(thread: ThreadId, channel: ChannelId) -> Stuck {
        Stuck { thread, waits_for: WaitsFor::Channel(channel) }
    }

    fn at_barrier(thread: ThreadId, barrier: BarrierId, there: u32, parties: u32) -> Stuck {
        Stuck { thread, waits_for: WaitsFor::Barrier { barrier, there, parties } }
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
        let stuck = vec![at_channel(one, a), at_channel(two, b)];
        assert_eq!(kernel.stuck(), stuck);
        assert_eq!(kernel.endless(), [] as [ThreadId; 0]);
    }

    #[test]
    fn who_has_posted_for_the_last_time_helps_nobody() {
        let mut kernel = kernel();
        let a = kernel.channel();
        let waits = start(&mut kernel, Program::once(vec![Action::Wait(a), Action::Wait(a)]));
        start(&mut kernel, Program::once(vec![Action::Post(a), Action::Sleep(9_000_000)]));
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.stuck(), [at_channel(waits, a)]);
    }

    #[test]
    fn a_barrier_that_cannot_be_full_holds_those_who_spin_and_those_who_sleep() {
        let mut kernel = kernel();
        let barrier = kernel.barrier(3);
        let meet = |waiting| Program::once(vec![Action::Meet(barrier, waiting), Action::User(1_000)]);
        let spins = start(&mut kernel, meet(Waiting::Spin));
        let sleeps = start(&mut kernel, meet(Waiting::Block));
        let late = start(&mut kernel, Program::once(vec![Action::Sleep(2_000_000), Action::Exit]));
        kernel.run_until(1_000_000).unwrap();
        // The third one is about to end and never arrives.
        let stuck = [at_barrier(spins, barrier, 2, 3), at_barrier(sleeps, barrier, 2, 3)];
        assert_eq!(kernel.stuck(), stuck);
        assert_eq!(kernel.endless(), [] as [ThreadId; 0]);
        kernel.end(late);
        assert_eq!(kernel.stuck(), stuck);
        kernel.barriers[barrier].parties = 2;
        kernel.open_if_full(barrier);
        assert_eq!(kernel.stuck(), []);
        kernel.run_until(2_000_000).unwrap();
        assert!([spins, sleeps].iter().all(|thread| kernel.thread(*thread).state == RunState::Gone));
    }

    #[test]
    fn a_barrier_waits_for_those_who_may_still_come() {
        let mut kernel = kernel();
        let barrier = kernel.barrier(2);
        let meet = |before: Vec<Action>| {
            let meet = [Action::Meet(barrier, Waiting::Block), Action::User(1_000)];
            Program::once(before.into_iter().chain(meet).collect())
        };
        start(&mut kernel, meet(Vec::new()));
        let late = start(&mut kernel, meet(vec![Action::Sleep(2_000_000)]));
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.stuck(), []);
        kernel.end(late);
        assert_eq!(kernel.stuck().len(), 1);
        // A child will arrive.
        let parent = vec![Action::Sleep(2_000_000), Action::Fork(meet(Vec::new()))];
        start(&mut kernel, Program::once(parent));
        kernel.run_until(1_500_000).unwrap();
        assert_eq!(kernel.stuck(), []);
        kernel.run_until(9_000_000).unwrap();
        assert!(kernel.threads().iter().all(|t| t.state == RunState::Gone));
    }

    #[test]
    fn who_comes_to_a_barrier_comes_once() {
        let mut kernel = kernel();
        let barrier = kernel.barrier(3);
        let meet = Action::Meet(barrier, Waiting::Block);
        let one = start(&mut kernel, Program::once(vec![meet.clone()]));
        let twice = Program::once(vec![Action::User(2_000_000), meet.clone(), meet]);
        start(&mut kernel, twice);
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.stuck(), [at_barrier(one, barrier, 1, 3)]);
    }

    #[test]
    fn waiting_for_ever_goes_from_barriers_to_channels_and_back() {
        let mut kernel = kernel();
        let (first, second) = (kernel.barrier(2), kernel.barrier(2));
        let channel = kernel.channel();
        let spin = |barrier| Action::Meet(barrier, Waiting::Spin);
        // The first barrier lacks one thread. Its waiting thread would post, and the thread that waits for that post would arrive at the last one.
        let one = start(&mut kernel, Program::once(vec![spin(first), Action::Post(channel)]));
        let two = start(&mut kernel, Program::once(vec![Action::Wait(channel), spin(second)]));
        let three = start(&mut kernel, Program::once(vec![Action::Meet(second, Waiting::Block)]));
        kernel.run_until(1_000_000).unwrap();
        let stuck = [at_channel(two, channel), at_barrier(one, first, 1, 2), at_barrier(three, second, 1, 2)];
        assert_eq!(kernel.stuck(), stuck);
        start(&mut kernel, Program::once(vec![Action::Sleep(1_000_000), spin(first)]));
        kernel.run_until(1_500_000).unwrap();
        assert_eq!(kernel.stuck(), []);
    }

    #[test]
    fn who_begins_again_or_computes_for_ever_never_ends() {
        let mut kernel = kernel();
        let hog = start(&mut kernel, Program::hog());
        let again = start(&mut kernel, Program::repeat(vec![Action::Sleep(1_000)]));
        start(&mut kernel, Program::once(vec![Action::User(9_000_000)]));
        assert_eq!(kernel.endless(), [hog, again]);
        // A thread that spins at a barrier waits; one that starts over never ends.
        let (once, repeat) = (kernel.barrier(2), kernel.barrier(2));
        let meet = |barrier| vec![Action::Meet(barrier, Waiting::Spin)];
        start(&mut kernel, Program::once(meet(once)));
        let round = start(&mut kernel, Program::repeat(meet(repeat)));
        kernel.run_until(1_000_000).unwrap();
        assert_eq!(kernel.endless(), [hog, again, round]);
    }
}
