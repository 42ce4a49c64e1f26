//! Experiments on simulated machines: from options to settings, and from findings to a table, CSV, JSON or a picture.

use super::family::joined;
use crate::ctx::Ctx;
use crate::demo;
use crate::dress::Dress;
use crate::failure::{Complaint, Exit, Failure};
use crate::interval::{clear_line, part_done, show_line};
use millpond_cli::{Common, Flag, Parsed, Spec, help};
use millpond_experiments::Here;
use millpond_experiments::published::{Choices, Experiment, Lab};
use millpond_model::Nanos;
use millpond_session::{messages_are_seen, own_program, stop_on_signal};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Write as _;

/// Options for the output format.
const SHAPES: &[Flag] = &[
    Flag::long("csv", "CSV, for spreadsheets, in place of the table"),
    Flag::long("json", "JSON, for programs"),
    Flag::long("svg", "a picture"),
];

/// The options of an experiment, for the parser.
pub(super) fn spec(experiment: &'static Experiment) -> Spec {
    Spec { name: "experiment", flags: experiment.options, shared: SHAPES, ..Spec::NEW }
}

/// Runs the experiment with the words after its name. `outer` are common options before the name.
pub(super) fn run(
    experiment: &'static Experiment,
    rest: &[OsString],
    outer: &Common,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let given = millpond_cli::parse(&spec(experiment), rest)?;
    if given.common.help {
        ctx.out.text(&manual(experiment));
        return Ok(Exit::DONE);
    }
    let common = joined(experiment.name, &given, outer)?;
    for (option, is_there) in [("root", common.root.is_some()), ("state", common.state.is_some())] {
        if is_there {
            let why = format!("experiment {} makes its machines anew: it has no --{option}", experiment.name);
            return Err(Failure::Usage(why));
        }
    }
    let dress = Dress::of(&given, common.json, &[Dress::Csv, Dress::Json, Dress::Svg])?;
    let is_here = experiment.here.is_some() && machine_is_real(&given, &common);
    let mut choices = Choices::default();
    for option in experiment.options {
        let Some(name) = option.long.filter(|name| !is_here || *name != "machine") else { continue };
        if given.long(name) {
            choose(&mut choices, option, &given.long_value(name).unwrap_or_default())?;
        } else if let (Some(machine), "machine") = (&common.machine, name) {
            choose(&mut choices, option, machine)?;
        }
    }
    if common.machine.is_some() && !choices.has("machine") && !is_here {
        let why = format!("experiment {} chooses its machine itself: it has no --machine", experiment.name);
        return Err(Failure::Usage(why));
    }
    let what = format!("run experiment {}", experiment.name);
    let here = if is_here {
        let real = Common { machine: None, ..common.clone() };
        let program = own_program().map_err(|why| Complaint::new(what.as_str(), why))?;
        Some((ctx.changing(&real)?, program))
    } else {
        None
    };
    let seen = messages_are_seen();
    let findings = {
        let prog = format!("experiment {}", experiment.name);
        let err = RefCell::new(ctx.err.lend());
        let mut tell = |what: &str| {
            if seen {
                let mut err = err.borrow_mut();
                clear_line(&mut err);
                err.line(format_args!("{prog}: {what}"));
                err.flush();
            }
        };
        let mut progress = |part: f64, elapsed: Nanos| {
            if seen {
                let done = part_done(part, elapsed);
                let text = format!("{prog}: {done} of this step; Ctrl-C ends it and keeps nothing");
                show_line(&text, &mut err.borrow_mut());
            }
        };
        match &here {
            Some((session, program)) => {
                let mut here = Here { session, program, stop: stop_on_signal(), tell: &mut tell };
                experiment.run_here(&mut here, &choices)
            }
            None => {
                let lab = Lab::new(stop_on_signal(), Vec::new(), &mut tell);
                let findings = experiment.run(&mut lab.showing(&mut progress), &choices);
                if seen {
                    clear_line(&mut err.borrow_mut());
                }
                findings
            }
        }
    };
    let findings = findings.map_err(|failure| demo::failed(&what, failure))?;
    match dress {
        Dress::Csv => ctx.out.text(&findings.csv()),
        Dress::Json => ctx.json(&findings.json()),
        Dress::Svg => ctx.out.text(&findings.svg()),
        Dress::Text => ctx.out.text(&findings.text()),
    }
    Ok(Exit::DONE)
}

/// Whether `--machine real` was given.
fn machine_is_real(given: &Parsed, common: &Common) -> bool {
    given.long_value("machine").as_deref().or(common.machine.as_deref()) == Some("real")
}

fn choose(choices: &mut Choices, option: &Flag, value: &str) -> Result<(), Failure> {
    choices.give(option, value).map_err(|error| Failure::Operand(error.to_string()))
}

/// The manual of an experiment: its claim and method, its options, and the published figures.
fn manual(experiment: &'static Experiment) -> String {
    let published = experiment.published();
    let options = experiment.options.iter().map(|option| format!(" [{}]", option.form()));
    let form = options.chain([" [--csv | --json | --svg]".to_owned()]).collect::<String>();
    let mut text = format!("millpond experiment {}: {}\n\n", experiment.name, published.title);
    let _ = writeln!(text, "usage: millpond experiment {}{form}\n", experiment.name);
    text += &help::prose(experiment.source);
    text += "\nOPTIONS\n\nAfter each summary stands what holds without it.\n\n";
    text += &help::options(spec(experiment).own_flags());
    if !published.points.is_empty() {
        let _ = writeln!(text, "\nPUBLISHED\n\n{}\n", published.source);
        for figure in &published.points {
            let unit = published.quantity(&figure.quantity).unit;
            let _ = writeln!(text, "    {} {unit}: {}, {}", figure.value, figure.quantity, figure.variant);
        }
    }
    text + "\nOPTIONS OF EVERY COMMAND\n\n" + &help::options(millpond_cli::COMMON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use millpond_session::Output;

    /// Runs `millpond experiment` with these words. Returns status, output, and the first line of messages.
    fn said(words: &str) -> (Exit, String, String) {
        let words = ["millpond", "experiment"].into_iter().chain(words.split_whitespace());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = run(&words, &mut Ctx::new(Output::to(&mut out), Output::to(&mut err)));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (exit, text(out), text(err).lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_runs() {
        for (words, why) in [
            ("e3 --threads 0", "cannot use --threads 0: it is not within 1 and 4096"),
            ("e3 --threads 32,", "cannot use --threads 32,: of ``, it is no whole number within 1 and 4096"),
            ("e3 --json --svg", "options --csv, --json and --svg are mutually exclusive"),
            ("--json e3 --csv", "options --csv, --json and --svg are mutually exclusive"),
            ("e3 now", "experiment e3 takes no operand, and was given `now`"),
            ("e3 --chips 3", "there is no option --chips"),
            ("e3 --dry-run", "an experiment changes nothing that it does not put back: it has no --dry-run"),
            ("e3 --state x", "experiment e3 makes its machines anew: it has no --state"),
            (
                "e2 --arm zones",
                "cannot use --arm zones: it is none of nothing, caps, pools, psets, nothing-blocking, pools-blocking, psets-blocking",
            ),
        ] {
            let (exit, out, message) = said(words);
            assert_eq!(
                (exit, out.as_str(), message),
                (Exit::USAGE, "", format!("millpond experiment: {why}")),
                "{words}"
            );
        }
        let (_, _, message) = said("--machine t9000 e3");
        assert!(
            message.starts_with("millpond experiment: cannot use --machine t9000: it is none of t2000, "),
            "{message}"
        );
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        let why = "millpond experiment: cannot run experiment e3: machine t2-64 has 64 CPUs, and 2 times 33 are wanted";
        assert_eq!(said("e3 --psets 33"), (Exit::REFUSED, String::new(), why.to_owned()));
    }

    #[test]
    fn experiments_of_our_own_have_no_published_column() {
        let (exit, text, message) =
            said("alternating --machine smartos-2 --every 1 --seconds 2 --policy millpond");
        assert_eq!((exit, message.as_str()), (Exit::DONE, ""));
        assert!(text.contains("\ndemand every 1 s\narm "), "{text}");
        assert!(!text.contains("published:"), "{text}");
        let csv = said("service --machine x4200 --rate 100 --seconds 1 --arm nothing --csv").1;
        assert_eq!(csv.lines().next(), Some("quantity,variant,unit,value,least,most"));
        for (words, why) in [
            ("alternating --every 0", "cannot use --every 0: it is not within 1 and 600"),
            ("alternating --policy fair", "cannot use --policy fair: it is none of millpond, solaris"),
            (
                "service --arm cpuset",
                "cannot use --arm cpuset: it is none of nothing, cpu.weight, cpu.max, pools, below-80, below-20",
            ),
            ("service --machine real --leave 0", "cannot use --leave 0: it is not within 1 and 4095"),
            ("--machine real alternating --job ep", "cannot use --job ep: it is none of batch, cg"),
        ] {
            assert_eq!(
                said(words),
                (Exit::USAGE, String::new(), format!("millpond experiment: {why}")),
                "{words}"
            );
        }
        let why = "millpond experiment: cannot run experiment service: of 2 CPUs the service cannot have 2, so that some are left for the batch";
        assert_eq!(
            said("service --machine smartos-2 --leave 2"),
            (Exit::REFUSED, String::new(), why.to_owned())
        );
    }

    #[test]
    fn one_point_is_chosen_and_shown_in_four_dresses() {
        let chosen = "e3 --threads 2 --seconds 1";
        let (exit, table, message) = said(chosen);
        assert_eq!((exit, message.as_str()), (Exit::DONE, ""));
        assert!(table.contains("\nMop/s per zone  one stopped: 2 threads"), "{table}");
        assert!(table.contains("\nno figure of these was published\n"), "{table}");
        let csv = said(&format!("{chosen} --csv")).1;
        assert_eq!(csv.lines().count(), 2);
        let json: serde_json::Value = serde_json::from_str(&said(&format!("--json {chosen}")).1).unwrap();
        assert_eq!(json["points"][0]["variant"], "one stopped: 2 threads");
        assert!(said(&format!("{chosen} --svg")).1.starts_with("<svg "));
    }

    #[test]
    fn a_manual_has_options_and_what_was_published() {
        let (exit, manual, _) = said("e3 --help");
        assert_eq!(exit, Exit::DONE);
        for part in [
            "millpond experiment e3: dynamic pools: ",
            "usage: millpond experiment e3 [--threads N,...] [--psets N,...]",
            "\nCLAIM\n",
            " --threads N,... one job with so many CPUs and threads, the other one stopped; 32,34,38,39,62 ",
            " --svg a picture ",
            "\n    1275 Mop/s: Mop/s per zone, one stopped: 38 threads\n",
            "\nOPTIONS OF EVERY COMMAND\n",
        ] {
            let one_line = manual.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(manual.contains(part) || one_line.contains(part), "{part} is not in\n{manual}");
        }
        let (exit, manual, _) = said("service --help");
        assert_eq!(exit, Exit::DONE);
        assert!(manual.contains("\n    --leave N"), "{manual}");
        assert!(!manual.contains("PUBLISHED"), "{manual}");
        assert!(said("e1 --help").1.contains("stream between these two"));
    }
}
