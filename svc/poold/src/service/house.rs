//! Periodic maintenance of the loop: keeps the machine in the state that its sets require, records frames, and saves
//! the state of the policy.

use super::Service;
use crate::log::Level;
use millpond_collect::{Options, Recorder, THREADS_EVERY};
use millpond_machine::Weight;
use millpond_model::Nanos;
use millpond_planner::Category;
use millpond_session::{Daemon, NotifyState, recordings_dir, take_hang_up, tell_manager, watchdog};
use millpond_store::Limits;

/// The interval at which the machine is brought to the state that its sets require.
const SETTLE: Nanos = Nanos::from_millis(1000);

/// The interval at which the state of the policy is saved. A killed daemon loses at most this much of it.
const REMEMBER: Nanos = Nanos::from_millis(10_000);

impl Service<'_, '_> {
    /// Once a second: applies the sets to new threads and interrupts, and repairs changes by other programs. Every
    /// ten seconds it saves the state of the policy.
    pub(super) fn keep_house(&mut self, now: Nanos) {
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
        self.record_frame();
        if self.options.is_dry {
            return;
        }
        for (weight, text) in self.keeper.turn(self.machine(), now) {
            let level = match weight {
                Weight::Warning => Level::Warning,
                Weight::Notice => Level::Notice,
                Weight::Detail => Level::Debug,
            };
            self.say(Category::Configuration, level, &text);
        }
        if self.remembered.is_none_or(|at| now.0.saturating_sub(at.0) >= REMEMBER.0) {
            self.remembered = Some(now);
            self.remember();
        }
    }

    /// Starts or ends the recording. If it cannot be made, poold logs that and continues.
    pub(super) fn record_if(&mut self, wanted: bool) {
        if wanted == self.recorder.is_some() {
            return;
        }
        let Some(recorder) = self.recorder.take() else {
            let dir = recordings_dir();
            let options = Options { threads_every: THREADS_EVERY, ..Options::default() };
            match Recorder::open(self.session, options, &dir, Limits::default()) {
                Ok((recorder, notes)) => {
                    notes.iter().for_each(|note| self.say(Category::Poold, Level::Notice, note));
                    self.say(Category::Poold, Level::Info, &format!("recording into {}", dir.display()));
                    self.recorder = Some(recorder);
                }
                Err(error) => self.say(Category::Poold, Level::Err, &error.to_string()),
            }
            return;
        };
        match recorder.finish() {
            Ok(written) => {
                self.say(Category::Poold, Level::Info, &format!("recorded {} frames", written.frames));
            }
            Err(error) => self.say(Category::Poold, Level::Err, &error.to_string()),
        }
    }

    fn record_frame(&mut self) {
        match self.recorder.as_mut().map(Recorder::frame) {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(refusal))) => {
                let text = format!("frames are missing in the recording: {}", refusal.reason);
                self.say(Category::Poold, Level::Warning, &text);
            }
            Some(Err(error)) => {
                self.say(Category::Poold, Level::Err, &format!("recording ends: {error}"));
                self.recorder = None;
            }
        }
    }

    pub(super) fn remember(&mut self) {
        if let Some(files) = &self.files {
            let _ = files.remember(&self.manager.policy().state().to_string());
        }
    }

    pub(super) fn go_on_from_memory(&mut self) {
        let Some(text) = self.files.as_ref().and_then(Daemon::memory) else { return };
        let known = serde_json::from_str(&text).map_err(|error| error.to_string());
        let restored =
            known.and_then(|state| self.manager.policy().restore(&state).map_err(|error| error.to_string()));
        if let Err(why) = restored {
            let text = format!("what was remembered cannot be used, and is forgotten: {why}");
            self.say(Category::Configuration, Level::Notice, &text);
        }
    }
}
