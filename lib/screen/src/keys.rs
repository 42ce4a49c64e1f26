//! Key and mouse bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};

/// The caller's next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Only redraw.
    None,
    /// Quit.
    Quit,
    /// Run a command with `--dry-run`, and pass its output to [`crate::Screen::planned`].
    Plan(Vec<String>),
    /// Run a command, and pass its output to [`crate::Screen::done`].
    Run(Vec<String>),
    /// Move by this many seconds in a recording, forward or back.
    Go(i64),
}

/// A user's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Help,
    /// The view with this digit, from 0.
    Numbered(usize),
    NextView,
    /// Opens the selected row: a set, a thread.
    Open,
    /// Returns to the previous view.
    Back,
    Up(usize),
    Down(usize),
    First,
    Last,
    Page(bool),
    /// Selects the row at this line of the screen.
    Click(u16),
    Filter,
    SortNext,
    SortBefore,
    Reverse,
    Pause,
    Step,
    Faster,
    Slower,
    Move,
    Bind,
    Class,
    Fence,
    Undo,
    /// Moves by this many seconds, forward or back.
    Go(i64),
}

/// The command of a key, as in htop, below and vi.
pub fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Wish::Quit,
        KeyCode::Char('f') if control => Wish::Page(true),
        KeyCode::Char('b') if control => Wish::Page(false),
        KeyCode::Char(_) if control => return None,
        KeyCode::Char('q') | KeyCode::F(10) => Wish::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Wish::Help,
        KeyCode::Char(digit @ '1'..='9') => Wish::Numbered(usize::try_from(digit as u32 - '1' as u32).ok()?),
        KeyCode::Tab => Wish::NextView,
        KeyCode::Enter | KeyCode::Right => Wish::Open,
        KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => Wish::Back,
        KeyCode::Up | KeyCode::Char('k') => Wish::Up(1),
        KeyCode::Down | KeyCode::Char('j') => Wish::Down(1),
        KeyCode::PageUp => Wish::Page(false),
        KeyCode::PageDown => Wish::Page(true),
        KeyCode::Home | KeyCode::Char('g') => Wish::First,
        KeyCode::End | KeyCode::Char('G') => Wish::Last,
        KeyCode::Char('/') | KeyCode::F(3 | 4) => Wish::Filter,
        KeyCode::Char('s' | '>') | KeyCode::F(6) => Wish::SortNext,
        KeyCode::Char('<') => Wish::SortBefore,
        KeyCode::Char('r' | 'I') => Wish::Reverse,
        KeyCode::Char(' ') => Wish::Pause,
        KeyCode::Char('.') => Wish::Step,
        KeyCode::Char('+' | '=') => Wish::Faster,
        KeyCode::Char('-') => Wish::Slower,
        KeyCode::Char('m') => Wish::Move,
        KeyCode::Char('b') => Wish::Bind,
        KeyCode::Char('p') => Wish::Class,
        KeyCode::Char('f') => Wish::Fence,
        KeyCode::Char('u') => Wish::Undo,
        KeyCode::Char(',') => Wish::Go(-1),
        KeyCode::Char('[') => Wish::Go(-60),
        KeyCode::Char(']') => Wish::Go(60),
        KeyCode::Char('{') => Wish::Go(-3600),
        KeyCode::Char('}') => Wish::Go(3600),
        _ => return None,
    })
}

/// Lines per step of the wheel, as in most programs.
const WHEEL: usize = 3;

/// The command of a mouse event.
pub fn mouse(event: MouseEvent) -> Option<Wish> {
    Some(match event.kind {
        MouseEventKind::ScrollUp => Wish::Up(WHEEL),
        MouseEventKind::ScrollDown => Wish::Down(WHEEL),
        MouseEventKind::Down(_) => Wish::Click(event.row),
        _ => return None,
    })
}
