//! A terminal: entered, drawn on, asked for keys, and left as it was.

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

/// The terminal at standard output. It is left as it was when the value is dropped.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    /// Takes it: keys come one by one, and what was on it comes back at the end.
    ///
    /// # Errors
    /// The system's, where standard output is no terminal.
    pub fn enter() -> io::Result<Terminal> {
        enable_raw_mode()?;
        leave_on_panic();
        let entered = execute!(stdout(), EnterAlternateScreen, EnableMouseCapture);
        let inner = entered.and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        // Dropping gives it back, also where it was entered by half.
        match inner {
            Ok(inner) => Ok(Terminal { inner }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Draws a screen in the size that the terminal has now.
    ///
    /// # Errors
    /// The system's: the terminal is gone.
    pub fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.inner.draw(|frame| screen.draw(frame)).map(|_| ())
    }

    /// What a person did, if anything within this time.
    ///
    /// # Errors
    /// The system's: the terminal is gone. That is looked for here, because what reads keys would read its end for ever.
    pub fn event(&self, within: Nanos) -> io::Result<Option<Event>> {
        for time in [Duration::ZERO, Duration::from_nanos(within.0)] {
            wait_for_keys(time)?;
            // Also where no key came: a new size comes by a signal, and some keys may have been read already.
            if poll(Duration::ZERO)? {
                return read().map(Some);
            }
        }
        Ok(None)
    }
}

/// Returns when there are keys to read, when the time is over, or when a signal came.
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

/// What a panic says is to be read, also where a program ends without unwinding.
fn leave_on_panic() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        told(panic);
    }));
}

/// As far as it goes: the terminal may be gone.
fn leave() {
    let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}
