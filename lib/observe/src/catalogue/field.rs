//! What the catalogue says of a field.

millpond_model::words! {
    /// A kind of thing that has rows in a frame.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Entity {
        /// The machine as a whole: one row.
        Machine = "machine",
        /// Pools.
        Pool = "pool",
        /// Processor sets, the default one among them.
        Pset = "set",
        /// CPUs that run threads.
        Cpu = "cpu",
        /// Processes.
        Process = "process",
        /// Threads.
        Thread = "thread",
        /// How late threads ran.
        Latency = "latency",
        /// OS noise on CPUs of sets.
        Noise = "noise",
        /// Interrupts of devices.
        Interrupt = "interrupt",
        /// Fences.
        Fence = "fence",
        /// Decisions of poold.
        Decision = "decision",
    }
    else String, |text| text
}

impl Entity {
    /// Where it stands in [`Entity::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// One of its rows in words, without an article.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Entity::Machine => "machine",
            Entity::Pool => "pool",
            Entity::Pset => "processor set, the default one among them",
            Entity::Cpu => "CPU that runs threads",
            Entity::Process => "process",
            Entity::Thread => "thread",
            Entity::Latency => "set and kind of wait",
            Entity::Noise => "CPU of a set other than the default one, and cause of OS noise there",
            Entity::Interrupt => "interrupt of a device",
            Entity::Fence => "fence",
            Entity::Decision => "of the latest decisions of poold",
        }
    }
}

millpond_model::words! {
    /// What a field's numbers are in.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Unit {
        /// No number, or one that identifies.
        None = "-",
        /// How many.
        Count = "count",
        /// Seconds. The rate of such a counter is a part of one CPU or thread.
        Seconds = "seconds",
        /// Bytes.
        Bytes = "bytes",
    }
}

millpond_model::words! {
    /// How a field behaves.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FieldKind {
        /// Tells rows apart.
        Key = "key",
        /// Identifies or describes.
        Label = "label",
        /// Only grows.
        Counter = "counter",
        /// A value at the moment.
        Gauge = "gauge",
        /// How many events were how long. It only grows.
        Histogram = "histogram",
    }
}

millpond_model::words! {
    /// How sure a figure is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Exactness {
        /// Counted or measured at each event.
        Exact = "exact",
        /// By clock ticks.
        Ticks = "ticks",
        /// Computed from something else.
        Estimate = "estimate",
    }
}

millpond_model::words! {
    /// What having it costs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Cost {
        /// It is read with something else.
        Free = "free",
        /// Files are read at each frame.
        Read = "read",
        /// It is read every few seconds only.
        Slow = "slow",
        /// Programs in the kernel count at each event.
        Programs = "programs",
    }
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in JSON, recordings and metrics.
    pub name: &'static str,
    /// Its heading in tables.
    pub heading: &'static str,
    /// How it behaves.
    pub kind: FieldKind,
    /// What its numbers are in.
    pub unit: Unit,
    /// How sure it is on Linux. On a simulated machine everything is exact.
    pub exactness: Exactness,
    /// What it costs on Linux. On a simulated machine looking costs nothing.
    pub cost: Cost,
    /// What it is, without a capital and a full stop.
    pub help: &'static str,
    /// Where it comes from on Linux.
    pub source: &'static str,
}

/// A field by its entity and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId {
    /// The entity that has it.
    pub entity: Entity,
    /// Its place among the fields of the entity.
    pub index: usize,
}

impl FieldId {
    /// What the catalogue says of it.
    #[must_use]
    pub fn field(self) -> &'static Field {
        &super::fields(self.entity)[self.index]
    }

    /// The field of that name, if the entity has it.
    #[must_use]
    pub fn named(entity: Entity, name: &str) -> Option<FieldId> {
        let index = super::fields(entity).iter().position(|field| field.name == name)?;
        Some(FieldId { entity, index })
    }

    /// The field of that heading, in capitals or not, or of that name.
    #[must_use]
    pub fn headed(entity: Entity, word: &str) -> Option<FieldId> {
        let own = super::fields(entity);
        let index = own.iter().position(|f| f.heading.eq_ignore_ascii_case(word) || f.name == word)?;
        Some(FieldId { entity, index })
    }
}
