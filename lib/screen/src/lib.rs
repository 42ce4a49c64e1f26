//! Shows [`millpond_observe::Frame`]s on a terminal, or as plain text: the screens of `millpond top`.
//!
//! A [`Screen`] gets frames ([`Screen::push`]) and the user's input ([`Screen::event`]), and draws itself. It reads no machine and no
//! clock; it returns an [`Action`] for everything else. It is drawn on a [`Terminal`]. All lists are generated from the
//! catalogue of fields; `figure` formats a field by its unit and kind.

pub mod colour;
mod figure;
mod help;
mod history;
mod keys;
mod listing;
mod overview;
mod prompt;
mod screen;
mod terminal;
mod view;

pub use keys::Action;
pub use screen::{Pace, Screen, Watched};
pub use terminal::Terminal;
pub use view::{Filter, NUMBERED, Order, View};
