//! Shows the CPUs of a machine: their states, models, and how they form cores and chips.
//!
//! ```text
//! $ psrinfo
//! 0       on-line   since 11/20/2024 08:14:02
//! 1       no-intr   since 11/20/2024 10:02:41
//! 2       off-line  since 11/20/2024 10:05:17
//! ```
//!
//! Operands choose CPUs by numbers, ranges (`0-3`) and lists (`0-3,8`). The listing is always in ascending order.
//!
//! # States
//!
//! A CPU that is `on-line` runs threads and takes interrupts. A `no-intr` CPU runs threads, and device interrupts are
//! kept away. `off-line`, `spare` and `faulted` CPUs run nothing (`psradm`).
//!
//! # Topology
//!
//! An off-line CPU stays in the listing of its chip and core. Linux forgets both when a CPU goes off-line. Millpond
//! records them when `psradm` takes it off-line, and otherwise infers them from its NUMA node and the numbers of the
//! other CPUs. For a hybrid chip `-pv` prints the clock of the fastest cores.
//!
//! # JSON
//!
//! ```text
//! {"chips":[{"brand":"…","cores":2,"id":0,"implementation":"…","processors":"0-3"}],"machine":"real",
//!  "processors":[{"chip":0,"clock_mhz":2600,"core":0,"fpu":"i387 compatible","id":0,"isa":"i386",
//!                 "kind":"uniform","lgroup":0,"since":"2024-11-20T08:14:02Z","state":"on-line"}]}
//! -p, -tp: {"chips":1}    -tc: {"cores":2}    -t: {"processors":4}    -s: {"on_line":true}
//! -r: {"smt_enabled":true}
//! ```

mod form;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::operands;
use form::{Form, Total};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_formats::{CpuOperand, print_iso, psrinfo as listing};
use millpond_machine::facets::ProcessorStatus;
use millpond_model::{ChipId, Core, CoreId, CoreKind, CpuId, CpuSet, LgrpId, State, Topology};
use millpond_session::Session;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Listing<'_>>(), json::of::<Count>(), json::of::<Smt>(), json::of::<OnLine>()];

/// The selected CPUs, and their chips.
#[derive(Serialize, JsonSchema)]
struct Listing<'t> {
    machine: String,
    processors: Vec<ListedCpu<'t>>,
    chips: Vec<ListedChip<'t>>,
}

#[derive(Serialize, JsonSchema)]
struct ListedCpu<'t> {
    id: CpuId,
    state: State,
    /// When it entered the state, as ISO 8601.
    since: String,
    core: CoreId,
    chip: ChipId,
    lgroup: LgrpId,
    kind: CoreKind,
    isa: &'t str,
    clock_mhz: Option<u64>,
    fpu: Option<&'t str>,
}

#[derive(Serialize, JsonSchema)]
struct ListedChip<'t> {
    id: ChipId,
    processors: CpuSet,
    /// The number of cores.
    cores: usize,
    implementation: Option<&'t str>,
    brand: Option<&'t str>,
}

/// `-t`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Count {
    Processors(usize),
    Cores(usize),
    Chips(usize),
}

/// `-r`.
#[derive(Serialize, JsonSchema)]
struct Smt {
    smt_enabled: bool,
}

/// `-s`.
#[derive(Serialize, JsonSchema)]
struct OnLine {
    on_line: bool,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "psrinfo",
        applet: true,
        summary: "list CPUs with their states, cores and chips",
        group: Group::Machine,
        forms: &[
            "[-v] [-p] [processor ...]",
            "-s [-p] processor",
            "-t [-S state | -c | -p]",
            "-r property | all",
        ],
        flags: &[
            Flag::letter('c', "with -t: print the number of cores"),
            Flag::letter(
                'p',
                "print the number of chips that have a CPU on-line; with -v, list chips with their cores and CPUs",
            ),
            Flag::letter('r', "print a property of the machine: smt_enabled, or all")
                .value("property", ValueKind::Word(&["smt_enabled", "all"])),
            Flag::letter('S', "with -t: count only CPUs in this state").value(
                "state",
                ValueKind::Word(&[
                    "on-line",
                    "off-line",
                    "no-intr",
                    "spare",
                    "faulted",
                    "powered-off",
                    "disabled",
                    "unknown",
                    "all",
                ]),
            ),
            Flag::letter(
                's',
                "print 1 if the CPU is on-line and takes interrupts, else 0; with -p, 1 if all CPUs of its chip do",
            ),
            Flag::letter('t', "print the number of CPUs in any state"),
            Flag::letter('v', "print a paragraph about each CPU, with clock and floating-point unit"),
        ],
        in_shell: true,
        operands: Operands { shown: "[cpu ...]", kinds: &[ValueKind::Cpus] },
        examples: &[
            Example { words: "", what: "list all CPUs with their states" },
            Example { words: "-pv", what: "list the chips, with their cores and CPUs" },
            Example { words: "-s 3", what: "print 1 if CPU 3 is on-line, else 0; for scripts" },
        ],
        status: &[("0", "done"), ("1", "a named CPU does not exist; the others are shown"), MISUSED],
        see_also: &["psradm(8)", "psrset(8)", "pginfo(1)", "lgrpinfo(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let form = Form::of(parsed)?;
    let operands = operands::cpus(&parsed.words())?;
    let session = ctx.reading(&parsed.common)?;
    let view = View { session: &session, json: parsed.common.json };
    match form {
        Form::Property(name) => view.property(&name, ctx),
        Form::Total(total) => view.total(total, ctx),
        Form::State => view.silent(&operands, false, ctx),
        Form::StateOfChip => view.silent(&operands, true, ctx),
        Form::List | Form::Details | Form::Chips | Form::ChipDetails => view.list(&form, &operands, ctx),
    }
}

/// The machine, and the data and format of the output.
struct View<'s> {
    session: &'s Session,
    json: bool,
}

impl View<'_> {
    fn states(&self) -> Result<Vec<ProcessorStatus>, Failure> {
        read("processors", facet("processors", self.session.machine().processors())?.states())
    }

    fn topology(&self) -> Result<Topology, Failure> {
        read("processors", facet("processors", self.session.machine().processors())?.topology())
    }

    /// Prints `-r`.
    fn property(&self, name: &str, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        if !["smt_enabled", "all"].contains(&name) {
            let reason = "there is no such property (there is smt_enabled)";
            return Err(Complaint::new(format!("show property {name}"), reason).into());
        }
        let off: CpuSet =
            self.states()?.iter().filter(|s| s.state == State::Disabled).map(|s| s.cpu).collect();
        let threaded = self.topology()?.cores().iter().any(|core| (&core.cpus - &off).len() > 1);
        if self.json {
            ctx.json(&Smt { smt_enabled: threaded });
        } else {
            ctx.out.line(format_args!("smt_enabled={threaded}"));
        }
        Ok(Exit::DONE)
    }

    /// Prints `-t`.
    fn total(&self, total: Total, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        let count = match total {
            Total::Processors => Count::Processors(self.states()?.len()),
            Total::InState(state) => {
                Count::Processors(self.states()?.iter().filter(|s| s.state == state).count())
            }
            Total::Cores => Count::Cores(self.topology()?.cores().len()),
            Total::Chips => Count::Chips(self.topology()?.chips().len()),
        };
        self.count(&count, ctx);
        Ok(Exit::DONE)
    }

    fn count(&self, count: &Count, ctx: &mut Ctx<'_>) {
        if self.json {
            ctx.json(count);
        } else {
            let (Count::Processors(number) | Count::Cores(number) | Count::Chips(number)) = count;
            ctx.out.line(number);
        }
    }

    /// Executes `-s`: for one CPU, or for all CPUs of its chip.
    fn silent(&self, operands: &[CpuOperand], chip: bool, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        let exactly_one = || Failure::Usage("must specify exactly one processor if -s used".into());
        let states = self.states()?;
        let (chosen, exit) = choose(operands, &states, ctx);
        let mut cpus = chosen.iter();
        let (cpu, more) = (cpus.next(), cpus.next());
        let cpu = match (cpu, more, exit) {
            (Some(cpu), None, _) => cpu,
            (None, _, Exit::REFUSED) => return Ok(exit),
            _ => return Err(exactly_one()),
        };
        let asked = if chip {
            let topology = self.topology()?;
            topology.processor(cpu).map(|p| topology.chip_cpus(p.chip)).unwrap_or_default()
        } else {
            [cpu].into_iter().collect()
        };
        let on_line = states.iter().filter(|s| asked.contains(s.cpu)).all(|s| s.state == State::OnLine);
        if self.json {
            ctx.json(&OnLine { on_line });
        } else {
            ctx.out.line(u8::from(on_line));
        }
        Ok(exit)
    }

    /// Prints the forms with a list.
    fn list(&self, form: &Form, operands: &[CpuOperand], ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        let states = self.states()?;
        let (chosen, exit) = choose(operands, &states, ctx);
        let shown = || states.iter().filter(|s| chosen.contains(s.cpu));
        if *form == Form::List && !self.json {
            for s in shown() {
                ctx.out.line(listing::line(s.cpu, s.state, s.since, self.session.zone()));
            }
            return Ok(exit);
        }
        let topology = self.topology()?;
        let chips: BTreeSet<ChipId> =
            chosen.iter().filter_map(|cpu| topology.processor(cpu)).map(|p| p.chip).collect();
        let mut packages = topology.cores_by_chip();
        packages.retain(|chip, _| chips.contains(chip));
        match form {
            Form::Chips => {
                let on_line: CpuSet =
                    states.iter().filter(|s| s.state == State::OnLine).map(|s| s.cpu).collect();
                packages.retain(|_, cores| cores.iter().any(|core| !core.cpus.is_disjoint(&on_line)));
                self.count(&Count::Chips(packages.len()), ctx);
            }
            _ if self.json => ctx.json(&self.document(&topology, &packages, shown())),
            Form::ChipDetails => {
                for cores in packages.values() {
                    ctx.out.text(&listing::package(&topology, cores));
                }
            }
            _ => {
                let now = self.session.machine().clock().wall();
                for s in shown() {
                    if let Some(p) = topology.processor(s.cpu) {
                        ctx.out.text(&listing::paragraph(p, s.state, s.since, now, self.session.zone()));
                    }
                }
            }
        }
        Ok(exit)
    }

    fn document<'t, 'p>(
        &self,
        topology: &'t Topology,
        packages: &BTreeMap<ChipId, Vec<Core>>,
        states: impl Iterator<Item = &'p ProcessorStatus>,
    ) -> Listing<'t> {
        let processors = states
            .filter_map(|s| topology.processor(s.cpu).map(|p| (s, p)))
            .map(|(s, p)| ListedCpu {
                id: s.cpu,
                state: s.state,
                since: print_iso(s.since),
                core: p.core,
                chip: p.chip,
                lgroup: p.lgroup,
                kind: p.kind,
                isa: &p.isa,
                clock_mhz: p.clock_mhz,
                fpu: p.fpu.as_deref(),
            })
            .collect();
        let chip = |(id, cores): (&ChipId, &Vec<Core>)| {
            let processors: CpuSet = cores.iter().flat_map(|core| core.cpus.iter()).collect();
            let first = listing::model(topology, &processors);
            ListedChip {
                id: *id,
                processors,
                cores: cores.len(),
                implementation: first.map(|p| p.implementation.as_str()),
                brand: first.map(|p| p.brand.as_str()),
            }
        };
        let chips = packages.iter().map(chip).collect();
        Listing { machine: self.session.machine().name().to_owned(), processors, chips }
    }
}

/// The CPUs of operands, or all CPUs without operands. A CPU that does not exist is reported, and makes the status 1.
fn choose(operands: &[CpuOperand], states: &[ProcessorStatus], ctx: &mut Ctx<'_>) -> (CpuSet, Exit) {
    let present: CpuSet = states.iter().map(|s| s.cpu).collect();
    if operands.is_empty() {
        return (present, Exit::DONE);
    }
    let mut exit = Exit::DONE;
    let mut refuse = |noun: String, reason: String| {
        ctx.complain(&Complaint::new(format!("show {noun}"), reason));
        exit = Exit::REFUSED;
    };
    let mut chosen: Vec<CpuId> = Vec::new();
    for operand in operands {
        match operand.expand(&present) {
            Some(cpus) if cpus.iter().all(|cpu| present.contains(*cpu)) => chosen.extend(cpus),
            Some(_) => refuse(format!("processor {operand}"), operands::no_such_processor(&present)),
            None => refuse(
                format!("processors {operand}"),
                format!("there are no such CPUs (this machine has {present})"),
            ),
        }
    }
    (chosen.into_iter().collect(), exit)
}
