//! The main loop of poold: take a turn of the manager, do periodic maintenance, and wait.

mod house;

use crate::log::{Level, Logger, line};
use crate::options::Options;
use millpond_collect::Recorder;
use millpond_machine::facets::UsageWatch;
use millpond_machine::{Keeper, Machine, Refusal, Writer};
use millpond_model::Nanos;
use millpond_model::pools::PoolsState;
use millpond_planner::{Category, Decision, Event, POLICIES, policy};
use millpond_pools::{
    Code, Done, Manager, POLICY_PROPERTY, PRESSED, PoolError, Record, Rhythm, SLOW, Turn, Wait, dynamic,
    errno,
};
use millpond_session::{
    Advice, Daemon, Log as Sink, NotifyState, Output, Session, stop_daemon_on_signal, tell_manager, watchdog,
};
use std::sync::atomic::Ordering;

/// The system property that enables recording of frames, as by `millpond record`. Solaris does not have it.
const RECORD_PROPERTY: &str = "system.poold.record";

/// The name of the daemon, in messages and in the names of its files.
const NAME: &str = "poold";

/// Runs until a signal stops it. `advice` checks each remedy before it is logged. Returns the exit status.
pub fn run(options: &Options, err: &mut Output<'_>, advice: Advice) -> u8 {
    let stop = stop_daemon_on_signal();
    match begin(options, err, advice) {
        Err(why) => {
            err.line(format!("poold: {why}"));
            1
        }
        Ok((session, files)) => {
            let mut service = Service::new(options, &session, files, err, advice);
            let status = service.go(&|| stop.load(Ordering::Relaxed));
            service.end();
            drop(service);
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

/// Opens the machine and the files of the daemon, and repairs changes that a killed process left behind.
fn begin(
    options: &Options,
    err: &mut Output<'_>,
    advice: Advice,
) -> Result<(Session, Option<Daemon>), String> {
    let session = Session::open(&options.open).map_err(|error| error.to_string())?;
    let files = match session.state_dir() {
        Some(dir) if !options.is_dry => Some(Daemon::begin(dir, NAME).map_err(|error| error.to_string())?),
        _ => None,
    };
    dynamic::read(session.machine()).map_err(|error| said(&error, &session, advice))?;
    if !options.is_dry {
        let writer = Writer::open(session.machine()).map_err(|refusal| refusal.to_string())?;
        if let Some(repair) = writer.repaired() {
            err.line(format!("poold: {repair}"));
        }
        if let Ok(probe) = session.machine().latency() {
            let found = writer.put_back_abandoned(probe);
            found.iter().for_each(|found| err.line(format!("poold: {found}")));
        }
    }
    Ok((session, files))
}

/// Unknown names are refused where they are read.
fn manager_with(name: &str, is_dry: bool) -> Manager {
    let manager =
        Manager::new(policy(name).unwrap_or_else(|| Box::new(millpond_planner::Millpond::default())));
    if is_dry { manager.dry() } else { manager }
}

fn said(error: &PoolError, session: &Session, advice: Advice) -> String {
    match error.hint.as_ref().and_then(|hint| advice(session, hint)) {
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
    remembered: Option<Nanos>,
    has_failed: bool,
    is_waiting: bool,
    keeper: Keeper,
    recorder: Option<Recorder<'a>>,
    advice: Advice,
}

impl<'a, 'o> Service<'a, 'o> {
    fn new(
        options: &'a Options,
        session: &'a Session,
        files: Option<Daemon>,
        err: &'a mut Output<'o>,
        advice: Advice,
    ) -> Self {
        let manager = manager_with(options.policy.as_deref().unwrap_or(POLICIES[0]), options.is_dry);
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
            remembered: None,
            has_failed: false,
            is_waiting: false,
            keeper: Keeper::default(),
            recorder: None,
            advice,
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

    fn said(&self, error: &PoolError) -> String {
        said(error, self.session, self.advice)
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
            // Maintenance uses the values that the turn has read. A step that changes the machine reads again.
            let reads = self.machine().shared_reads();
            self.turn(watch.as_mut());
            self.keep_house(began);
            drop(reads);
            if self.files.as_ref().is_some_and(|files| !files.is_the_one()) {
                let text = "its lock file was removed: another poold may run, so this one ends";
                self.say(Category::Poold, Level::Err, text);
                return 1;
            }
            let now = clock.now();
            if is_stopped() || end.is_some_and(|end| now >= end) {
                return 0;
            }
            self.wait(watch.as_mut(), (began, end), is_stopped);
            if is_stopped() {
                return 0;
            }
        }
    }

    fn wait(
        &mut self,
        watch: &mut dyn UsageWatch,
        (began, end): (Nanos, Option<Nanos>),
        is_stopped: &dyn Fn() -> bool,
    ) {
        let clock = self.machine().clock();
        let rhythm = self.rhythm();
        if self.is_waiting {
            clock.sleep_until(Nanos(began.0.saturating_add(SLOW.0)));
            return;
        }
        match self.wait_watched(rhythm, watch, (began, end), is_stopped) {
            Ok(Wait::Over) => {}
            Ok(Wait::Again(length)) => {
                if self.manager.look(watch).is_ok() {
                    clock.sleep_until(Nanos(clock.now().0.saturating_add(length.0)));
                }
            }
            Err(_) => clock.sleep_until(Nanos(began.0.saturating_add(PRESSED.0))),
        }
    }

    /// Waits for the end of the interval. Meanwhile it sends watchdog notifications, at half the interval of
    /// `WatchdogSec=`.
    fn wait_watched(
        &self,
        rhythm: Rhythm,
        watch: &mut dyn UsageWatch,
        (began, end): (Nanos, Option<Nanos>),
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Wait, Refusal> {
        let clock = self.machine().clock();
        let due = began + rhythm.interval;
        let due = end.map_or(due, |end| due.min(end));
        let is_news = || match (self.manager.configuration(), dynamic::read(self.machine())) {
            (Some(left), Ok(is)) => *left != is,
            _ => true,
        };
        let patience =
            watchdog().map(|within| Nanos(u64::try_from(within.as_nanos() / 2).unwrap_or(u64::MAX)));
        loop {
            let call = patience.map(|patience| clock.now() + patience).filter(|call| *call < due);
            let waited = rhythm.wait(clock, watch, began, call.or(end), &is_news);
            let is_called = waited == Ok(Wait::Over) && call.is_some_and(|call| clock.now() >= call);
            if !is_called || is_stopped() {
                return waited;
            }
            tell_manager(&[NotifyState::Watchdog]);
        }
    }

    /// The sampling interval: from the command line, else from the configuration, else from the policy.
    fn rhythm(&self) -> Rhythm {
        let interval_of = |state: &PoolsState| state.conf.system.monitor_interval;
        let configured = || match self.manager.configuration() {
            Some(state) => interval_of(state),
            None => interval_of(&dynamic::read(self.machine()).ok()?),
        };
        Rhythm::of(self.manager.policy_name(), self.options.interval_ms.or_else(configured))
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
            Err(error) => self.say(Category::Monitoring, Level::Err, &self.said(&error)),
        }
    }

    fn tell(&mut self, turn: Turn) {
        if turn.changed {
            self.event(&Event::ChangedExternally);
            self.configure();
        }
        for warning in turn.warnings.iter().chain(&turn.notes) {
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
                self.say(Category::Optimization, Level::Warning, &self.said(error));
            }
        }
        if let Some(advice) = &decision.advice {
            self.say(Category::Optimization, Level::Debug, advice);
        }
        let line = self.record.take(decision, turn.outcome);
        self.write_record(line);
    }

    fn write_record(&mut self, line: Option<String>) {
        let Some(line) = line else { return };
        let Some(files) = &self.files else {
            if let Some(simulation) = self.session.simulation().filter(|_| !self.options.is_dry) {
                simulation.record(NAME, &line);
            }
            return;
        };
        match files.record(&line) {
            Ok(()) => self.has_failed = false,
            // poold continues without the record: its decisions matter more than their log.
            Err(error) if !std::mem::replace(&mut self.has_failed, true) => {
                let text = format!("decisions cannot be written: {}", millpond_session::reason(&error));
                self.say(Category::Poold, Level::Err, &text);
            }
            Err(_) => {}
        }
    }

    /// Sets policy, log destination and log level from the configuration, except for those that the command line
    /// sets.
    fn configure(&mut self) {
        let Ok(PoolsState { conf, .. }) = dynamic::read(self.machine()) else { return };
        if self.options.policy.is_none() {
            let name = conf.system.user.string(POLICY_PROPERTY).unwrap_or(POLICIES[0]);
            if !POLICIES.contains(&name) {
                let text = format!("there is no policy `{name}`; there are {}", POLICIES.join(" and "));
                self.say(Category::Configuration, Level::Warning, &text);
            } else if name != self.manager.policy_name() {
                self.manager = manager_with(name, self.options.is_dry);
            }
        }
        self.record_if(conf.system.user.boolean(RECORD_PROPERTY).unwrap_or(false));
        if self.options.level.is_some() {
            return;
        }
        self.logger.level =
            conf.system.log_level.as_ref().and_then(|word| word.parse().ok()).unwrap_or(Level::Info);
        if self.files.is_some() {
            self.logger.sink = Some(Sink::at(conf.system.log_location.as_deref(), NAME));
        }
    }

    fn end(&mut self) {
        let line = self.record.finish(None);
        self.write_record(line);
        self.remember();
        self.record_if(false);
        tell_manager(&[NotifyState::Stopping]);
        self.event(&Event::Exiting);
    }
}

/// `moved 2-3 from a to b in 1.2 ms: a uses …`.
fn moved(decision: &Decision, took: Nanos) -> String {
    let ms = took.as_secs_f64() * 1000.0;
    format!("moved {} in {ms:.1} ms: {}", decision.frame.told(&decision.plan.moves), decision.plan.reason)
}
