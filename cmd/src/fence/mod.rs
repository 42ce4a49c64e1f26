//! Fences CPUs off: moves all movable OS noise off them, names the rest, and restores everything afterwards.
//!
//! A fence is a processor set with a name. A profile lists the noise to keep off: other programs, interrupts, kernel threads, lockup detectors, deep
//! idle states. The default is `low-latency`.
//!
//! With a command after the CPUs, the command runs in the fence. The fence is removed when the command ends, also when it is killed. With `--name`
//! the fence exists until `--off`. Bind programs to its set (`psrset -b`, `psrset -e`). While pools are enabled, it is the set of a pool of the same
//! name (`poolbind -p NAME`, `poolbind -e NAME`). Without operands the command lists the existing fences.
//!
//! CPUs are numbers, ranges and lists: `2-5`, `2,4`. `--cores` chooses whole cores that no set, no partition of another program and no bound thread
//! has. They share an L2 cache, an L3 cache or a locality group if one has enough free cores. Otherwise they come from the closest locality groups.
//! On a hybrid machine performance cores come before efficiency cores. CPUs that are isolated at boot come last. With `--smt off` it takes one CPU of
//! each core. With `--near` the cores are near a device (a network card, a disk, a PCI address). Where possible they do not take its interrupts.
//!
//! # Plan
//!
//! `--plan` changes nothing. It prints each step with the profile line that requests it. It also prints the remaining noise, with the kernel
//! parameters that would remove it.
//!
//! # Proof
//!
//! `--prove` measures OS noise on the CPUs of a fence for a time (`--for`, default 10 s), as `millpond quiet` does. It checks that nothing takes
//! longer than `--max` (default 50us). The result is stored with the fence until the next proof, and listed.
//!
//! # Changes by other programs
//!
//! Other programs may change the settings of a fence, and new interrupts and kernel threads appear. Without operands the command lists such
//! deviations, and CPUs that are off-line. A fence with a command corrects them each second. For named fences `millpond fence --watch` does so (the
//! unit millpond-fences); without it the next change of a set does. `--watch` also undoes changes whose command was killed.
//!
//! `--persist` stores a fence for the next boot: `--watch` puts up stored fences when it starts. `--forget` removes a stored fence. Neither changes
//! existing fences.
//!
//! # Profiles
//!
//! A profile is a TOML file. Four are built in; `--profiles` lists them. `/etc/millpond/profiles/NAME.toml` adds a profile or replaces a built-in
//! one. A name with a slash is a file name.
//!
//! ```text
//! summary = "for the feed handlers"
//! others = "isolated"       isolated, out or in
//! interrupts = true
//! kernel-threads = true
//! watchdog = true
//! idle-latency-us = 0
//! governor = "performance"
//! memory = "local"          local or all
//! whole-cores = true
//! smt = "off"               the other strands of each core go off-line
//! flush = true              the CPUs go off-line and come back once
//! fair-server = false       real-time threads leave nothing for others
//! l3-ways = 4               ways of each of its L3 caches, for it alone (resctrl)
//! others-memory-bandwidth = 50   percent that others have behind these caches (resctrl)
//!
//! [command]                 of the command in the fence, and of what it starts
//! huge-pages = false        none that it did not ask for
//! numa-balancing = false
//!
//! [global]
//! numa-balancing = false
//! stat-interval-s = 120
//! timer-migration = false
//! turbo = false
//! ```
//!
//! Settings that a profile omits are unchanged. `isolated` keeps other programs out and does not balance load inside: each thread stays on the CPU on
//! which it starts, and you pin threads yourself (`pbind`). `out` keeps other programs out, and balances load inside. `in` moves no program out.
//!
//! `--flush` removes timers and work that were queued on the CPUs before. The CPUs go off-line and come back, one after the other, when other
//! programs have left. Settings under `[global]` change the whole machine. They are set only with `--global`, and restored when the last fence that
//! requested them ends.
//!
//! # Output
//!
//! ```text
//! $ millpond fence --name trading 2-3
//! fence trading: CPUs 2-3, set 1, profile low-latency
//! $ millpond fence
//! FENCE    CPUS  SET  PROFILE      STATE  BOOT  PROOF
//! trading  2-3     1  low-latency  holds  no    -
//! $ millpond fence --off trading
//! fence trading: taken down
//! ```
//!
//! # JSON
//!
//! The schema is docs/reference/json/fence.json.

mod choose;
mod kept;
mod plan;
mod profile;
mod prove;
mod watch;

use crate::bindings;
use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::cores;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::operands;
use crate::start::Start;
use crate::values;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_formats::fence_profile::CommandSetting;
use millpond_formats::psrset::assigned;
use millpond_machine::facets::{FenceWish, Fenced, Member};
use millpond_machine::{Fences, Keeper, Machine, Subject};
use millpond_model::{CpuId, CpuSet, Fence, FenceName, Move, Pid, Proof, PsetId, printable};
use millpond_report::{Align, Cell, Table};
use millpond_session::{
    Kind, leave_behind, own_pid, profile_names, wait_for_end, without_huge_pages, without_numa_balancing,
};
use profile::Found;
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<Standing>(),
    json::of::<plan::Plan>(),
    json::of::<Profiles>(),
    json::of::<crate::quiet::Noise<'_>>(),
    json::of::<Changes<'_, Done>>(),
    json::of::<DryRun<'_>>(),
];

/// The existing fences.
#[derive(Serialize, JsonSchema)]
struct Standing {
    fences: Vec<Row>,
}

/// A fence.
#[derive(Serialize, JsonSchema)]
struct Row {
    name: FenceName,
    cpus: Vec<CpuId>,
    set: PsetId,
    profile: String,
    /// Whether it is restored at boot.
    at_boot: bool,
    /// The result of its last measurement.
    proof: Option<Proof>,
    /// Deviations of the machine from the fence.
    breaches: Vec<String>,
    /// Noise on its CPUs that cannot be moved.
    stays: Vec<String>,
}

/// Profiles by name.
#[derive(Serialize, JsonSchema)]
struct Profiles {
    profiles: Vec<ProfileRow>,
}

/// A profile.
#[derive(Serialize, JsonSchema)]
struct ProfileRow {
    name: String,
    /// Its source: a file, or its name again if it is built in.
    source: String,
    summary: String,
}

/// What was done.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Done {
    Fenced {
        fenced: FenceName,
        set: PsetId,
        cpus: Vec<CpuId>,
        profile: String,
        /// The CPUs that were in other sets, to which they return.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        taken: Vec<Move>,
    },
    Off {
        off: FenceName,
    },
    Kept {
        kept: FenceName,
        cpus: Vec<CpuId>,
    },
    Forgotten {
        forgotten: FenceName,
    },
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "fence",
        summary: "fence CPUs off, for a command or until it is taken down",
        section: 8,
        group: Group::Isolate,
        forms: &[
            "[--profile profile] [--smt off] [--flush] [--global] [-F] cpus command [argument ...]",
            "[option ...] --name name cpus | --cores number [--near device]",
            "[option ...] --plan cpus | --cores number [--near device]",
            "--prove name [--for time] [--max limit] [--report file]",
            "--persist | --forget name ...",
            "--off [--after pid] name ...",
            "--watch",
            "--profiles",
            "",
        ],
        flags: &[
            Flag::long("name", "put up a fence of this name, which stands until --off")
                .value("name", ValueKind::Text),
            Flag::long("cores", "choose so many whole cores that are free")
                .value("number", ValueKind::Count(1, 4096)),
            Flag::long("near", "with --cores: near this device (eth0, nvme0n1, 0000:3b:00.0)")
                .value("device", ValueKind::Text),
            Flag::long("profile", "what is kept away; without it low-latency")
                .value("profile", ValueKind::Word(profile::NAMES)),
            Flag::long("smt", "take the other strands of the same cores off-line")
                .value("off", ValueKind::Word(&["off"])),
            Flag::long(
                "flush",
                "take the CPUs off-line and back once: what was queued there is done elsewhere",
            ),
            Flag::long("global", "change what the profile says of the whole machine, too"),
            Flag::letter('F', "unbind threads that are bound to the CPUs (pbind)"),
            Flag::long("plan", "print each step with what asks for it, and what will remain; change nothing"),
            Flag::long("prove", "measure OS noise on the CPUs of a fence, against a limit (millpond quiet)")
                .value("name", ValueKind::Text)
                .conflicts(ALONE),
            Flag::long("for", "with --prove: how long to measure; without it 10 s")
                .value("time", ValueKind::Time),
            Flag::long("max", "with --prove: the limit, 50us or 10/s; without it 50us")
                .value("limit", ValueKind::Text),
            Flag::long("report", "with --prove: write a picture (.svg) or a page (.html) as well")
                .value("file", ValueKind::File),
            Flag::long("persist", "these fences come back at boot (millpond-fences.service)")
                .operands("name ...", &[ValueKind::Text])
                .conflicts(ALONE),
            Flag::long("forget", "these fences do not come back at boot any more")
                .operands("name ...", &[ValueKind::Text])
                .conflicts(ALONE),
            Flag::long(
                "watch",
                "put up what comes back at boot, and keep all fences as they should be, until stopped",
            )
            .conflicts(ALONE),
            Flag::long("off", "take fences down: everything is as it was before")
                .operands("name ...", &[ValueKind::Text])
                .conflicts(ALONE),
            Flag::long("after", "with --off: wait until this process has ended")
                .value("pid", ValueKind::Process),
            Flag::long("profiles", "list the profiles that there are").conflicts(ALONE),
        ],
        operands: Operands { shown: "cpus [command ...]", kinds: &[ValueKind::Cpus, ValueKind::Program] },
        examples: &[
            Example {
                words: "2-5 ./trader",
                what: "run a program on four quiet CPUs, and put everything back when it ends",
            },
            Example { words: "--plan 2-5", what: "see what that would change, and what would remain" },
            Example { words: "--name trading 2-5", what: "put up a fence that stands" },
            Example {
                words: "--name job --profile hpc --cores 8",
                what: "the same of eight cores, for a job that balances its own load",
            },
            Example {
                words: "--name trading --cores 4 --near eth0",
                what: "the same of four cores beside a network card",
            },
            Example {
                words: "--prove trading --for 60s --max 50us --report proof.html",
                what: "measure for a minute whether anything takes its CPUs for longer than 50 us",
            },
            Example { words: "--persist trading", what: "let it come back at boot" },
            Example { words: "--off trading", what: "take it down" },
        ],
        status: &[
            ("0", "done"),
            ("1", "something was refused; nothing was changed"),
            MISUSED,
            ("other", "with a command: the exit status of the command"),
        ],
        see_also: &["psrset(8)", "psradm(8)", "millpond-quiet(1)", "pbind(8)"],
        in_shell: true,
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The command that enables persistent fences.
const COMMAND_OF_UNIT: &str = "systemctl enable --now millpond-fences";

/// Prefix of the names of fences for a command.
const OF_COMMAND: &str = "run-";

/// Options that exclude each other. The first ones select another action than putting up a fence.
const ALONE: &[&str] = &[
    "profiles", "off", "prove", "persist", "forget", "watch", "name", "cores", "near", "profile", "plan",
    "F", "smt", "flush", "global",
];

/// Options that need another option.
const WITH: [(&str, &str); 5] =
    [("after", "off"), ("for", "prove"), ("max", "prove"), ("report", "prove"), ("near", "cores")];

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if let Some((flag, with)) = WITH.iter().find(|(flag, with)| parsed.long(flag) && !parsed.long(with)) {
        return Err(Failure::Usage(format!("--{flag} can only be used with --{with}")));
    }
    type Act = fn(&Parsed, &mut Ctx<'_>) -> Result<Exit, Failure>;
    let acts: [(&str, Act); 6] = [
        ("profiles", profiles),
        ("off", off),
        ("prove", prove::run),
        ("persist", kept::persist),
        ("forget", kept::forget),
        ("watch", watch::run),
    ];
    if let Some((_, act)) = acts.iter().find(|(flag, _)| parsed.long(flag)) {
        return act(parsed, ctx);
    }
    let wanted = Wanted::of(parsed)?;
    let Some(place) = wanted.place else {
        if let Some(flag) = parsed.given().first() {
            return Err(Failure::Usage(format!("{} needs CPUs", flag.flag.names())));
        }
        return list(parsed, ctx);
    };
    let name = match parsed.long_value("name") {
        Some(text) => Some(
            text.parse::<FenceName>()
                .map_err(|error| Failure::Operand(format!("cannot use --name {text}: {error}")))?,
        ),
        None => None,
    };
    if parsed.long_value("smt").is_some_and(|word| word != "off") {
        return Err(Failure::Usage("--smt can only be off".into()));
    }
    let found = profile::find(&parsed.long_value("profile").unwrap_or_else(|| profile::NAMES[0].to_owned()))?
        .with_options(parsed);
    match (name, wanted.command) {
        (name, None) if parsed.long("plan") => show_plan(&place, name, &found, parsed, ctx),
        (Some(name), None) => put_up(&place, name, &found, parsed, ctx),
        (None, Some(command)) if !parsed.long("plan") => {
            Ok(match enclose(&place, &found, command, parsed, ctx) {
                Ok(Exit::DONE) => Exit::DONE,
                Ok(_) => Exit::USAGE,
                Err(failure) => {
                    crate::command::tell(&failure, &COMMAND.spec, &[], ctx);
                    Exit::USAGE
                }
            })
        }
        (None, None) => Err(Failure::Usage("a fence needs a --name, or a command to run in it".into())),
        _ => Err(Failure::Usage(
            "with --name or --plan there is no command: CPUs are one list, as 2-5,8".into(),
        )),
    }
}

/// The parsed operands.
struct Wanted<'p> {
    place: Option<Place>,
    command: Option<&'p [OsString]>,
}

/// The requested CPUs.
enum Place {
    Cpus(String),
    Cores(usize, Option<String>),
}

impl<'p> Wanted<'p> {
    fn of(parsed: &'p Parsed) -> Result<Wanted<'p>, Failure> {
        let cores = values::number(parsed, "cores", 1, 4096)?;
        let mut operands = parsed.operands.as_slice();
        let place = match cores {
            Some(count) => {
                Some(Place::Cores(usize::try_from(count).unwrap_or(usize::MAX), parsed.long_value("near")))
            }
            None => match operands.split_first() {
                Some((cpus, rest)) => {
                    operands = rest;
                    Some(Place::Cpus(cpus.to_string_lossy().into_owned()))
                }
                None => None,
            },
        };
        if let [first, rest @ ..] = operands {
            if first == "--" {
                operands = rest;
            } else if first.to_string_lossy().starts_with("--") {
                return Err(Failure::Usage("options stand before the CPUs".into()));
            }
        }
        Ok(Wanted { place, command: Some(operands).filter(|words| !words.is_empty()) })
    }
}

fn fences(machine: &dyn Machine) -> Result<&dyn Fences, Failure> {
    facet("fences", machine.fences())
}

/// The CPUs, and the reason for the choice.
fn cpus_of(
    place: &Place,
    found: &Found,
    forced: bool,
    machine: &dyn Machine,
) -> Result<(Vec<CpuId>, Option<String>), Failure> {
    let (cpus, why) = match place {
        Place::Cores(count, device) => {
            let near = match device {
                Some(device) => {
                    let place = fences(machine)?.device(device).map_err(|refusal| {
                        Complaint::refused(&format!("fence near {}", printable(device)), |_| None, &refusal)
                    })?;
                    Some((device.as_str(), place))
                }
                None => None,
            };
            let one_strand = found.profile.shelter.siblings_off;
            let choice = choose::cores(&choose::Cores { count: *count, near, one_strand, forced }, machine)?;
            (choice.cpus, Some(choice.why))
        }
        Place::Cpus(list) => {
            let operands = operands::cpus(std::slice::from_ref(list))?;
            let expanded = operands::expand(&operands, machine, |noun| format!("fence {noun}"))?;
            (expanded.into_iter().collect::<Result<Vec<_>, Complaint>>()?, None)
        }
    };
    let cpus = if found.profile.whole_cores { cores::whole(&cpus, machine)? } else { cpus };
    Ok((cpus, why))
}

fn wish(name: FenceName, found: &Found, cpus: Vec<CpuId>) -> FenceWish {
    FenceWish { name, profile: found.name.clone(), shelter: found.profile.shelter.clone(), cpus }
}

fn named(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Processor(cpu) => Some(format!("fence processor {cpu}")),
        _ => None,
    }
}

/// `--plan`.
fn show_plan(
    place: &Place,
    name: Option<FenceName>,
    found: &Found,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let fences = fences(session.machine())?;
    let (cpus, why) = cpus_of(place, found, parsed.has('F'), session.machine())?;
    let name = name.map_or_else(|| "plan".parse().map_err(|_| Failure::Usage(String::new())), Ok)?;
    let wish = wish(name, found, cpus);
    let refused = |refusal| Failure::from(Complaint::refused("plan a fence", named, &refusal));
    let change = fences.prepare_fence(&wish, parsed.has('F')).map_err(refused)?;
    let remains = fences.remains(&wish.cpus, &wish.shelter).map_err(refused)?;
    let list: CpuSet = wish.cpus.iter().copied().collect();
    let plan = plan::Plan::of(&list, found, change, remains);
    if parsed.common.json {
        ctx.json(&plan);
        return Ok(Exit::DONE);
    }
    why.into_iter().for_each(|why| ctx.out.line(why));
    ctx.out.line(format_args!("a fence of {} by {}: {}", list.named(), found.name, found.profile.summary));
    plan.tell(session.machine(), ctx);
    Ok(Exit::DONE)
}

/// `--name`.
fn put_up(
    place: &Place,
    name: FenceName,
    found: &Found,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let fences = fences(session.machine())?;
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let (cpus, why) = cpus_of(place, found, parsed.has('F'), session.machine())?;
    if let Some(why) = why {
        changer.note(ctx, why, None);
    }
    for (setting, source) in found.command() {
        let why = "it is of the command that a fence is put up around";
        changer.note(ctx, format!("{} ({source}) is left out: {why}", setting.key()), None);
    }
    let list: CpuSet = cpus.iter().copied().collect();
    let prepared = fences.prepare_fence(&wish(name.clone(), found, cpus), parsed.has('F'));
    if let Some(done) = changer.attempt(ctx, &format!("put up fence {name}"), named, prepared) {
        let line = format!("fence {name}: {}, set {}, profile {}", list.named(), done.set, found.name);
        let cpus = list.iter().collect();
        let taken: Vec<Move> = done.moves.iter().copied().filter(|m| !m.from.is_default()).collect();
        let lines = taken.iter().map(|m| format!("\n{}", assigned(m.cpu, m.from, m.to)));
        let line = line + &lines.collect::<String>();
        let done = Done::Fenced { fenced: name, set: done.set, cpus, profile: found.name.clone(), taken };
        changer.report(ctx, Some(line), done);
    }
    Ok(changer.finish(ctx))
}

/// Runs a command in a fence, and removes the fence afterwards. Failures of Millpond itself end with status 2, to differ from the status of the
/// command.
fn enclose(
    place: &Place,
    found: &Found,
    command: &[OsString],
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let (session, start) = ctx.changing_once(&parsed.common, |session| Start::of(session, command))?;
    let machine = session.machine();
    if session.kind() != Kind::Real {
        let why = format!("machine {} cannot take the fence down when the command ends", machine.name());
        return Err(Complaint::new(format!("fence {}", start.name()), why)
            .hint("put up a fence by --name, and start the command in its set: psrset -e")
            .into());
    }
    let fences = fences(machine)?;
    let (cpus, why) = cpus_of(place, found, parsed.has('F'), machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    if let Some(why) = why {
        changer.note(ctx, why, None);
    }
    let pid = own_pid();
    let name: FenceName = format!("{OF_COMMAND}{pid}").parse().map_err(|_| Failure::Usage(String::new()))?;
    if !parsed.common.dry_run {
        // Before the fence is put up: from now on it is removed when this process ends for any reason.
        leave_behind(&["fence".into(), "--off".into(), "--after".into(), pid.to_string(), name.to_string()])
            .map_err(|why| Complaint::new("watch over the fence", why))?;
    }
    // The command inherits these settings from this process.
    for (setting, source) in found.command().filter(|_| !parsed.common.dry_run) {
        let done = match setting {
            CommandSetting::NoHugePages => without_huge_pages(),
            CommandSetting::NoNumaBalancing => without_numa_balancing(),
        };
        if let Err(why) = done {
            changer.note(ctx, format!("{} ({source}) is left out: {why}", setting.key()), None);
        }
    }
    let prepared = fences.prepare_fence(&wish(name.clone(), found, cpus), parsed.has('F'));
    match changer.attempt(ctx, &format!("fence {}", start.name()), named, prepared) {
        Some(Fenced { pool: Some(pool), .. }) => {
            let begun = start.begin(&session);
            let pools = facet("pools", machine.pools())?;
            // A dry run has created no pool to join.
            let joined = parsed.common.dry_run
                || changer
                    .attempt(
                        ctx,
                        &format!("execute {} in the fence", start.name()),
                        named,
                        pools.prepare_join(&Member::Process(begun.pid), pool),
                    )
                    .is_some();
            start.end(begun, joined, changer, ctx)
        }
        Some(done) => bindings::execute(&session, &start, Some(&done.set), changer, ctx),
        None => Ok(changer.finish(ctx)),
    }
}

/// The fences that operands name.
fn names(parsed: &Parsed, flag: &str) -> Result<Vec<FenceName>, Failure> {
    let words = parsed.words();
    if words.is_empty() {
        return Err(Failure::Usage(format!("--{flag} needs the name of a fence")));
    }
    words.iter().map(|word| name(word)).collect()
}

fn name(word: &str) -> Result<FenceName, Failure> {
    word.parse().map_err(|error| Failure::Operand(format!("cannot read `{word}` as a fence: {error}")))
}

/// `--off`.
fn off(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let names = names(parsed, "off")?;
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    if let Some(text) = parsed.long_value("after") {
        let pid: Pid = text
            .parse()
            .map_err(|error| Failure::Operand(format!("cannot read `{text}` as a process: {error}")))?;
        let mut keeper = Keeper::default();
        // Its messages are dropped: the terminal belongs to the command that put up the fence.
        wait_for_end(pid, || drop(keeper.turn(machine, machine.clock().now())))
            .map_err(|why| Complaint::new(format!("wait for process {pid}"), why))?;
    }
    let fences = fences(machine)?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    for name in names {
        let main = format!("take down fence {name}");
        if changer.attempt(ctx, &main, named, fences.prepare_off(&name)).is_some() {
            let line = format!("fence {name}: taken down");
            if kept::is_kept(&name, &session) {
                changer.note(
                    ctx,
                    format!("fence {name} comes back at boot"),
                    Some("millpond fence --forget"),
                );
            }
            changer.report(ctx, Some(line), Done::Off { off: name });
        }
    }
    Ok(changer.finish(ctx))
}

/// Without operands.
fn list(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let all = read("fences", fences(session.machine())?.list())?;
    let row = |fence: Fence| Row {
        cpus: fence.cpus.iter().collect(),
        set: fence.set,
        at_boot: kept::is_kept(&fence.fencing.name, &session),
        proof: fence.fencing.proof,
        name: fence.fencing.name,
        profile: fence.fencing.profile,
        breaches: fence.breaches,
        stays: fence.stays,
    };
    let rows: Vec<Row> = all.into_iter().map(row).collect();
    if parsed.common.json {
        ctx.json(&Standing { fences: rows });
        return Ok(Exit::DONE);
    }
    if rows.is_empty() {
        ctx.warn("no fence stands");
        return Ok(Exit::DONE);
    }
    let mut table = Table::new(&[
        ("FENCE", Align::Left),
        ("CPUS", Align::Left),
        ("SET", Align::Right),
        ("PROFILE", Align::Left),
        ("STATE", Align::Left),
        ("BOOT", Align::Left),
        ("PROOF", Align::Left),
    ]);
    for row in &rows {
        let cpus: CpuSet = row.cpus.iter().copied().collect();
        let state = if row.breaches.is_empty() { "holds" } else { "is broken" };
        let cells = [
            row.name.to_string(),
            cpus.to_string(),
            row.set.to_string(),
            row.profile.clone(),
            state.to_owned(),
            (if row.at_boot { "yes" } else { "no" }).to_owned(),
        ];
        let proof = row.proof.as_ref().map_or(Cell::Missing, |proof| prove::told(proof, &session).into());
        table.row(cells.map(Cell::from).into_iter().chain([proof]));
    }
    ctx.out.text(&table.text());
    for row in &rows {
        for line in row.breaches.iter().chain(&row.stays) {
            ctx.out.line(format_args!("{}: {line}", row.name));
        }
    }
    if rows.iter().any(|row| !row.name.as_str().starts_with(OF_COMMAND)) && watch::is_missing(&session) {
        ctx.warn(
            "no daemon watches the fences: what appears later is kept away from the next change of a set on",
        );
        ctx.hint("systemctl start millpond-fences, or millpond fence --watch");
    }
    Ok(Exit::DONE)
}

/// `--profiles`.
fn profiles(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let own = profile_names();
    let built_in = profile::NAMES.iter().map(|name| (*name).to_owned());
    let others = own.into_iter().filter(|name| !profile::NAMES.contains(&name.as_str()));
    let found: Vec<Found> =
        built_in.chain(others).map(|name| profile::find(&name)).collect::<Result<_, _>>()?;
    let row =
        |found: Found| ProfileRow { name: found.name, source: found.source, summary: found.profile.summary };
    let rows: Vec<ProfileRow> = found.into_iter().map(row).collect();
    if parsed.common.json {
        ctx.json(&Profiles { profiles: rows });
        return Ok(Exit::DONE);
    }
    let mut table = Table::new(&[("PROFILE", Align::Left), ("WHAT IT DOES", Align::Left)]);
    for row in &rows {
        table.row([&row.name, &row.summary].map(|text| Cell::from(text.as_str())));
    }
    ctx.out.text(&table.text());
    Ok(Exit::DONE)
}
