//! Profiles of fences: the settings of a fence as a TOML file.
//!
//! ```toml
//! summary = "nothing runs there but what is bound to it"
//! others = "isolated"        # isolated, out or in
//! interrupts = true
//! kernel-threads = true
//! watchdog = true
//! idle-latency-us = 0
//! governor = "performance"
//! memory = "local"           # local or all
//! whole-cores = true
//! smt = "off"                # off: the other strands of each core go off-line
//! flush = true               # off-line and on-line once
//! fair-server = false        # no time reserved for ordinary threads
//!
//! [global]                   # of the whole machine, only with --global
//! numa-balancing = false
//! stat-interval-s = 120
//! timer-migration = false
//! turbo = false
//! ```
//!
//! Every key except `summary` is optional; a setting without a key stays unchanged.

use millpond_model::{MachineSetting, Nanos, Others, SetMemory, Shelter, ShelterItem};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use toml::Spanned;

/// The built-in profiles, the default first: name and text.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("low-latency", include_str!("../../../docs/profiles/low-latency.toml")),
    ("hpc", include_str!("../../../docs/profiles/hpc.toml")),
    ("vm-host", include_str!("../../../docs/profiles/vm-host.toml")),
    ("gentle", include_str!("../../../docs/profiles/gentle.toml")),
];

/// The longest idle latency, in microseconds.
const LATENCY_MAX_US: u64 = 1_000_000;

/// The longest interval between two merges of statistics, in seconds.
const STAT_INTERVAL_MAX_S: u32 = 86_400;

/// The largest number of cache ways: the masks of the kernel have 32 bits.
const WAYS_MAX: u32 = 31;

/// A setting of the command that runs in the fence; its child processes inherit it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandSetting {
    /// No transparent huge pages for its memory.
    NoHugePages,
    /// No NUMA balancing of its pages.
    NoNumaBalancing,
}

impl CommandSetting {
    /// Its key in a profile.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            CommandSetting::NoHugePages => "huge-pages",
            CommandSetting::NoNumaBalancing => "numa-balancing",
        }
    }
}

/// The contents of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// A one-line summary.
    pub summary: String,
    /// The settings of the fence.
    pub shelter: Shelter,
    /// Whether the fence includes all strands of its cores.
    pub whole_cores: bool,
    /// Settings of the command, with their lines.
    pub command: Vec<(CommandSetting, usize)>,
    /// The line of each setting.
    pub lines: BTreeMap<ShelterItem, usize>,
}

/// An error in a profile, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ProfileError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// The error.
    pub what: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    summary: String,
    others: Option<Spanned<Others>>,
    interrupts: Option<Spanned<bool>>,
    kernel_threads: Option<Spanned<bool>>,
    watchdog: Option<Spanned<bool>>,
    idle_latency_us: Option<Spanned<u64>>,
    governor: Option<Spanned<String>>,
    memory: Option<Spanned<Memory>>,
    #[serde(default)]
    whole_cores: bool,
    smt: Option<Spanned<Smt>>,
    flush: Option<Spanned<bool>>,
    fair_server: Option<Spanned<bool>>,
    l3_ways: Option<Spanned<u32>>,
    others_memory_bandwidth: Option<Spanned<u32>>,
    #[serde(default)]
    command: CommandTable,
    #[serde(default)]
    global: Global,
}

/// Settings that apply to the command only.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CommandTable {
    huge_pages: Option<Spanned<bool>>,
    numa_balancing: Option<Spanned<bool>>,
}

/// Settings of the whole machine.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Global {
    numa_balancing: Option<Spanned<bool>>,
    stat_interval_s: Option<Spanned<u32>>,
    timer_migration: Option<Spanned<bool>>,
    turbo: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Smt {
    Off,
    On,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Memory {
    Local,
    All,
}

/// Line and column of a byte offset.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

fn error(text: &str, at: usize, what: impl Into<String>) -> ProfileError {
    let (line, column) = place(text, at);
    ProfileError { line, column, what: what.into() }
}

/// Parses a profile.
///
/// # Errors
/// [`ProfileError`] with the position of the first error.
pub fn parse(text: &str) -> Result<Profile, ProfileError> {
    let file: File = toml::from_str(text)
        .map_err(|e| error(text, e.span().map_or(0, |span| span.start), e.message().replace('\n', ", ")))?;
    let mut lines = BTreeMap::new();
    let mut seen = |item, at: usize| lines.insert(item, place(text, at).0);
    let mut flag = |item, value: Option<Spanned<bool>>| {
        value.is_some_and(|value| {
            seen(item, value.span().start);
            value.into_inner()
        })
    };
    let interrupts = flag(ShelterItem::Interrupts, file.interrupts);
    let kernel_threads = flag(ShelterItem::KernelThreads, file.kernel_threads);
    let watchdog = flag(ShelterItem::Watchdog, file.watchdog);
    let flush = flag(ShelterItem::Flush, file.flush);
    let others = file.others.map(|others| {
        seen(ShelterItem::Others, others.span().start);
        others.into_inner()
    });
    let idle_latency = match file.idle_latency_us {
        Some(us) if *us.get_ref() > LATENCY_MAX_US => {
            let what = format!("idle-latency-us is from 0 to {LATENCY_MAX_US}");
            return Err(error(text, us.span().start, what));
        }
        Some(us) => {
            seen(ShelterItem::IdleLatency, us.span().start);
            Some(Nanos(us.into_inner() * 1_000))
        }
        None => None,
    };
    let governor = match file.governor {
        Some(name) if !is_word(name.get_ref()) => {
            return Err(error(text, name.span().start, "a governor is a word"));
        }
        Some(name) => {
            seen(ShelterItem::Governor, name.span().start);
            Some(name.into_inner())
        }
        None => None,
    };
    let memory = file.memory.map_or(SetMemory::All, |memory| {
        seen(ShelterItem::Memory, memory.span().start);
        match memory.into_inner() {
            Memory::Local => SetMemory::Local,
            Memory::All => SetMemory::All,
        }
    });
    let siblings_off = file.smt.is_some_and(|smt| {
        seen(ShelterItem::Smt, smt.span().start);
        smt.into_inner() == Smt::Off
    });
    let no_fair_server = file.fair_server.is_some_and(|server| {
        seen(ShelterItem::FairServer, server.span().start);
        !server.into_inner()
    });
    let mut ranged = |item: ShelterItem, value: Option<Spanned<u32>>, range: RangeInclusive<u32>| match value
    {
        Some(number) if !range.contains(number.get_ref()) => {
            let what = format!("{} is from {} to {}", item.key(), range.start(), range.end());
            Err(error(text, number.span().start, what))
        }
        Some(number) => {
            seen(item, number.span().start);
            Ok(Some(number.into_inner()))
        }
        None => Ok(None),
    };
    let l3_ways = ranged(ShelterItem::CacheWays, file.l3_ways, 1..=WAYS_MAX)?;
    let others_bandwidth = ranged(ShelterItem::OthersBandwidth, file.others_memory_bandwidth, 1..=100)?;
    let interval = ShelterItem::Global(MachineSetting::StatInterval);
    let stat_interval_s = ranged(interval, file.global.stat_interval_s, 1..=STAT_INTERVAL_MAX_S)?;
    let mut global = BTreeMap::new();
    let flags = [
        (MachineSetting::NumaBalancing, file.global.numa_balancing),
        (MachineSetting::TimerMigration, file.global.timer_migration),
        (MachineSetting::Turbo, file.global.turbo),
    ];
    for (setting, value) in flags.into_iter().filter_map(|(setting, value)| Some((setting, value?))) {
        seen(ShelterItem::Global(setting), value.span().start);
        global.insert(setting, u32::from(value.into_inner()));
    }
    global.extend(stat_interval_s.map(|seconds| (MachineSetting::StatInterval, seconds)));
    let others = others.unwrap_or_default();
    let shelter = Shelter {
        others,
        interrupts,
        kernel_threads,
        watchdog,
        idle_latency,
        governor,
        memory,
        siblings_off,
        flush,
        no_fair_server,
        l3_ways,
        others_bandwidth,
        global,
    };
    let command = [
        (CommandSetting::NoHugePages, file.command.huge_pages),
        (CommandSetting::NoNumaBalancing, file.command.numa_balancing),
    ];
    let off = |(setting, value): (CommandSetting, Option<Spanned<bool>>)| {
        let value = value.filter(|value| !value.get_ref())?;
        Some((setting, place(text, value.span().start).0))
    };
    let command = command.into_iter().filter_map(off).collect();
    Ok(Profile { summary: file.summary, shelter, whole_cores: file.whole_cores, command, lines })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_place_and_its_line() {
        let text = "summary = \"quiet\"\nothers = \"isolated\"\n\ninterrupts = true\nidle-latency-us = 20\ngovernor = \"performance\"\nmemory = \"local\"\nwhole-cores = true\n";
        let profile = parse(text).unwrap();
        assert_eq!(profile.summary, "quiet");
        assert_eq!(profile.shelter.others, Others::Isolated);
        assert!(profile.shelter.interrupts && !profile.shelter.kernel_threads && profile.whole_cores);
        assert_eq!(profile.shelter.idle_latency, Some(Nanos(20_000)));
        assert_eq!(profile.shelter.governor.as_deref(), Some("performance"));
        assert_eq!(profile.shelter.memory, SetMemory::Local);
        let lines: Vec<_> = profile.lines.iter().map(|(item, line)| (item.key(), *line)).collect();
        let wanted =
            [("others", 2), ("interrupts", 4), ("idle-latency-us", 5), ("governor", 6), ("memory", 7)];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn settings_of_the_whole_machine_stand_apart() {
        let text = "summary = \"x\"\nsmt = \"off\"\nflush = true\nfair-server = false\n[global]\nturbo = false\nstat-interval-s = 120\n";
        let profile = parse(text).unwrap();
        let shelter = &profile.shelter;
        assert!(shelter.siblings_off && shelter.flush && shelter.no_fair_server);
        let wanted = [(MachineSetting::StatInterval, 120), (MachineSetting::Turbo, 0)];
        assert_eq!(shelter.global, wanted.into());
        let lines: Vec<_> = profile.lines.iter().map(|(item, line)| (item.key(), *line)).collect();
        assert_eq!(
            lines,
            [("smt", 2), ("flush", 3), ("fair-server", 4), ("stat-interval-s", 7), ("turbo", 6)]
        );
        assert!(!parse("summary = \"\"\nsmt = \"on\"\nfair-server = true\n").unwrap().shelter.siblings_off);
    }

    #[test]
    fn settings_of_the_command_have_their_lines() {
        let text = "summary = \"x\"\nl3-ways = 4\nothers-memory-bandwidth = 50\n[command]\nnuma-balancing = false\nhuge-pages = false\n";
        let profile = parse(text).unwrap();
        assert_eq!((profile.shelter.l3_ways, profile.shelter.others_bandwidth), (Some(4), Some(50)));
        let lines: Vec<_> = profile.lines.iter().map(|(item, line)| (item.key(), *line)).collect();
        assert_eq!(lines, [("l3-ways", 2), ("others-memory-bandwidth", 3)]);
        assert_eq!(profile.command, [(CommandSetting::NoHugePages, 6), (CommandSetting::NoNumaBalancing, 5)]);
        let text = "summary = \"\"\n[command]\nhuge-pages = true\n";
        assert!(parse(text).unwrap().command.is_empty());
    }

    #[test]
    fn what_is_left_out_stays_as_it_is() {
        let profile = parse("summary = \"\"\n").unwrap();
        assert_eq!((profile.shelter, profile.whole_cores), (Shelter::default(), false));
        assert!(profile.lines.is_empty());
    }

    #[test]
    fn a_mistake_has_its_place() {
        for (text, line, column, part) in [
            ("summary = \"x\"\ninterupts = true\n", 2, 1, "unknown field `interupts`"),
            ("summary = \"x\"\nothers = \"away\"\n", 2, 10, "unknown variant `away`"),
            ("summary = \"x\"\ninterrupts = 1\n", 2, 14, "invalid type"),
            ("summary = \"x\"\nidle-latency-us = 2000000\n", 2, 19, "idle-latency-us is from 0 to 1000000"),
            ("summary = \"x\"\ngovernor = \"a/b\"\n", 2, 12, "a governor is a word"),
            ("summary = \"x\"\ninterrupts = true\ninterrupts = true\n", 3, 1, "duplicate key"),
            ("summary = \"x\"\nturbo = false\n", 2, 1, "unknown field `turbo`"),
            ("summary = \"x\"\n[global]\nstat-interval-s = 0\n", 3, 19, "stat-interval-s is from 1 to 86400"),
            ("summary = \"x\"\nl3-ways = 0\n", 2, 11, "l3-ways is from 1 to 31"),
            (
                "summary = \"x\"\nothers-memory-bandwidth = 101\n",
                2,
                27,
                "others-memory-bandwidth is from 1 to 100",
            ),
            ("summary = \"x\"\nsmt = \"of\"\n", 2, 7, "unknown variant `of`"),
            ("interrupts = true\n", 1, 1, "missing field `summary`"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
            assert!(error.what.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn fuzz_profiles() {
        let seeds = [
            "summary = \"x\"\nothers = \"in\"\nidle-latency-us = 3\ngovernor = \"a\"\nmemory = \"all\"\n[global]\nturbo = true\n",
        ];
        millpond_fuzz::check_text("formats-fence-profile", &seeds, |text| {
            if let Err(error) = parse(text) {
                assert!(error.line <= text.matches('\n').count() + 1, "{error}");
            }
        });
    }
}
