//! The tables of `/proc`, joined by CPU: the counts that the kernel always keeps.

use super::placement::Placement;
use super::proc_file::{Buffer, ProcFile};
use crate::Root;
use crate::clock::read;
use millpond_formats::proc_tables::{
    ColumnSums, Field, InterruptCounts, SchedTable, parse_stat, take_softirqs,
};
use millpond_machine::{Reason, Refusal};
use millpond_model::{COLUMNS, Column, CpuId, CpuSample, Nanos, Sample, Ticks, WallTime};
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// Columns without a table. They are counted only during a watch.
const ONLY_WATCHED: [Column; 8] = [
    Column::Minf,
    Column::Mjf,
    Column::Xcal,
    Column::Icsw,
    Column::Migr,
    Column::Smtx,
    Column::Srw,
    Column::Syscl,
];

/// The open tables, and their last contents.
#[derive(Debug)]
pub(super) struct Tables {
    stat: ProcFile,
    interrupts: Option<ProcFile>,
    softirqs: Option<ProcFile>,
    schedstat: Option<ProcFile>,
    buffer: Buffer,
    active: Vec<(CpuId, Ticks)>,
    taken: InterruptCounts,
    deferred: ColumnSums,
    slices: SchedTable,
}

fn refuse(what: &str, error: &io::Error) -> Refusal {
    Refusal::operation(Reason::Machine(format!("/proc/{what} cannot be read: {error}")))
}

impl Tables {
    /// Opens the tables. Only `/proc/stat` must exist.
    pub(super) fn open(root: &Root) -> Result<Tables, Refusal> {
        let stat = ProcFile::open(root, "stat").map_err(|error| refuse("stat", &error))?;
        let stat =
            stat.ok_or_else(|| Refusal::operation(Reason::Machine("it has no /proc/stat".to_owned())))?;
        let optional = |name| ProcFile::open(root, name).ok().flatten();
        Ok(Tables {
            stat,
            interrupts: optional("interrupts"),
            softirqs: optional("softirqs"),
            schedstat: optional("schedstat"),
            buffer: Buffer::default(),
            active: Vec::new(),
            taken: InterruptCounts::default(),
            deferred: ColumnSums::default(),
            slices: SchedTable::new(Field::Slices),
        })
    }

    /// Reads the active CPUs and their times. Invalidates the other tables.
    pub(super) fn read_active(&mut self) -> Result<(), Refusal> {
        let text = self.stat.read_piece(&mut self.buffer).map_err(|error| refuse("stat", &error))?;
        parse_stat(text, &mut self.active);
        if self.active.is_empty() {
            return Err(Refusal::operation(Reason::Machine("/proc/stat names no CPU".to_owned())));
        }
        self.taken.forget();
        self.deferred.forget();
        self.slices.forget();
        Ok(())
    }

    /// Reads the tables that hold these columns.
    pub(super) fn read_columns(&mut self, wanted: impl Fn(Column) -> bool) -> Result<(), Refusal> {
        let buffer = &mut self.buffer;
        if let Some(file) = self.interrupts.as_ref().filter(|_| wanted(Column::Intr) || wanted(Column::Xcal))
        {
            let read = file.read_lines(buffer, |lines| self.taken.take(lines));
            read.map_err(|error| refuse("interrupts", &error))?;
            self.taken.finish();
        }
        if let Some(file) = self.softirqs.as_ref().filter(|_| wanted(Column::Ithr)) {
            let read = file.read_lines(buffer, |lines| take_softirqs(lines, &mut self.deferred));
            read.map_err(|error| refuse("softirqs", &error))?;
            self.deferred.finish();
        }
        if let Some(file) = self.schedstat.as_ref().filter(|_| wanted(Column::Csw)) {
            let read = file.read_lines(buffer, |lines| self.slices.take(lines));
            read.map_err(|error| refuse("schedstat", &error))?;
            self.slices.finish();
        }
        Ok(())
    }

    /// The active CPUs, ascending, with their times.
    pub(super) fn active(&self) -> &[(CpuId, Ticks)] {
        &self.active
    }

    /// The row of the CPU at `index` of [`Tables::active`].
    pub(super) fn row(&self, index: usize, placement: &Placement) -> CpuSample {
        let (cpu, ticks) = self.active[index];
        let mut events = [None; COLUMNS.len()];
        events[Column::Intr.index()] = self.taken.all.of(cpu, index);
        events[Column::Ithr.index()] = self.deferred.of(cpu, index);
        events[Column::Csw.index()] = self.slices.of(cpu, index);
        CpuSample { cpu, set: placement.set_of(cpu), events, ticks }
    }

    /// Cross calls that a CPU received. Used on kernels that do not report the sender.
    pub(super) fn calls_received(&self, cpu: CpuId, index: usize) -> Option<u64> {
        self.taken.calls.of(cpu, index)
    }

    /// Whether the tables that were read contain a column.
    pub(super) fn has(&self, column: Column) -> bool {
        match column {
            Column::Intr => self.taken.all.rows > 0,
            Column::Ithr => self.deferred.rows > 0,
            Column::Csw => !self.slices.is_empty(),
            Column::Xcal => self.taken.calls.rows > 0,
            _ => false,
        }
    }

    /// The sample since boot.
    pub(super) fn since_boot(&mut self, placement: &Placement) -> Result<Sample, Refusal> {
        self.read_active()?;
        self.read_columns(|column| column != Column::Xcal)?;
        let mut missing = Vec::new();
        for (column, file) in [(Column::Intr, "interrupts"), (Column::Ithr, "softirqs")] {
            if !self.has(column) {
                missing.push(format!("{column}: this machine has no /proc/{file}"));
            }
        }
        let mut only_watched: Vec<&str> = ONLY_WATCHED.iter().map(|column| column.word()).collect();
        if !self.has(Column::Csw) {
            only_watched.push(Column::Csw.word());
        }
        missing.push(format!(
            "{}: the kernel does not keep them per CPU; they are counted while mpstat runs",
            only_watched.join(", ")
        ));
        let cpus = (0..self.active.len()).map(|index| self.row(index, placement)).collect();
        Ok(Sample { at: now(), wall: wall(), cpus, sets: placement.sets.clone(), missing })
    }
}

/// The machine's monotonic clock.
pub(crate) fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time of this thread.
pub(super) fn own_cpu_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// The wall clock.
pub(super) fn wall() -> WallTime {
    WallTime(clock_gettime(ClockId::Realtime).tv_sec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::PsetId;
    use std::collections::BTreeMap;
    use std::fs;

    const STAT: &str = "cpu 9 9 9 9\ncpu0 1 0 2 3 0 0 0 0 0 0\ncpu2 4 0 5 6 0 0 0 0 0 0\nintr 1 2\n";
    const INTERRUPTS: &str =
        "  CPU0 CPU2\n 4: 1 15 IO-APIC 4-edge ttyS0\nLOC: 10 20 Local timer interrupts\n";
    const SOFTIRQS: &str = "  CPU0 CPU1 CPU2 CPU3\nNET_RX: 7 0 8 0\nTIMER: 50 0 60 0\n";

    fn captured(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        fs::create_dir_all(&root.proc).unwrap();
        for (name, text) in files {
            fs::write(root.proc.join(name), text).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn tables_are_joined_by_processor_whatever_columns_they_have() {
        let (_dir, root) = captured(&[("stat", STAT), ("interrupts", INTERRUPTS), ("softirqs", SOFTIRQS)]);
        let placement = Placement {
            set_of: BTreeMap::from([(CpuId(2), PsetId(1))]),
            sets: vec![PsetId(1)],
            ..Placement::default()
        };
        let sample = Tables::open(&root).unwrap().since_boot(&placement).unwrap();
        let row = |index: usize, column: Column| sample.cpus[index].events[column.index()];
        assert_eq!(sample.cpus.iter().map(|c| c.cpu.0).collect::<Vec<_>>(), [0, 2]);
        assert_eq!((row(0, Column::Intr), row(1, Column::Intr)), (Some(11), Some(35)));
        assert_eq!((row(0, Column::Ithr), row(1, Column::Ithr)), (Some(7), Some(8)));
        assert_eq!((row(0, Column::Csw), row(1, Column::Syscl)), (None, None));
        assert_eq!((sample.cpus[0].set, sample.cpus[1].set), (PsetId::DEFAULT, PsetId(1)));
        assert_eq!(sample.cpus[1].ticks.total(), Nanos::from_millis(150));
        assert_eq!(
            sample.missing,
            ["minf, mjf, xcal, icsw, migr, smtx, srw, syscl, csw: the kernel does not keep them per CPU; \
              they are counted while mpstat runs"]
        );
    }

    #[test]
    fn a_machine_that_keeps_time_slices_has_switches_since_boot() {
        let schedstat = "version 17\ncpu0 0 0 0 0 0 0 1 1 31\ncpu2 0 0 0 0 0 0 1 1 44\n";
        let (_dir, root) = captured(&[("stat", STAT), ("schedstat", schedstat)]);
        let sample = Tables::open(&root).unwrap().since_boot(&Placement::default()).unwrap();
        assert_eq!(sample.cpus[1].events[Column::Csw.index()], Some(44));
        assert_eq!(sample.cpus[1].events[Column::Intr.index()], None);
        assert_eq!(sample.missing[0], "intr: this machine has no /proc/interrupts");
        assert_eq!(sample.missing[1], "ithr: this machine has no /proc/softirqs");
    }

    #[test]
    fn a_machine_without_processors_is_refused() {
        let (_dir, root) = captured(&[("stat", "intr 1 2 3\n")]);
        assert!(Tables::open(&root).unwrap().since_boot(&Placement::default()).is_err());
        let (_dir, root) = captured(&[]);
        assert!(Tables::open(&root).is_err());
    }
}
