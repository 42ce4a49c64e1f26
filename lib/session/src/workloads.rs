//! The workloads for simulated machines.

use millpond_model::WorkloadError;
use millpond_sim::workloads::{self, Opt, Unit, WORKLOADS};

/// A workload, by name.
#[derive(Debug, Clone, Copy)]
pub struct Workload(&'static workloads::Workload);

/// A workload with parsed options, ready to start.
#[derive(Debug, Clone)]
pub struct Load {
    /// Its process's name.
    pub name: String,
    /// Options without effect, in words.
    pub notes: Vec<String>,
    pub(crate) load: workloads::Load,
}

impl Load {
    /// Parses a workload's name and options.
    ///
    /// # Errors
    /// [`WorkloadError`] for an unknown name or invalid options.
    pub fn parse(words: &[String]) -> Result<Load, WorkloadError> {
        let mut load = workloads::Load::parse(words)?;
        Ok(Load { name: load.name.clone(), notes: std::mem::take(&mut load.notes), load })
    }
}

impl Workload {
    /// All workloads, by name.
    pub fn all() -> impl Iterator<Item = Workload> {
        WORKLOADS.iter().map(Workload)
    }

    /// The workload with this name, or the one that models the program with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Workload> {
        workloads::Workload::named(name).map(Workload)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its description, in one line.
    #[must_use]
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// Its synopsis: `spin [-t N] [--for MS]`.
    #[must_use]
    pub fn usage(self) -> String {
        self.0.usage()
    }

    /// Its synopsis, description, and a line for each option.
    #[must_use]
    pub fn help(self) -> String {
        self.0.help()
    }

    /// The flags of its options.
    pub fn flags(self) -> impl Iterator<Item = &'static str> {
        self.0.options.iter().map(|option| option.flag).filter(|flag| !flag.is_empty())
    }

    /// The default of a numeric option, in the option's unit.
    #[must_use]
    pub fn default_of(self, flag: &str) -> Option<f64> {
        let option = self.option(flag)?;
        let divisor = match option.unit {
            Unit::Count(..) => 1.0,
            Unit::Milli(..) => 1e3,
            Unit::Millis(..) => 1e6,
            Unit::Seconds => 1e9,
            Unit::Word(_) | Unit::Given | Unit::Any | Unit::Never(_) => return None,
        };
        #[expect(clippy::cast_precision_loss, reason = "defaults are far from the 53 bits that are exact")]
        Some(option.default as f64 / divisor)
    }

    /// A value in the option's notation.
    #[must_use]
    pub fn written(self, flag: &str, value: f64) -> String {
        match self.option(flag).map(|option| option.unit) {
            Some(Unit::Count(..)) => format!("{value:.0}"),
            Some(Unit::Millis(..)) => format!("{value:.6}"),
            _ => format!("{value:.3}"),
        }
    }

    fn option(self, flag: &str) -> Option<&'static Opt> {
        self.0.options.iter().find(|option| option.flag == flag)
    }
}
