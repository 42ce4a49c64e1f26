//! Instruction timing: shared pipelines, warm and cold caches, local and remote memory.
//!
//! # Cycles per instruction
//!
//! A burst of [`Action::Work`] is a number of instructions of a [`Mix`]. Alone on its pipeline, an instruction takes
//!
//! ```text
//! base × core + reach × exposed × (outer cache) + (miss + reach × what does not fit) × memory        (cycles)
//! ```
//!
//! * `base`: cycles of the mix on a core that issues one instruction per cycle.
//! * `core`: factor of this core. Less than 1 if it issues several instructions per cycle, more if it stalls on its own
//!   loads and branches.
//! * `reach`: misses of the first cache per instruction.
//! * `exposed`: the part of the outer cache's latency that the core waits for. It overlaps the rest with later instructions.
//! * `miss`: memory accesses per instruction, even of a warm program.
//! * `memory`: latency of the memory that the thread uses, by lgroup.
//! * what does not fit: the part of the mix's footprint beyond the thread's share of the outer cache. Running threads share a
//!   cache equally.
//!
//! Strands of one pipeline delay one another only while they issue. Let `u` be the part of its time that a thread alone needs the
//! pipeline. A thread together with others is slower by
//!
//! ```text
//! max(1 + u × Σ others, Σ all)
//! ```
//!
//! The first value is the first-order term of a closed queue with one server: an arriving thread finds the others there in
//! proportion to their use. The second is its bound: a pipeline issues one instruction per cycle.
//!
//! A core's floating-point unit, the banks of the outer cache and the memory bandwidth are such servers too, where the machine
//! has them. They are called *stations*; each has a service time per request. Let `d` be the part of its time that a thread alone
//! uses a station. Then it is slower by
//!
//! ```text
//! max(1 + Σ u × Σ others, Σ all of any)
//! ```
//!
//! where the sum is over its pipeline and its stations. The total demand on a station is rounded to 1/256 of its capacity, so that
//! a thread that comes or goes does not always change the speed of all others.
//!
//! # Warmth
//!
//! An outer cache counts the data that was ever loaded into it. A thread that leaves records the count. When it comes back, data
//! loaded since then has first filled the free part and then evicted the thread's own data, at most all of it: the least recently used
//! data goes first. The thread reloads it, at the latency of its memory, before it continues. So a thread that moves to another
//! cache, or returns after others used the cache, pays once.

use super::hardware::{Exclusive, Hardware, InstructionTime, Serves};
use super::ids::{CpuIndex, MixId, ThreadId};
use super::program::Mix;
use super::state::Kernel;
use super::thread::RunState;
/// Bytes per cache line.
const LINE: u64 = 64;
/// Femtoseconds per nanosecond.
const FS: u64 = 1_000_000;
/// Demand of a thread that needs a pipeline all the time.
const FULL: u64 = 1 << 16;
/// The resolution of a station's demand.
const FELT: u64 = FULL / 256;

/// The demand on a station, rounded as it affects others.
fn felt(asked: u64) -> u64 {
    (asked + FELT / 2) / FELT * FELT
}

impl Kernel {
    /// The hardware.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The number of an instruction mix; equal mixes have equal numbers.
    pub fn mix(&mut self, mix: Mix) -> MixId {
        let known = self.mixes.with_ids().find(|(_, other)| **other == mix).map(|(id, _)| id);
        known.unwrap_or_else(|| self.mixes.add(mix))
    }

    /// Timing of the thread's instructions on a CPU, alone on its pipeline.
    fn alone(&self, thread: ThreadId, cpu: CpuIndex) -> InstructionTime {
        let t = self.thread(thread);
        let Some(mix) = t.mix.map(|mix| &self.mixes[mix]) else { return InstructionTime::default() };
        let h = &self.hardware;
        let base = h.cycle_fs * mix.base_milli / 1_000 * h.core_milli / 1_000;
        let busy = u64::from(self.index.busy_by_cache[h.caches[cpu]].max(1));
        // Misses of the outer cache, in parts per million.
        let beside = match mix.footprint_kib {
            0 => 0,
            footprint => 1_000_000 - (h.cache_kib / busy * 1_000_000 / footprint).min(1_000_000),
        };
        let reach = (mix.reach_ppm * h.reach_milli / 1_000).min(1_000_000);
        let misses = mix.miss_ppm + reach * beside / 1_000_000;
        let near = reach * h.cache_cycles * h.cycle_fs / 1_000_000 * h.exposed_milli / 1_000;
        let far = misses * self.latency(t, cpu) / 1_000;
        let alone = (base + near + far).max(1);
        let needs = match h.exclusive {
            Exclusive::Issue => h.cycle_fs.min(base),
            Exclusive::Base => base + near,
        };
        let part = |busy_fs: u64| (busy_fs * FULL / alone).min(FULL);
        let mut demands = [0; _];
        for (demand, station) in demands.iter_mut().zip(&h.stations) {
            let requests = match station.serves {
                Serves::Float => mix.float_ppm,
                Serves::Cache => reach,
                Serves::Memory => misses,
            };
            *demand = part(requests * station.service_fs / 1_000_000);
        }
        InstructionTime { alone, now: alone, usage: part(needs), demands }
    }

    /// Updates the instruction time of a CPU whose thread or burst changed, and of the CPUs that share its pipeline or a station.
    /// If a thread runs there, call [`Kernel::set_end`] next.
    pub(super) fn update_instruction_time(&mut self, number: CpuIndex) {
        let instruction_time = match self.cpus[number].running {
            Some(thread) => self.alone(thread, number),
            None => InstructionTime::default(),
        };
        let before = std::mem::replace(&mut self.cpus[number].instruction_time, instruction_time);
        if before.usage != instruction_time.usage {
            let pipeline = self.hardware.pipelines[number];
            let usage = &mut self.index.usage[pipeline];
            *usage = *usage - before.usage + instruction_time.usage;
            let mates = std::mem::take(&mut self.index.mates[pipeline]);
            self.retime_mates(number, &mates);
            self.index.mates[pipeline] = mates;
        }
        for at in 0..self.hardware.stations.len() {
            let station = self.hardware.stations[at].of[number];
            let shared = &mut self.index.stations[at][station];
            let asked = shared.asked - before.demands[at] + instruction_time.demands[at];
            let is_felt = felt(asked) != felt(shared.asked);
            shared.asked = asked;
            if is_felt {
                let mates = std::mem::take(&mut shared.mates);
                self.retime_mates(number, &mates);
                self.index.stations[at][station].mates = mates;
            }
        }
    }

    /// Updates the CPUs that share a resource with this one.
    fn retime_mates(&mut self, number: CpuIndex, mates: &[CpuIndex]) {
        for mate in mates.iter().copied() {
            let cpu = &self.cpus[mate];
            if mate == number || cpu.instruction_time.alone == 0 || self.is_late(mate) {
                continue;
            }
            let running = cpu.running;
            if cpu.since < self.now {
                self.account(mate);
            }
            if let Some(thread) = running {
                self.set_end(mate, thread);
            }
        }
    }

    /// Updates the instruction time of a CPU.
    pub(super) fn retime_instruction(&mut self, number: CpuIndex) {
        if self.cpus[number].instruction_time.alone > 0 {
            self.cpus[number].instruction_time.now = self.beside(number);
        }
    }

    /// Femtoseconds per instruction together with the threads that share the pipeline or a station.
    fn beside(&self, number: CpuIndex) -> u64 {
        let own = self.cpus[number].instruction_time;
        let others = self.index.usage[self.hardware.pipelines[number]] - own.usage;
        if others == 0 && self.hardware.stations.is_empty() {
            return own.alone;
        }
        let (mut waits, mut most) = (own.usage * others / FULL, own.usage + others);
        for (at, station) in self.hardware.stations.iter().enumerate() {
            let own = own.demands[at];
            let others = felt(self.index.stations[at][station.of[number]].asked - own);
            waits += own * others / FULL;
            most = most.max(own + others);
        }
        let slower = (FULL + waits).max(most);
        own.alone.saturating_mul(slower) / FULL
    }

    /// Records that the thread left a CPU: its data may be evicted from now on.
    pub(super) fn note_warmth(&mut self, thread: ThreadId, cpu: CpuIndex) {
        let cache = self.hardware.caches[cpu];
        let filled = self.filled[cache];
        if let Some((_, mark)) = self.t(thread).warm.as_mut().filter(|(there, _)| *there == cache) {
            *mark = filled;
        }
    }

    /// Records that the thread came to a CPU. Its cache loss is computed when it first works.
    pub(super) fn arrive(&mut self, thread: ThreadId, cpu: CpuIndex) {
        let t = self.t(thread);
        t.arrived = t.mix.is_none();
        if !t.arrived {
            self.warm_up(thread, cpu);
        }
    }

    /// Charges the thread the time to reload the missing part of its footprint on this CPU.
    pub(super) fn warm_up(&mut self, thread: ThreadId, cpu: CpuIndex) {
        let t = self.thread(thread);
        let Some(mix) = t.mix.map(|mix| &self.mixes[mix]) else { return };
        let cache = self.hardware.caches[cpu];
        let has = mix.footprint_kib.min(self.hardware.cache_kib);
        let lost = match t.warm {
            Some((there, filled)) if there == cache => {
                let free = self.hardware.cache_kib - has;
                let loaded = self.filled[cache].saturating_sub(filled);
                loaded.saturating_sub(free).min(has)
            }
            _ => has,
        };
        if lost == 0 {
            return;
        }
        let owed = lost * 1_024 / LINE * self.latency(t, cpu) / 1_000;
        let filled = &mut self.filled[cache];
        *filled += lost;
        let mark = (cache, *filled);
        let t = self.t(thread);
        t.owed_user = t.owed_user.saturating_add(owed);
        t.warm = Some(mark);
    }

    /// Executes this many nanoseconds of work, with no switch or reload time left.
    pub(super) fn progress(&mut self, number: CpuIndex, thread: ThreadId, passed: u64) {
        let instruction_time = self.cpus[number].instruction_time.now;
        let t = &mut self.threads[thread];
        let done = if t.mix.is_none() || instruction_time == 0 {
            if t.left != u64::MAX {
                t.left = t.left.saturating_sub(passed);
            }
            // Work that is measured in time counts one instruction per cycle.
            passed.saturating_mul(FS) / self.hardware.cycle_fs
        } else {
            let total = u128::from(passed) * u128::from(FS) + u128::from(t.rest_fs);
            let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
            let (done, rest) = match u64::try_from(total) {
                Ok(total) => (total / instruction_time, total % instruction_time),
                Err(_) => (
                    narrow(total / u128::from(instruction_time)),
                    narrow(total % u128::from(instruction_time)),
                ),
            };
            t.rest_fs = rest;
            if t.left != u64::MAX {
                t.left = t.left.saturating_sub(done);
            }
            done
        };
        t.instructions += done;
        let cpu = &mut self.cpus[number];
        cpu.instructions += done;
        if !t.in_kernel {
            t.user_instructions += done;
            cpu.user_instructions += done;
        }
    }

    /// Nanoseconds until a running thread's burst ends; `None` for never.
    pub(super) fn remaining(&self, number: CpuIndex, thread: ThreadId) -> Option<u64> {
        let t = self.thread(thread);
        if t.left == u64::MAX {
            return None;
        }
        let instruction_time = self.cpus[number].instruction_time.now;
        let work = if t.mix.is_none() || instruction_time == 0 {
            t.left
        } else {
            match t.left.checked_mul(instruction_time) {
                Some(fs) => fs.saturating_sub(t.rest_fs).div_ceil(FS),
                None => {
                    let fs = u128::from(t.left) * u128::from(instruction_time);
                    u64::try_from(fs.saturating_sub(u128::from(t.rest_fs)).div_ceil(u128::from(FS)))
                        .unwrap_or(u64::MAX)
                }
            }
        };
        Some(work.saturating_add(t.owed_sys).saturating_add(t.owed_user))
    }

    /// A less busy pipeline of the leaf lgroup than that of `cpu`, with an idle CPU: groups of CPUs that share a resource are
    /// loaded evenly (Solaris' CMT load balancing).
    pub(super) fn spread(&self, thread: ThreadId, cpu: CpuIndex) -> CpuIndex {
        if !self.index.shares_pipelines {
            return cpu;
        }
        let t = self.thread(thread);
        let pipeline = |cpu: CpuIndex| self.hardware.pipelines[cpu];
        // The thread does not count as load for itself.
        let leaves = t.state == RunState::Running && pipeline(t.cpu) == pipeline(cpu);
        let here = self.load(pipeline(cpu)) - i16::from(leaves);
        if here <= 0 {
            return cpu;
        }
        let part = &self.parts[t.part].cpus;
        let leaf = &self.index.rings[self.cpus[cpu].lgroup as usize][0];
        let found = self.index.idle_by_load.first_below(here, [part, leaf], cpu);
        found.unwrap_or(cpu)
    }
}
