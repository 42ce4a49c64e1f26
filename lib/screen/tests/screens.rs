//! Compares screens drawn into memory with handwritten ones.

use millpond_model::{Nanos, WallTime};
use millpond_observe::catalogue::{Entity, cpu, decision, fence, machine, pool, pset, thread};
use millpond_observe::{Frame, Row};
use millpond_screen::{Action, Screen, Watched, colour::Depth};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// A frame of a machine of four CPUs, two of which are in the pool web: its counters at a second.
fn frame(second: u32) -> Frame {
    let mut frame = Frame::at(Nanos::from_secs(u64::from(second)), WallTime(i64::from(second)));
    let t = f64::from(second);
    let row = Row::of(Entity::Machine)
        .with(machine::NAME, "small")
        .with(machine::CPUS, 4u32)
        .with(machine::PROCESSES, 2u32)
        .with(machine::THREADS, 3u32)
        .with(machine::LOAD_1, 1.5)
        .with(machine::LOAD_5, 1.25)
        .with(machine::LOAD_15, 1.0)
        .with(machine::WATCHING, t * 0.002);
    frame.set_rows(Entity::Machine, vec![row]);
    let pool = |id: u32, name: &str| {
        Row::of(Entity::Pool).with(pool::ID, id).with(pool::NAME, name).with(pool::SET, id)
    };
    frame.set_rows(Entity::Pool, vec![pool(0, "pool_default"), pool(1, "web")]);
    let set = |id: u32, name: &str, cpus: &str, busy: f64, run: u32, waited: f64| {
        Row::of(Entity::Pset)
            .with(pset::ID, id)
            .with(pset::NAME, name)
            .with(pset::CPUS, cpus)
            .with(pset::SIZE, 2u32)
            .with(pset::MIN, 1u32)
            .with(pset::MAX, (id == 1).then_some(3u32))
            .with(pset::BUSY, busy * t)
            .with(pset::RUNNABLE, run)
            .with(pset::WAITED, waited * t)
    };
    let sets = vec![set(0, "pset_default", "0-1", 0.25, 0, 0.0), set(1, "web_set", "2-3", 2.0, 3, 1.0)];
    frame.set_rows(Entity::Pset, sets);
    let cpu = |id: u32, user: f64, idle: f64| {
        Row::of(Entity::Cpu)
            .with(cpu::ID, id)
            .with(cpu::SET, id / 2)
            .with(cpu::STATE, "on-line")
            .with(cpu::USER, user * t)
            .with(cpu::SYSTEM, 0.0)
            .with(cpu::IDLE, idle * t)
    };
    frame.set_rows(
        Entity::Cpu,
        vec![cpu(0, 0.25, 0.75), cpu(1, 0.0, 1.0), cpu(2, 1.0, 0.0), cpu(3, 1.0, 0.0)],
    );
    let thread = |pid: u32, lwp: u32, name: &str, state: &str, set: u32, user: f64, latency: f64| {
        Row::of(Entity::Thread)
            .with(thread::PID, pid)
            .with(thread::LWP, lwp)
            .with(thread::BEGAN, 0.0)
            .with(thread::NAME, name)
            .with(thread::STATE, state)
            .with(thread::CLASS, "TS")
            .with(thread::PRIORITY, 29.0)
            .with(thread::SET, set)
            .with(thread::TIME, user * t)
            .with(thread::USER, user * t)
            .with(thread::SYSTEM, 0.0)
            .with(thread::LATENCY, latency * t)
    };
    frame.set_rows(
        Entity::Thread,
        vec![
            thread(7, 1, "init", "sleep", 0, 0.25, 0.0),
            thread(20, 1, "httpd", "cpu2", 1, 1.0, 0.0),
            thread(20, 2, "ht\x1b[31mtpd", "run", 1, 0.5, 0.5),
        ],
    );
    let moved = Row::of(Entity::Decision)
        .with(decision::AT, 8.0)
        .with(decision::MOVES, "3 from pset_default to web_set")
        .with(decision::REASON, "web_set lacks 1.0 CPUs")
        .with(decision::DONE, "1 of 1");
    frame.set_rows(Entity::Decision, vec![moved]);
    frame
}

/// A screen after one interval of a second.
fn screen() -> Screen {
    let mut screen = Screen::new(Depth::Mono, Watched::Real);
    screen.push(frame(10));
    screen.push(frame(11));
    screen
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn key(screen: &mut Screen, code: KeyCode) -> Action {
    screen.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn typed(screen: &mut Screen, text: &str) {
    for c in text.chars() {
        assert_eq!(key(screen, KeyCode::Char(c)), Action::None);
    }
}

#[test]
fn the_overview_fits_into_80_columns_of_24_lines() {
    let expected = [
        "small: 4 CPUs, 2 processes, 3 threads, load 1.50 1.25 1.00     1.0 s, up 0:00:11",
        "SET POOL         CPUS MIN-MAX   USED  RUN   WAIT WAITED     USE OF EACH CPU",
        "  0 pool_default    2      1-   0.25    0   0.00          ▁ ▂▁",
        "  1 web             2     1-3   2.00    3   1.00          █ ██",
        "",
        "poold, 3 s ago: moved 3 from pset_default to web_set: web_set lacks 1.0 CPUs",
        "",
        "PID LWP STATE CLASS PRI SET USR SYS DFL LCK SLP LAT VCX ICX NAME",
        " 20   1 cpu2  TS     29   1 100 0.0   -   -   - 0.0   -   - httpd",
        " 20   2 run   TS     29   1  50 0.0   -   -   -  50   -   - ht\\u001b[31mtpd",
        "  7   1 sleep TS     29   0  25 0.0   -   -   - 0.0   -   - init",
    ];
    let lines = drawn(&mut screen(), 80, 24);
    assert_eq!(lines[..expected.len()], expected);
    assert!(lines[expected.len()..23].iter().all(String::is_empty));
    let foot = "1*overview 2CPUs 3threads 4processes 5IRQs 6decisions 7fences 8latency 9noise ?";
    assert_eq!(lines[23], foot);
}

#[test]
fn a_set_opens_with_its_cpus_and_threads_and_a_thread_with_all_its_figures() {
    let mut screen = screen();
    drawn(&mut screen, 80, 24);
    key(&mut screen, KeyCode::Down);
    key(&mut screen, KeyCode::Enter);
    let lines = drawn(&mut screen, 80, 24);
    assert_eq!(lines[2], "  1 web     2     1-3   2.00    3   1.00          █ ██");
    assert_eq!(lines[3], "CPU SET STATE   USR SYS WT IDL ST INTR CSW ICSW MIGR XCAL SYSCL MINF SMTX NODE");
    assert_eq!(lines[4], "  2   1 on-line 100 0.0  - 0.0  -    -   -    -    -    -     -    -    - -");
    assert_eq!(lines[6], "PID LWP STATE CLASS PRI SET USR SYS DFL LCK SLP LAT VCX ICX NAME");
    assert!(lines[7].ends_with(" httpd") && lines[9].is_empty(), "{lines:#?}");
    key(&mut screen, KeyCode::Enter);
    let lines = drawn(&mut screen, 80, 24);
    assert_eq!(lines[1], "PID                    20  number of its process");
    assert!(
        lines.iter().any(|line| line == "LAT                   0.0  time runnable without a CPU"),
        "{lines:#?}"
    );
    key(&mut screen, KeyCode::Esc);
    key(&mut screen, KeyCode::Esc);
    assert!(drawn(&mut screen, 80, 24)[1].starts_with("SET POOL"));
}

#[test]
fn lists_are_filtered_and_sorted_by_keys() {
    let mut screen = screen();
    typed(&mut screen, "3/");
    typed(&mut screen, "HTT");
    key(&mut screen, KeyCode::Enter);
    let lines = drawn(&mut screen, 100, 10);
    assert!(lines[2].ends_with("httpd") && lines[3].is_empty(), "{lines:#?}");
    assert!(lines[9].contains(" [htt]"), "{lines:#?}");
    key(&mut screen, KeyCode::Esc);
    // By pid: the largest first, then reversed.
    typed(&mut screen, "s");
    assert!(drawn(&mut screen, 100, 10)[1].starts_with("PIDv "));
    typed(&mut screen, "r");
    let lines = drawn(&mut screen, 100, 10);
    assert!(lines[1].starts_with("PID^ ") && lines[2].ends_with("init"), "{lines:#?}");
}

#[test]
fn a_change_shows_its_plan_and_is_made_after_yes_and_undone() {
    let mut screen = screen();
    drawn(&mut screen, 80, 24);
    typed(&mut screen, "2");
    drawn(&mut screen, 80, 24);
    typed(&mut screen, "jm");
    assert_eq!(drawn(&mut screen, 80, 24)[23], "move CPU 1 from set 0 to set: _");
    typed(&mut screen, "web");
    let words = |action| match action {
        Action::Plan(words) | Action::Run(words) => words.join(" "),
        other => panic!("{other:?}"),
    };
    let plan = words(key(&mut screen, KeyCode::Enter));
    assert_eq!(plan, "poolcfg --dry-run -d -c transfer to pset web_set (cpu 1)");
    screen.planned(vec!["cpuset.cpus: 0-1 -> 0".to_owned()], true, None);
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines.iter().any(|line| line.contains("cpuset.cpus: 0-1 -> 0")), "{lines:#?}");
    assert_eq!(lines[23], "y: do it   any other key: leave it");
    let run = words(key(&mut screen, KeyCode::Char('y')));
    assert_eq!(run, "poolcfg -d -c transfer to pset web_set (cpu 1)");
    screen.done(Vec::new(), true);
    let undo = words(key(&mut screen, KeyCode::Char('u')));
    assert_eq!(undo, "poolcfg -d -c transfer to pset pset_default (cpu 1)");
    screen.done(Vec::new(), true);
    key(&mut screen, KeyCode::Char('u'));
    assert!(drawn(&mut screen, 80, 24).iter().any(|line| line.contains("nothing was changed here")));
}

#[test]
fn a_class_is_given_back_as_the_machine_says_it_was() {
    let mut screen = screen();
    drawn(&mut screen, 80, 24);
    typed(&mut screen, "3");
    drawn(&mut screen, 80, 24);
    typed(&mut screen, "p");
    let asked = drawn(&mut screen, 80, 24)[23].clone();
    assert!(
        asked.starts_with("class of process ") && asked.ends_with(", as CLASS [PRIORITY] (RT 5, TS -10): _"),
        "{asked}"
    );
    typed(&mut screen, "rt 5");
    let words = |action| match action {
        Action::Plan(words) | Action::Run(words) => words.join(" "),
        other => panic!("{other:?}"),
    };
    assert!(words(key(&mut screen, KeyCode::Enter)).starts_with("priocntl --dry-run -s -c RT -p 5 -i pid "));
    let back = ["priocntl", "-s", "--as", "TS 0 0", "-i", "pid", "7"].map(str::to_owned).to_vec();
    screen.planned(vec!["policy:7/7@60: other 0 -> rr 6".to_owned()], true, Some(back));
    assert!(words(key(&mut screen, KeyCode::Char('y'))).starts_with("priocntl -s -c RT -p 5 -i pid "));
    screen.done(Vec::new(), true);
    assert_eq!(words(key(&mut screen, KeyCode::Char('u'))), "priocntl -s --as TS 0 0 -i pid 7");
    screen.done(Vec::new(), true);
    // A process without a known earlier class is not changed, because that could not be undone.
    typed(&mut screen, "pTS");
    key(&mut screen, KeyCode::Enter);
    screen.planned(Vec::new(), true, None);
    let lines = drawn(&mut screen, 80, 24);
    assert!(
        lines.iter().any(|line| line.contains("could not be undone here, so it is not made")),
        "{lines:#?}"
    );
}

#[test]
fn what_is_refused_is_told_and_can_be_tried_again() {
    let mut screen = screen();
    typed(&mut screen, "f");
    typed(&mut screen, "x 9");
    assert!(matches!(key(&mut screen, KeyCode::Enter), Action::Plan(_)));
    screen.planned(vec!["fence: there is no such CPU".to_owned()], false, None);
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines.iter().any(|line| line.contains("there is no such CPU")), "{lines:#?}");
    assert_eq!(key(&mut screen, KeyCode::Char('y')), Action::None, "a refused plan is not made");
    assert!(drawn(&mut screen, 80, 24)[23].starts_with("1*overview"));
}

#[test]
fn time_of_a_simulated_machine_is_paused_stepped_and_sped_up() {
    let mut screen = Screen::new(Depth::Mono, Watched::Simulated);
    screen.push(frame(10));
    typed(&mut screen, "+++");
    assert_eq!((screen.pace().speed, screen.pace().is_paused), (10, false));
    typed(&mut screen, ".");
    assert!(screen.pace().is_paused && screen.pace().wants_step);
    screen.push(frame(11));
    assert!(screen.pace().is_paused && !screen.pace().wants_step);
    for _ in 0..20 {
        typed(&mut screen, "+");
    }
    assert_eq!(screen.pace().speed, 1000);
    let mut real = screen_of_real();
    typed(&mut real, "+");
    assert!(drawn(&mut real, 80, 24).iter().any(|line| line.contains("only a simulated machine")));
}

fn screen_of_real() -> Screen {
    screen()
}

#[test]
fn a_mouse_selects_and_scrolls() {
    let mut screen = screen();
    typed(&mut screen, "2");
    drawn(&mut screen, 80, 24);
    let mouse = |kind, row| Event::Mouse(MouseEvent { kind, column: 3, row, modifiers: KeyModifiers::NONE });
    // The heading is line 1, the first CPU line 2.
    screen.event(&mouse(MouseEventKind::Down(MouseButton::Left), 4));
    typed(&mut screen, "m");
    assert!(drawn(&mut screen, 80, 24)[23].starts_with("move CPU 2 "));
    key(&mut screen, KeyCode::Esc);
    screen.event(&mouse(MouseEventKind::ScrollUp, 0));
    typed(&mut screen, "m");
    assert!(drawn(&mut screen, 80, 24)[23].starts_with("move CPU 0 "));
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
    let mut screen = screen();
    for view in "1234567".chars() {
        typed(&mut screen, &view.to_string());
        for (width, height) in [(1, 1), (20, 4), (33, 7), (80, 24), (211, 60)] {
            drawn(&mut screen, width, height);
        }
    }
    typed(&mut screen, "?");
    drawn(&mut screen, 30, 8);
}

#[test]
fn a_fence_that_leaks_is_in_the_overview() {
    let mut screen = Screen::new(Depth::Mono, Watched::Real);
    let mut leaking = frame(10);
    let row = Row::of(Entity::Fence)
        .with(fence::NAME, "trading")
        .with(fence::SET, 1u32)
        .with(fence::LEAKS, "interrupt 24 may run on CPU 2");
    leaking.set_rows(Entity::Fence, vec![row]);
    screen.push(leaking);
    let lines = drawn(&mut screen, 80, 24);
    assert!(lines.contains(&"fence trading leaks: interrupt 24 may run on CPU 2".to_owned()), "{lines:#?}");
    assert!(lines[3].starts_with("  1 web (fence) "), "{lines:#?}");
}

#[test]
fn what_is_throttled_is_in_the_overview() {
    let mut screen = Screen::new(Depth::Mono, Watched::Real);
    let mut throttled = frame(10);
    let machine = Row::of(Entity::Machine).with(machine::THROTTLED, "zone a\u{1b}b (cap 20 %)");
    throttled.set_rows(Entity::Machine, vec![machine]);
    screen.push(throttled);
    let lines = drawn(&mut screen, 80, 24);
    let is_there = |line: &String| {
        line.starts_with("throttled: zone a")
            && line.ends_with("b (cap 20 %); prstat --caps 5 has the figures")
    };
    assert!(lines.iter().any(is_there), "{lines:#?}");
}

#[test]
fn nothing_hostile_reaches_the_terminal() {
    let mut screen = screen();
    let symbols = drawn(&mut screen, 200, 24).concat();
    assert!(symbols.chars().all(|c| !c.is_control()));
}
