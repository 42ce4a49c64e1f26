//! What instructions cost: pipelines that strands share, caches that are warm or cold, memory near and far.
//!
//! # Cycles per instruction
//!
//! A burst of [`Action::Work`] is so many instructions of a [`Mix`]. Alone on its pipeline an instruction takes
//!
//! ```text
//! base × core + reach × exposed × (outer cache) + (miss + reach × what does not fit) × memory        (cycles)
//! ```
//!
//! where `base` has what a core does by itself, in cycles of a core of one instruction in a cycle, and `core` is what this one
//! needs of such a cycle (less, where it issues several; more, where it stalls on its own loads and branches). `exposed` is
//! the part of the outer cache's answer that the core waits for, and does not spend on instructions that follow. `reach` is
//! how often an instruction leaves the first cache, `miss` how often even a warm program goes to memory, and memory is as far as the lgroup of what the thread uses. What does not fit is
//! the part of the mix's footprint beyond its share of the outer cache, which it has with those that run beside it.
//!
//! Strands of one pipeline hinder one another only while they issue. With `u` the part of its time that a thread alone
//! would need the pipeline for, a thread beside others is slower by
//!
//! ```text
//! max(1 + u × Σ others, Σ all)
//! ```
//!
//! the first-order term of a closed queue of one server (a thread that comes finds the others as often as they are there), and its
//! bound (a pipeline issues one instruction in a cycle).
//!
//! A core's floating-point unit, the banks of the outer cache and the bandwidth of memory are such servers, too: *stations*, each with a
//! time for a request, where the machine has them. With `d` the part of its time for which a thread alone would keep a station, it is slower by
//!
//! ```text
//! max(1 + Σ u × Σ others, Σ all of any)
//! ```
//!
//! where the sum is over its pipeline and its stations. What all ask of a station counts in 256ths of what it can do, so that a
//! thread that comes or goes does not always change the speed of all others.
//!
//! # Warmth
//!
//! An outer cache counts what was ever loaded into it. A thread that leaves notes the count; when it comes back,
//! what was loaded since has filled what it left free, and then pushed out as much of what it had, at most all: what was
//! used longest ago goes first. It loads that again, at the distance of its memory, before it goes on. So a thread that moves
//! to another cache, or comes back after others had the cache, pays once.

use super::hardware::{Exclusive, Hardware, InstructionTime, Serves};
use super::ids::{CpuIndex, MixId, ThreadId};
use super::program::Mix;
use super::state::Kernel;
use super::thread::RunState;
/// Bytes of a line of a cache.
const LINE: u64 = 64;
/// Femtoseconds of a nanosecond.
const FS: u64 = 1_000_000;
/// A pipeline that is needed all the time.
const FULL: u64 = 1 << 16;
/// The least difference in what is asked of a station that others feel.
const FELT: u64 = FULL / 256;

/// What is asked of a station, as others feel it.
fn felt(asked: u64) -> u64 {
    (asked + FELT / 2) / FELT * FELT
}

impl Kernel {
    /// The hardware.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// A mix of instructions by its number; the same mix has the same number.
    pub fn mix(&mut self, mix: Mix) -> MixId {
        let known = self.mixes.with_ids().find(|(_, other)| **other == mix).map(|(id, _)| id);
        known.unwrap_or_else(|| self.mixes.add(mix))
    }

    /// What an instruction of the thread costs on a CPU alone on its pipeline.
    fn alone(&self, thread: ThreadId, cpu: CpuIndex) -> InstructionTime {
        let t = self.thread(thread);
        let Some(mix) = t.mix.map(|mix| &self.mixes[mix]) else { return InstructionTime::default() };
        let h = &self.hardware;
        let base = h.cycle_fs * mix.base_milli / 1_000 * h.core_milli / 1_000;
        let busy = u64::from(self.index.busy_by_cache[h.caches[cpu]].max(1));
        // Parts in a million of the accesses that find nothing in the outer cache.
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

    /// What runs on a CPU, or how, has changed: its time of an instruction and that of those that share its pipeline or a station follow.
    /// Where a thread runs, [`Kernel::set_end`] is to be called next.
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

    /// Others that share something with a CPU have another speed from now on.
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

    /// Sets the time of an instruction on a CPU as things are.
    pub(super) fn retime_instruction(&mut self, number: CpuIndex) {
        if self.cpus[number].instruction_time.alone > 0 {
            self.cpus[number].instruction_time.now = self.beside(number);
        }
    }

    /// Femtoseconds of an instruction beside those that share the pipeline or a station.
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

    /// The thread left a CPU: what it has in the cache there may be pushed out from now on.
    pub(super) fn note_warmth(&mut self, thread: ThreadId, cpu: CpuIndex) {
        let cache = self.hardware.caches[cpu];
        let filled = self.filled[cache];
        if let Some((_, mark)) = self.t(thread).warm.as_mut().filter(|(there, _)| *there == cache) {
            *mark = filled;
        }
    }

    /// The thread comes to a CPU. What its cache has lost matters as soon as it works.
    pub(super) fn arrive(&mut self, thread: ThreadId, cpu: CpuIndex) {
        let t = self.t(thread);
        t.arrived = t.mix.is_none();
        if !t.arrived {
            self.warm_up(thread, cpu);
        }
    }

    /// The thread comes to a CPU: it owes the time to load what of its footprint is not there.
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

    /// Goes on for so many nanoseconds of work, owing nothing.
    pub(super) fn progress(&mut self, number: CpuIndex, thread: ThreadId, passed: u64) {
        let instruction_time = self.cpus[number].instruction_time.now;
        let t = &mut self.threads[thread];
        let done = if t.mix.is_none() || instruction_time == 0 {
            if t.left != u64::MAX {
                t.left = t.left.saturating_sub(passed);
            }
            // What is measured by time counts as one instruction in a cycle.
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

    /// Nanoseconds until what a running thread does comes to its end, `None` for never.
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

    /// A less busy pipeline of the leaf than that of `cpu`, with a CPU that idles: the groups of CPUs that share
    /// something are loaded evenly (reference §3.9, step 2).
    pub(super) fn spread(&self, thread: ThreadId, cpu: CpuIndex) -> CpuIndex {
        if !self.index.shares_pipelines {
            return cpu;
        }
        let t = self.thread(thread);
        let pipeline = |cpu: CpuIndex| self.hardware.pipelines[cpu];
        // The thread is no load to itself.
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
