//! Views: which screen is shown, its rows and their order.

use millpond_observe::catalogue::{
    Entity, FieldId, cpu, decision, fence, interrupt, latency, noise, process, pset, thread,
};
use millpond_observe::{Frame, Row, RowKey, Value};
use std::cmp::Ordering;

/// A view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum View {
    /// Sets and pools, the last decisions of poold, the busiest threads.
    #[default]
    Overview,
    /// CPUs.
    Cpus,
    /// Threads by microstate.
    Threads,
    /// Processes.
    Processes,
    /// Interrupts of devices.
    Interrupts,
    /// Decisions of poold.
    Decisions,
    /// Fences.
    Fences,
    /// Wake-up latency of threads.
    Latency,
    /// OS noise on CPUs of sets.
    Noise,
    /// One set: its CPUs and threads.
    Set(u32),
    /// One thread: all its fields.
    Thread(RowKey),
}

/// The views with a digit key, in order from 1.
pub const NUMBERED: [View; 9] = [
    View::Overview,
    View::Cpus,
    View::Threads,
    View::Processes,
    View::Interrupts,
    View::Decisions,
    View::Fences,
    View::Latency,
    View::Noise,
];

const CPUS: &[FieldId] = &[
    cpu::ID,
    cpu::SET,
    cpu::STATE,
    cpu::USER,
    cpu::SYSTEM,
    cpu::WAIT,
    cpu::IDLE,
    cpu::STEAL,
    cpu::INTR,
    cpu::CSW,
    cpu::ICSW,
    cpu::MIGR,
    cpu::XCAL,
    cpu::SYSCL,
    cpu::MINF,
    cpu::SMTX,
    cpu::CORE,
    cpu::NODE,
];

const THREADS: &[FieldId] = &[
    thread::PID,
    thread::LWP,
    thread::STATE,
    thread::CLASS,
    thread::PRIORITY,
    thread::SET,
    thread::USER,
    thread::SYSTEM,
    thread::DATA_FAULT,
    thread::LOCK,
    thread::SLEEP,
    thread::LATENCY,
    thread::VOLUNTARY,
    thread::INVOLUNTARY,
    thread::NAME,
];

const PROCESSES: &[FieldId] = &[
    process::PID,
    process::USER,
    process::SIZE,
    process::RSS,
    process::STATE,
    process::CLASS,
    process::PRIORITY,
    process::NICE,
    process::SET,
    process::THREADS,
    process::TIME,
    process::NAME,
    process::ZONE,
];

const INTERRUPTS: &[FieldId] = &[
    interrupt::ID,
    interrupt::KIND,
    interrupt::COUNT,
    interrupt::ALLOWED,
    interrupt::EFFECTIVE,
    interrupt::NAME,
    interrupt::FIXED,
];

const DECISIONS: &[FieldId] = &[decision::AT, decision::DONE, decision::MOVES, decision::REASON];

const FENCES: &[FieldId] =
    &[fence::NAME, fence::SET, fence::CPUS, fence::PROFILE, fence::PROOF, fence::LEAKS];

const LATENCY: &[FieldId] = &[latency::SET, latency::STAGE, latency::WAITS];

const NOISE: &[FieldId] =
    &[noise::CPU, noise::SET, noise::KIND, noise::COUNT, noise::TIME, noise::LONGEST, noise::CAUSE];

/// The fields of sets in a printed list.
pub const SETS: &[FieldId] = &[
    pset::ID,
    pset::NAME,
    pset::SIZE,
    pset::MIN,
    pset::MAX,
    pset::BUSY,
    pset::RUNNABLE,
    pset::WAITED,
    pset::PRESSED,
    pset::MODE,
    pset::CPUS,
];

impl View {
    /// The entity and the fields of its rows.
    #[must_use]
    pub fn list(&self) -> (Entity, &'static [FieldId]) {
        match self {
            View::Overview | View::Threads | View::Set(_) | View::Thread(_) => (Entity::Thread, THREADS),
            View::Cpus => (Entity::Cpu, CPUS),
            View::Processes => (Entity::Process, PROCESSES),
            View::Interrupts => (Entity::Interrupt, INTERRUPTS),
            View::Decisions => (Entity::Decision, DECISIONS),
            View::Fences => (Entity::Fence, FENCES),
            View::Latency => (Entity::Latency, LATENCY),
            View::Noise => (Entity::Noise, NOISE),
        }
    }

    /// Its title.
    #[must_use]
    pub fn title(&self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Cpus => "CPUs",
            View::Threads => "threads",
            View::Processes => "processes",
            View::Interrupts => "interrupts",
            View::Decisions => "decisions",
            View::Fences => "fences",
            View::Latency => "latency",
            View::Noise => "noise",
            View::Set(_) => "set",
            View::Thread(_) => "thread",
        }
    }

    /// Its title for narrow terminals.
    #[must_use]
    pub fn short_title(&self) -> &'static str {
        match self {
            View::Interrupts => "IRQs",
            _ => self.title(),
        }
    }

    /// Its default order.
    #[must_use]
    pub fn order(&self) -> Order {
        match self.list().0 {
            Entity::Thread => Order { by: Some(thread::TIME), reversed: false },
            Entity::Process => Order { by: Some(process::TIME), reversed: false },
            Entity::Noise => Order { by: Some(noise::TIME), reversed: false },
            _ => Order::default(),
        }
    }
}

/// A filter of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter(String);

impl Filter {
    /// Selects rows with this text in a shown field, ignoring case. An empty text selects all rows.
    #[must_use]
    pub fn new(text: &str) -> Filter {
        Filter(text.to_lowercase())
    }

    fn shows(&self, row: &Row, shown: &[FieldId]) -> bool {
        self.0.is_empty() || shown.iter().any(|field| row.text(*field).to_lowercase().contains(&self.0))
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// An order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// By this field, numbers descending and texts ascending; `None` for the machine's order.
    pub by: Option<FieldId>,
    /// Whether the order is reversed.
    pub reversed: bool,
}

impl Order {
    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let Some(field) = self.by else {
            return if self.reversed { Ordering::Greater } else { Ordering::Equal };
        };
        let found = match (a.value(field), b.value(field)) {
            (Value::Number(a), Value::Number(b)) => b.total_cmp(a),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            // Unknown values come last in both directions.
            (Value::Unknown, Value::Unknown) => return Ordering::Equal,
            (Value::Unknown, _) => return Ordering::Greater,
            (_, Value::Unknown) => return Ordering::Less,
            (Value::Histogram(a), Value::Histogram(b)) => b.count().cmp(&a.count()),
            (Value::Number(_), _) | (Value::Text(_), Value::Histogram(_)) => Ordering::Less,
            (_, Value::Number(_)) | (Value::Histogram(_), Value::Text(_)) => Ordering::Greater,
        };
        if self.reversed { found.reverse() } else { found }
    }
}

/// The selected rows of a view in order; equal ones stay in the machine's order.
pub fn rows<'f>(frame: &'f Frame, view: &View, filter: &Filter, order: Order) -> Vec<&'f Row> {
    let (entity, shown) = view.list();
    let is_of_set = |row: &Row| match view {
        View::Set(set) => row.number(thread::SET) == Some(f64::from(*set)),
        _ => true,
    };
    let mut rows: Vec<&Row> =
        frame.rows(entity).iter().filter(|row| is_of_set(row) && filter.shows(row, shown)).collect();
    match order.by {
        Some(_) => rows.sort_by(|a, b| order.compare(a, b)),
        None if order.reversed => rows.reverse(),
        None => {}
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Nanos, WallTime};

    fn frame() -> Frame {
        let mut frame = Frame::at(Nanos(0), WallTime(0));
        let row = |(pid, name, set, time): (u32, &str, u32, Option<f64>)| {
            Row::of(Entity::Thread)
                .with(thread::PID, pid)
                .with(thread::NAME, name)
                .with(thread::SET, set)
                .with(thread::TIME, time)
        };
        let threads = [
            (1, "init", 0, None),
            (7, "java", 1, Some(0.5)),
            (8, "Java2", 1, Some(0.9)),
            (9, "sh", 0, Some(0.1)),
        ];
        frame.set_rows(Entity::Thread, threads.map(row).to_vec());
        frame
    }

    fn pids(view: &View, filter: &str, order: Order) -> Vec<f64> {
        let frame = frame();
        let rows = rows(&frame, view, &Filter::new(filter), order);
        rows.iter().map(|row| row.number(thread::PID).unwrap()).collect()
    }

    #[test]
    fn large_numbers_come_first_and_what_is_unknown_last() {
        let order = View::Threads.order();
        assert_eq!(pids(&View::Threads, "", order), [8.0, 7.0, 9.0, 1.0]);
        assert_eq!(pids(&View::Threads, "", Order { reversed: true, ..order }), [9.0, 7.0, 8.0, 1.0]);
        let by_name = Order { by: Some(thread::NAME), reversed: false };
        assert_eq!(pids(&View::Threads, "", by_name), [8.0, 1.0, 7.0, 9.0]);
        assert_eq!(pids(&View::Threads, "", Order { by: None, reversed: true }), [9.0, 8.0, 7.0, 1.0]);
    }

    #[test]
    fn a_filter_looks_in_every_field_that_is_shown() {
        assert_eq!(pids(&View::Threads, "JAVA", Order::default()), [7.0, 8.0]);
        assert_eq!(pids(&View::Threads, "9", Order::default()), [9.0]);
        assert_eq!(pids(&View::Threads, "nothing", Order::default()), [] as [f64; 0]);
    }

    #[test]
    fn a_set_shows_its_threads() {
        assert_eq!(pids(&View::Set(1), "", Order::default()), [7.0, 8.0]);
    }

    #[test]
    fn each_view_lists_fields_of_its_entity_with_a_key() {
        for view in NUMBERED {
            let (entity, shown) = view.list();
            assert!(shown.iter().all(|field| field.entity == entity), "{view:?}");
            assert_eq!(shown[0].index, 0, "{view:?}");
        }
    }
}
