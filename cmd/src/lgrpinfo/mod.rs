//! Shows locality groups (lgroups, NUMA nodes): which CPUs and how much memory are near each other, and how near.
//!
//! ```text
//! $ lgrpinfo
//! lgroup 0 (root):
//!     Children: 1 2
//!     CPUs: 0-3
//!     Memory: installed 4.0G, allocated 2.2G, free 1.8G
//!     Lgroup resources: 1 2 (CPU); 1 2 (memory)
//!     Load: 0.24
//!     Latency: 83
//! lgroup 1 (leaf):
//!     Children: none, Parent: 0
//!     CPUs: 0 1
//!     Memory: installed 2.0G, allocated 1.2G, free 788M
//!     Lgroup resources: 1 (CPU); 1 (memory)
//!     Load: 0.4
//!     Latency: 56
//! ```
//!
//! Lgroups form a tree. The root, 0, is the whole machine. The leaves are its NUMA nodes, numbered from 1. Intermediate
//! lgroups exist where some nodes are nearer to each other than to the rest. A machine with one node has only the root.
//!
//! Operands are numbers, ranges, `root`, `leaves`, `intermediate` or `all` (the default). Without any of `-celLmrt`,
//! the options are `-celmrt`. Only CPUs that your processes may use are listed; `-G` lists all. On Linux a latency is
//! the firmware's NUMA distance: 10 is local.
//! # Pages
//!
//! `--pages` shows local and remote memory of processes, in KiB. Local is memory in an lgroup with a CPU on which one
//! of the threads may run. All resident pages count, those of shared libraries included. `psrset --mems local SET`
//! moves a set's memory to its CPUs.
//!
//! ```text
//! $ lgrpinfo --pages --set 1
//!      PID     MEMORY      LOCAL     REMOTE REMOTE%  BY LGROUP
//!      300    1048576     524288     524288    50.0  1:524288 2:524288
//! ```
//!
//! # JSON
//!
//! The letters select no fields: an object has all of them. The schema is `docs/reference/json/lgrpinfo.json`.

mod pages;
mod show;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::json::{self, Describe};
use crate::lgroups;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind, help};
use millpond_formats::lgrpinfo::Shown;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<show::Lgroups<'_>>(), json::of::<pages::Processes>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "lgrpinfo",
        applet: true,
        summary: "show locality groups (NUMA nodes): CPUs, memory, latency",
        group: Group::Machine,
        forms: &[
            "[-aceGlLmrt] [-u unit] [-C | -P] [lgrp ...]",
            "-I [-c] [-G] [-C | -P] [lgrp ...]",
            "-T [-aceGlLmr] [-u unit]",
            "--pages [--set processor_set] [pid ...]",
            "-h",
        ],
        flags: &[
            Flag::letter('a', "show everything: -celLmrt (with -T: -celLmr)"),
            Flag::letter('c', "show CPUs"),
            Flag::letter(
                'e',
                "show the load: running and runnable threads now; for an lgroup with children their mean",
            ),
            Flag::letter('G', "show what the machine has, not what you may use"),
            Flag::letter('l', "show the latency within the lgroup"),
            Flag::letter('L', "show a table of latencies between lgroups"),
            Flag::letter('m', "show memory: installed, allocated, free"),
            Flag::letter('r', "show resources: the leaves with its CPUs and memory"),
            Flag::letter('t', "show children and parent"),
            Flag::letter('u', "show memory in b, k, m, g, t, p or e").value("unit", ValueKind::Unit),
            Flag::letter('C', "show the children of the named lgroups"),
            Flag::letter('P', "show the parents of the named lgroups"),
            Flag::letter('I', "print only lgroup numbers, on one line; with -c CPU numbers"),
            Flag::letter('T', "draw the tree; -c, -e, -l, -m and -r apply to its leaves"),
            Flag::letter('h', "print the usage"),
            Flag::long("pages", "show where the memory of processes is: process ids as operands, or --set"),
            Flag::long("set", "with --pages: all processes that are bound to this set")
                .value("set", ValueKind::Pset),
        ],
        in_shell: true,
        operands: Operands { shown: "[lgroup ...]", kinds: &[ValueKind::Lgroup] },
        examples: &[
            Example { words: "", what: "list every lgroup: its CPUs, memory and latency" },
            Example { words: "-T", what: "draw the tree of lgroups" },
            Example { words: "--pages --set 1", what: "count the memory of processes in set 1, by lgroup" },
        ],
        status: &[
            ("0", "done"),
            (
                "1",
                "an lgroup or process does not exist (the others are shown), or the machine cannot be read",
            ),
            MISUSED,
        ],
        see_also: &["plgrp(8)", "psrset(8)", "pginfo(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// What is shown instead of the named lgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    Themselves,
    Children,
    Parents,
}

/// The parsed options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    shown: Shown,
    /// Whether the table of latencies is shown.
    table: bool,
    /// Whether a list of lgroups is shown.
    listing: bool,
    tree: bool,
    ids: bool,
    instead: Instead,
    whole_machine: bool,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('h') {
        ctx.out.text(&help::usage(&COMMAND.spec));
        return Ok(Exit::DONE);
    }
    if parsed.long("pages") || parsed.long("set") {
        return pages::run(parsed, ctx);
    }
    let options = Options::of(parsed)?;
    let mut wanted = Vec::new();
    for word in parsed.words() {
        wanted.extend(lgroups::operands(&word)?);
    }
    if options.tree && !wanted.is_empty() {
        return Err(Failure::Usage("-T shows all lgroups: name none".into()));
    }
    let session = ctx.reading(&parsed.common)?;
    show::run(session.machine(), options, &wanted, parsed.common.json, ctx)
}

impl Options {
    fn of(parsed: &Parsed) -> Result<Options, Failure> {
        let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
        let has = |letter| parsed.has(letter);
        if has('C') && has('P') {
            return usage("-C and -P are mutually exclusive");
        }
        if has('T') && (has('t') || has('I') || has('C') || has('P')) {
            return usage("-T cannot be used with -t, -I, -C or -P");
        }
        if has('I') && "aelLmrtu".chars().any(has) {
            return usage("-I can only be used with -c, -G, -C or -P");
        }
        let unit = parsed.value('u').map(|word| word.parse());
        let unit = unit.transpose().map_err(|e| Failure::Usage(format!("{e}")))?;
        let named = "celmrt".chars().any(has);
        let all = has('a') || !(named || has('L') || has('T'));
        let wants = |letter| all || has(letter);
        let shown = Shown {
            topology: wants('t'),
            cpus: wants('c'),
            memory: wants('m'),
            resources: wants('r'),
            load: wants('e'),
            latency: wants('l'),
            unit,
        };
        let instead = match () {
            () if has('C') => Instead::Children,
            () if has('P') => Instead::Parents,
            () => Instead::Themselves,
        };
        Ok(Options {
            shown,
            table: has('L') || has('a'),
            listing: all || named,
            tree: has('T'),
            ids: has('I'),
            instead,
            whole_machine: has('G'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        let parsed = millpond_cli::parse(&COMMAND.spec, &words).unwrap();
        Options::of(&parsed).map_err(|failure| match failure {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn without_letters_everything_but_the_table_is_shown() {
        let bare = options("").unwrap();
        assert_eq!(bare, options("-celmrt").unwrap());
        assert!(bare.listing && !bare.table);
        let all = options("-a").unwrap();
        assert!(all.table && all.shown == bare.shown);
        let table = options("-L").unwrap();
        assert!(table.table && !table.listing);
        assert_eq!(options("-T").unwrap().shown, Shown::default());
        assert!(options("-u m").unwrap().shown.memory);
    }

    #[test]
    fn letters_that_do_not_go_together_are_refused() {
        assert_eq!(options("-CP").unwrap_err(), "-C and -P are mutually exclusive");
        assert_eq!(options("-Tt").unwrap_err(), "-T cannot be used with -t, -I, -C or -P");
        assert_eq!(options("-Im").unwrap_err(), "-I can only be used with -c, -G, -C or -P");
        assert_eq!(options("-u x").unwrap_err(), "`x` is no unit of memory; b, k, m, g, t, p and e are");
    }
}
