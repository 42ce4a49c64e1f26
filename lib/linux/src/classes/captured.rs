//! The scheduler of a captured root: its tables and the state of each thread, in files at the paths of the maps.
//!
//! `tables` has the words of the map. `threads/TID` has the numbers of a thread: class, level, system's part, user priority, limit, boost and slice.
//! A thread without a file has the state of a new one.

use super::asked::Asked;
use crate::Root;
use millpond_bpf::Refused;
use millpond_bpf::classes::{ThreadState, Wish};
use millpond_rules as rules;
use std::io;
use std::path::PathBuf;

/// The state of a new thread of TS.
const NEW: ThreadState = ThreadState {
    class: rules::Class::Ts as u64,
    pri: 29,
    cpupri: 29,
    upri: 0,
    uprilim: 0,
    boost: 0,
    timeleft: 0,
    quantum: 0,
    dispwait: 0,
    ran_ns: 0,
    on_cpu: None,
    queue: 0,
};

/// The directory of these files.
#[derive(Debug)]
pub(super) struct Captured {
    root: Root,
    dir: PathBuf,
}

impl Captured {
    /// `None` if no scheduler was captured.
    pub(super) fn at(root: &Root, dir: PathBuf) -> Option<Captured> {
        dir.is_dir().then(|| Captured { root: root.clone(), dir })
    }

    fn numbers(&self, file: &str) -> Option<Vec<i64>> {
        let text = self.root.read(&self.dir.join(file)).ok().flatten()?;
        text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    }

    fn put(&self, file: &str, numbers: impl IntoIterator<Item = i64>) -> Result<(), Refused> {
        let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
        let refused = |error: io::Error| Refused::Kernel { why: error.to_string(), log: String::new() };
        self.root.replace(self.dir.join(file), words.join(" ")).map_err(refused)
    }
}

impl Asked for Captured {
    fn tables(&self) -> Vec<u64> {
        self.numbers("tables").into_iter().flatten().map(i64::cast_unsigned).collect()
    }

    fn set_tables(&self, tables: &[u64]) -> Result<(), Refused> {
        self.put("tables", tables.iter().map(|word| word.cast_signed()))
    }

    fn thread(&self, tid: u32) -> Result<Option<ThreadState>, Refused> {
        let Some(numbers) = self.numbers(&format!("threads/{tid}")) else { return Ok(Some(NEW)) };
        let Ok([class, pri, cpupri, upri, uprilim, boost, quantum]) = <[i64; 7]>::try_from(numbers) else {
            return Ok(Some(NEW));
        };
        let class = class.cast_unsigned();
        Ok(Some(ThreadState { class, pri, cpupri, upri, uprilim, boost, quantum, ..NEW }))
    }

    fn set_thread(&self, tid: u32, _start: u64, wish: Wish) -> Result<Option<ThreadState>, Refused> {
        let was = self.thread(tid)?.unwrap_or(NEW);
        let boost = match rules::Class::of_number(wish.class.into()) {
            Some(rules::Class::Ia) => {
                if wish.foreground {
                    10
                } else {
                    -10
                }
            }
            _ => 0,
        };
        let (upri, uprilim) = (wish.upri.into(), wish.uprilim.into());
        let numbers = [wish.class.into(), was.pri, was.cpupri, upri, uprilim, boost, wish.quantum];
        self.put(&format!("threads/{tid}"), numbers)?;
        self.thread(tid)
    }

    fn forget(&self, _tid: u32) {}

    fn level(&self, _level: i8, _figure: usize) -> u64 {
        0
    }

    fn sum(&self, _figure: usize) -> u64 {
        0
    }

    fn beat(&self, _figure: usize) -> u64 {
        0
    }
}
