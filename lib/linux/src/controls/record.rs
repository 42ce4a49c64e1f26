//! The record `controls` in the state directory: the cgroups with shares and caps of ours.
//!
//! The kernel stores weights and quotas, but not the holder, nor the shares of the siblings. A record from another boot is
//! ignored.

use crate::LinuxMachine;
use crate::knob::{LinuxKnob, TaskId};
use crate::zones::classify;
use millpond_machine::{Knobs, Refusal, Step};
use millpond_model::{ControlHolder, CpuCap, Shares};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the record.
pub(crate) const RECORD: &str = "controls";

/// The recorded controls of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub holder: ControlHolder,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<CpuCap>,
    /// The process that the cgroup was created for, with its start time, and its original cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<(String, String)>,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.shares.is_none() && self.cap.is_none()
    }

    /// The process of one of our cgroups.
    pub fn task(&self) -> Option<TaskId> {
        self.task.as_ref()?.0.parse().ok()
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    boot: String,
    groups: BTreeMap<String, Held>,
}

fn parse(text: &str, boot: &str) -> BTreeMap<String, Held> {
    let record: Record = serde_json::from_str(text).unwrap_or_default();
    let is_path = |path: &str| path.starts_with('/') && !path.split('/').any(|part| part == "..");
    let groups = record.groups.into_iter().filter(|(path, _)| is_path(path));
    if record.boot == boot { groups.collect() } else { BTreeMap::new() }
}

/// The record of another root, rewritten for boot `to`. `rename` maps the cgroup paths, and the holders that have them. `None`
/// when the record is empty.
pub(crate) fn renamed(
    text: &str,
    from: &str,
    to: &str,
    mut rename: impl FnMut(&str) -> String,
) -> Option<String> {
    let mut groups = BTreeMap::new();
    for (path, mut held) in parse(text, from) {
        let path = rename(&path);
        let name = classify(&path).map_or_else(|| path.clone(), |(_, name)| name);
        held.holder = match held.holder {
            ControlHolder::Zone(_) => ControlHolder::Zone(name),
            ControlHolder::Project(_) => ControlHolder::Project(name),
            process => process,
        };
        held.task = held.task.map(|(task, home)| (task, rename(&home)));
        groups.insert(path, held);
    }
    let record = Record { boot: to.to_owned(), groups };
    (!record.groups.is_empty()).then(|| serde_json::to_string(&record).unwrap_or_default())
}

impl LinuxMachine {
    /// The recorded controls, by cgroup path.
    pub(crate) fn recorded_controls(&self) -> BTreeMap<String, Held> {
        self.os.shared_record(RECORD).map(|text| parse(&text, &self.boot_id())).unwrap_or_default()
    }

    /// The step that writes the record; `None` if the record is unchanged.
    pub(crate) fn record_controls(&self, groups: BTreeMap<String, Held>) -> Result<Option<Step>, Refusal> {
        let knob = LinuxKnob::Record(RECORD.to_owned()).knob();
        let before = self.os.record(RECORD);
        self.os.check_records()?;
        let record = Record { boot: self.boot_id(), groups };
        let after = (!record.groups.is_empty()).then(|| serde_json::to_string(&record).unwrap_or_default());
        Ok((before != after).then(|| Step::new(knob, before, after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_records_of_controls() {
        let seed = r#"{"boot":"one","groups":{"/a":{"holder":{"zone":"a"},"shares":20,"cap":150}}}"#;
        assert_eq!(parse(seed, "one").len(), 1);
        assert!(parse(seed, "two").is_empty(), "a record of another boot is void");
        assert!(parse(&seed.replace("/a", "/../a"), "one").is_empty());
        millpond_fuzz::check_text("linux-controls", &[seed], |text| {
            let groups = parse(text, "one");
            assert!(groups.keys().all(|path| path.starts_with('/')));
        });
    }
}
