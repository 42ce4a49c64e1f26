//! The loop.

use crate::clock::{PRESSED, Rhythm, SLOW, SOLARIS, Wait};
use crate::journal::Record;
use crate::log::{Level, Logger, line};
use crate::options::Options;
use millpond_machine::facets::UsageWatch;
use millpond_machine::{Machine, Writer};
use millpond_model::Nanos;
use millpond_model::pools::PoolsState;
use millpond_planner::{Category, Decision, Event, Move, policy};
use millpond_pools::{Code, Done, Manager, PoolError, Turn, dynamic, errno};
use millpond_session::{
    Daemon, Log as Sink, NotifyState, Output, Session, stop_daemon_on_signal, take_hang_up, tell_manager,
    watchdog,
};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// How often a machine is brought to what its sets want, and memories are written.
const SETTLE: Nanos = Nanos::from_millis(1000);

/// What it is called.
const NAME: &str = "poold";

/// Runs until it is asked to stop. Gives the exit status.
pub fn run(options: &Options, err: &mut Output<'_>) -> u8 {
    let stop = stop_daemon_on_signal();
    match begin(options, err) {
        Err(why) => {
            err.line(format!("poold: {why}"));
            1
        }
        Ok((session, files)) => {
            let mut service = Service::new(options, &session, files, err);
            let status = service.go(&|| stop.load(Ordering::Relaxed));
            service.end();
            match session.keep() {
                Ok(()) => status,
                Err(error) => {
                    err.line(format!("poold: {error}"));
                    1
                }
            }
        }
    }
}

/// What must be there before the loop.
fn begin(options: &Options, err: &mut Output<'_>) -> Result<(Session, Option<Daemon>), String> {
    let session = Session::open(&options.open).map_err(|error| error.to_string())?;
    let files = match session.state_dir() {
        Some(dir) if !options.is_dry => Some(Daemon::begin(dir, NAME).map_err(|error| error.to_string())?),
        _ => None,
    };
    dynamic::read(session.machine()).map_err(|error| said(&error))?;
    if !options.is_dry {
        let writer = Writer::open(session.machine()).map_err(|refusal| refusal.to_string())?;
        if let Some(repair) = writer.repaired() {
            err.line(format!("poold: {repair}"));
        }
    }
    Ok((session, files))
}

fn said(error: &PoolError) -> String {
    match &error.hint {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

struct Service<'a, 'o> {
    options: &'a Options,
    session: &'a Session,
    files: Option<Daemon>,
    err: &'a mut Output<'o>,
    logger: Logger,
    manager: Manager,
    record: Record,
    settled: Nanos,
    has_failed: bool,
    is_waiting: bool,
}

impl<'a, 'o> Service<'a, 'o> {
    fn new(
        options: &'a Options,
        session: &'a Session,
        files: Option<Daemon>,
        err: &'a mut Output<'o>,
    ) -> Self {
        // The name was checked with the other words.
        let policy =
            policy(&options.policy).unwrap_or_else(|| Box::new(millpond_planner::Millpond::default()));
        let manager = Manager::new(policy);
        let manager = if options.is_dry { manager.dry() } else { manager };
        let logger = Logger { sink: None, level: options.level.unwrap_or(Level::Info), has_failed: false };
        let record = Record::new(options.records_all);
        Service {
            options,
            session,
            files,
            err,
            logger,
            manager,
            record,
            settled: Nanos(0),
            has_failed: false,
            is_waiting: false,
        }
    }

    fn machine(&self) -> &'a dyn Machine {
        self.session.machine()
    }

    fn say(&mut self, category: Category, level: Level, text: &str) {
        let at = self.machine().clock().wall();
        let line = line(at, self.session.zone(), category, level, text);
        self.logger.write(self.err, level, &line);
    }

    fn event(&mut self, event: &Event) {
        self.say(event.category(), event.severity().into(), &event.to_string());
    }

    fn go(&mut self, is_stopped: &dyn Fn() -> bool) -> u8 {
        self.configure();
        self.event(&Event::Starting);
        self.go_on_from_memory();
        let mut watch = match self.machine().accounting().and_then(|facet| facet.watch()) {
            Ok(watch) => watch,
            Err(absent) => {
                self.say(Category::Monitoring, Level::Err, &absent.why);
                return 1;
            }
        };
        for line in watch.explain() {
            self.say(Category::Monitoring, Level::Debug, &line);
        }
        self.event(&Event::ConfigurationComplete);
        tell_manager(&[NotifyState::Ready]);
        let clock = self.machine().clock();
        let end = self.options.for_ms.map(|ms| Nanos(clock.now().0.saturating_add(ms * 1_000_000)));
        loop {
            let began = clock.now();
            self.turn(watch.as_mut());
            self.keep_house(began);
            let now = clock.now();
            if is_stopped() || end.is_some_and(|end| now >= end) {
                return 0;
            }
            self.wait(watch.as_mut(), began, end);
            if is_stopped() {
                return 0;
            }
        }
    }

    fn wait(&mut self, watch: &mut dyn UsageWatch, began: Nanos, end: Option<Nanos>) {
        let clock = self.machine().clock();
        let rhythm = self.rhythm();
        if self.is_waiting {
            clock.sleep_until(Nanos(began.0.saturating_add(SLOW.0)));
            return;
        }
        match rhythm.wait(clock, watch, began, end) {
            Ok(Wait::Over) => {}
            Ok(Wait::Again(length)) => {
                if self.manager.look(watch).is_ok() {
                    clock.sleep_until(Nanos(clock.now().0.saturating_add(length.0)));
                }
            }
            Err(_) => clock.sleep_until(Nanos(began.0.saturating_add(PRESSED.0))),
        }
    }

    /// How often to look: what the words say, else the configuration, else the policy.
    fn rhythm(&self) -> Rhythm {
        let reacts = self.options.policy != "solaris";
        let interval_of = |state: &PoolsState| state.conf.system.uint("system.poold.monitor-interval");
        let configured = || match self.manager.configuration() {
            Some(state) => interval_of(state),
            None => interval_of(&dynamic::read(self.machine()).ok()?),
        };
        let usual = if reacts { SLOW } else { SOLARIS };
        let millis = self.options.interval_ms.or_else(configured);
        let interval = millis.map_or(usual, |ms| Nanos(ms.saturating_mul(1_000_000)));
        Rhythm { interval, wakes: reacts }
    }

    fn turn(&mut self, watch: &mut dyn UsageWatch) {
        match self.manager.turn(self.machine(), watch) {
            Ok(turn) => {
                self.is_waiting = false;
                self.tell(turn);
            }
            Err(error) if error.code == Code::System(errno::NOT_ACTIVE) => {
                if !std::mem::replace(&mut self.is_waiting, true) {
                    self.say(
                        Category::Configuration,
                        Level::Warning,
                        "pools were disabled; waiting for them",
                    );
                }
            }
            Err(error) => self.say(Category::Monitoring, Level::Err, &said(&error)),
        }
    }

    fn tell(&mut self, turn: Turn) {
        if turn.changed {
            self.event(&Event::ChangedExternally);
            self.configure();
        }
        for warning in &turn.warnings {
            self.say(Category::Configuration, Level::Warning, warning);
        }
        let Some(decision) = turn.decision else { return };
        for event in &decision.events {
            self.event(event);
        }
        match &turn.done {
            Done::Nothing => {}
            Done::Moved(took) => {
                if decision.events.is_empty() {
                    let text = moved(&decision, *took);
                    self.say(Category::Optimization, Level::Info, &text);
                }
            }
            Done::Stale(why) => {
                let text = format!("the plan does not fit any more, and is not carried out: {why}");
                self.say(Category::Optimization, Level::Warning, &text);
            }
            Done::Refused(error) => {
                self.event(&Event::MoveFailed);
                self.say(Category::Optimization, Level::Warning, &said(error).replace("\nhint: ", "; "));
            }
        }
        if let Some(advice) = &decision.advice {
            self.say(Category::Optimization, Level::Debug, advice);
        }
        let line = self.record.take(decision, turn.outcome);
        self.write_record(line);
    }

    fn write_record(&mut self, line: Option<String>) {
        let (Some(files), Some(line)) = (&self.files, line) else { return };
        match files.record(&line) {
            Ok(()) => self.has_failed = false,
            // It goes on without: what it does is more than what it writes.
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => {
                let text = format!("decisions cannot be written: {}", millpond_session::reason(&error));
                self.say(Category::Poold, Level::Err, &text);
            }
            Err(_) => {}
        }
    }

    /// Once a second: what appeared beside members follows, what others undid is put back, and what the policy remembers is kept.
    fn keep_house(&mut self, now: Nanos) {
        if watchdog().is_some() {
            tell_manager(&[NotifyState::Watchdog]);
        }
        if take_hang_up() {
            self.configure();
        }
        if now.0.saturating_sub(self.settled.0) < SETTLE.0 && self.settled.0 > 0 {
            return;
        }
        self.settled = now;
        if self.options.is_dry {
            return;
        }
        let settled = Writer::open(self.machine()).and_then(|writer| writer.settle());
        match settled {
            Ok(done) if done.steps > 0 => {
                let text = format!("the machine was brought to what its sets want, in {} steps", done.steps);
                self.say(Category::Configuration, Level::Debug, &text);
            }
            Ok(_) => {}
            Err(refusal) => self.say(Category::Configuration, Level::Warning, &refusal.to_string()),
        }
        if let Some(files) = &self.files {
            let _ = files.remember(&self.manager.policy().state().to_string());
        }
    }

    /// Where and what to log, as the configuration says, unless the words do.
    fn configure(&mut self) {
        if self.options.level.is_some() {
            return;
        }
        let Ok(PoolsState { conf, .. }) = dynamic::read(self.machine()) else { return };
        let of = |name| conf.system.string(name);
        self.logger.level =
            of("system.poold.log-level").and_then(|word| word.parse().ok()).unwrap_or(Level::Info);
        if self.files.is_some() {
            self.logger.sink = Some(Sink::at(of("system.poold.log-location"), NAME));
        }
    }

    fn go_on_from_memory(&mut self) {
        let Some(text) = self.files.as_ref().and_then(Daemon::memory) else { return };
        let known = serde_json::from_str(&text).map_err(|error| error.to_string());
        let restored =
            known.and_then(|state| self.manager.policy().restore(&state).map_err(|error| error.to_string()));
        if let Err(why) = restored {
            let text = format!("what was remembered cannot be used, and is forgotten: {why}");
            self.say(Category::Configuration, Level::Notice, &text);
        }
    }

    fn end(&mut self) {
        let line = self.record.finish(None);
        self.write_record(line);
        if let Some(files) = &self.files {
            let _ = files.remember(&self.manager.policy().state().to_string());
        }
        tell_manager(&[NotifyState::Stopping]);
        self.event(&Event::Exiting);
    }
}

/// `moved 2-3 from a to b in 1.2 ms: a uses …`.
fn moved(decision: &Decision, took: Nanos) -> String {
    let name = |id| decision.frame.set(id).map_or_else(|| format!("set {id}"), |set| set.name.clone());
    let mut pairs: BTreeMap<(String, String), millpond_model::CpuSet> = BTreeMap::new();
    for Move { cpu, from, to } in &decision.plan.moves {
        pairs.entry((name(*from), name(*to))).or_default().insert(*cpu);
    }
    let parts: Vec<String> =
        pairs.into_iter().map(|((from, to), cpus)| format!("{cpus} from {from} to {to}")).collect();
    let ms = took.as_secs_f64() * 1000.0;
    format!("moved {} in {ms:.1} ms: {}", parts.join(", "), decision.plan.reason)
}
