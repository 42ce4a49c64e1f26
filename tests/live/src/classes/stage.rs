//! The scheduler, observed and changed by experiments.

use crate::actor::Actor;
use millpond_bpf::classes::{Control, LEVEL_FIGURES, SUMS, ThreadState, Wish};
use millpond_formats::dispadmin::default_tables;
use millpond_model::{DispatchTables, TsRow};
use millpond_rules::Class;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Polling interval.
const LOOK: Duration = Duration::from_millis(2);
/// The SCHED_FIFO priority of this process: above all processes that it starts.
const PRIORITY: libc::c_int = 50;
/// The number of polls before a timeout.
const PATIENCE: usize = 30_000;

/// The scheduler.
pub struct Stage {
    control: Control,
}

/// A requested class with its parameters.
pub fn wish(class: Class, uprilim: i8, upri: i8) -> Wish {
    Wish { class: class as u8, uprilim, upri, foreground: true, quantum: 0 }
}

/// FX with a level and a slice.
pub fn fx(level: i8, quantum: Duration) -> Wish {
    Wish { quantum: i64::try_from(quantum.as_nanos()).unwrap_or(i64::MAX), ..wish(Class::Fx, level, level) }
}

/// Waits until a condition holds.
pub fn until(what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..PATIENCE {
        if holds() {
            return Ok(());
        }
        sleep(LOOK);
    }
    Err(format!("it does not come to the point that {what}"))
}

impl Stage {
    /// Gives this process a higher priority than the processes that it starts; they do not inherit it.
    pub fn new() -> Result<Stage, String> {
        let parameters = libc::sched_param { sched_priority: PRIORITY };
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: `parameters` lives for the call.
        if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } != 0 {
            return Err(format!("no SCHED_FIFO: {}", std::io::Error::last_os_error()));
        }
        let control = Control::at(Path::new("/sys/fs/bpf/millpond")).map_err(|e| e.to_string())?;
        Ok(Stage { control })
    }

    /// A stopped process that enters a class afresh when it continues.
    pub fn ready(&self, what: &str, wish: Wish) -> Result<Actor, String> {
        let actor = Actor::new(what)?;
        self.set(&actor, wish)?;
        Ok(actor)
    }

    /// Makes a stopped process enter a class afresh when it continues.
    pub fn set(&self, actor: &Actor, to: Wish) -> Result<(), String> {
        // New parameters of the present class would keep its level: it passes through another class.
        let other = if to.class == Class::Fx as u8 {
            wish(Class::Ts, 0, 0)
        } else {
            fx(0, Duration::from_millis(100))
        };
        self.want(actor, other)?;
        // A process takes requested parameters when it wakes up.
        let before = actor.ran();
        actor.go();
        until("a process goes through another class", || actor.ran() > before)?;
        actor.stop()?;
        self.want(actor, to)
    }

    /// Requests a class and parameters for a process.
    pub fn want(&self, actor: &Actor, wish: Wish) -> Result<(), String> {
        let known = self.control.set_thread(actor.pid, actor.start, wish).map_err(|e| e.to_string())?;
        known.map(drop).ok_or_else(|| format!("process {} is gone", actor.pid))
    }

    /// A process's scheduling state.
    pub fn state(&self, pid: u32) -> Result<ThreadState, String> {
        self.control.thread(pid).map_err(|e| e.to_string())?.ok_or_else(|| format!("process {pid} is gone"))
    }

    /// Seconds that the scheduler has counted.
    pub fn beats(&self) -> u64 {
        self.control.beat(0)
    }

    /// Waits until the scheduler has counted the next second.
    pub fn after_beat(&self) -> Result<(), String> {
        let now = self.beats();
        until("a second passed", || self.beats() != now)
    }

    /// A counter summed over CPUs, by its name in [`SUMS`].
    pub fn sum(&self, name: &str) -> u64 {
        SUMS.iter().position(|sum| *sum == name).map_or(0, |at| self.control.sum(at))
    }

    /// A figure of each level, by its name in [`LEVEL_FIGURES`].
    pub fn levels(&self, name: &str) -> impl Iterator<Item = u64> {
        let figure = LEVEL_FIGURES.iter().position(|figure| *figure == name);
        (-1..=99).filter_map(move |level| Some(self.control.level(level, figure?)))
    }

    /// The system priorities of a process while it runs for `time`, each with the nanoseconds that it ran there.
    pub fn walk(&self, actor: &Actor, time: Duration) -> Result<Vec<(i64, u64)>, String> {
        let begun = actor.ran();
        let mut walked: Vec<(i64, u64)> = Vec::new();
        let mut since = begun;
        for _ in 0..PATIENCE {
            let (level, now) = (self.state(actor.pid)?.cpupri, actor.ran());
            match walked.last_mut() {
                Some((last, ran)) if *last == level => *ran = now - since,
                _ => {
                    since = now;
                    walked.push((level, 0));
                }
            }
            if Duration::from_nanos(now - begun) >= time {
                return Ok(walked);
            }
            sleep(LOOK);
        }
        Err(format!("process {} does not run", actor.pid))
    }

    /// Sets the TS and IA table to the standard or the extended one, with changes.
    pub fn table(extended: bool, change: impl Fn(usize, &mut TsRow)) -> Result<DispatchTables, String> {
        let tables = default_tables(extended);
        let mut text = String::from("# Time Sharing Dispatcher Configuration\nRES=100\n");
        let mut rows = tables.ts.rows().to_vec();
        for (level, row) in rows.iter_mut().enumerate() {
            change(level, row);
            let TsRow { quantum, tqexp, slpret, maxwait, lwait } = row;
            text.push_str(&format!("{quantum} {tqexp} {slpret} {maxwait} {lwait} # {level}\n"));
        }
        let file = std::env::temp_dir().join("live-classes.table");
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let said = Command::new("dispadmin").args(["-c", "TS", "-s"]).arg(&file).output();
        let said = said.map_err(|e| format!("dispadmin: {e}"))?;
        if !said.status.success() {
            return Err(String::from_utf8_lossy(&said.stderr).into_owned());
        }
        let ts = millpond_model::TsTable::new(rows).map_err(|e| e.to_string())?;
        Ok(DispatchTables { ts, ..tables })
    }
}
