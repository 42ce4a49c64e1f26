//! The terminal: setup, drawing, input, and restoration.

use crate::screen::Screen;
use millpond_model::Nanos;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture, Event, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll as wait};
use rustix::io::Errno;
use std::io::{self, Stdout, stdout};
use std::time::Duration;

/// The terminal at standard output. It is restored when the value is dropped.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    /// Sets the terminal up: raw mode and the alternate screen.
    ///
    /// # Errors
    /// The system's error, for example that standard output is not a terminal.
    pub fn enter() -> io::Result<Terminal> {
        enable_raw_mode()?;
        leave_on_panic();
        let entered = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture);
        let inner = entered.and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        // Drop restores the terminal, even after a partial setup.
        match inner {
            Ok(inner) => Ok(Terminal { inner }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Draws a screen in the terminal's present size.
    ///
    /// # Errors
    /// The system's error: the terminal is gone.
    pub fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.inner.draw(|frame| screen.draw(frame)).map(|_| ())
    }

    /// The user's input, if there is any within this time.
    ///
    /// # Errors
    /// The system's error: the terminal is gone. This is checked here, because the input library would read the end of file for ever.
    pub fn event(&self, within: Nanos) -> io::Result<Option<Event>> {
        for time in [Duration::ZERO, Duration::from_nanos(within.0)] {
            wait_for_keys(time)?;
            // Poll even without a key: a resize comes as a signal, and some keys may already be buffered.
            if poll(Duration::ZERO)? {
                return read().map(Some);
            }
        }
        Ok(None)
    }
}

/// Returns when keys can be read, at the timeout, or at a signal.
fn wait_for_keys(time: Duration) -> io::Result<()> {
    let input = io::stdin();
    let mut found = [PollFd::new(&input, PollFlags::IN)];
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    match wait(&mut found, Some(&time)) {
        Ok(_) if found[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is gone"))
        }
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
        let _ = self.inner.show_cursor();
    }
}

/// Restores the terminal before a panic message, so that it is readable even if the program ends without unwinding.
fn leave_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        told(panic);
    }));
}

/// Restores the terminal. Ignores errors: the terminal may be gone.
fn leave() {
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}
