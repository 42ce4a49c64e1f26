//! The main loop: loads the scheduler, watches it, and loads it again after an end that permits this.

use crate::options::Options;
use millpond_machine::facets::SchedulerEnd;
use millpond_machine::{Dispatcher, Refusal};
use millpond_model::Nanos;
use millpond_session::{Daemon, NotifyState, Output, Session, stop_daemon_on_signal, tell_manager, watchdog};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name in messages and of the lock file.
const NAME: &str = "schedd";
/// Interval between checks of the scheduler.
const LOOK: Nanos = Nanos::from_millis(250);
/// Interval between checks of the processor sets.
const REFRESH: Nanos = Nanos::from_secs(1);
/// After an error the scheduler is loaded again only if the previous error is older than this.
const FORGIVEN: Nanos = Nanos::from_secs(600);
/// Delay before it is loaded again after a CPU went on-line or off-line: further CPUs may follow.
const CALM: Nanos = Nanos::from_millis(500);

/// Runs until a stop signal. Returns the exit status.
pub fn run(options: &Options, err: &mut Output<'_>) -> u8 {
    let stop = stop_daemon_on_signal();
    let begun = Session::open(&options.open).map_err(|error| error.to_string()).and_then(|session| {
        let lock = session.state_dir().map(|dir| Daemon::begin(dir, NAME).map_err(|error| error.to_string()));
        Ok((lock.transpose()?, session))
    });
    match begun {
        Err(why) => {
            err.line(format!("{NAME}: {why}"));
            1
        }
        Ok((_lock, session)) => match session.machine().dispatcher() {
            Ok(dispatcher) => Service { options, session: &session, dispatcher, err, stop }.go(),
            Err(absent) => {
                err.line(format!("{NAME}: {absent}"));
                1
            }
        },
    }
}

struct Service<'a, 'o> {
    options: &'a Options,
    session: &'a Session,
    dispatcher: &'a dyn Dispatcher,
    err: &'a mut Output<'o>,
    stop: &'static AtomicBool,
}

impl Service<'_, '_> {
    fn say(&mut self, text: &str) {
        self.err.line(format!("{NAME}: {text}"));
        self.err.flush();
    }

    fn refused(&mut self, refusal: &Refusal) -> u8 {
        self.say(&format!("cannot start the scheduler: {}", refusal.reason));
        if let Some(hint) = &refusal.hint {
            self.err.line(format!("hint: {hint}"));
        }
        1
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn go(&mut self) -> u8 {
        let clock = self.session.machine().clock();
        let mut failed: Option<Nanos> = None;
        loop {
            let end = match self.serve() {
                Err(refusal) => return self.refused(&refusal),
                Ok(None) => {
                    tell_manager(&[NotifyState::Stopping]);
                    self.say("stopped; the kernel's own scheduler runs all threads again");
                    return 0;
                }
                Ok(Some(end)) => end,
            };
            self.tell(&end);
            let now = clock.now();
            if self.options.once {
                self.say("it is not loaded again (--once)");
                return 1;
            }
            if end.may_restart {
                clock.sleep_until(now + CALM);
                continue;
            }
            if failed.is_some_and(|before| now < before + FORGIVEN) {
                self.say("it is not loaded again: this is the second error in ten minutes");
                return 1;
            }
            failed = Some(now);
            clock.sleep_until(now + REFRESH);
        }
    }

    /// Loads the scheduler and watches it until it ends. `None` after a stop signal.
    fn serve(&mut self) -> Result<Option<SchedulerEnd>, Refusal> {
        let clock = self.session.machine().clock();
        let mut scheduler = self.dispatcher.start_scheduler(&self.options.scheduler)?;
        let which = if self.options.scheduler.whole {
            "all threads but those in RT"
        } else {
            "threads that are put into a class"
        };
        self.say(&format!("TS, IA and FX run by dispatch tables, for {which}"));
        tell_manager(&[NotifyState::Ready]);
        let mut due = clock.now() + REFRESH;
        let mut complained = false;
        while !self.is_stopped() {
            if let Some(end) = scheduler.end() {
                return Ok(Some(end));
            }
            let now = clock.now();
            if now >= due {
                due = now + REFRESH;
                if watchdog().is_some() {
                    tell_manager(&[NotifyState::Watchdog]);
                }
                match scheduler.refresh() {
                    Ok(()) => complained = false,
                    Err(refusal) if !std::mem::replace(&mut complained, true) => {
                        self.say(&format!("processor sets cannot be read: {refusal}"));
                    }
                    Err(_) => {}
                }
            }
            clock.sleep_until(now + LOOK);
        }
        Ok(None)
    }

    fn tell(&mut self, end: &SchedulerEnd) {
        self.say(&format!("the kernel ended the scheduler: {}", end.why));
        for line in &end.detail {
            self.err.line(format!("  {line}"));
        }
        self.err.flush();
    }
}
