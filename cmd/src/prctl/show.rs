//! The listing: the holders that an id selects, with their controls.

use super::ids::{Directory, IdType};
use super::process_name;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use millpond_cli::Parsed;
use millpond_formats::prctl::{HEAD, Row, title};
use millpond_machine::facets::Controlled;
use millpond_machine::{Controls, Machine};
use millpond_model::{
    CONTROLS, Control, ControlHolder, ControlName, ControlSetting, CpuCap, HolderKind, Nanos, Shares,
    printable,
};
use millpond_session::Session;
use schemars::JsonSchema;
use serde::Serialize;

/// The selected holders.
#[derive(Serialize, JsonSchema)]
pub(super) struct Holders {
    holders: Vec<Holder>,
}

#[derive(Serialize, JsonSchema)]
struct Holder {
    kind: HolderKind,
    id: u64,
    /// For a process its number.
    name: String,
    /// Null: never set, which means 1.
    shares: Option<u32>,
    /// In percent of one CPU.
    cap_pct: Option<u32>,
    /// CPU time since its start; null if it is not counted.
    used_s: Option<f64>,
    throttled: Option<Throttled>,
    enforced: Enforced,
}

/// Effect of a cap since it was set.
#[derive(Serialize, JsonSchema)]
struct Throttled {
    /// Time in which the cap kept the holder from CPUs that it wanted; may exceed elapsed time.
    time_s: f64,
    /// Periods in which this happened.
    periods: u64,
    /// Periods in which it wanted a CPU.
    of: u64,
    period_s: f64,
}

/// The mechanism that enforces a control, such as `cpu.max of /web`; null without one.
#[derive(Serialize, JsonSchema)]
struct Enforced {
    shares: Option<String>,
    cap: Option<String>,
}

/// The largest cap of Solaris, which means no cap.
const CAP_MAX: u64 = 4_294_967_295;

/// A control of a holder.
pub(super) fn setting(controlled: &Controlled, control: Control) -> ControlSetting {
    match control {
        Control::CpuShares => ControlSetting::CpuShares(controlled.shares),
        Control::CpuCap => ControlSetting::CpuCap(controlled.cap),
    }
}

/// The lines of a control.
fn rows(controlled: &Controlled, control: Control, privilege: Option<&str>) -> Vec<Row> {
    let value = setting(controlled, control).value().map(u64::from);
    let rows = match control {
        Control::CpuShares => {
            let shares = value.unwrap_or(u64::from(Shares::DEFAULT.get()));
            let system =
                Row::System { value: u64::from(Shares::MAX.get()), unlimited: false, action: "none" };
            vec![Row::Usage(shares), Row::Privileged(shares, "none"), system]
        }
        Control::CpuCap => {
            let system = Row::System { value: CAP_MAX, unlimited: true, action: "deny" };
            value.map(|cap| Row::Privileged(cap, "deny")).into_iter().chain([system]).collect()
        }
    };
    rows.into_iter().filter(|row| privilege.is_none() || row.privilege() == privilege).collect()
}

pub(super) fn run(
    session: &Session,
    ids: &[String],
    idtype: IdType,
    name: Option<ControlName>,
    privilege: Option<&'static str>,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let machine = session.machine();
    let controls = facet("shares and caps", machine.controls())?;
    let directory = Directory::read(machine, controls)?;
    let (mut exit, mut found) = (Exit::DONE, Vec::new());
    for id in ids {
        match entry(machine, controls, &directory, (id, idtype), name) {
            Ok(holders) if parsed.common.json => {
                found.extend(holders.iter().map(|one| describe(one, controls, &directory)));
            }
            Ok(holders) => {
                let heading = heading(machine, &directory, (id, idtype), controls);
                print(&heading, &holders, name, privilege, parsed.has('P'), ctx);
            }
            Err(complaint) => {
                ctx.complain(&complaint);
                exit = Exit::REFUSED;
            }
        }
    }
    if parsed.common.json {
        ctx.json(&Holders { holders: found });
    }
    Ok(exit)
}

/// The holders of an id with their controls, or only the control `name`.
fn entry(
    machine: &dyn Machine,
    controls: &dyn Controls,
    directory: &Directory,
    (id, idtype): (&str, IdType),
    name: Option<ControlName>,
) -> Result<Vec<Controlled>, Complaint> {
    let _ = machine;
    let holders = match name {
        Some(name) => vec![directory.holder(id, idtype, name.kind, controls)?],
        None => directory.holders(id, idtype, controls)?,
    };
    let what = format!("show {idtype} {}", id.escape_debug());
    let one = |holder: &ControlHolder| {
        let refused = |r| Complaint::refused(&what, |_| Some(what.clone()), &r);
        controls.controlled(holder).map_err(refused)
    };
    holders.iter().map(one).collect()
}

/// The heading of a holder: `project: 10: group.staff`.
fn heading(
    machine: &dyn Machine,
    directory: &Directory,
    (id, idtype): (&str, IdType),
    controls: &dyn Controls,
) -> String {
    let holder = directory.holders(id, idtype, controls).ok().and_then(|found| found.into_iter().next());
    match (idtype, holder) {
        (IdType::Task, _) | (_, None) => format!("{idtype}: {}", id.escape_debug()),
        (_, Some(ControlHolder::Process(pid))) => {
            let name = process_name(machine, pid).unwrap_or_default();
            title("process", pid, &printable(&name))
        }
        (_, Some(holder)) => {
            let name = super::called(&holder);
            title(&holder.kind().to_string(), directory.number(&holder), &printable(&name))
        }
    }
}

fn print(
    heading: &str,
    holders: &[Controlled],
    name: Option<ControlName>,
    privilege: Option<&str>,
    parseable: bool,
    ctx: &mut Ctx<'_>,
) {
    ctx.out.line(heading);
    if !parseable {
        ctx.out.line(HEAD);
    }
    for holder in holders {
        let kind = holder.holder.kind();
        for control in CONTROLS.into_iter().rev() {
            let this = ControlName { kind, control };
            // Solaris has no controls of processes. So unset ones are shown only on request.
            let is_silent = kind == HolderKind::Process && setting(holder, control).value().is_none();
            if name.is_some_and(|name| name != this) || (name.is_none() && is_silent) {
                continue;
            }
            let rows = rows(holder, control, privilege);
            if parseable {
                rows.iter().for_each(|row| ctx.out.line(row.parseable(this)));
            } else if !rows.is_empty() {
                ctx.out.line(this);
                rows.iter().for_each(|row| ctx.out.line(row.line()));
            }
        }
    }
}

fn describe(one: &Controlled, controls: &dyn Controls, directory: &Directory) -> Holder {
    let by = |control| controls.enforced(&one.holder, control).ok().map(|enforced| enforced.by);
    Holder {
        kind: one.holder.kind(),
        id: directory.number(&one.holder),
        name: super::called(&one.holder),
        shares: one.shares.map(Shares::get),
        cap_pct: one.cap.map(CpuCap::get),
        used_s: one.used.map(Nanos::as_secs_f64),
        throttled: one.throttled.map(|it| Throttled {
            time_s: it.time.as_secs_f64(),
            periods: it.periods,
            of: it.of,
            period_s: it.period.as_secs_f64(),
        }),
        enforced: Enforced { shares: by(Control::CpuShares), cap: by(Control::CpuCap) },
    }
}
