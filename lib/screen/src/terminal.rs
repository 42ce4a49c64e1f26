//! A terminal: entered, drawn on, asked for keys, and left as it was.

use crate::screen::Screen;
use millpond_model::Nanos;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture, Event, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
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
    /// The system's: the terminal is gone.
    pub fn event(&self, within: Nanos) -> io::Result<Option<Event>> {
        match poll(Duration::from_nanos(within.0)) {
            Ok(true) => read().map(Some),
            Ok(false) => Ok(None),
            // A signal ends the wait.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
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
