//! Common code of pool commands: reads the machine's configuration and files, and words their errors.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure, facet, read};
use millpond_formats::pools::properties::{Element, is_listed};
use millpond_formats::pools::record::Record;
use millpond_formats::pools::xml;
use millpond_machine::{Knob, Machine, Step};
use millpond_model::pools::{CpuNode, PoolNode, PoolsConf, PoolsState, PropValue, PsetNode};
use millpond_model::{CpuId, Pid, PoolId};
use millpond_pools::script::Said;
use millpond_pools::{dynamic, errno, validate};
use millpond_session::{FileError, Kind, Session};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The text before the reason why the machine has no configuration.
const NO_STATE: &str = "couldn't open pools state file";

/// The text of Solaris, followed by the reason and a remedy.
pub fn said(what: &str, why: impl Into<Said>) -> Failure {
    let Said { text, hint } = why.into();
    Failure::Said(format!("{what}: {text}"), hint)
}

/// The configuration of the machine.
///
/// # Errors
/// [`Failure::Said`] while pools are disabled.
pub fn state(machine: &dyn Machine) -> Result<PoolsState, Failure> {
    dynamic::read(machine).map_err(|error| said(NO_STATE, error))
}

/// Refuses a captured or recorded machine with disabled pools, because they cannot be enabled there.
///
/// # Errors
/// [`Failure::Said`] for such a machine, and if it cannot be read.
pub fn enabled_in_copy(session: &Session) -> Result<(), Failure> {
    let is_copy = matches!(session.kind(), Kind::Recorded | Kind::Captured);
    if is_copy && state_if_any(session.machine())?.is_none() {
        let hint = Some("pools were disabled when it was made".to_owned());
        return Err(said(NO_STATE, Said { text: errno::NOT_ACTIVE.to_owned(), hint }));
    }
    Ok(())
}

/// The configuration of the machine with the load of each set.
///
/// # Errors
/// [`Failure::Said`] while pools are disabled.
pub fn state_to_show(machine: &dyn Machine) -> Result<PoolsState, Failure> {
    dynamic::read_loaded(machine).map_err(|error| said(NO_STATE, error))
}

/// The configuration of the machine. `None` while pools are disabled.
///
/// # Errors
/// [`Failure::Said`] if the machine has no pools, or cannot be read.
pub fn state_if_any(machine: &dyn Machine) -> Result<Option<PoolsState>, Failure> {
    dynamic::state(machine).map_err(|error| said(NO_STATE, error))
}

/// The processes of pools, which are given by name or number. `verb` names the action, for messages.
///
/// # Errors
/// [`Failure`] if there is no such pool, or the machine cannot be read.
pub fn pids_in(machine: &dyn Machine, named: &[String], verb: &str) -> Result<BTreeSet<Pid>, Failure> {
    let state = state(machine)?;
    let number = |word: &String| {
        let is_meant =
            |pool: &&PoolNode| pool.name == *word || pool.id.is_some_and(|id| id.to_string() == *word);
        state.conf.pools.iter().find(is_meant).and_then(|pool| pool.id).ok_or_else(|| {
            Complaint::new(format!("{verb} pool {word}"), "there is no such pool").hint("poolstat lists them")
        })
    };
    let wanted: BTreeSet<PoolId> = named.iter().map(number).collect::<Result<_, _>>()?;
    let elsewhere = read("pools", facet("pools", machine.pools())?.members())?;
    let processes = read("processes", facet("threads", machine.threads())?.processes())?;
    let pool = |pid: &Pid| elsewhere.get(pid).copied().unwrap_or(PoolId::DEFAULT);
    Ok(processes.into_iter().map(|p| p.pid).filter(|pid| wanted.contains(&pool(pid))).collect())
}

/// The reason and remedy for a missing file.
pub fn no_file(name: &str) -> Said {
    let hint = format!("poolcfg -c discover {name} writes what the machine has");
    Said { text: "No such file or directory".into(), hint: Some(hint) }
}

/// The reason and remedy for an unusable file.
pub fn bad_file(error: FileError) -> Said {
    match error {
        FileError::System(text) => Said { text, hint: None },
        FileError::Held(_) => {
            let hint = "wait for it, or end that process; nothing was changed".to_owned();
            Said { text: error.to_string(), hint: Some(hint) }
        }
        FileError::NoText(why) => Said { text: "Invalid configuration".into(), hint: Some(why) },
        FileError::Changed => {
            let hint = "another process wrote it meanwhile; look at it and try again".to_owned();
            Said { text: error.to_string(), hint: Some(hint) }
        }
    }
}

/// The configuration of a file.
///
/// # Errors
/// [`Said`] with the position of the error.
pub fn parsed(name: &str, text: &str) -> Result<PoolsConf, Said> {
    xml::read(text).map_err(|error| {
        let hint = format!("{name}:{}:{}: {error}; {}", error.line, error.column, error.hint());
        Said { text: "Invalid configuration".into(), hint: Some(hint) }
    })
}

/// Checks that a configuration is valid, and that a file can store it.
///
/// # Errors
/// [`Said`] about the first error.
pub fn check(conf: &PoolsConf) -> Result<(), Said> {
    validate::whole(conf)?;
    xml::check(conf).map_err(unwritable)
}

/// The file text of a configuration, after the same check.
///
/// # Errors
/// As for [`check`].
pub fn printed(conf: &PoolsConf) -> Result<String, Said> {
    validate::whole(conf)?;
    xml::write(conf).map_err(unwritable)
}

fn unwritable(error: xml::WriteError) -> Said {
    let hint = format!("{error}; {}", error.hint());
    Said { text: "Invalid configuration".into(), hint: Some(hint) }
}

/// Reports which process holds the lock of a file, while this command waits for it.
pub fn waiting<'w>(name: &'w str, ctx: &'w mut Ctx<'_>) -> impl FnMut(Option<String>) + 'w {
    move |holder| {
        let holder = holder.unwrap_or_else(|| "another process".to_owned());
        ctx.warn(format_args!("waiting for {name}, which {holder} holds"));
    }
}

/// A configuration in a few words.
fn told(conf: &PoolsConf) -> String {
    let count = |n: usize, noun: &str| if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") };
    let (pools, sets) = (count(conf.pools.len(), "pool"), count(conf.psets.len(), "pset"));
    format!("system {}, {pools}, {sets}", conf.system.name)
}

/// The longest JSON text of a step that is shown, in bytes.
const SHOWN_MAX: usize = 400;

/// A step for people. A record of a whole configuration is summarized; of another long record only the length is
/// shown.
pub fn short(step: &Step) -> Step {
    let value = |text: &Option<String>| {
        let text = text.as_ref()?;
        if let Ok(record) = serde_json::from_str::<Record>(text) {
            return Some(told(&PoolsState::from(record).conf));
        }
        let is_long = text.starts_with('{') && text.len() > SHOWN_MAX;
        Some(if is_long { format!("a record of {} bytes", text.len()) } else { text.clone() })
    };
    Step { before: value(&step.before), after: value(&step.after), ..step.clone() }
}

/// The replacement of a file as a step, for a dry run.
pub fn file_step(name: &str, before: Option<&str>, after: Option<&PoolsConf>) -> Step {
    let before = before.map(|text| match xml::read(text) {
        Ok(conf) => told(&conf),
        Err(_) => "no configuration".to_owned(),
    });
    Step::new(Knob(format!("file {name}")), before, after.map(told))
}

/// A configuration, or a part of it: the content of the listing.
#[derive(Default, Serialize, JsonSchema)]
pub struct Shown<'c> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SystemRow<'c>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pools: Option<Vec<PoolRow<'c>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    psets: Option<Vec<PsetRow<'c>>>,
    /// A CPU that `poolcfg` shows separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<Vec<CpuRow>>,
}

#[derive(Serialize, JsonSchema)]
struct SystemRow<'c> {
    name: &'c str,
    properties: Properties,
}

#[derive(Serialize, JsonSchema)]
struct PoolRow<'c> {
    name: &'c str,
    properties: Properties,
    /// The name of its set.
    pset: Option<&'c str>,
}

#[derive(Serialize, JsonSchema)]
struct PsetRow<'c> {
    name: &'c str,
    properties: Properties,
    cpus: Vec<CpuRow>,
}

#[derive(Serialize, JsonSchema)]
struct CpuRow {
    id: CpuId,
    properties: Properties,
}

type Properties = BTreeMap<String, Property>;

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Property {
    Uint(u64),
    Int(i64),
    Float(f64),
    Boolean(bool),
    String(String),
}

impl<'c> Shown<'c> {
    /// The whole configuration.
    pub fn all(conf: &'c PoolsConf) -> Self {
        let system = SystemRow { name: &conf.system.name, properties: properties(&conf.system) };
        let pools = conf.pools.iter().map(|pool| pool_row(conf, pool)).collect();
        let psets = conf.psets.iter().map(pset_row).collect();
        Shown { system: Some(system), pools: Some(pools), psets: Some(psets), cpus: None }
    }

    /// A pool with its set.
    pub fn pool(conf: &'c PoolsConf, pool: &'c PoolNode) -> Self {
        let psets = conf.pset_of(pool).into_iter().map(pset_row).collect();
        Shown { pools: Some(vec![pool_row(conf, pool)]), psets: Some(psets), ..Shown::default() }
    }

    /// A set with its CPUs.
    pub fn pset(set: &'c PsetNode) -> Self {
        Shown { psets: Some(vec![pset_row(set)]), ..Shown::default() }
    }

    /// A CPU.
    pub fn cpu(cpu: &CpuNode) -> Self {
        Shown { cpus: Some(vec![cpu_row(cpu)]), ..Shown::default() }
    }
}

fn pool_row<'c>(conf: &'c PoolsConf, pool: &'c PoolNode) -> PoolRow<'c> {
    let pset = conf.pset_of(pool).map(|set| set.name.as_str());
    PoolRow { name: &pool.name, properties: properties(pool), pset }
}

fn pset_row(set: &PsetNode) -> PsetRow<'_> {
    let cpus = set.cpus().iter().map(cpu_row).collect();
    PsetRow { name: &set.name, properties: properties(set), cpus }
}

fn cpu_row(cpu: &CpuNode) -> CpuRow {
    CpuRow { id: cpu.id, properties: properties(cpu) }
}

/// The properties that the listing shows.
fn properties(element: &impl Element) -> Properties {
    let kind = element.kind();
    let value = |value: &PropValue| match value {
        PropValue::Uint(value) => Property::Uint(*value),
        PropValue::Int(value) => Property::Int(*value),
        PropValue::Float(value) => Property::Float(*value),
        PropValue::Boolean(value) => Property::Boolean(*value),
        PropValue::String(text) => Property::String(text.clone()),
    };
    let properties = element.properties();
    let shown = properties.iter().filter(|(name, _)| is_listed(kind, name));
    shown.map(|(name, v)| (name.to_owned(), value(v))).collect()
}

/// A change by `pooladm` or `poolcfg`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Done<'n> {
    /// `enabled` or `disabled`.
    Pools(&'n str),
    /// `all` for every pool and set except the default ones, or a file.
    Removed(&'n str),
    /// The file whose configuration was applied, or `the machine` that was edited.
    Committed(&'n str),
    /// The written file.
    Saved(&'n str),
}
