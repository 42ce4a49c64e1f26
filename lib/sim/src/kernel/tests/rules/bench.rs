//! One simulated CPU with one thread that both sides follow, and helper threads of the class SYS.
//!
//! ```text
//!   subject      runs, is queued, or sleeps; its state is compared with `expected` after each event
//!   occupant     runs while the subject does not
//!   rival        waits at a random level, to test a running thread with a better one waiting
//!   peers        wait at the subject's new level, so that the queue shows at which end it was inserted
//! ```

use super::super::super::class::End;
use super::super::super::ids::QueueId;
use super::super::super::state::{Kernel, Layout, Start, Tunables};
use super::super::super::thread::RunState;
use super::super::super::time::SECOND;
use super::super::super::{ClassState, CpuIndex, Program, ThreadId};
use super::defects::{Defect, Rule};
use super::random::Random;
use super::subject::{Params, rule_tables, seen};
use millpond_model::{Class, DispatchTables};
use millpond_rules::{self as rules, host};
use std::collections::BTreeMap;

/// The only CPU.
pub const CPU: CpuIndex = CpuIndex(0);

/// Above all levels of the subject, and below kernel preemption.
const OCCUPANT: i16 = 98;

/// Number of each event, by class.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<(i32, &'static str), u64>);

impl Tally {
    pub fn note(&mut self, class: i32, event: &'static str) {
        *self.0.entry((class, event)).or_default() += 1;
    }

    pub fn add(&mut self, other: &Tally) {
        for (key, count) in &other.0 {
            *self.0.entry(*key).or_default() += count;
        }
    }

    pub fn events(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn kinds(&self) -> usize {
        self.0.len()
    }

    pub fn rarest(&self) -> u64 {
        self.0.values().copied().min().unwrap_or(0)
    }
}

/// The rules with their tables and a defect.
pub struct Rules {
    pub tables: rules::Tables,
    pub defect: Option<&'static Defect>,
}

impl Rules {
    /// Applies a rule to a thread.
    pub fn apply<T>(
        &self,
        rule: Rule,
        thread: &mut rules::Thread,
        apply: impl Fn(&mut rules::Thread, &rules::Tables) -> T,
    ) -> T {
        let before = *thread;
        let given = apply(thread, &self.tables);
        if let Some(defect) = self.defect.filter(|defect| defect.rule == rule) {
            (defect.spoil)(&before, thread, &self.tables);
        }
        given
    }
}

/// A difference between the simulator and the rules.
pub type Difference = String;

/// The CPU with its threads.
pub struct Bench {
    pub kernel: Kernel,
    pub rules: Rules,
    pub random: Random,
    /// The thread that both sides follow. `expected` is its state by the rules.
    pub subject: ThreadId,
    pub expected: rules::Thread,
    /// A boost is due at its next return to user mode.
    pub is_due: bool,
    /// The tick at which it last left the CPU.
    pub left: Option<u64>,
    /// The updates that it has been through.
    pub beats: u64,
    pub occupant: ThreadId,
    pub rival: ThreadId,
    pub peers: [ThreadId; 2],
    tally: Tally,
}

impl Bench {
    pub fn new(seed: u64, tables: DispatchTables) -> Self {
        let mut random = Random::new(seed);
        let rules = Rules { tables: rule_tables(&tables), defect: None };
        let hz = [1, 2, 4, 100][random.below(4) as usize];
        let mut kernel = Kernel::new(&Layout::flat(1), tables, Tunables { hz, ..Tunables::default() });
        let mut helper = || {
            let start = Start { sys_pri: OCCUPANT, ..Start::new(ClassState::Sys, Program::hog()) };
            let thread = kernel.start(start);
            kernel.end_wait(thread);
            thread
        };
        let (occupant, rival, peers) = (helper(), helper(), [helper(), helper()]);
        let params = random.params(Class::Ts);
        let subject = kernel.start(Start::new(kernel.entry(params), Program::hog()));
        let Params { class, uprilim, upri, foreground, quantum } = params.into();
        let mut expected = rules::Thread::default();
        host::enter(&mut expected, &rules.tables, class, uprilim, upri, foreground, quantum);
        let mut bench = Bench {
            kernel,
            rules,
            random,
            subject,
            expected,
            is_due: false,
            left: None,
            beats: 0,
            occupant,
            rival,
            peers,
            tally: Tally::default(),
        };
        bench.kernel.set_runnable(occupant);
        bench.kernel.switch_to_best(None);
        bench
    }

    pub fn rules(&mut self) -> &mut Rules {
        &mut self.rules
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Executes this many random events, with a comparison after each.
    pub fn run(&mut self, events: u64) -> Result<(), Difference> {
        self.compare()?;
        for number in 0..events {
            let before = self.expected;
            let class = before.class;
            let event = self.event().and_then(|event| self.compare().map(|()| event));
            match event {
                Ok(event) => self.tally.note(class, event),
                Err(what) => return Err(format!("event {number}: {what}; before: {before:?}")),
            }
        }
        Ok(())
    }

    /// Checks that the simulator has the expected state.
    fn compare(&mut self) -> Result<(), Difference> {
        self.clear();
        let thread = self.kernel.thread(self.subject);
        let (pri, trapret) = (i32::from(thread.pri), thread.trapret);
        self.same("state", seen(&self.kernel, self.subject), self.expected)?;
        self.same("priority", pri, self.expected.pri)?;
        self.same("mark for user mode", trapret, self.is_due)
    }

    pub fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        simulated: T,
        expected: T,
    ) -> Result<(), Difference> {
        if simulated == expected {
            return Ok(());
        }
        Err(format!("{what}: the simulator has {simulated:?}, the rules expect {expected:?}"))
    }

    pub fn state(&self) -> RunState {
        self.kernel.thread(self.subject).state
    }

    /// Puts a helper into the queue at a level, or moves it there.
    pub fn place(&mut self, helper: ThreadId, pri: i32) {
        self.kernel.end_wait(helper);
        self.kernel.t(helper).pri = i16::try_from(pri).unwrap();
        self.kernel.enqueue(helper, End::Back);
    }

    /// Removes the helpers from the queue, and cancels the switch that they requested.
    fn clear(&mut self) {
        for helper in [self.rival, self.peers[0], self.peers[1]] {
            self.kernel.end_wait(helper);
        }
        self.forget_requests();
    }

    pub fn forget_requests(&mut self) {
        let cpu = &mut self.kernel.cpus[CPU];
        (cpu.runrun, cpu.kprunrun) = (false, false);
    }

    /// Puts the rival at a random level, for a running subject. Returns the level; below all others if there is no rival.
    pub fn place_rival(&mut self) -> i32 {
        if self.random.once_in(3) {
            return -1;
        }
        let pri = match self.random.below(3) {
            0 => self.random.within(0, 98).into(),
            1 => self.expected.pri,
            _ => self.expected.pri + 1,
        };
        self.place(self.rival, pri);
        self.forget_requests();
        pri
    }

    /// The end at which a queued thread was inserted, relative to this peer.
    pub fn end_at(&self, thread: ThreadId, peer: usize) -> rules::End {
        let mut order = self.kernel.queue(CPU).threads(self.kernel.threads());
        let first = order.find(|at| *at == thread || *at == self.peers[peer]);
        if first == Some(thread) { rules::End::Front } else { rules::End::Back }
    }

    /// Lets the occupant run, after the class has queued the subject or put it to sleep.
    pub fn leave(&mut self) {
        self.left = Some(self.kernel.lbolt());
        self.kernel.set_runnable(self.occupant);
        self.kernel.switch_to_best(Some(self.subject));
    }

    /// Advances time to a tick, or to the next second, and runs the simulator's clock. Returns whether it was a second.
    pub fn clock(&mut self, is_second: bool) -> bool {
        let tick = self.kernel.tick();
        let step = if is_second { SECOND } else { tick };
        self.kernel.now = (self.kernel.now / step + 1) * step;
        self.kernel.clock();
        let is_second = self.kernel.now.is_multiple_of(SECOND);
        self.beats = self.kernel.now / SECOND;
        is_second
    }

    /// Seconds since the subject's last update.
    pub fn missed(&mut self) -> u64 {
        let beats = self.kernel.now / SECOND;
        beats - std::mem::replace(&mut self.beats, beats)
    }
}

impl Kernel {
    /// Removes a thread from its queue without a trace.
    pub fn end_wait(&mut self, thread: ThreadId) {
        if self.thread(thread).state == RunState::Queued(QueueId::from(CPU)) {
            self.dequeue(thread);
            self.t(thread).state = RunState::Asleep;
        }
    }

    /// Switches the CPU to the first thread of its queue.
    pub fn switch_to_best(&mut self, from: Option<ThreadId>) {
        let next = self.next_thread(CPU);
        self.switch(CPU, from, next);
    }
}
