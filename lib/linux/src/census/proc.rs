//! Threads and processes from `/proc`, which needs no rights.

use crate::census::entries::{BEGAN_NS, Kept, Seen};
use crate::procfs::{raw_comm, stat_field};
use crate::{Os, is_gone};
use millpond_formats::proc_tables::parse_thread;
use millpond_machine::facets::{CensusOptions, Depth};
use millpond_machine::{Reason, Refusal};
use millpond_model::{Doing, Nanos, printable};
use std::path::Path;

/// One clock tick in `/proc`, on every architecture.
const TICK_NS: u64 = BEGAN_NS;

/// Indices of fields of a `stat` file, as numbered in proc_pid_stat(5).
mod field {
    pub(super) const STATE: usize = 3;
    pub(super) const SESSION: usize = 6;
    pub(super) const FLAGS: usize = 9;
    pub(super) const UTIME: usize = 14;
    pub(super) const STIME: usize = 15;
    pub(super) const PRIORITY: usize = 18;
    pub(super) const NICE: usize = 19;
    pub(super) const THREADS: usize = 20;
    pub(super) const START: usize = 22;
    pub(super) const PROCESSOR: usize = 39;
    pub(super) const POLICY: usize = 41;
}

/// All threads or processes, ascending. Those that end meanwhile are left out.
///
/// # Errors
/// [`Refusal`] when `/proc` cannot be read.
pub(super) fn look(os: &Os, options: CensusOptions, since_boot: Nanos) -> Result<Vec<Seen>, Refusal> {
    let machine = |error: std::io::Error| Refusal::operation(Reason::Machine(error.to_string()));
    let mut found = Vec::new();
    for pid in os.pids().map_err(machine)? {
        found.extend(process(os, options, pid, since_boot)?);
    }
    Ok(found)
}

/// The threads of a process, or the process alone where threads are not requested. Empty for a process that has ended.
///
/// # Errors
/// [`Refusal`] when its threads cannot be read.
pub(super) fn process(
    os: &Os,
    options: CensusOptions,
    pid: u32,
    since_boot: Nanos,
) -> Result<Vec<Seen>, Refusal> {
    let dir = os.root.proc.join(pid.to_string());
    let Some(users) = users(os, &dir) else { return Ok(Vec::new()) };
    if !options.lists_threads() {
        let one = one(os, &dir, (pid, pid), users, Depth::Use, since_boot);
        return Ok(one.map(|(seen, threads)| Seen { threads, ..seen }).into_iter().collect());
    }
    let tids = match os.tids(pid) {
        Err(error) if !is_gone(&error) => {
            return Err(Refusal::operation(Reason::Machine(error.to_string())));
        }
        tids => tids.unwrap_or_default(),
    };
    let task = |tid: u32| dir.join("task").join(tid.to_string());
    let of = |tid| one(os, &task(tid), (pid, tid), users, options.depth, since_boot).map(|seen| seen.0);
    Ok(tids.into_iter().filter_map(of).collect())
}

/// One thread or process, and its thread count as `/proc` reports it.
fn one(
    os: &Os,
    dir: &Path,
    (pid, tid): (u32, u32),
    users: (u32, u32),
    depth: Depth,
    since_boot: Nanos,
) -> Option<(Seen, u32)> {
    let read = |name: &str| os.root.read_value(&dir.join(name)).ok().flatten();
    let text = read("stat")?;
    let (mut seen, threads, ticks) = parse(&text, pid, tid)?;
    seen.users = users;
    if depth != Depth::Use {
        let times = read("schedstat").and_then(|text| parse_thread(&text));
        let exact = times.map(|times| times.ran);
        seen.time = exact.filter(|exact| exact.0 > 0).unwrap_or(seen.time);
        let status = read("status").unwrap_or_default();
        let kept = Kept {
            age: since_boot - seen.began,
            time: seen.time,
            ticks,
            waited: times.map_or(Nanos(0), |times| times.waited),
            voluntary: number_behind(&status, "voluntary_ctxt_switches:"),
            involuntary: number_behind(&status, "nonvoluntary_ctxt_switches:"),
        };
        seen.spent = Some(kept.spent());
    }
    Some((seen, threads))
}

fn parse(text: &str, pid: u32, tid: u32) -> Option<(Seen, u32, [u64; 2])> {
    let name = printable(raw_comm(text)?).into_owned();
    let field = |number| stat_field(text, number);
    let unsigned = |number| field(number).and_then(|word| word.parse::<u64>().ok());
    let short = |number| unsigned(number).and_then(|value| u32::try_from(value).ok());
    let signed = |number| field(number).and_then(|word| word.parse::<i32>().ok());
    let ticks = [unsigned(field::UTIME)?, unsigned(field::STIME)?];
    let seen = Seen {
        pid,
        tid,
        session: short(field::SESSION).unwrap_or(0),
        name,
        flags: short(field::FLAGS)?,
        doing: doing(field(field::STATE)?),
        cpu: short(field::PROCESSOR).unwrap_or(0),
        prio: signed(field::PRIORITY)?.saturating_add(100),
        nice: signed(field::NICE)?,
        policy: short(field::POLICY).unwrap_or(0),
        level: None,
        began: Nanos(unsigned(field::START)?.saturating_mul(TICK_NS)),
        time: Nanos(ticks[0].saturating_add(ticks[1]).saturating_mul(TICK_NS)),
        ended: Nanos(0),
        users: (0, 0),
        threads: 1,
        spent: None,
        causes: None,
    };
    Some((seen, short(field::THREADS).unwrap_or(1), ticks))
}

/// The activity for a state letter. `/proc` does not distinguish running threads from runnable ones.
fn doing(letter: &str) -> Doing {
    match letter {
        "R" => Doing::Runnable,
        "T" | "t" => Doing::Stopped,
        "Z" | "X" | "x" => Doing::Zombie,
        _ => Doing::Asleep,
    }
}

/// Real and effective user id.
fn users(os: &Os, dir: &Path) -> Option<(u32, u32)> {
    let status = os.root.read_value(&dir.join("status")).ok().flatten()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some((users.next()?, users.next()?))
}

fn number_behind(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use std::fs;

    const STAT: &str = "7 (a) b (c)) R 1 7 9 0 -1 4194560 1 0 0 0 30 10 0 0 15 -5 2 0 100 8192 10 \
                        18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0";

    fn captured() -> (tempfile::TempDir, Os) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        for place in ["7", "7/task/7", "7/task/8"] {
            let task = root.proc.join(place);
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), STAT).unwrap();
            fs::write(task.join("schedstat"), "410000000 90000000 12\n").unwrap();
            let status = "Uid:\t1000\t0\t0\t0\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
            fs::write(task.join("status"), status).unwrap();
        }
        fs::create_dir_all(root.proc.join("9")).unwrap();
        (dir, Os::new(root))
    }

    #[test]
    fn a_process_is_read_from_its_own_files_where_nobody_asks_for_threads() {
        let (_dir, os) = captured();
        let found = look(&os, CensusOptions::default(), Nanos::from_secs(3)).unwrap();
        let [seen] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((seen.pid, seen.threads, seen.name.as_str(), seen.users), (7, 2, "a) b (c)", (1000, 0)));
        assert_eq!((seen.time, seen.began), (Nanos::from_millis(400), Nanos::from_secs(1)));
        assert_eq!((seen.prio, seen.nice, seen.cpu, seen.doing), (115, -5, 3, Doing::Runnable));
        assert_eq!(seen.spent, None);
    }

    #[test]
    fn what_is_kept_of_a_thread_is_exact_time_waiting_and_switches() {
        let (_dir, os) = captured();
        let options = CensusOptions { depth: Depth::Kept, ..CensusOptions::default() };
        let found = look(&os, options, Nanos::from_secs(3)).unwrap();
        assert_eq!(found.iter().map(|seen| seen.tid).collect::<Vec<_>>(), [7, 8]);
        let spent = found[1].spent.unwrap();
        assert_eq!(found[1].time, Nanos::from_millis(410));
        assert_eq!(spent.times[0], Some(Nanos(307_500_000)));
        assert_eq!(spent.times[7], Some(Nanos::from_millis(90)));
        assert_eq!((spent.voluntary, spent.involuntary), (Some(5), Some(6)));
        assert_eq!(spent.total(), Nanos::from_secs(2));
    }

    #[test]
    fn fuzz_stat_of_whatever_lives() {
        millpond_fuzz::check_text("linux-census-stat", &[STAT], |text| {
            if let Some((seen, _, ticks)) = parse(text, 1, 2) {
                let sum = ticks[0].saturating_add(ticks[1]).saturating_mul(TICK_NS);
                assert_eq!((seen.pid, seen.tid, seen.time), (1, 2, Nanos(sum)));
            }
        });
    }
}
