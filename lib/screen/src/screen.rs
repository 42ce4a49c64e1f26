//! The state of the screens, and drawing.

use crate::colour::Depth;
use crate::figure::figure;
use crate::help;
use crate::history::History;
use crate::keys::{self, Action, Wish};
use crate::listing::{fitted, listing};
use crate::overview;
use crate::prompt::{Change, Edit, Prompt, Target};
use crate::view::{Filter, NUMBERED, Order, SETS, View, rows};
use millpond_model::Nanos;
use millpond_observe::catalogue::{Entity, FieldId, cpu, fields, pool, process, pset, thread};
use millpond_observe::{Frame, Intervals, Row, RowKey};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

/// The pace of time that the user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Paused: no new interval.
    pub is_paused: bool,
    /// One interval more during a pause.
    pub wants_step: bool,
    /// Speed of a simulated machine, as a multiple of real time.
    pub speed: u32,
}

/// The kind of the observed machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A running machine.
    Real,
    /// A simulated machine, whose time can be stopped.
    Simulated,
    /// A recorded machine: no changes are possible, and time can go back.
    Recorded,
}

/// The speeds to choose from.
const SPEEDS: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Lines around a list: the machine, the heading, the keys.
const BORDER: u16 = 3;

/// The terminal's contents.
pub struct Screen {
    depth: Depth,
    watched: Watched,
    pace: Pace,
    intervals: Intervals,
    /// The displayed time of day.
    time: String,
    /// The displayed interval.
    shown: Frame,
    history: History,
    views: Vec<Opened>,
    prompt: Option<Prompt>,
    undo: Vec<Edit>,
    /// Number of lines and first line of the list when it was last drawn.
    page: (usize, u16),
}

/// A view with its selection.
#[derive(Debug, Clone, Default)]
struct Opened {
    view: View,
    filter: Filter,
    order: Order,
    selected: Option<RowKey>,
    first: usize,
}

impl Opened {
    fn new(view: View) -> Opened {
        Opened { order: view.order(), view, ..Opened::default() }
    }
}

impl Screen {
    /// An empty screen.
    #[must_use]
    pub fn new(depth: Depth, watched: Watched) -> Screen {
        Screen {
            depth,
            watched,
            pace: Pace { is_paused: false, wants_step: false, speed: 1 },
            intervals: Intervals::default(),
            time: String::new(),
            shown: Frame::default(),
            history: History::default(),
            views: vec![Opened::new(View::Overview)],
            prompt: None,
            undo: Vec::new(),
            page: (0, 0),
        }
    }

    /// Opens the first view.
    pub fn begin(&mut self, view: View, filter: Filter, order: Order) {
        self.views = vec![Opened { view, filter, order, ..Opened::default() }];
    }

    /// Adds a frame. The screen shows the interval since the previous one; the first frame has no rates.
    pub fn push(&mut self, frame: Frame) {
        self.pace.wants_step = false;
        self.shown = match self.intervals.push(frame) {
            Some(interval) => {
                self.history.push(&interval);
                interval
            }
            None => self.intervals.first_look(),
        };
    }

    /// Discards earlier frames: the next one is of another time or another measurement.
    pub fn restart(&mut self) {
        self.intervals = Intervals::default();
        self.history = History::default();
    }

    /// Sets the displayed time of day.
    pub fn set_time(&mut self, time: String) {
        self.time = time;
    }

    /// Pauses, with a reason.
    pub fn pause(&mut self, why: String) {
        self.pace = Pace { is_paused: true, wants_step: false, ..self.pace };
        self.say(vec![why]);
    }

    /// The requested pace of time.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// The displayed interval.
    #[must_use]
    pub fn shown(&self) -> &Frame {
        &self.shown
    }

    /// Shows the plan of a change: the command's output, and whether the command would succeed.
    ///
    /// `undo` is the undo command, where it depends on the machine's state, such as a process's earlier binding.
    pub fn planned(&mut self, mut lines: Vec<String>, goes: bool, undo: Option<Vec<String>>) {
        if let Some(Prompt::Planning(mut edit)) = self.prompt.take() {
            if edit.undo.is_empty() {
                edit.undo = undo.unwrap_or_default();
            }
            let can_be_undone = !edit.undo.is_empty();
            if goes && !can_be_undone {
                lines.push("it could not be undone here, so it is not made".to_owned());
            }
            self.prompt = Some(if goes && can_be_undone {
                Prompt::Confirm(edit, lines)
            } else {
                Prompt::Message(lines)
            });
        }
    }

    /// Shows a command's output, and whether it succeeded.
    pub fn done(&mut self, lines: Vec<String>, is_done: bool) {
        if let Some(Prompt::Doing(edit, is_undo)) = self.prompt.take() {
            match (is_done, is_undo) {
                (true, false) => self.undo.push(edit),
                (false, true) => self.undo.push(Edit { words: edit.undo, undo: edit.words }),
                _ => {}
            }
            self.prompt = (!is_done || !lines.is_empty()).then_some(Prompt::Message(lines));
        }
    }

    /// Handles the user's input.
    pub fn event(&mut self, event: &Event) -> Action {
        match event {
            Event::Key(key) if self.prompt.is_some() => self.answer(*key),
            Event::Key(key) => keys::wish(*key).map_or(Action::None, |wish| self.follow(wish)),
            Event::Mouse(mouse) if self.prompt.is_none() => {
                keys::mouse(*mouse).map_or(Action::None, |wish| self.follow(wish))
            }
            _ => Action::None,
        }
    }

    fn now(&self) -> &Opened {
        // Never empty: the last view cannot be closed.
        self.views.last().unwrap_or_else(|| unreachable!("a view is open"))
    }

    fn now_mut(&mut self) -> &mut Opened {
        self.views.last_mut().unwrap_or_else(|| unreachable!("a view is open"))
    }

    fn list(&self) -> Vec<&Row> {
        let now = self.now();
        if let View::Thread(_) = now.view {
            return Vec::new();
        }
        if now.view == View::Overview {
            return self.shown.rows(Entity::Pset).iter().collect();
        }
        rows(&self.shown, &now.view, &now.filter, now.order)
    }

    /// The position of the selected row in a list; the first if it is not there.
    fn at(&self, list: &[&Row]) -> usize {
        let key = self.now().selected.as_ref();
        list.iter().position(|row| Some(&row.key()) == key).unwrap_or(0)
    }

    fn selected(&self) -> Option<&Row> {
        let list = self.list();
        list.get(self.at(&list)).copied()
    }

    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let list = self.list();
        let Some(last) = list.len().checked_sub(1) else { return };
        let at = self.at(&list);
        let key = list[to(at, last).min(last)].key();
        self.now_mut().selected = Some(key);
    }

    fn show(&mut self, view: View) {
        self.views = vec![Opened::new(view)];
    }

    fn follow(&mut self, wish: Wish) -> Action {
        match wish {
            Wish::Quit => return Action::Quit,
            Wish::Help => self.say(help::LINES.iter().map(|line| (*line).to_owned()).collect()),
            Wish::Numbered(digit) => {
                if let Some(view) = NUMBERED.get(digit) {
                    self.show(view.clone());
                }
            }
            Wish::NextView => {
                let at = NUMBERED.iter().position(|view| *view == self.views[0].view).unwrap_or(0);
                self.show(NUMBERED[(at + 1) % NUMBERED.len()].clone());
            }
            Wish::Open => self.open(),
            Wish::Back => {
                if self.views.len() > 1 {
                    self.views.pop();
                } else if !self.now().filter.text().is_empty() {
                    self.now_mut().filter = Filter::default();
                }
            }
            Wish::Up(lines) => self.select(|at, _| at.saturating_sub(lines)),
            Wish::Down(lines) => self.select(|at, _| at + lines),
            Wish::First => self.select(|_, _| 0),
            Wish::Last => self.select(|_, last| last),
            Wish::Page(down) => {
                let lines = self.page.0.max(1);
                self.select(|at, _| if down { at + lines } else { at.saturating_sub(lines) });
            }
            Wish::Click(line) => {
                let (lines, top) = self.page;
                if let Some(at) = line.checked_sub(top).map(usize::from).filter(|at| *at < lines) {
                    let first = self.now().first;
                    self.select(|_, _| first + at);
                }
            }
            Wish::Filter => self.prompt = Some(Prompt::Filter(self.now().filter.text().to_owned())),
            Wish::SortNext => self.sort(1),
            Wish::SortBefore => self.sort(-1),
            Wish::Reverse => {
                let order = self.now().order;
                self.now_mut().order = Order { reversed: !order.reversed, ..order };
            }
            Wish::Pause => self.pace.is_paused = !self.pace.is_paused,
            Wish::Step => self.pace = Pace { is_paused: true, wants_step: true, ..self.pace },
            Wish::Faster => self.go(1),
            Wish::Slower => self.go(-1),
            Wish::Move | Wish::Bind | Wish::Class | Wish::Fence | Wish::Undo
                if self.watched == Watched::Recorded =>
            {
                self.say(vec!["this is a recording: nothing can be changed in it".to_owned()]);
            }
            Wish::Go(seconds) if self.watched == Watched::Recorded => return Action::Go(seconds),
            Wish::Go(_) => self.say(vec!["only in a recording time goes back: top --replay".to_owned()]),
            Wish::Move | Wish::Bind | Wish::Class | Wish::Fence => self.ask(wish),
            Wish::Undo => match self.undo.pop() {
                None => self.say(vec!["nothing was changed here that could be undone".to_owned()]),
                Some(Edit { words, undo }) => {
                    let back = Edit { words: undo.clone(), undo: words };
                    self.prompt = Some(Prompt::Doing(back, true));
                    return Action::Run(undo);
                }
            },
        }
        Action::None
    }

    fn say(&mut self, lines: Vec<String>) {
        self.prompt = Some(Prompt::Message(lines));
    }

    fn go(&mut self, by: isize) {
        if self.watched == Watched::Real {
            let why = "only a simulated machine or a recording goes faster or slower: top --machine t2000, top --replay";
            return self.say(vec![why.to_owned()]);
        }
        let at = SPEEDS.iter().position(|speed| *speed == self.pace.speed).unwrap_or(0);
        self.pace.speed = SPEEDS[at.saturating_add_signed(by).min(SPEEDS.len() - 1)];
    }

    fn sort(&mut self, by: isize) {
        let now = self.now();
        let (_, shown) = now.view.list();
        let at = now.order.by.and_then(|id| shown.iter().position(|field| *field == id));
        let count = shown.len().cast_signed();
        let next = match at {
            None if by > 0 => 0,
            None => count - 1,
            Some(at) => (at.cast_signed() + by).rem_euclid(count),
        };
        let by = shown[next.cast_unsigned()];
        self.now_mut().order = Order { by: Some(by), reversed: false };
    }

    fn open(&mut self) {
        let Some(row) = self.selected() else { return };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of sets")]
        let set = |id: FieldId| row.number(id).map(|number| View::Set(number as u32));
        let opened = match self.now().view {
            View::Overview => set(pset::ID),
            View::Cpus => set(cpu::SET),
            View::Threads | View::Set(_) => Some(View::Thread(row.key())),
            _ => None,
        };
        self.views.extend(opened.map(Opened::new));
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of CPUs, sets and processes"
    )]
    fn ask(&mut self, wish: Wish) {
        let number = |id: FieldId| self.selected().and_then(|row| row.number(id)).map(|n| n as u32);
        let pid = || number(process::PID).or_else(|| number(thread::PID));
        let change = match wish {
            Wish::Fence => Some(Change::Fence),
            Wish::Move => number(cpu::ID).zip(number(cpu::SET)).map(|(cpu, from)| Change::Move { cpu, from }),
            Wish::Class => pid().map(|pid| Change::Class { pid }),
            _ => {
                let from = number(process::SET).or_else(|| number(thread::SET));
                pid().map(|pid| Change::Bind { pid, from: from.unwrap_or(0) })
            }
        };
        self.prompt = Some(match change {
            Some(change) => Prompt::Target(change, String::new()),
            None if wish == Wish::Move => Prompt::Message(vec!["select a CPU: key 2 lists them".to_owned()]),
            None => Prompt::Message(vec!["select a process or a thread: keys 3 and 4 list them".to_owned()]),
        });
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of sets")]
    fn targets(&self) -> Vec<Target> {
        let text = |text: std::borrow::Cow<'_, str>| (!text.is_empty()).then(|| text.into_owned());
        let target = |row: &Row| {
            let id = row.number(pset::ID)?;
            let pools = self.shown.rows(Entity::Pool);
            let pool = pools.iter().find(|pool| pool.number(pool::SET) == Some(id));
            Some(Target {
                set: id as u32,
                name: text(row.text(pset::NAME)),
                pool: pool.and_then(|row| text(row.text(pool::NAME))),
            })
        };
        self.shown.rows(Entity::Pset).iter().filter_map(target).collect()
    }

    /// Handles a key in a dialog.
    fn answer(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        match self.prompt.take() {
            Some(Prompt::Filter(mut text)) => {
                match typed(&mut text, key) {
                    Typed::More => {
                        self.now_mut().filter = Filter::new(&text);
                        self.prompt = Some(Prompt::Filter(text));
                    }
                    Typed::Enter => {}
                    Typed::Escape => self.now_mut().filter = Filter::default(),
                }
                Action::None
            }
            Some(Prompt::Target(change, mut text)) => match typed(&mut text, key) {
                Typed::More => {
                    self.prompt = Some(Prompt::Target(change, text));
                    Action::None
                }
                Typed::Escape => Action::None,
                Typed::Enter => match change.edit(&text, &self.targets()) {
                    Ok(edit) => {
                        let mut words = edit.words.clone();
                        words.insert(1, "--dry-run".to_owned());
                        self.prompt = Some(Prompt::Planning(edit));
                        Action::Plan(words)
                    }
                    Err(why) => {
                        self.say(vec![why]);
                        Action::None
                    }
                },
            },
            Some(Prompt::Confirm(edit, _)) if matches!(key.code, KeyCode::Char('y' | 'Y')) => {
                let words = edit.words.clone();
                self.prompt = Some(Prompt::Doing(edit, false));
                Action::Run(words)
            }
            Some(waits @ (Prompt::Planning(_) | Prompt::Doing(..))) => {
                self.prompt = Some(waits);
                Action::None
            }
            Some(Prompt::Confirm(..) | Prompt::Message(_)) | None => Action::None,
        }
    }

    /// Draws the screen.
    pub fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        let area = frame.area();
        if area.height < BORDER + 1 || area.width < 20 {
            frame.render_widget(Paragraph::new("too small"), area);
            return;
        }
        let width = usize::from(area.width);
        let line = |y: u16, height: u16| Rect { x: 0, y, width: area.width, height };
        frame.render_widget(Paragraph::new(self.head(width)), line(0, 1));
        self.body(frame, line(1, area.height - 2), width);
        frame.render_widget(Paragraph::new(self.foot(width)), line(area.height - 1, 1));
        self.dialog(frame, area);
    }

    fn head(&self, width: usize) -> Line<'static> {
        let pace = match (self.pace.is_paused, self.watched) {
            (true, _) => " [paused]".to_owned(),
            (false, Watched::Real) => String::new(),
            (false, Watched::Simulated | Watched::Recorded) => format!(" [×{}]", self.pace.speed),
        };
        let over = self
            .shown
            .elapsed
            .map_or_else(|| "first look".to_owned(), |t| format!("{:.1} s", t.as_secs_f64()));
        let right = match self.time.is_empty() {
            true => format!(" {over}, up {}{pace}", up(self.shown.at)),
            false => format!(" {over}, {}{pace}", self.time),
        };
        let room = width.saturating_sub(crate::listing::columns(&right));
        let left = overview::machine_line(&self.shown, room);
        Line::styled(format!("{}{right}", fitted(&left, room, true)), self.depth.heading())
    }

    fn foot(&self, width: usize) -> Line<'static> {
        let text = match &self.prompt {
            Some(Prompt::Filter(text)) => format!("only rows with: {text}_"),
            Some(Prompt::Target(change, text)) => format!("{}{text}_", change.question()),
            Some(Prompt::Planning(_)) => "…".to_owned(),
            Some(Prompt::Doing(edit, _)) => format!("{} …", edit.words.join(" ")),
            Some(Prompt::Confirm(..)) => "y: do it   any other key: leave it".to_owned(),
            Some(Prompt::Message(_)) => "any key goes on".to_owned(),
            None => {
                let now = self.now();
                let mut text = String::new();
                for (view, digit) in NUMBERED.iter().zip(1..) {
                    let mark = if *view == now.view { "*" } else { "" };
                    text += &format!("{digit}{mark}{} ", view.short_title());
                }
                if !now.filter.text().is_empty() {
                    text += &format!(" [{}]", now.filter.text());
                }
                text + "?"
            }
        };
        Line::styled(fitted(&text, width, true), self.depth.heading())
    }

    fn body(&mut self, frame: &mut ratatui::Frame<'_>, area: Rect, width: usize) {
        let height = usize::from(area.height);
        match self.now().view.clone() {
            View::Overview => self.overview(frame, area, width),
            View::Thread(key) => {
                let lines = self.thread(&key);
                frame.render_widget(Paragraph::new(lines), area);
            }
            View::Set(set) => {
                let mut lines = self.set_lines(set, width);
                lines.truncate(height / 2);
                self.table(frame, area, width, lines);
            }
            _ => self.table(frame, area, width, Vec::new()),
        }
    }

    /// Draws lines, and below them the list of the view with its selection.
    fn table(&mut self, frame: &mut ratatui::Frame<'_>, area: Rect, width: usize, above: Vec<Line<'static>>) {
        let now = self.now();
        let list = self.list();
        let room = usize::from(area.height).saturating_sub(above.len() + 1);
        let at = self.at(&list);
        let first = now.first.min(at).max((at + 1).saturating_sub(room)).min(list.len().saturating_sub(room));
        let page: Vec<&Row> = list.iter().skip(first).take(room).copied().collect();
        let (_, fields) = now.view.list();
        let table = listing(&page, fields, now.order, width);
        let top = area.y + u16::try_from(above.len() + 1).unwrap_or(u16::MAX);
        let mut lines = above;
        lines.push(Line::styled(table.heading, self.depth.heading()));
        if list.is_empty() {
            lines.push(Line::raw(self.why_empty()));
        }
        for (n, line) in table.lines.into_iter().enumerate() {
            let style = if first + n == at { self.depth.selected() } else { Style::new() };
            lines.push(Line::styled(fitted(&line, width, true), style));
        }
        self.page = (page.len(), top);
        self.now_mut().first = first;
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn why_empty(&self) -> String {
        let now = self.now();
        if !now.filter.text().is_empty() {
            return "nothing has this text (Esc shows all)".to_owned();
        }
        match now.view {
            View::Decisions => "poold has decided nothing here".to_owned(),
            View::Fences => "no fence stands (f makes one)".to_owned(),
            View::Interrupts => "no interrupts are known".to_owned(),
            _ => "nothing".to_owned(),
        }
    }

    fn overview(&mut self, frame: &mut ratatui::Frame<'_>, area: Rect, width: usize) {
        let height = usize::from(area.height);
        let sets = self.list();
        let mut lines = overview::sets(&self.shown, &sets, &self.history, self.depth, width);
        let at = self.at(&sets);
        let count = sets.len();
        // The sets get half of the screen, with the selected one visible.
        let room = (height / 2).max(2) - 1;
        let first = (at + 1).saturating_sub(room);
        let heading = lines.remove(0);
        let mut shown: Vec<Line<'static>> = vec![heading];
        for (n, line) in lines.into_iter().enumerate().skip(first).take(room) {
            shown.push(if n == at { line.patch_style(self.depth.selected()) } else { line });
        }
        self.page = (count.min(room), area.y + 1);
        self.now_mut().first = first;
        let mut lines = shown;
        lines.push(Line::raw(""));
        let news = overview::news(&self.shown, self.depth, width, 3);
        if !news.is_empty() {
            lines.extend(news);
            lines.push(Line::raw(""));
        }
        let left = height.saturating_sub(lines.len() + 1);
        lines.extend(self.busiest(width, left));
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// The busiest threads, with a heading.
    fn busiest(&self, width: usize, most: usize) -> Vec<Line<'static>> {
        let view = View::Threads;
        let all = rows(&self.shown, &view, &Filter::default(), view.order());
        let some: Vec<&Row> = all.into_iter().take(most).collect();
        let table = listing(&some, view.list().1, view.order(), width);
        let mut lines = vec![Line::styled(table.heading, self.depth.heading())];
        lines.extend(table.lines.into_iter().map(Line::raw));
        lines
    }

    fn set_lines(&self, set: u32, width: usize) -> Vec<Line<'static>> {
        let is_it = |row: &&Row| row.number(pset::ID) == Some(f64::from(set));
        let sets: Vec<&Row> = self.shown.rows(Entity::Pset).iter().filter(is_it).collect();
        let mut lines = overview::sets(&self.shown, &sets, &self.history, self.depth, width);
        let cpus: Vec<&Row> = self
            .shown
            .rows(Entity::Cpu)
            .iter()
            .filter(|row| row.number(cpu::SET) == Some(f64::from(set)))
            .collect();
        let table = listing(&cpus, View::Cpus.list().1, Order::default(), width);
        lines.push(Line::styled(table.heading, self.depth.heading()));
        lines.extend(table.lines.into_iter().map(Line::raw));
        lines
    }

    fn thread(&self, key: &RowKey) -> Vec<Line<'static>> {
        let Some(row) = self.shown.rows(Entity::Thread).iter().find(|row| row.key() == *key) else {
            return vec![Line::raw("the thread has ended")];
        };
        let line = |(index, field): (usize, &millpond_observe::catalogue::Field)| {
            let id = FieldId { entity: Entity::Thread, index };
            Line::raw(format!("{:<12} {:>12}  {}", field.heading, figure(row, id), field.help))
        };
        fields(Entity::Thread).iter().enumerate().map(line).collect()
    }

    /// Draws a dialog in the middle of the screen.
    fn dialog(&self, frame: &mut ratatui::Frame<'_>, area: Rect) {
        let (title, text) = match &self.prompt {
            Some(Prompt::Confirm(edit, lines)) => (edit.words.join(" "), lines),
            Some(Prompt::Message(lines)) => (String::new(), lines),
            _ => return,
        };
        let longest =
            text.iter().chain([&title]).map(|line| crate::listing::columns(line)).max().unwrap_or(0);
        let fit = |wanted: usize, most: u16| u16::try_from(wanted).unwrap_or(u16::MAX).min(most);
        let (width, height) =
            (fit(longest + 4, area.width), fit(text.len() + 2, area.height.saturating_sub(2)));
        let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
        let lines: Vec<Line<'_>> = text.iter().map(|line| Line::raw(format!(" {line}"))).collect();
        frame.render_widget(Clear, place);
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), place);
    }

    /// The reasons why fields of a view are missing, one sentence each. A sentence that begins with column headings is only about these columns.
    #[must_use]
    pub fn missing(&self, view: &View) -> Vec<&str> {
        let (_, shown) = view.list();
        let sets = if *view == View::Overview { SETS } else { &[] };
        let concerns = |text: &&str| {
            let Some((about, _)) = text.split_once(": ") else { return true };
            let is_heading = |word: &str| word.bytes().all(|c| c.is_ascii_uppercase());
            let mut words = about.split(", ");
            !words.clone().all(is_heading)
                || words.any(|word| shown.iter().chain(sets).any(|id| id.field().heading == word))
        };
        self.shown.missing.iter().map(String::as_str).filter(concerns).collect()
    }

    /// The screens as text, without a terminal: the machine, the sets, the last decisions of poold, then a view's list of at most `most` rows.
    #[must_use]
    pub fn text(&self, view: &View, order: Order, filter: &Filter, width: usize, most: usize) -> String {
        let mut text = overview::machine_line(&self.shown, width);
        text.push('\n');
        let mut part = |entity_rows: &[&Row], shown: &[FieldId], order| {
            let table = listing(entity_rows, shown, order, width);
            text += &format!("\n{}\n", table.heading);
            for line in table.lines {
                text += &format!("{}\n", line.trim_end());
            }
        };
        if *view == View::Overview {
            part(&self.shown.rows(Entity::Pset).iter().collect::<Vec<_>>(), SETS, Order::default());
        }
        let mut list = rows(&self.shown, view, filter, order);
        list.truncate(most);
        part(&list, view.list().1, order);
        if *view == View::Overview {
            let news = overview::news(&self.shown, Depth::Mono, width, 3);
            for line in &news {
                text += &format!("\n{line}");
            }
            if !news.is_empty() {
                text.push('\n');
            }
        }
        text
    }
}

/// An uptime: `1:02:03`, with days in front.
fn up(at: Nanos) -> String {
    let seconds = at.0 / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}d {clock}") }
}

enum Typed {
    More,
    Enter,
    Escape,
}

fn typed(text: &mut String, key: KeyEvent) -> Typed {
    match key.code {
        KeyCode::Enter => return Typed::Enter,
        KeyCode::Esc => return Typed::Escape,
        KeyCode::Backspace => {
            text.pop();
        }
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => text.push(c),
        _ => {}
    }
    Typed::More
}
