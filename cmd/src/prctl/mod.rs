//! Shows and sets CPU shares and CPU caps of processes, projects and zones.
//!
//! ```text
//! $ prctl -n project.cpu-shares -v 10 -r -i project group.staff
//! $ prctl -n project.cpu-shares -i project group.staff
//! project: 10: group.staff
//! NAME    PRIVILEGE       VALUE    FLAG   ACTION                       RECIPIENT
//! project.cpu-shares
//!         usage              10
//!         privileged         10       -   none                                 -
//!         system          65.5K     max   none                                 -
//! $ prctl -t privileged -n zone.cpu-cap -v 80 -i zone web
//! $ prctl -x -n zone.cpu-cap -i zone web
//! ```
//!
//! Shares divide CPU time in proportion when there is not enough for all; a holder with 0 shares gets only idle time. A
//! cap is a limit in percent of one CPU: 150 is one CPU and a half.
//!
//! # Controls
//!
//! ```text
//! project.cpu-shares, zone.cpu-shares   0 to 65535; 1 if not set
//! project.cpu-cap, zone.cpu-cap         percent of one CPU, from 1
//! process.cpu-shares, process.cpu-cap   the same for a process and its children; not on Solaris
//! ```
//!
//! Other resource controls of Solaris are refused.
//!
//! # Operands
//!
//! Projects and zones are named by name or number, tasks and processes by number. A process or task also stands for its
//! project and zone: `-n project.cpu-shares -i process 204` is about the project of process 204. Without `-n`
//! everything that applies to it is shown.
//!
//! `usage` is shown for shares only. `prstat --caps 5` measures how much of a cap is used.
//!
//! # Linux
//!
//! A zone is a systemd unit, a container or another cgroup (`millpond zones`). A project is a slice: `system.slice`, or
//! `user.kim` for the sessions of user kim.
//!
//! A process with a control, and each child that it starts then, is in a cgroup of its own. Limits of its former cgroup
//! do not apply there. With cgroup v2, a process in a processor set is refused.
//!
//! 1 share is a weight of 100 (`cpu.weight`; 1024 in `cpu.shares`), the default of a cgroup. Only cgroups with the same
//! parent compete. Above 100 shares (256 with cgroup v1) all siblings with shares get smaller weights, in the same
//! ratios.
//!
//! A cap is a quota per 100 ms (`cpu.max`). Values of systemd units last until the next boot. Cgroups of Kubernetes and
//! of user managers of systemd are refused.
//!
//! On a simulated machine shares act in class FSS, as on Solaris.
//!
//! # JSON
//!
//! The schema is docs/reference/json/prctl.json.

mod ids;
mod show;

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use crate::json::{self, Describe};
use ids::{Directory, IdType};
use millpond_cli::{Example, Flag, Group, Parsed, Spec, ValueKind};
use millpond_formats::prctl::parse_value;
use millpond_machine::{Controls, Machine};
use millpond_model::{Control, ControlHolder, ControlName, ControlSetting};
use schemars::JsonSchema;
use serde::Serialize;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<show::Holders>(), json::of::<Changes<'_, Done>>(), json::of::<DryRun<'_>>()];

/// A control that was set or deleted. Null: no value.
#[derive(Serialize, JsonSchema)]
struct Done {
    /// The name of a project or zone, or the number of a process.
    holder: String,
    control: String,
    from: Option<u32>,
    to: Option<u32>,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "prctl",
        applet: true,
        summary: "show and set CPU shares and CPU caps of processes, projects and zones",
        section: 8,
        group: Group::Divide,
        forms: &["[-P] [-t [basic | privileged | system]] [-n name [-srx] [-v value] [-e | -d \
                 action] [-p pid]] [-i idtype] id ..."],
        flags: &[
            Flag::letter(
                'P',
                "print lines for scripts: name, type, value, flag, action, recipient, with whole numbers",
            ),
            Flag::letter(
                't',
                "the type of value: privileged (the default) or system; when showing, only that line. There are no basic values",
            )
            .value("type", ValueKind::Text),
            Flag::letter('n', "the control; without it all are shown").value("name", ValueKind::Text),
            Flag::letter(
                's',
                "set the value of -v, as -v alone does; a control has one value, which is replaced",
            ),
            Flag::letter('r', "replace the value by that of -v"),
            Flag::letter(
                'x',
                "delete the value, with -v only if it is this one; the value before the first prctl is restored",
            ),
            Flag::letter('v', "the value: a number; K, M, G, T, P, E are powers of 1000")
                .value("value", ValueKind::Text),
            Flag::letter(
                'e',
                "enable an action: shares have none, and a cap always denies, so only `-e deny` on a cap succeeds",
            )
            .value("value", ValueKind::Text),
            Flag::letter(
                'd',
                "disable an action; always refused (see -e)",
            )
            .value("action", ValueKind::Text),
            Flag::letter('p', "the process of a basic value; always refused")
                .value("pid", ValueKind::Process),
            Flag::letter(
                'i',
                "type of the ids: process (the default), task, project, zone; or pid, taskid, projid, zoneid",
            )
            .value(
                "type",
                ValueKind::Word(&["process", "task", "project", "zone", "pid", "taskid", "projid", "zoneid"]),
            ),
        ],
        in_shell: true,
        examples: &[
            Example {
                words: "-n project.cpu-shares -i project user.web",
                what: "show the CPU shares of a project",
            },
            Example {
                words: "-n process.cpu-cap -s -v 50 -i process 204",
                what: "limit process 204 to half a CPU",
            },
        ],
        see_also: &["zonecfg(8)", "poolcfg(8)", "prstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The change of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Set this value.
    Set(ControlSetting),
    /// Delete the value, if it is this one.
    Delete(Option<u64>),
    /// No change: the requested state is the only possible one.
    Keep,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let idtype: IdType = parsed.value('i').map_or(Ok(IdType::Process), |word| word.parse())?;
    let name = parsed.value('n').map(|word| read_name(&word)).transpose()?;
    let privilege = privilege(parsed)?;
    let ids = parsed.words();
    if ids.is_empty() {
        return Err(Failure::Usage("an id is needed".into()));
    }
    let Some(wish) = wish(parsed, name, privilege)? else {
        let session = ctx.reading(&parsed.common)?;
        return show::run(&session, &ids, idtype, name, privilege, parsed, ctx);
    };
    let Some(name) = name else { return Err(Failure::Usage("a change needs -n".into())) };
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let controls = facet("shares and caps", machine.controls())?;
    let directory = Directory::read(machine, controls)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    for id in &ids {
        change(&directory, controls, (id, idtype), name, wish, &mut changer, ctx);
    }
    Ok(changer.finish(ctx))
}

fn read_name(word: &str) -> Result<ControlName, Failure> {
    word.parse().map_err(|_| {
        Failure::Mistake(
            format!("there is no resource control {} here", word.escape_debug()),
            "there are project.cpu-shares, project.cpu-cap, the same of zone, and of process".into(),
        )
    })
}

/// The type after `-t`.
fn privilege(parsed: &Parsed) -> Result<Option<&'static str>, Failure> {
    match parsed.value('t').as_deref() {
        None => Ok(None),
        Some("privileged") => Ok(Some("privileged")),
        Some("system") => Ok(Some("system")),
        Some("basic") => Ok(Some("basic")),
        Some(other) => Err(Failure::Usage(format!(
            "-t takes basic, privileged or system, not `{}`",
            other.escape_debug()
        ))),
    }
}

/// The requested change. `None` if the control is only shown.
fn wish(
    parsed: &Parsed,
    name: Option<ControlName>,
    privilege: Option<&str>,
) -> Result<Option<Wish>, Failure> {
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let asked: Vec<char> = "srx".chars().filter(|letter| parsed.has(*letter)).collect();
    let (value, enable, disable) = (parsed.value('v'), parsed.value('e'), parsed.value('d'));
    if asked.is_empty() && value.is_none() && enable.is_none() && disable.is_none() {
        return Ok(None);
    }
    let Some(name) = name else { return misuse("a change needs -n") };
    match privilege {
        Some("system") => return misuse("the system's own value cannot be changed"),
        Some("basic") => return misuse("there are no basic values of shares and caps: -t privileged"),
        _ => {}
    }
    if asked.len() > 1 {
        return misuse("-s, -r and -x exclude each other");
    }
    if parsed.has('p') {
        return misuse("-p goes with basic values, of which shares and caps have none");
    }
    if let Some(failure) = enable.iter().find_map(|word| action(name, word, true)) {
        return Err(failure);
    }
    if let Some(failure) = disable.iter().find_map(|word| action(name, word, false)) {
        return Err(failure);
    }
    let value = value.map(|word| number(&word)).transpose()?;
    match (asked.first(), value) {
        (Some('x'), value) => Ok(Some(Wish::Delete(value))),
        (Some('s'), None) => misuse("-s needs -v"),
        (Some('r'), None) => misuse("-r needs -v"),
        (_, Some(value)) => Ok(Some(Wish::Set(setting(name.control, value)?))),
        (_, None) => Ok(Some(Wish::Keep)),
    }
}

/// Why an action cannot be switched on or off. `None` if the request is a no-op.
fn action(name: ControlName, word: &str, on: bool) -> Option<Failure> {
    let refuse = |text: String, hint: &str| Some(Failure::Mistake(text, hint.to_owned()));
    match (name.control, word) {
        (Control::CpuCap, "deny") if on => None,
        (Control::CpuCap, "deny" | "all") => {
            refuse(format!("{name} always denies"), "delete the cap instead: -x")
        }
        (Control::CpuShares, "deny") if on => refuse(format!("{name} never denies"), "a cap does: cpu-cap"),
        (_, word) if word == "deny" || word == "all" || word == "signal" || word.starts_with("signal=") => {
            refuse(format!("{name} sends no signals and has no action to switch"), "leave -e and -d out")
        }
        _ => {
            Some(Failure::Usage(format!("`{}` is no action: all, deny, signal=NUMBER", word.escape_debug())))
        }
    }
}

fn number(word: &str) -> Result<u64, Failure> {
    parse_value(word)
        .map_err(|why| Failure::Operand(format!("cannot read `{}` as a value: {why}", word.escape_debug())))
}

fn setting(control: Control, value: u64) -> Result<ControlSetting, Failure> {
    let wrong = |error: String| Failure::Operand(format!("cannot set {control}: {error}"));
    let most = match control {
        Control::CpuShares => "65535",
        Control::CpuCap => "100000000",
    };
    let value = u32::try_from(value).map_err(|_| wrong(format!("`{value}` is more than {most}")))?;
    ControlSetting::of(control, value).map_err(|error| wrong(error.to_string()))
}

/// Changes the control of the holder of an id.
fn change(
    directory: &Directory,
    controls: &dyn Controls,
    (id, idtype): (&str, IdType),
    name: ControlName,
    wish: Wish,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) {
    let (verb, to) = match wish {
        Wish::Set(to) => ("set", to),
        Wish::Delete(_) => ("delete", ControlSetting::unset(name.control)),
        Wish::Keep => ("keep", ControlSetting::unset(name.control)),
    };
    let main = format!("{verb} {name} of {idtype} {}", id.escape_debug());
    let holder = match directory.holder(id, idtype, name.kind, controls) {
        Ok(holder) => holder,
        Err(complaint) => return changer.refuse(ctx, Complaint { what: main, ..complaint }),
    };
    if wish == Wish::Keep {
        return;
    }
    if let Wish::Delete(Some(value)) = wish {
        let is = controls.controlled(&holder).ok().and_then(|is| show::setting(&is, name.control).value());
        if is.map(u64::from) != Some(value) {
            let is = is.map_or_else(|| "no value".to_owned(), |is| format!("the value {is}"));
            return changer.refuse(ctx, Complaint::new(main, format!("it has {is}, not {value}")));
        }
    }
    let names = |subject: &millpond_machine::Subject| {
        (*subject == millpond_machine::Subject::from(&holder)).then(|| main.clone())
    };
    let prepared = controls.prepare_set(&holder, to);
    let Some(done) = changer.attempt(ctx, &main, names, prepared) else { return };
    if let Ok(enforced) = controls.enforced(&holder, name.control)
        && !enforced.exact
        && let Some(note) = enforced.note
    {
        changer.note(ctx, note, None);
    }
    let (holder, control) = (called(&done.holder), name.to_string());
    changer.report(ctx, None, Done { holder, control, from: done.from.value(), to: done.to.value() });
}

fn called(holder: &ControlHolder) -> String {
    match holder {
        ControlHolder::Project(name) | ControlHolder::Zone(name) => name.clone(),
        ControlHolder::Process(pid) => pid.to_string(),
    }
}

/// The name of a process, for the heading of its controls.
fn process_name(machine: &dyn Machine, pid: millpond_model::Pid) -> Option<String> {
    let roster = machine.census().ok()?.list(millpond_machine::facets::CensusOptions::default()).ok()?;
    roster.processes.into_iter().find(|process| process.pid == pid).map(|process| process.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<Option<Wish>, Failure> {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let parsed = millpond_cli::parse(&COMMAND.spec, &words)?;
        let name = parsed.value('n').map(|word| read_name(&word)).transpose()?;
        wish(&parsed, name, privilege(&parsed)?)
    }

    #[test]
    fn values_are_set_replaced_and_deleted() {
        let shares = |count| Ok(Some(Wish::Set(ControlSetting::of(Control::CpuShares, count).unwrap())));
        assert_eq!(asked(&["-n", "project.cpu-shares", "-v", "10", "-r"]), shares(10));
        assert_eq!(asked(&["-n", "zone.cpu-shares", "-s", "-v", "2K", "-t", "privileged"]), shares(2_000));
        assert_eq!(asked(&["-n", "process.cpu-shares", "-v", "0"]), shares(0));
        assert_eq!(asked(&["-x", "-n", "zone.cpu-cap"]), Ok(Some(Wish::Delete(None))));
        assert_eq!(asked(&["-x", "-v", "80", "-n", "zone.cpu-cap"]), Ok(Some(Wish::Delete(Some(80)))));
        assert_eq!(asked(&["-n", "zone.cpu-cap", "-e", "deny"]), Ok(Some(Wish::Keep)));
        assert_eq!(asked(&["-n", "zone.cpu-cap", "-P", "-t", "system"]), Ok(None));
    }

    #[test]
    fn mistakes_are_told_with_what_there_is() {
        for words in [
            &["-v", "3"][..],
            &["-n", "zone.cpu-cap", "-s"],
            &["-n", "zone.cpu-cap", "-r", "-x"],
            &["-n", "zone.cpu-cap", "-v", "3", "-t", "basic"],
            &["-n", "zone.cpu-cap", "-v", "3", "-t", "system"],
            &["-n", "zone.cpu-cap", "-v", "3", "-p", "1"],
            &["-n", "zone.cpu-cap", "-t", "x"],
            &["-n", "zone.cpu-cap", "-e", "x"],
        ] {
            assert!(matches!(asked(words), Err(Failure::Usage(_))), "{words:?}");
        }
        for words in [
            &["-n", "zone.cpu-shares", "-v", "65536"][..],
            &["-n", "zone.cpu-cap", "-v", "0"],
            &["-n", "zone.cpu-cap", "-v", "1E"],
            &["-n", "zone.cpu-cap", "-v", "x"],
        ] {
            assert!(matches!(asked(words), Err(Failure::Operand(_))), "{words:?}");
        }
        let said = asked(&["-n", "project.max-lwps"]);
        assert!(
            matches!(said, Err(Failure::Mistake(text, _)) if text == "there is no resource control project.max-lwps here")
        );
        assert!(matches!(asked(&["-n", "zone.cpu-cap", "-d", "deny"]), Err(Failure::Mistake(..))));
        assert!(matches!(asked(&["-n", "zone.cpu-shares", "-e", "signal=9"]), Err(Failure::Mistake(..))));
    }
}
