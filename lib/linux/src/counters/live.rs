//! Counters and samples on the machine that runs the tests: activity of threads is counted on the CPU where it happens.
//!
//! The tests check lower bounds, never exact figures: at least as many system calls must be counted as a thread makes. A test
//! that the machine or the rights do not allow is skipped with a message.

use super::placement::{Placement, Placements};
use super::residence::MeasuredOccupancy;
use super::sampler::LinuxOccupancy;
use super::watch::LinuxWatch;
use crate::{Os, Root};
use millpond_machine::Absent;
use millpond_machine::facets::{CounterWatch, OccupancyWatch, WatchOptions};
use millpond_model::{Column, CpuId, CpuSet, Pid, Sample};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use std::io::{Read, Write, pipe};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

const MANY: u64 = 20_000;
const SOME: u64 = 500;

fn machine() -> Os {
    Os::new(Root::live(PathBuf::from("/nonexistent")))
}

fn nobody() -> Placements<'static> {
    Box::new(|| Ok(Rc::default()))
}

/// The CPUs that the tests may use.
fn cpus() -> Vec<CpuId> {
    let mask = sched_getaffinity(None).unwrap();
    (0..1024u32).filter(|cpu| mask.is_set(*cpu as usize)).map(CpuId).collect()
}

fn move_to(cpu: CpuId) {
    let mut mask = Mask::new();
    mask.set(cpu.0 as usize);
    sched_setaffinity(None, &mask).unwrap();
}

/// Runs `work` on one CPU.
fn on<R: Send>(cpu: CpuId, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            move_to(cpu);
            work()
        });
        thread.join().unwrap()
    })
}

fn counted(before: &Sample, after: &Sample, cpu: CpuId, column: Column) -> Option<u64> {
    let of = |sample: &Sample| sample.cpus.iter().find(|c| c.cpu == cpu)?.events[column.index()];
    Some(of(after)? - of(before)?)
}

/// Whether a column is counted here; prints a message if not.
fn is_counted(sample: &Sample, column: Column) -> bool {
    let counted = sample.cpus.iter().all(|cpu| cpu.events[column.index()].is_some());
    if !counted {
        eprintln!("skipped: {column} is not counted here: {:?}", sample.missing);
    }
    counted
}

/// Runs `work` and checks that the column counts at least `least`.
fn expect(watch: &mut dyn CounterWatch, cpu: CpuId, column: Column, least: u64, work: impl FnOnce() + Send) {
    let before = watch.sample().unwrap();
    if is_counted(&before, column) {
        on(cpu, work);
        let after = watch.sample().unwrap();
        let counted = counted(&before, &after, cpu, column).unwrap();
        assert!(counted >= least, "{column} of CPU {cpu}: {counted}, and at least {least} happened");
    }
}

fn call_system() {
    for _ in 0..MANY {
        // The C library may cache the process id; it does not cache the parent's id.
        let _ = rustix::process::getppid();
    }
}

fn touch_pages() {
    let page = rustix::param::page_size();
    let len = page * usize::try_from(SOME).unwrap();
    // SAFETY: the mapping is new and private, known only to this function, and removed at its end.
    unsafe {
        let base =
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
                .unwrap();
        // A huge page would replace many small faults by one.
        let _ = madvise(base, len, Advice::LinuxNoHugepage);
        for offset in (0..len).step_by(page) {
            base.cast::<u8>().add(offset).write_volatile(1);
        }
        munmap(base, len).unwrap();
    }
}

/// Two threads on one CPU that wake each other alternately.
fn play_ping_pong() {
    let (mut ping_out, mut ping_in) = pipe().unwrap();
    let (mut pong_out, mut pong_in) = pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut ball = [0u8];
            while ping_out.read_exact(&mut ball).is_ok() {
                pong_in.write_all(&ball).unwrap();
            }
        });
        let mut ball = [0u8];
        for _ in 0..SOME {
            ping_in.write_all(&ball).unwrap();
            pong_out.read_exact(&mut ball).unwrap();
        }
        drop(ping_in);
    });
}

type Start = fn(&Os) -> Result<LinuxWatch<'_>, Absent>;

fn both() -> [(&'static str, Start); 2] {
    [
        ("programs", |os| LinuxWatch::start(os, nobody(), WatchOptions::default())),
        ("events", |os| LinuxWatch::start_without_programs(os, nobody())),
    ]
}

#[test]
fn what_threads_do_is_counted_on_their_processor() {
    let os = machine();
    for (name, start) in both() {
        let mut watch = start(&os).unwrap();
        for cpu in cpus().into_iter().take(4) {
            eprintln!("{name}, CPU {cpu}");
            expect(&mut watch, cpu, Column::Syscl, MANY, call_system);
            expect(&mut watch, cpu, Column::Minf, SOME, touch_pages);
            expect(&mut watch, cpu, Column::Csw, 2 * SOME, play_ping_pong);
        }
    }
}

#[test]
fn a_thread_that_is_sent_to_and_fro_is_counted_where_it_arrives() {
    let os = machine();
    let [first, second, ..] = cpus()[..] else {
        eprintln!("skipped: there is one CPU only");
        return;
    };
    for (_, start) in both() {
        let mut watch = start(&os).unwrap();
        expect(&mut watch, second, Column::Migr, SOME, || {
            for _ in 0..=SOME {
                move_to(first);
                move_to(second);
            }
        });
    }
}

#[test]
fn calls_to_other_processors_are_counted_where_they_are_made() {
    let os = machine();
    let [first, second, ..] = cpus()[..] else {
        eprintln!("skipped: there is one CPU only");
        return;
    };
    for (_, start) in both() {
        let mut watch = start(&os).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                move_to(second);
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            // Unmapping memory that another CPU may have in its TLB needs a cross call to that CPU.
            expect(&mut watch, first, Column::Xcal, 1, || (0..200).for_each(|_| touch_pages()));
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// The BPF programs are attached before and after the events. The programs must count at least what the events count.
#[test]
fn programs_and_events_count_the_same() {
    let os = machine();
    let mut programs = LinuxWatch::start(&os, nobody(), WatchOptions::default()).unwrap();
    let mut events = LinuxWatch::start_without_programs(&os, nobody()).unwrap();
    let outer = programs.sample().unwrap();
    let inner = events.sample().unwrap();
    for cpu in cpus() {
        on(cpu, || {
            call_system();
            play_ping_pong();
        });
    }
    let inner = (inner, events.sample().unwrap());
    let outer = (outer, programs.sample().unwrap());
    // Not `csw`: the event counts a few switches in a thousand twice, the tracepoint does not.
    for column in [Column::Icsw, Column::Syscl, Column::Smtx, Column::Srw, Column::Xcal] {
        if is_counted(&outer.0, column) && is_counted(&inner.0, column) {
            for cpu in outer.1.cpus.iter().map(|c| c.cpu) {
                let outer = counted(&outer.0, &outer.1, cpu, column);
                let inner = counted(&inner.0, &inner.1, cpu, column);
                assert!(outer >= inner, "{column} of CPU {cpu}: {outer:?} by programs, {inner:?} by events");
            }
        }
    }
}

#[test]
fn involuntary_switches_are_switches_and_time_does_not_go_back() {
    let os = machine();
    let mut watch = LinuxWatch::start(&os, nobody(), WatchOptions::default()).unwrap();
    let before = watch.sample().unwrap();
    on(cpus()[0], play_ping_pong);
    let after = watch.sample().unwrap();
    for (old, new) in before.cpus.iter().zip(&after.cpus) {
        assert_eq!(old.cpu, new.cpu);
        assert!(new.ticks.idle >= old.ticks.idle && new.ticks.total() >= old.ticks.total());
        if is_counted(&before, Column::Icsw) {
            let of = |column| counted(&before, &after, new.cpu, column);
            assert!(of(Column::Icsw) <= of(Column::Csw));
        }
    }
}

#[test]
fn shielded_cpus_have_every_column_that_programs_count() {
    let os = machine();
    let last = cpus().last().copied();
    let shielded = CpuSet::from_iter(last);
    let placements = move || Ok(Rc::new(Placement { shielded: shielded.clone(), ..Placement::default() }));
    let mut watch = LinuxWatch::start(&os, Box::new(placements), WatchOptions::default()).unwrap();
    let sample = watch.sample().unwrap();
    if watch.explain().iter().any(|line| line.starts_with("perf events are used because")) {
        let name = "counters::live::shielded_cpus_have_every_column_that_programs_count";
        return println!("skipped: {name}: {:?}", watch.explain().last());
    }
    let rows = |of: bool| sample.cpus.iter().filter(move |row| (Some(row.cpu) == last) == of);
    let (row, other) = (rows(true).next().unwrap(), rows(false).next());
    for column in millpond_model::COLUMNS {
        let counted = row.events[column.index()].is_some();
        assert!(other.is_none_or(|other| other.events[column.index()].is_some() == counted), "{column}");
    }
    assert!(row.events[Column::Syscl.index()].is_some() && row.events[Column::Csw.index()].is_some());
    assert!(!sample.missing.iter().any(|why| why.contains("shielded")), "{:?}", sample.missing);
}

#[test]
fn shielded_cpus_have_rows_from_tables_only_where_reading_would_interrupt_them() {
    let os = machine();
    let all: Vec<CpuId> = cpus();
    let shielded = CpuSet::from_iter(all.last().copied());
    let placements = move || Ok(Rc::new(Placement { shielded: shielded.clone(), ..Placement::default() }));
    let mut watch = LinuxWatch::start_without_programs(&os, Box::new(placements)).unwrap();
    let sample = watch.sample().unwrap();
    let row = sample.cpus.iter().find(|c| Some(&c.cpu) == all.last()).unwrap();
    assert_eq!(row.events[Column::Syscl.index()], None);
    assert!(row.events[Column::Intr.index()].is_some() && row.events[Column::Ithr.index()].is_some());
    assert!(sample.missing.iter().any(|why| why.contains("would interrupt them")), "{:?}", sample.missing);
    let is_received = watch.explain().iter().any(|line| line.contains("instead of sent"));
    assert_eq!(
        row.events[Column::Xcal.index()].is_some(),
        is_received,
        "calls are sent or received for all alike"
    );
    let options = WatchOptions { touch_fenced: true, ..WatchOptions::default() };
    let mut watch = LinuxWatch::start(&os, nobody(), options).unwrap();
    is_counted(&watch.sample().unwrap(), Column::Syscl);
}

#[test]
fn samples_find_a_program_and_its_children_where_they_run() {
    let os = machine();
    let own = Pid(std::process::id());
    let mut watch = match LinuxOccupancy::start(&os.root, nobody(), &[own], 4997, None) {
        Ok(watch) => watch,
        Err(absent) => return eprintln!("skipped: {absent}"),
    };
    find_a_child(&mut watch, own);
}

#[test]
fn switches_find_a_program_and_its_children_where_they_run() {
    let own = Pid(std::process::id());
    match MeasuredOccupancy::start(&machine(), &[own]) {
        Ok(mut watch) => find_a_child(&mut watch, own),
        Err(why) => println!(
            "skipped: counters::live::switches_find_a_program_and_its_children_where_they_run: {why}"
        ),
    }
}

/// A memory cgroup of the test. [`MemoryGroup::close`] sets its limit to its current usage.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    fn new() -> Result<MemoryGroup, String> {
        let tops = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(std::path::Path::new);
        let top =
            tops.into_iter().find(|top| top.join("cgroup.procs").exists()).ok_or("no memory cgroups")?;
        // On version 1 the controller is always enabled, and this file does not exist.
        let _ = std::fs::write(top.join("cgroup.subtree_control"), "+memory");
        let group = MemoryGroup(top.join(format!("millpond-test-{}", std::process::id())));
        std::fs::create_dir(&group.0).map_err(|error| error.to_string())?;
        let limit = group.limit();
        limit.map(|_| group).ok_or_else(|| "no memory controller".to_owned())
    }

    fn limit(&self) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
        let files = [("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")];
        let found = files.map(|(limit, usage)| (self.0.join(limit), self.0.join(usage)));
        found.into_iter().find(|(limit, _)| limit.exists())
    }

    /// Moves the process into the group, runs `work`, and moves it out again.
    fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let procs = |dir: &std::path::Path| std::fs::write(dir.join("cgroup.procs"), "0").unwrap();
        procs(&self.0);
        let done = work();
        procs(self.0.parent().unwrap());
        done
    }

    fn close(&self) {
        let (limit, usage) = self.limit().unwrap();
        // The kernel returns memory that it charged in advance, even though version 1 refuses this limit.
        let _ = std::fs::write(&limit, "0");
        std::fs::write(limit, std::fs::read_to_string(usage).unwrap().trim()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn threads_that_the_kernel_has_no_memory_to_follow_are_told() {
    let name = "counters::live::threads_that_the_kernel_has_no_memory_to_follow_are_told";
    let alone = "MILLPOND_TEST_ALONE";
    if std::env::var_os(alone).is_none() {
        // Runs in a separate process, so that no other test runs in the group.
        let exe = std::env::current_exe().unwrap();
        let done = std::process::Command::new(exe)
            .args(["--exact", name, "--nocapture"])
            .env(alone, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let own = Pid(std::process::id());
    let group = match MemoryGroup::new() {
        Ok(group) => group,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let mut watch = match group.with(|| MeasuredOccupancy::start(&machine(), &[own])) {
        Ok(watch) => watch,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    assert_eq!(watch.collect().unwrap().unfollowed, 0);
    // The BPF program's per-thread memory is charged to the cgroup in which it was loaded.
    group.close();
    let gate = std::sync::Barrier::new(1001);
    std::thread::scope(|scope| {
        for _ in 0..1000 {
            scope.spawn(|| gate.wait());
        }
        gate.wait();
    });
    let told = watch.collect().unwrap().unfollowed;
    assert!(told > 0, "1000 threads had room");
}

fn find_a_child(watch: &mut dyn OccupancyWatch, own: Pid) {
    for cpu in cpus().into_iter().take(2) {
        watch.collect().unwrap();
        // A process that does not exist yet, and that is busy while it counts.
        on(cpu, || {
            let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
            assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        });
        let residence = watch.collect().unwrap();
        assert!(residence.sightings.iter().all(|s| s.pid == own));
        assert!(residence.sightings.iter().any(|s| s.cpu == cpu && s.time.0 > 0), "{residence:?}");
        assert_eq!(residence.alive, [own]);
    }
}

/// CPU time of this thread.
fn thread_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

/// A thread that computes without a pause is counted for all of its CPU time, even while no switch happens. The measured time
/// must lie between the thread's own figures before and after, regardless of other load.
#[test]
fn a_spinning_program_is_seen_for_all_the_time_that_it_had() {
    let name = "counters::live::a_spinning_program_is_seen_for_all_the_time_that_it_had";
    let child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
    let mut child = child.unwrap();
    let pid = Pid(child.id());
    let used = || -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    match MeasuredOccupancy::start(&machine(), &[pid]) {
        Err(why) => println!("skipped: {name}: {why}"),
        Ok(mut watch) => {
            // Without a switch, the kernel's figure lags by up to a tick.
            const TICKS: u64 = 40_000_000;
            watch.collect().unwrap();
            let before = used();
            let mut seen = 0;
            while used() - before < 200_000_000 {
                let began = thread_time();
                while thread_time() - began < 1_000_000 {}
                seen += watch.collect().unwrap().sightings.iter().map(|s| s.time.0).sum::<u64>();
            }
            let used = used() - before;
            assert!(seen + TICKS >= used && seen <= used + TICKS, "seen {seen}, used {used}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
