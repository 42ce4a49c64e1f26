//! Reads the machine periodically, while requests are answered on other threads.

use crate::access::{Access, Address};
use crate::hub::Hub;
use crate::listen::serve;
use crate::options::{Options, access};
use crate::server::{Shared, router};
use millpond_collect::Collector;
use millpond_machine::Machine;
use millpond_model::Nanos;
use millpond_session::{
    Listening, Load, NotifyState, Output, Session, Stopwatch, reason, stop_daemon_on_signal, tell_manager,
    watchdog,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// The name of the service, in messages.
const NAME: &str = "gauge";
/// The interval of checks for a signal.
const LOOK: Nanos = Nanos::from_millis(200);

/// Runs until a signal stops it. Returns the exit status.
pub fn run(options: &Options, err: &mut Output<'_>) -> u8 {
    let stop = stop_daemon_on_signal();
    match begin(options).and_then(|begun| begun.go(options, stop, err)) {
        Ok(()) => 0,
        Err(why) => {
            err.line(format!("{NAME}: {why}"));
            1
        }
    }
}

struct Begun {
    session: Session,
    listening: Listening,
    address: Address,
    access: Access,
    allowed: Vec<u32>,
}

fn begin(options: &Options) -> Result<Begun, String> {
    let passed = Listening::passed()
        .map_err(|error| format!("cannot use the socket that was passed: {}", reason(&error)))?;
    let listening = match (passed, &options.listen) {
        (Some(passed), _) => Ok(passed),
        (None, Address::Port(address)) => Listening::at_port(*address),
        (None, Address::Socket(path)) => Listening::at_path(path),
    };
    let listening = listening.map_err(|error| cannot_listen(&options.listen, &reason(&error)))?;
    let address = address(&listening).unwrap_or_else(|| options.listen.clone());
    let token = options.token_file.as_deref().map(millpond_session::read_secret).transpose()?;
    let access = access(&address, token.as_deref())?;
    let session = Session::open(&options.open).map_err(|error| error.to_string())?;
    let allowed = allowed(&options.allow, session.machine())?;
    start(&options.loads, &session)?;
    Ok(Begun { session, listening, address, access, allowed })
}

fn cannot_listen(address: &Address, why: &str) -> String {
    format!(
        "cannot listen at {address}: {why}\nhint: --listen takes another address, as in --listen localhost:9910"
    )
}

/// The address of a socket, with the port that the system chose.
fn address(listening: &Listening) -> Option<Address> {
    match listening {
        Listening::Port(port) => port.local_addr().ok().map(Address::Port),
        Listening::Socket(socket, _) => {
            Some(Address::Socket(socket.local_addr().ok()?.as_pathname()?.to_owned()))
        }
    }
}

/// The user ids that a Unix socket answers.
fn allowed(names: &[String], machine: &dyn Machine) -> Result<Vec<u32>, String> {
    let mut allowed = vec![0, rustix::process::geteuid().as_raw()];
    let known = machine.census().map(|facet| facet.users()).unwrap_or_default();
    for name in names {
        let number =
            name.parse().ok().or_else(|| known.iter().find(|(_, n)| *n == name).map(|(uid, _)| *uid));
        allowed.push(number.ok_or_else(|| format!("--allow {name}: there is no such user"))?);
    }
    Ok(allowed)
}

fn start(loads: &[String], session: &Session) -> Result<(), String> {
    let Some(simulation) = session.simulation() else { return Ok(()) };
    for text in loads {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let load = Load::parse(&words)
            .map_err(|why| format!("cannot start {text}: {}\nhint: {}", why.what, why.remedy))?;
        let _ = simulation.start(&load);
    }
    Ok(())
}

impl Begun {
    fn go(self, options: &Options, stop: &'static AtomicBool, err: &mut Output<'_>) -> Result<(), String> {
        let hub = Arc::new(Hub::default());
        let mut collector = Collector::open(&self.session, options.collected);
        let mut is_failing = false;
        let mut read = |hub: &Hub| match collector.frame() {
            Ok(frame) => {
                hub.publish(frame);
                Ok(())
            }
            Err(refusal) => {
                hub.fail();
                Err(format!("cannot read the machine: {}", refusal.reason))
            }
        };
        read(&hub)?;
        let shared =
            Shared { hub: Arc::clone(&hub), access: self.access, interval_s: options.interval.as_secs_f64() };
        let (stopping, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start: {}", reason(&error)))?;
        let serving = {
            let (listening, allowed) = (self.listening, self.allowed);
            let work = move || runtime.block_on(serve(listening, router(shared), allowed, stopped));
            thread::Builder::new().name("gauge-http".to_owned()).spawn(work)
        };
        let serving = serving.map_err(|error| format!("cannot start a thread: {}", reason(&error)))?;
        err.line(format!("{NAME}: {}", self.address));
        err.flush();
        tell_manager(&[NotifyState::Ready]);
        let simulation = self.session.simulation();
        let watch = Stopwatch::start();
        let begun = self.session.machine().clock().now();
        let mut due = options.interval;
        let mut alive = Nanos(0);
        loop {
            if stop.load(Ordering::Relaxed) || serving.is_finished() {
                break;
            }
            if watchdog().is_some_and(|every| watch.elapsed() - alive >= Nanos(as_nanos(every) / 2)) {
                tell_manager(&[NotifyState::Watchdog]);
                alive = watch.elapsed();
            }
            let step = Nanos(options.interval.0.saturating_mul(options.speed));
            let is_there = |stand: Nanos| self.session.machine().clock().now() - begun + step > stand;
            match options.stand {
                Some(stand) if is_there(stand) => {
                    watch.sleep_until(watch.elapsed() + LOOK);
                    continue;
                }
                // Advances without waiting until the requested time.
                Some(_) => {}
                None if watch.elapsed() < due => {
                    watch.sleep_until(due.min(watch.elapsed() + LOOK));
                    continue;
                }
                None => {}
            }
            if let Some(simulation) = simulation {
                let _ = simulation.run_for(step);
            }
            let done = read(&hub);
            match (&done, is_failing) {
                (Ok(()), false) | (Err(_), true) => {}
                (Ok(()), true) => err.line(format!("{NAME}: the machine can be read again")),
                (Err(why), false) => err.line(format!("{NAME}: {why}; the latest frame is served on")),
            }
            err.flush();
            is_failing = done.is_err();
            due = (due + options.interval).max(watch.elapsed());
        }
        tell_manager(&[NotifyState::Stopping]);
        let _ = stopping.send(true);
        match serving.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("cannot serve: {}", reason(&error))),
            Err(_) => Err("the thread that answers requests ended".to_owned()),
        }
    }
}

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
