//! The plan of a fence: its steps, and the remaining noise.

use super::profile::Found;
use crate::ctx::Ctx;
use millpond_machine::facets::{Fenced, Remainder};
use millpond_machine::{Change, Knob, Machine, Step};
use millpond_model::{CpuSet, ShelterItem, printable};
use schemars::JsonSchema;
use serde::Serialize;

/// A plan, in JSON.
#[derive(Serialize, JsonSchema)]
pub(super) struct Plan {
    cpus: Vec<u32>,
    profile: String,
    parts: Vec<Part>,
    /// Settings of the command in the fence, each with the profile and the line.
    command: Vec<Setting>,
    /// Requested items that this machine does not support.
    absent: Vec<String>,
    remains: Vec<Remains>,
    /// Kernel parameters that would remove the remaining noise.
    boot: Vec<String>,
}

/// Steps for one line of the profile.
#[derive(Serialize, JsonSchema)]
struct Part {
    item: ShelterItem,
    /// The profile and the line; without a line if the profile does not have the item.
    source: String,
    steps: Vec<Step>,
}

/// A setting of the command.
#[derive(Serialize, JsonSchema)]
struct Setting {
    item: String,
    source: String,
}

/// Remaining noise on the CPUs.
#[derive(Serialize, JsonSchema)]
struct Remains {
    what: String,
    parameter: Option<String>,
}

impl Plan {
    pub(super) fn of(cpus: &CpuSet, found: &Found, change: Change<Fenced>, remains: Vec<Remainder>) -> Plan {
        let mut steps = change.steps.into_iter();
        let part = |(item, count): (ShelterItem, usize)| Part {
            item,
            source: found.asked_by(item),
            steps: steps.by_ref().take(count).collect(),
        };
        let withheld = found.withheld.iter().map(|setting| {
            format!("{}: a setting of the whole machine, which --global changes", setting.key())
        });
        let mut boot: Vec<String> = Vec::new();
        for parameter in remains.iter().filter_map(|r| r.parameter.clone()) {
            if !boot.contains(&parameter) {
                boot.push(parameter);
            }
        }
        Plan {
            cpus: cpus.iter().map(|cpu| cpu.0).collect(),
            profile: found.name.clone(),
            parts: merged(change.outcome.parts).into_iter().map(part).collect(),
            command: found
                .command()
                .map(|(setting, source)| Setting { item: setting.key().to_owned(), source })
                .collect(),
            absent: change.outcome.absent.into_iter().chain(withheld).collect(),
            remains: remains.into_iter().map(|r| Remains { what: r.what, parameter: r.parameter }).collect(),
            boot,
        }
    }

    pub(super) fn tell(&self, machine: &dyn Machine, ctx: &mut Ctx<'_>) {
        for part in &self.parts {
            ctx.out.line(format_args!("{} ({})", part.item.key(), part.source));
            for step in part.steps.iter().filter(|step| !step.is_note() && !step.falls) {
                ctx.out.line(format_args!("  {}", line(machine, step)));
            }
        }
        for setting in &self.command {
            ctx.out.line(format_args!("{} ({})", setting.item, setting.source));
            ctx.out.line("  of the command and what it starts: off");
        }
        if !self.absent.is_empty() {
            ctx.out.line("left out");
            self.absent.iter().for_each(|line| ctx.out.line(format_args!("  {line}")));
        }
        ctx.out.line(if self.remains.is_empty() { "nothing remains that is known" } else { "remains" });
        self.remains.iter().for_each(|r| ctx.out.line(format_args!("  {}", r.what)));
        if !self.boot.is_empty() {
            ctx.out.line("the kernel's command line would end most of it");
            ctx.out.line(format_args!("  {}", self.boot.join(" ")));
        }
    }
}

/// A step, with a readable name of its knob.
fn line(machine: &dyn Machine, step: &Step) -> String {
    let called = Step { knob: Knob(machine.called(&step.knob)), ..step.clone() };
    printable(&called.to_string()).into_owned()
}

/// Merges adjacent parts of the same item.
fn merged(parts: Vec<(ShelterItem, usize)>) -> Vec<(ShelterItem, usize)> {
    let mut merged: Vec<(ShelterItem, usize)> = Vec::new();
    for (item, count) in parts {
        match merged.last_mut() {
            Some((last, so_far)) if *last == item => *so_far += count,
            _ => merged.push((item, count)),
        }
    }
    merged
}
