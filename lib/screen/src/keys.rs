//! What keys and mice do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};

/// What the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing but to draw.
    None,
    /// To end.
    Quit,
    /// To run a command with `--dry-run`, and to say what it said ([`crate::Screen::planned`]).
    Plan(Vec<String>),
    /// To run a command, and to say what it said ([`crate::Screen::done`]).
    Run(Vec<String>),
    /// To go so many seconds on in a recording, or back.
    Go(i64),
}

/// What a person wants of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Quit,
    Help,
    /// The view of this digit, from 0 on.
    Numbered(usize),
    NextView,
    /// One row deeper: a set, a thread.
    Open,
    /// Back to where it was opened.
    Back,
    Up(usize),
    Down(usize),
    First,
    Last,
    Page(bool),
    /// The row at this line of the screen.
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
    /// So many seconds on, or back.
    Go(i64),
}

/// Keys as in htop, below and vi.
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

/// The wheel moves by three lines, as in most programs.
const WHEEL: usize = 3;

/// What a mouse does.
pub fn mouse(event: MouseEvent) -> Option<Wish> {
    Some(match event.kind {
        MouseEventKind::ScrollUp => Wish::Up(WHEEL),
        MouseEventKind::ScrollDown => Wish::Down(WHEEL),
        MouseEventKind::Down(_) => Wish::Click(event.row),
        _ => return None,
    })
}
