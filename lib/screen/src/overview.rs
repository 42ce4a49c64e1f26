//! The overview: the machine in two lines, a row for each set, and the last decisions of poold.

use crate::colour::Depth;
use crate::figure::{figure, level_char};
use crate::history::{History, waiting};
use crate::listing::{columns, fitted};
use millpond_observe::catalogue::{Entity, cpu, decision, fence, machine, pool, pset};
use millpond_observe::{Frame, Row};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Intervals in a set's sparkline.
const SPARKS: usize = 10;

/// Minimum width of the CPU heat map.
const CPUS_LEAST: usize = 16;

/// Used CPU time of a CPU, from 0 to 1.
fn used(row: &Row) -> f64 {
    match (row.number(cpu::USER), row.number(cpu::SYSTEM)) {
        (Some(user), Some(system)) => user + system,
        _ => f64::NAN,
    }
}

/// `t2000: 32 CPUs, 12 processes, 67 threads, load 3.10 2.20 1.00, watching 0.3 %`: as many parts as fit.
pub fn machine_line(frame: &Frame, width: usize) -> String {
    let Some(row) = frame.rows(Entity::Machine).first() else { return String::new() };
    let mut parts = vec![format!("{} CPUs", figure(row, machine::CPUS))];
    if row.number(machine::PROCESSES).is_some() {
        parts.push(format!("{} processes", figure(row, machine::PROCESSES)));
        parts.push(format!("{} threads", figure(row, machine::THREADS)));
    }
    let loads = [machine::LOAD_1, machine::LOAD_5, machine::LOAD_15].map(|id| row.number(id));
    if let [Some(one), Some(five), Some(fifteen)] = loads {
        parts.push(format!("load {one:.2} {five:.2} {fifteen:.2}"));
    }
    if let Some(part) = row.number(machine::WATCHING).filter(|_| frame.elapsed.is_some()) {
        parts.push(format!("watching {:.1} %", 100.0 * part));
    }
    if !row.text(machine::SCHEDULER).is_empty() {
        parts.push(row.text(machine::SCHEDULER).into_owned());
    }
    let mut line = format!("{}:", row.text(machine::NAME));
    for (n, part) in parts.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        if columns(&line) + comma.len() + 1 + columns(part) <= width {
            line += &format!("{comma} {part}");
        }
    }
    line
}

/// The name of a set: its pools, else its own name, else empty.
fn name(frame: &Frame, set: &Row) -> String {
    let id = set.number(pset::ID);
    let pools = frame.rows(Entity::Pool).iter().filter(|row| row.number(pool::SET) == id);
    let pools: Vec<_> = pools.map(|row| row.text(pool::NAME).into_owned()).collect();
    let fenced = frame.rows(Entity::Fence).iter().any(|row| row.number(fence::SET) == id);
    let name = if pools.is_empty() { set.text(pset::NAME).into_owned() } else { pools.join(",") };
    match (fenced, name.is_empty()) {
        (true, _) => format!("{name} (fence)"),
        (false, true) if id == Some(0.0) => "default".to_owned(),
        (false, _) => name,
    }
}

/// A heading, and a row for each of these sets.
pub fn sets(
    frame: &Frame,
    rows: &[&Row],
    history: &History,
    depth: Depth,
    width: usize,
) -> Vec<Line<'static>> {
    let names: Vec<String> = rows.iter().map(|row| name(frame, row)).collect();
    let name_width = names.iter().map(|name| columns(name)).max().unwrap_or(0).clamp(4, 20);
    let bounds = |row: &Row| match (row.number(pset::MIN), row.number(pset::MAX)) {
        (None, None) => "-".to_owned(),
        (_, None) => format!("{}-", figure(row, pset::MIN)),
        _ => format!("{}-{}", figure(row, pset::MIN), figure(row, pset::MAX)),
    };
    let bound_width = rows.iter().map(|row| bounds(row).len()).max().unwrap_or(0).max(7);
    let left = |row: [&str; 7]| {
        let [set, name, size, bounds, used, run, wait] = row;
        format!(
            "{set:>3} {} {size:>4} {bounds:>bound_width$} {used:>6} {run:>4} {wait:>6}",
            fitted(name, name_width, true)
        )
    };
    let head = left(["SET", "POOL", "CPUS", "MIN-MAX", "USED", "RUN", "WAIT"]);
    let has_sparks = width >= columns(&head) + SPARKS + CPUS_LEAST + 2;
    let sparks_head = if has_sparks { format!(" {}", fitted("WAITED", SPARKS, true)) } else { String::new() };
    let mut lines = vec![Line::styled(format!("{head}{sparks_head} USE OF EACH CPU"), depth.heading())];
    for (row, name) in rows.iter().zip(&names) {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        let text = left([
            &figure(row, pset::ID),
            name,
            &figure(row, pset::SIZE),
            &bounds(row),
            &number(row.number(pset::BUSY)),
            &figure(row, pset::RUNNABLE),
            &number(waiting(row)),
        ]);
        let mut spans = vec![Span::raw(text)];
        if has_sparks {
            let past = history.of(row, SPARKS);
            let most = past.iter().copied().filter(|v| v.is_finite()).fold(1.0, f64::max);
            let text: String = past.iter().map(|v| level_char(v / most)).collect();
            spans.push(Span::raw(format!(" {}", fitted(&text, SPARKS, false))));
        }
        spans.push(Span::raw(" "));
        let room = width.saturating_sub(spans.iter().map(Span::width).sum());
        spans.extend(heat(frame, row, depth, room));
        lines.push(Line::from(spans));
    }
    lines
}

/// The heat map: a column for each CPU of the set, or for each group of CPUs if there are too many.
fn heat(frame: &Frame, set: &Row, depth: Depth, room: usize) -> Vec<Span<'static>> {
    let id = set.number(pset::ID);
    let uses: Vec<f64> =
        frame.rows(Entity::Cpu).iter().filter(|row| row.number(cpu::SET) == id).map(used).collect();
    let each = uses.len().div_ceil(room.max(1)).max(1);
    #[expect(clippy::cast_precision_loss, reason = "few CPUs")]
    let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
    let column = |part: f64| {
        Span::styled(
            level_char(part).to_string(),
            if part.is_nan() { Style::new() } else { depth.heat(part) },
        )
    };
    uses.chunks(each).map(mean).map(column).collect()
}

/// Fences that leak, groups that wait for their CPU cap, and the last decisions of poold: at most `most` lines.
pub fn news(frame: &Frame, depth: Depth, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for row in frame.rows(Entity::Fence).iter().filter(|row| !row.text(fence::LEAKS).is_empty()) {
        let text = format!("fence {} leaks: {}", row.text(fence::NAME), row.text(fence::LEAKS));
        lines.push(Line::styled(fitted(&text, width, true).trim_end().to_owned(), depth.alarm()));
    }
    let throttled = frame.rows(Entity::Machine).first().map(|row| row.text(machine::THROTTLED));
    if let Some(groups) = throttled.filter(|groups| !groups.is_empty()) {
        let text = format!("throttled: {groups}; prstat --caps 5 has the figures");
        lines.push(Line::styled(fitted(&text, width, true).trim_end().to_owned(), depth.alarm()));
    }
    let moved = frame.rows(Entity::Decision).iter().filter(|row| row.text(decision::MOVES) != "nothing");
    for row in moved.take(2) {
        let ago = frame.at.as_secs_f64() - row.number(decision::AT).unwrap_or(0.0);
        let when = if ago < 0.0 { "before this boot".to_owned() } else { format!("{ago:.0} s ago") };
        let text =
            format!("poold, {when}: moved {}: {}", row.text(decision::MOVES), row.text(decision::REASON));
        lines.push(Line::raw(fitted(&text, width, true).trim_end().to_owned()));
    }
    lines.truncate(most);
    lines
}
