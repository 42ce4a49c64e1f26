//! Shows processor groups: which CPUs share a pipeline, a cache, a chip or a NUMA node.
//!
//! ```text
//! $ pginfo
//! PG  RELATIONSHIP          CPUs
//!  0  System                0-6 (off-line: 7)
//!  4   Data_Pipe_to_memory  0-6 (off-line: 7)
//!  3    L2_Cache            0-6 (off-line: 7)
//!  2     L1_Cache           0-3
//!  1      Integer_Pipeline  0-3
//!  6     L1_Cache           4-6 (off-line: 7)
//!  5      Integer_Pipeline  4-6 (off-line: 7)
//! ```
//!
//! The groups form a tree, shown by indentation. Group 0 is the whole system. Hardware of a single CPU forms no group.
//! Operands are group numbers (`0,3-5`); they and `-c` exclude each other. `pgstat` shows how busy each group is.
//!
//! # Relationships
//!
//! ```text
//! System               the machine
//! Memory               a NUMA node, on machines with several
//! Data_Pipe_to_memory  a chip (socket)
//! L3_Cache, L2_Cache,  a cache of that level
//! L1_Cache
//! Integer_Pipeline     the strands of a core, or those that share a pipeline, where the machine tells
//! ```
//!
//! On Linux, groups come from the topology and caches in sysfs; on a virtual machine the hypervisor determines these.
//! Floating point units and power domains, which Solaris lists, are unknown. Caches of an off-line CPU within its core
//! may be missing. A cache that partly overlaps a core, chip or node is left out, with a message.
//!
//! # JSON
//!
//! `-s` prints the relationships, all other forms the groups. The schema is `docs/reference/json/pginfo.json`.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::processor_groups::{Choice, Hardware};
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec, ValueKind, help};
use millpond_formats::pg::{self as listing, Placed};
use millpond_model::{CacheKind, CpuId, CpuSet, PgId, Physical, Relationship};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Groups<'_>>(), json::of::<Relationships>()];

/// The selected groups.
#[derive(Serialize, JsonSchema)]
struct Groups<'g> {
    groups: Vec<ListedGroup<'g>>,
}

#[derive(Serialize, JsonSchema)]
struct ListedGroup<'g> {
    id: PgId,
    /// The shared hardware, as listed: `L2_Cache`.
    relationship: String,
    /// The parent group; null for the system.
    parent: Option<PgId>,
    /// CPUs that run threads.
    cpus: Vec<CpuId>,
    off_line: Vec<CpuId>,
    /// Hardware with exactly these CPUs.
    physical: &'g [Physical],
    /// Empty if the relationship is not a cache.
    caches: Vec<SharedCache>,
}

#[derive(Serialize, JsonSchema)]
struct SharedCache {
    kind: CacheKind,
    size_kib: Option<u64>,
}

/// `-s`, from the whole machine to the core.
#[derive(Serialize, JsonSchema)]
struct Relationships {
    relationships: Vec<Counted>,
}

#[derive(Serialize, JsonSchema)]
struct Counted {
    name: String,
    /// The number of groups with this relationship.
    groups: usize,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "pginfo",
        applet: true,
        summary: "show which CPUs share pipelines, caches, chips and NUMA nodes",
        group: Group::Machine,
        forms: &[
            "[-T] [-p] [-v] [-r string] [-R string] [pg ... | -c processor_id ...]",
            "-s [-v] [-r string] [-R string] [pg ... | -c processor_id ...]",
            "-C | -I [-r string] [-R string] [pg ... | -c processor_id ...]",
            "-h",
        ],
        flags: &[
            Flag::letter('c', "only groups with one of these CPUs (`0-3,8`)").value("cpus", ValueKind::Text),
            Flag::letter('C', "print only the numbers of on-line CPUs, on one line"),
            Flag::letter('h', "print the usage"),
            Flag::letter('I', "print only group numbers, on one line"),
            Flag::letter(
                'p',
                "mark groups with exactly the CPUs of a core, a chip or the system: Integer_Pipeline [core]",
            ),
            Flag::letter(
                'r',
                "only groups whose relationship contains one of these strings (l1,l2), in any case",
            )
            .value("string", ValueKind::Text),
            Flag::letter('R', "only groups whose relationship contains none of these strings")
                .value("string", ValueKind::Text),
            Flag::letter(
                's',
                "list the relationships of this machine; with -v the number of groups, and what they share",
            ),
            Flag::letter('T', "draw the tree"),
            Flag::letter('v', "print what each group shares, such as the sizes of caches"),
        ],
        in_shell: true,
        examples: &[
            Example { words: "", what: "list processor groups: pipelines, caches, chips" },
            Example { words: "-T", what: "draw the tree of groups" },
        ],
        status: &[
            ("0", "done"),
            ("1", "a named group or CPU does not exist (the others are shown), or none is left"),
            MISUSED,
        ],
        see_also: &["pgstat(1)", "psrinfo(1)", "lgrpinfo(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Tree,
    Relationships,
    Groups,
    Cpus,
}

/// The requested form.
///
/// # Errors
/// [`Failure::Usage`] for options that exclude each other.
fn form(parsed: &Parsed) -> Result<Form, Failure> {
    let forms = [('T', Form::Tree), ('s', Form::Relationships), ('I', Form::Groups), ('C', Form::Cpus)];
    let mut given = forms.into_iter().filter(|(letter, _)| parsed.has(*letter));
    let Some((letter, form)) = given.next() else { return Ok(Form::Table) };
    if let Some((other, _)) = given.next() {
        return Err(Failure::Usage(format!("options -{letter} and -{other} are mutually exclusive")));
    }
    let refused = match form {
        Form::Relationships => "p",
        Form::Groups | Form::Cpus => "pv",
        Form::Table | Form::Tree => "",
    };
    match refused.chars().find(|other| parsed.has(*other)) {
        Some(other) => Err(Failure::Usage(format!("-{other} has no meaning with -{letter}"))),
        None => Ok(form),
    }
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('h') {
        ctx.out.text(&help::usage(&COMMAND.spec));
        return Ok(Exit::DONE);
    }
    let form = form(parsed)?;
    let words = parsed.words();
    if parsed.has('c') && !words.is_empty() {
        return Err(Failure::Usage("name groups, or CPUs with -c, not both".into()));
    }
    let choice = Choice::of(parsed, &words)?;
    let session = ctx.reading(&parsed.common)?;
    let hardware = Hardware::read(session.machine(), ctx)?;
    let mut exit = Exit::DONE;
    let meant = choice.resolve(&hardware, ctx, &mut exit)?;
    if meant.is_empty() {
        return Ok(exit);
    }
    let placed = listing::placed(hardware.groups.groups(), |group| meant.contains(&group.id));
    let (physical, verbose) = (parsed.has('p'), parsed.has('v'));
    if parsed.common.json {
        match form {
            Form::Relationships => ctx.json(&relationships(&placed)),
            _ => ctx.json(&groups(&placed, &hardware.on_line)),
        }
        return Ok(exit);
    }
    match form {
        Form::Table => ctx.out.text(&listing::list(&placed, physical, verbose, &hardware.on_line)),
        Form::Tree => ctx.out.text(&listing::tree(&placed, physical, verbose, &hardware.on_line)),
        Form::Relationships => ctx.out.text(&listing::relationships(&counts(&placed), verbose)),
        Form::Groups => ctx.out.line(numbers(meant.iter())),
        Form::Cpus => ctx.out.line(numbers(on_line(&placed, &hardware.on_line).iter())),
    }
    Ok(exit)
}

/// The number of groups of each relationship, from the whole machine to the core.
fn counts(placed: &[Placed<'_>]) -> Vec<(Relationship, usize)> {
    let mut counts: BTreeMap<Relationship, usize> = BTreeMap::new();
    for p in placed {
        *counts.entry(p.group.relationship).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// The on-line CPUs of groups.
fn on_line(placed: &[Placed<'_>], on_line: &CpuSet) -> CpuSet {
    placed.iter().flat_map(|p| p.group.cpus.iter()).filter(|cpu| on_line.contains(*cpu)).collect()
}

fn numbers<N: ToString>(numbers: impl Iterator<Item = N>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

fn relationships(placed: &[Placed<'_>]) -> Relationships {
    let one = |(name, groups): (Relationship, usize)| Counted { name: name.to_string(), groups };
    Relationships { relationships: counts(placed).into_iter().map(one).collect() }
}

fn groups<'g>(placed: &[Placed<'g>], on_line: &CpuSet) -> Groups<'g> {
    let one = |p: &Placed<'g>| {
        let group = p.group;
        let cache = |&(kind, size_kib): &(CacheKind, Option<u64>)| SharedCache { kind, size_kib };
        ListedGroup {
            id: group.id,
            relationship: group.relationship.to_string(),
            parent: group.parent,
            cpus: (&group.cpus & on_line).iter().collect(),
            off_line: (&group.cpus - on_line).iter().collect(),
            physical: &group.physical,
            caches: group.caches.iter().map(cache).collect(),
        }
    };
    Groups { groups: placed.iter().map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Form, String> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        form(&millpond_cli::parse(&COMMAND.spec, &words).unwrap()).map_err(|failure| match failure {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn each_form_has_its_letter() {
        let forms = ["", "-Tpv", "-sv", "-I -r cache", "-C -c 0"].map(|text| asked(text).unwrap());
        assert_eq!(forms, [Form::Table, Form::Tree, Form::Relationships, Form::Groups, Form::Cpus]);
    }

    #[test]
    fn letters_that_do_not_go_together_are_refused() {
        assert_eq!(asked("-IC").unwrap_err(), "options -I and -C are mutually exclusive");
        assert_eq!(asked("-sT").unwrap_err(), "options -T and -s are mutually exclusive");
        assert_eq!(asked("-sp").unwrap_err(), "-p has no meaning with -s");
        assert_eq!(asked("-Cv").unwrap_err(), "-v has no meaning with -C");
    }
}
