//! Statistical samples of the running thread on each CPU, as a measure of where programs run.
//!
//! Used on kernels that do not support `residence`, and on request. A clock event per CPU interrupts it some thousand times a
//! second and records the current process; 0 is an idle CPU. The processes of a program are known from a scan at the beginning
//! and from the kernel's fork records, which are in the same buffers.
//!
//! A slow or busy machine takes fewer samples than configured, without a notice: the clock skips late ones. A program's share of
//! a CPU is therefore its share of the samples taken there, idle ones included, and never of the configured number. Per-thread
//! clocks would disturb less for a program with few threads, but they cost a descriptor per thread and CPU, and each fork copies
//! them.
//!
//! A shielded CPU is sampled only if one of the watched programs may run there.
//!
//! A separate thread empties the buffers twice a second, independently of the caller's interval.

use super::descent::Family;
use super::events;
use super::placement::{Placement, Placements, set_apart_at_boot};
use super::proc::now;
use super::proc_file::{Buffer, ProcFile};
use super::records::{Record, parse_records};
use super::ring::Ring;
use crate::Root;
use millpond_formats::proc_tables::parse_stat;
use millpond_machine::facets::{OccupancyWatch, Residence, Samples, Sighting};
use millpond_machine::{Absent, Reason, Refusal};
use millpond_model::{CpuId, CpuSet, Nanos, Pid};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between readings of the buffers. They hold three times as much.
const EMPTY_EVERY: Duration = Duration::from_millis(500);

/// State shared by the caller and the reading thread.
#[derive(Debug)]
struct Collected {
    rings: Vec<Ring>,
    /// Data taken from each ring; kept to reuse the allocation.
    taken: Vec<Vec<u8>>,
    family: Family,
    counts: BTreeMap<(CpuId, Pid), u64>,
    /// Number of samples of all processes.
    read: BTreeMap<CpuId, u64>,
    lost: u64,
    /// Lost records may include forks, so the processes must be scanned again.
    doubtful: bool,
    done: bool,
}

impl Collected {
    /// Empties all buffers and counts what was in them.
    fn empty(&mut self) {
        self.taken.resize_with(self.rings.len(), Vec::new);
        let mut forks = Vec::new();
        for (ring, taken) in self.rings.iter_mut().zip(&mut self.taken) {
            ring.take(taken);
            parse_records(taken, |record| match record {
                Record::Fork { pid, parent, time_ns } => forks.push((time_ns, pid, parent)),
                Record::Lost { count } => {
                    self.lost += count;
                    self.doubtful = true;
                }
                Record::Sample { .. } => {}
            });
        }
        // Parent and child may be recorded on different CPUs, so forks are sorted by time.
        forks.sort_unstable();
        for (_, pid, parent) in forks {
            self.family.born(Pid(pid), Pid(parent));
        }
        for (ring, taken) in self.rings.iter().zip(&self.taken) {
            let cpu = ring.cpu();
            let (family, counts, read) = (&self.family, &mut self.counts, &mut self.read);
            parse_records(taken, |record| {
                let Record::Sample { pid } = record else { return };
                *read.entry(cpu).or_default() += 1;
                if let Some(program) = family.program_of(Pid(pid)) {
                    *counts.entry((cpu, program)).or_default() += 1;
                }
            });
        }
    }
}

#[derive(Debug)]
struct Shared {
    samples: Mutex<Collected>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Collected> {
        // A panic cannot leave these counts inconsistent.
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watch.
pub(super) struct LinuxOccupancy<'a> {
    placements: Placements<'a>,
    root: Root,
    apart: CpuSet,
    stat: ProcFile,
    buffer: Buffer,
    given: Vec<Pid>,
    period_ns: u64,
    why: Option<String>,
    since: Nanos,
    shared: Arc<Shared>,
    emptier: Option<JoinHandle<()>>,
}

impl<'a> LinuxOccupancy<'a> {
    /// Starts to sample. `why` is the reason for sampling if it was not requested.
    pub(super) fn start(
        root: &Root,
        placements: Placements<'a>,
        given: &[Pid],
        frequency_hz: u64,
        why: Option<String>,
    ) -> Result<Self, Absent> {
        root.running(|| Absent::because("it is a captured machine, where nothing runs"))?;
        let stat = ProcFile::open(root, "stat").ok().flatten();
        let stat = stat.ok_or_else(|| Absent::because("it has no /proc/stat"))?;
        let samples = Collected {
            rings: Vec::new(),
            taken: Vec::new(),
            family: Family::scan(root, given),
            counts: BTreeMap::new(),
            read: BTreeMap::new(),
            lost: 0,
            doubtful: false,
            done: false,
        };
        let mut watch = LinuxOccupancy {
            placements,
            root: root.clone(),
            apart: set_apart_at_boot(root),
            stat,
            buffer: Buffer::default(),
            given: given.to_vec(),
            period_ns: 1_000_000_000 / frequency_hz.max(1),
            why,
            since: now(),
            shared: Arc::new(Shared { samples: Mutex::new(samples), wake: Condvar::new() }),
            emptier: None,
        };
        watch.follow().map_err(|refusal| Absent::because(refusal.reason.to_string()))?;
        // A process forked between the scan and the first sample is in no record, so scan again.
        let seen_meanwhile = Family::scan(root, given);
        watch.shared.lock().family.join(seen_meanwhile);
        let shared = Arc::clone(&watch.shared);
        let emptier = std::thread::Builder::new().name("occupancy".to_owned()).spawn(move || {
            let mut samples = shared.lock();
            while !samples.done {
                samples =
                    shared.wake.wait_timeout(samples, EMPTY_EVERY).unwrap_or_else(PoisonError::into_inner).0;
                samples.empty();
            }
        });
        watch.emptier = emptier.ok();
        {
            // Discard samples taken while the buffers were opened one by one: they belong to no interval.
            let mut samples = watch.shared.lock();
            samples.empty();
            samples.counts.clear();
            samples.read.clear();
            samples.lost = 0;
            watch.since = now();
        }
        Ok(watch)
    }

    /// Samples exactly the CPUs that are active and may be disturbed.
    fn follow(&mut self) -> Result<(), Refusal> {
        let placement = (self.placements)()?;
        let mut lines = Vec::new();
        let text = self.stat.read_piece(&mut self.buffer).map_err(|error| {
            Refusal::operation(Reason::Machine(format!("/proc/stat cannot be read: {error}")))
        })?;
        parse_stat(text, &mut lines);
        let active: CpuSet = lines.iter().map(|(cpu, _)| *cpu).collect();
        let mut samples = self.shared.lock();
        let wanted = &active - &self.out_of_reach(&placement, &samples.family);
        samples.rings.retain_mut(|ring| wanted.contains(ring.cpu()) && ring.is_alive());
        let have: CpuSet = samples.rings.iter().map(Ring::cpu).collect();
        let mut refused = None;
        for cpu in (&wanted - &have).iter() {
            match Ring::open(cpu, self.period_ns) {
                Ok(ring) => samples.rings.push(ring),
                Err(error) => refused = Some((cpu, error)),
            }
        }
        match refused {
            Some((cpu, error)) if samples.rings.is_empty() => Err(Refusal::operation(Reason::Machine(
                format!("CPU {cpu} cannot be sampled: {}", events::explain(&error)),
            ))),
            _ => Ok(()),
        }
    }

    /// Shielded CPUs where none of the programs may run.
    fn out_of_reach(&self, placement: &Placement, family: &Family) -> CpuSet {
        let shielded = &placement.shielded | &self.apart;
        if shielded.is_empty() {
            return shielded;
        }
        let mut allowed = CpuSet::new();
        for pid in family.members() {
            let tasks = self.root.proc.join(pid.to_string()).join("task");
            for name in self.root.names(&tasks).unwrap_or_default() {
                let status = self.root.read(&tasks.join(name).join("status")).ok().flatten();
                let list = status.as_deref().and_then(parse_allowed);
                allowed = &allowed | &list.unwrap_or_default();
            }
        }
        &shielded - &allowed
    }
}

/// The time that samples represent: elapsed time times their share of all samples of the CPU.
fn share(elapsed: Nanos, seen: u64, taken: u64) -> Nanos {
    let time = u128::from(elapsed.0) * u128::from(seen) / u128::from(taken.max(1));
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}

/// The allowed CPUs of a thread, from its `status` file.
fn parse_allowed(status: &str) -> Option<CpuSet> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok()
}

impl OccupancyWatch for LinuxOccupancy<'_> {
    fn collect(&mut self) -> Result<Residence, Refusal> {
        let mut samples = self.shared.lock();
        samples.empty();
        let at = now();
        let elapsed = at - self.since;
        self.since = at;
        let counts = std::mem::take(&mut samples.counts);
        let read = std::mem::take(&mut samples.read);
        // Includes CPUs that went off-line, until the next call of `follow`.
        let processors = samples.rings.len() as u64;
        let lost = std::mem::take(&mut samples.lost);
        if std::mem::take(&mut samples.doubtful) {
            samples.family.join(Family::scan(&self.root, &self.given));
        }
        samples.family.bury(&self.root);
        let alive = samples.family.alive();
        drop(samples);
        self.follow()?;
        let sighting = |((cpu, pid), seen)| Sighting { cpu, pid, time: share(elapsed, seen, read[&cpu]) };
        let samples =
            Samples { wanted: elapsed.0 / self.period_ns * processors, taken: read.values().sum(), lost };
        let sightings = counts.into_iter().map(sighting).collect();
        Ok(Residence { elapsed, sightings, samples: Some(samples), alive, unfollowed: 0 })
    }

    fn why_sampled(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

impl Drop for LinuxOccupancy<'_> {
    fn drop(&mut self) {
        self.shared.lock().done = true;
        self.shared.wake.notify_all();
        if let Some(emptier) = self.emptier.take() {
            // The thread ends by itself. A panic in it was reported when it happened.
            let _ = emptier.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn where_a_thread_may_run_is_read_from_its_status() {
        let status = "Name:\tsh\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1,4\nMems_allowed:\t1\n";
        assert_eq!(parse_allowed(status).unwrap().to_string(), "0-1,4");
        assert_eq!(parse_allowed("Name:\tsh\n"), None);
    }

    #[test]
    fn a_share_is_of_the_samples_that_were_taken() {
        // Only a fifth of 5,000 samples was taken, and all of those found the program.
        assert_eq!(share(Nanos::from_secs(1), 1_000, 1_000), Nanos::from_secs(1));
        assert_eq!(share(Nanos::from_secs(2), 24, 96), Nanos::from_millis(500));
        assert_eq!(share(Nanos::from_secs(1), 0, 0), Nanos(0));
    }

    #[test]
    fn a_captured_machine_has_nothing_to_sample() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        let placements = Box::new(|| Ok(Rc::default()));
        let absent = LinuxOccupancy::start(&root, placements, &[Pid(1)], 4997, None).err().unwrap();
        assert_eq!(absent.why, "it is a captured machine, where nothing runs");
    }
}
