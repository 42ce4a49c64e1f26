//! Checks the consistency of a saved kernel.

use super::classes::table;
use super::cpu_mask::CpuMask;
use super::hardware::LATENCY_MAX_PS;
use super::heap::Source;
use super::holder::Level;
use super::ids::{ChannelId, CpuIndex, HolderIndex, MixId, QueueId, SegmentId, ThreadId};
use super::program::{Action, Mix};
use super::queue::NONE;
use super::state::{HZ_MAX, Kernel};
use super::thread::{Origin, RunState};
impl Kernel {
    /// Checks that the parts are consistent, so that no later operation can fail because of them.
    ///
    /// # Errors
    /// A sentence that names the first inconsistency.
    pub fn check(&self) -> Result<(), String> {
        self.check_frame()?;
        self.check_holders()?;
        for (number, thread) in self.threads.with_ids() {
            self.check_thread(number).map_err(|what| format!("kernel thread {number} {what}"))?;
            if let RunState::Queued(queue) = thread.state
                && self.queues.row(queue).is_none()
            {
                return Err(format!("kernel thread {number} waits in queue {queue}, which does not exist"));
            }
        }
        self.check_processors()?;
        self.check_queues()?;
        self.check_caps()?;
        self.check_usage()?;
        self.check_sources()
    }

    fn check_frame(&self) -> Result<(), String> {
        if !(1..=HZ_MAX).contains(&self.tunables.hz) {
            return Err(format!("the clock ticks {} times a second", self.tunables.hz));
        }
        if self.parts.len() < 2 || self.queues.len() != self.cpus.len() + self.parts.len() {
            return Err("the kernel has not one queue for each CPU and partition".into());
        }
        self.hardware.check(self.cpus.len(), self.levels.len())?;
        if self.filled.len() != self.hardware.cache_count() || self.mixes.first() != Some(&Mix::SPIN) {
            return Err("the kernel has other caches than its hardware, or no mix that spins".into());
        }
        if !self.mixes.iter().all(Mix::is_possible) {
            return Err("the kernel has a mix of instructions that is impossible".into());
        }
        let whole = |segment: &Vec<u64>| {
            segment.len() == self.levels.len() && segment.iter().all(|ps| *ps <= LATENCY_MAX_PS)
        };
        if !self.segments.iter().flatten().all(whole) {
            return Err("the kernel has a segment without a latency for each lgroup".into());
        }
        if self.cpus.row(self.clock_cpu).is_none() || self.counted > self.now {
            return Err(
                "the clock of the kernel interrupts where no CPU is, or was counted in the future".into()
            );
        }
        let exist = |cpus: &CpuMask| cpus.iter().all(|cpu| self.cpus.row(cpu).is_some());
        if !self.parts.iter().all(|part| exist(&part.cpus) && exist(&part.peers)) {
            return Err("a partition has CPUs that do not exist".into());
        }
        let lgroups = self.levels.len();
        let known = |list: &Vec<u32>| list.iter().all(|lgroup| (*lgroup as usize) < lgroups);
        let is_placed = |segment: SegmentId| self.segments.row(segment).is_some_and(Option::is_some);
        let sound =
            self.placed.iter().all(|p| known(&p.lgroups) && !p.lgroups.is_empty() && is_placed(p.segment));
        if !sound || !self.parts.iter().all(|part| known(&part.memory)) {
            return Err("memory is in an lgroup, or of a segment, that does not exist".into());
        }
        let rings_exist = self.levels.iter().flatten().flatten().all(|l| (*l as usize) < lgroups);
        if !rings_exist || !exist(&self.asked) || !exist(&self.busy) || lgroups == 0 {
            return Err("the kernel names lgroups or CPUs that do not exist".into());
        }
        Ok(())
    }

    fn check_thread(&self, number: ThreadId) -> Result<(), String> {
        let t = self.thread(number);
        let cpu_exists = |cpu: CpuIndex| self.cpus.row(cpu).is_some();
        if !cpu_exists(t.cpu) || !t.bound.is_none_or(cpu_exists) || !t.ran_on.is_none_or(cpu_exists) {
            return Err("is where no CPU is".into());
        }
        if self.parts.row(t.part).is_none() || t.home as usize >= self.levels.len() {
            return Err("belongs to a partition or an lgroup that does not exist".into());
        }
        let held = |holder: HolderIndex| self.holders.row(holder).is_some_and(|h| h.level != Level::Zone);
        if !t.holder.is_none_or(held) || t.charged > t.user.saturating_add(t.sys) {
            return Err("is held by what does not exist, or was charged for more than it ran".into());
        }
        if t.left_tick.is_some_and(|left| left > self.lbolt()) || t.queued_at > self.now {
            return Err("has done something in the future".into());
        }
        if !(0..170).contains(&t.effective()) {
            return Err(format!("has priority {}", t.effective()));
        }
        (table(&t.class).check)(self, t)?;
        let exists = |action: &Action| match action {
            Action::Wait(channel) | Action::Post(channel) => self.channels.row(*channel).is_some(),
            Action::Meet(barrier, _) => self.barriers.row(*barrier).is_some(),
            Action::Work(mix, _) | Action::KernelWork(mix, _) => self.mixes.row(*mix).is_some(),
            Action::Map(segment, _) => self.segments.row(*segment).is_some(),
            Action::Stamp(log, _) | Action::Arrive(log) => self.logs.row(*log).is_some(),
            Action::Take(from, to) => self.logs.row(*from.max(to)).is_some(),
            _ => true,
        };
        let placed = |segment: SegmentId| self.segments.row(segment).is_some_and(Option::is_some);
        let no_mix = |mix: MixId| self.mixes.row(mix).is_none();
        if t.mix.is_some_and(no_mix) || !t.memory.is_none_or(placed) {
            return Err("executes a mix or uses memory that does not exist".into());
        }
        let no_channel = |channel: ChannelId| self.channels.row(channel).is_none();
        if t.level > 15
            || matches!(t.origin, Origin::Timer(channel) | Origin::Look(channel) if no_channel(channel))
        {
            return Err("handles an interrupt that does not exist".into());
        }
        if t.device && !matches!(t.state, RunState::Asleep | RunState::Gone) {
            return Err("is a device and runs".into());
        }
        if !t.program.actions().all(exists) {
            return Err("waits at a channel or a barrier that does not exist".into());
        }
        Ok(())
    }

    fn check_processors(&self) -> Result<(), String> {
        for (number, cpu) in self.cpus.with_ids() {
            let runs_here = |thread: ThreadId| {
                let found = self.threads.row(thread);
                found.is_some_and(|t| t.state == RunState::Running && t.cpu == number)
            };
            let placed = self.parts.row(cpu.part).is_some() && (cpu.lgroup as usize) < self.levels.len();
            if !cpu.running.is_none_or(runs_here) || !placed || cpu.since > self.now {
                return Err(format!("CPU {number} of the kernel does what cannot be"));
            }
            if self.busy.contains(number) != cpu.running.is_some() {
                return Err(format!("CPU {number} of the kernel is busy and idle at once"));
            }
        }
        let is_pinned = |number: CpuIndex, thread: ThreadId| {
            let found = self.threads.row(thread);
            found.is_some_and(|t| t.state == RunState::Pinned && t.cpu == number)
        };
        let pins = self.cpus.with_ids().flat_map(|(n, cpu)| cpu.pinned.iter().map(move |t| (n, *t)));
        let pinned = self.threads.iter().filter(|t| t.state == RunState::Pinned).count();
        if !pins.clone().all(|(number, thread)| is_pinned(number, thread)) || pins.count() != pinned {
            return Err("threads of the kernel are under handlers that are elsewhere".into());
        }
        let running = self.threads.iter().filter(|t| t.state == RunState::Running).count();
        if running != self.busy.len() {
            return Err("threads of the kernel run on CPUs that do not know of them".into());
        }
        Ok(())
    }

    /// Checks that every waiting thread is in its queue exactly once, at its priority, and that no other thread is.
    fn check_queues(&self) -> Result<(), String> {
        let wrong = |number: QueueId| Err(format!("queue {number} of the kernel does not hang together"));
        let mut waiting = 0usize;
        for (number, queue) in self.queues.with_ids() {
            for (pri, head, tail, len) in queue.full_levels() {
                let (mut at, mut before, mut found) = (head, NONE, 0u32);
                while at != NONE {
                    let Some(t) = self.threads.row(at) else { return wrong(number) };
                    let here =
                        t.state == RunState::Queued(number) && t.effective() == pri && t.prev == before;
                    if !here || found == len {
                        return wrong(number);
                    }
                    found += 1;
                    (before, at) = (at, t.next);
                }
                if found != len || before != tail {
                    return wrong(number);
                }
                waiting += found as usize;
            }
        }
        let queued = self.threads.iter().filter(|t| matches!(t.state, RunState::Queued(_))).count();
        if queued == waiting { Ok(()) } else { Err("threads of the kernel wait in no queue".into()) }
    }

    fn check_sources(&self) -> Result<(), String> {
        if self.heap.next_at().is_some_and(|at| at < self.now) {
            return Err("the kernel has an event in its past".into());
        }
        for source in self.heap.sources() {
            let possible = match source {
                Source::Clock => true,
                Source::Thread(thread) => {
                    self.threads.row(thread).is_some_and(|t| t.state == RunState::Asleep)
                }
                Source::Cpu(cpu) => self.cpus.row(cpu).is_some(),
            };
            if !possible {
                return Err("the kernel has an event for a thread or CPU that cannot have one".into());
            }
        }
        let is = |thread: &ThreadId, what: fn(RunState) -> bool| {
            self.threads.row(*thread).is_some_and(|t| what(t.state))
        };
        let gone = |thread: &ThreadId| is(thread, |state| state == RunState::Gone);
        let lives = |thread: &ThreadId| is(thread, |state| state != RunState::Gone);
        let asleep = |thread: &ThreadId| is(thread, |state| state == RunState::Asleep);
        if !self.barriers.iter().flat_map(|b| &b.there).all(lives) {
            return Err("the kernel has threads at a barrier that do not exist".into());
        }
        if !self.free.iter().all(gone) || !self.channels.iter().flat_map(|c| &c.waiting).all(asleep) {
            return Err("the kernel counts threads as gone or waiting that are not".into());
        }
        Ok(())
    }
}
