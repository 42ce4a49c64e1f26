//! The output files: the saved run, data and commands for gnuplot, a picture and a page.

use super::options::Options;
use super::show::Shown;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit};
use millpond_model::{LATENCY_STAGES, Nanos};
use millpond_observe::latency::{Saved, Source};
use millpond_report::{Line, Lines, Page};
use millpond_session::replace_bytes;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the requested files. A file that cannot be written is reported, and counts as a refusal.
pub(super) fn write(options: &Options, saved: &Saved, ctx: &mut Ctx<'_>) -> Exit {
    let mut exit = Exit::DONE;
    let mut one = |path: &Path, bytes: &[u8]| {
        if let Err(why) = replace_bytes(path, bytes) {
            let complaint = Complaint::new(format!("write {}", path.display()), why);
            ctx.complain(
                &complaint.hint("what was there before is still there; make room, or name another place"),
            );
            exit = Exit::REFUSED;
        }
    };
    if let Some(path) = &options.save {
        one(path, saved.print().as_bytes());
    }
    if let Some(dir) = &options.plot {
        one(&dir.join("latstat.dat"), data(saved).as_bytes());
        one(&dir.join("latstat.gp"), control(saved.source).as_bytes());
        one(&dir.join("latstat.svg"), sheet(saved, WHOLE).svg().as_bytes());
        one(&dir.join("latstat.html"), page(saved, options).as_bytes());
    }
    exit
}

/// The row of the total.
const WHOLE: usize = LATENCY_STAGES;

#[expect(clippy::cast_precision_loss, reason = "three digits are drawn")]
fn real(number: u64) -> f64 {
    number as f64
}

/// A block for each row, separated by two empty lines: microseconds, and the number of samples.
fn data(saved: &Saved) -> String {
    let mut text = String::new();
    for (row, name) in saved.source.rows() {
        text += &format!("# {name}: us samples\n");
        for (value, count) in saved.latencies.recorded(row) {
            text += &format!("{:.3} {count}\n", real(value.0) / 1e3);
        }
        text += "\n\n";
    }
    text
}

/// A page for each row, in one document. `gnuplot latstat.gp` in the directory draws it.
fn control(source: Source) -> String {
    let mut text = "set terminal pdfcairo\nset output 'latstat.pdf'\nset logscale xy\nset xlabel 'us'\nset ylabel 'samples'\nunset key\n"
        .to_owned();
    for (block, (row, name)) in source.rows().into_iter().enumerate() {
        let title = if row == WHOLE { "timer due to user mode" } else { name };
        text += &format!("set title '{title}'\nplot 'latstat.dat' index {block} using 1:2 with impulses\n");
    }
    text
}

/// The number of samples of a row in each step of a fortieth of a decade, by the middle of the step in microseconds.
/// Finer steps would not be visible.
fn steps(saved: &Saved, row: usize) -> Vec<(f64, f64)> {
    const STEPS: f64 = 40.0;
    let mut steps: BTreeMap<i32, u64> = BTreeMap::new();
    for (value, count) in saved.latencies.recorded(row) {
        #[expect(clippy::cast_possible_truncation, reason = "a logarithm is small")]
        let step = (real(value.0.max(1)).log10() * STEPS).floor() as i32;
        let sum = steps.entry(step).or_default();
        *sum = sum.saturating_add(count);
    }
    let middle = |step: i32| 10_f64.powf((f64::from(step) + 0.5) / STEPS) / 1e3;
    steps.into_iter().map(|(step, count)| (middle(step), real(count).log10())).collect()
}

/// The distribution of one row.
fn sheet(saved: &Saved, row: usize) -> Lines {
    let called = saved.source.rows().into_iter().find(|(known, _)| *known == row);
    let name = called.map_or("", |(_, name)| name);
    let title = format!(
        "{name}: {} samples, as powers of ten",
        saved.latencies.row(row).map_or(0, |row| row.samples)
    );
    let line = Line { name: name.to_owned(), points: steps(saved, row) };
    Lines { title, unit_x: "us".into(), unit_y: "10^".into(), log_x: true, lines: vec![line] }
}

/// The times of the longest waits.
fn time_line(saved: &Saved) -> String {
    let mut points: Vec<(f64, f64)> =
        saved.worst.iter().map(|worst| (worst.at.as_secs_f64(), real(worst.total.0) / 1e3)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let line = Line { name: "longest waits".into(), points };
    let title = "longest waits since the run began".to_owned();
    Lines { title, unit_x: "s".into(), unit_y: "us".into(), log_x: false, lines: vec![line] }.svg()
}

fn page(saved: &Saved, options: &Options) -> String {
    let text = Shown { saved, run: None }.text(&options.above);
    let mut page = Page::new("From a timer to user mode").lines(&text);
    for (row, name) in saved.source.rows() {
        if saved.latencies.row(row).is_some() {
            page = page.heading(name).picture(&sheet(saved, row).svg());
        }
    }
    let seconds = saved.elapsed.0.div_ceil(1_000_000_000);
    let runs = if saved.runs == 1 { "one run".to_owned() } else { format!("{} runs", saved.runs) };
    let span = Nanos::from_secs(seconds).as_secs_f64();
    page.heading("longest waits").picture(&time_line(saved)).lines(&format!("{runs}, {span} s")).html()
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;
    use millpond_session::Output;

    const SAVED: &str = r#"{"latstat":1,"runs":1,"elapsed_ns":2500000000,"lost":0,"rows":{
        "irq":[[1000,3]],"wake-up":[[2000,3]],"on-cpu":[[3,3]],"user":[[4000,3]],"total":[[1500,1],[1600,2]]},
        "worst":[{"at_ns":7,"total_ns":9000,"stages_ns":null,"culprits":[{"what":"task <b> (7)","ns":5}]}]}"#;

    #[test]
    fn gnuplot_finds_a_block_for_each_sheet() {
        let data = data(&Saved::parse(SAVED).unwrap());
        assert!(
            data.starts_with("# irq: us samples\n1.000 3\n\n\n# wake-up: us samples\n2.000 3\n\n\n"),
            "{data}"
        );
        assert!(data.ends_with("# total: us samples\n1.500 1\n1.600 2\n\n\n"), "{data}");
        let control = control(Source::Latstat);
        assert_eq!(control.matches("plot 'latstat.dat' index ").count(), 5);
        assert!(control.ends_with(
            "set title 'timer due to user mode'\nplot 'latstat.dat' index 4 using 1:2 with impulses\n"
        ));
    }

    #[test]
    fn timerlat_has_a_block_less() {
        let text = SAVED.replace("{\"latstat\":1,", "{\"latstat\":1,\"source\":\"timerlat\",");
        let saved = Saved::parse(&text.replace("on-cpu", "thread")).unwrap();
        let names = "# irq: us samples\n# thread: us samples\n# user: us samples\n# total: us samples\n";
        let data = data(&saved);
        let heads: String =
            data.lines().filter(|l| l.starts_with('#')).map(|l| l.to_owned() + "\n").collect();
        assert_eq!(heads, names);
        assert!(control(saved.source).ends_with(
            "set title 'timer due to user mode'\nplot 'latstat.dat' index 3 using 1:2 with impulses\n"
        ));
        assert_eq!(page(&saved, &options("").unwrap()).matches("<svg").count(), 5);
    }

    #[test]
    fn steps_have_all_samples_and_are_few() {
        let values: Vec<String> = (1..2000).map(|ns| format!("[{},2]", ns * 10)).collect();
        let text = SAVED.replace("[[1500,1],[1600,2]]", &format!("[{}]", values.join(",")));
        let text = text.replace(",3]]", ",1]]");
        let steps = steps(&Saved::parse(&text).unwrap(), 4);
        assert!((100..=134).contains(&steps.len()), "{}", steps.len());
        let all: f64 = steps.iter().map(|(_, powers)| 10_f64.powf(*powers)).sum();
        assert!((all - 3998.0).abs() < 0.01, "{all}");
        assert!(steps.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn the_page_stands_alone_and_has_a_sheet_for_each_row() {
        let page = page(&Saved::parse(SAVED).unwrap(), &options("").unwrap());
        assert_eq!((page.matches("<svg").count(), page.matches("<h2>").count()), (6, 6));
        assert!(page.contains("task &lt;b&gt; (7)") && page.contains("one run, 3 s"), "{page}");
        let own = page.matches("http://www.w3.org/2000/svg").count();
        assert_eq!((page.matches("http").count(), page.contains("<script")), (own, false));
    }

    #[test]
    fn what_cannot_be_written_is_told_and_what_was_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("run");
        std::fs::write(&file, "before").unwrap();
        let mut err = Vec::new();
        let saved = Saved::parse(SAVED).unwrap();
        let exit = {
            let mut ctx = Ctx::new(Output::to(std::io::sink()), Output::to(&mut err));
            write(
                &options(&format!("--save {}/x --plot {}", file.display(), dir.path().display())).unwrap(),
                &saved,
                &mut ctx,
            )
        };
        let err = String::from_utf8(err).unwrap();
        assert_eq!((exit, err.lines().count()), (Exit::REFUSED, 2), "{err}");
        assert!(
            err.contains(": cannot write ") && err.contains("\nhint: what was there before is still there"),
            "{err}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
        for name in ["latstat.dat", "latstat.gp", "latstat.svg", "latstat.html"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
    }
}
