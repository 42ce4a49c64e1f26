//! The help page.

/// Its lines.
pub const LINES: &[&str] = &[
    "1 to 9, Tab    overview, CPUs, threads, processes, IRQs, decisions, fences, latency, noise",
    "arrows, j, k   move; PgUp, PgDn, Home, End; the wheel and a click of a mouse",
    "Enter          of a set: its CPUs and threads; of a thread: everything about it",
    "Esc            back",
    "/              only rows with this text; an empty one shows all",
    "s, <           sort by the next column, by the one before; r: the other way round",
    "space          pause; on a simulated machine time stops",
    ". + -          on a simulated machine or a recording: one step; faster, slower",
    ", [ ] { }      in a recording: a second back; a minute back, on; an hour back, on",
    "",
    "Changes: each shows its plan first, and is made when you press y",
    "m              move the selected CPU to another set",
    "b              bind the selected process to a set",
    "p              give the selected process a scheduling class or a priority",
    "f              fence CPUs",
    "u              undo the last change that was made here",
    "",
    "CPU, USR, SYS, LCK, SLP, LAT: percent of one CPU or thread in the interval",
    "WAIT: threads that waited for a CPU, on average; USED: CPUs that were used",
    "A dash is not known here; millpond top --once says why",
    "",
    "?              this page        q   quit",
];
