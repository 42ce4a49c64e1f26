//! [`millpond_observe::Frame`]s on a terminal: the screens of `millpond top`, and the same as plain text.
//!
//! A [`Screen`] is fed with frames ([`Screen::push`]) and with what a person does ([`Screen::event`]); it draws itself. It reads no machine and no
//! clock: what is to be done elsewhere it answers as an [`Action`]. A [`Terminal`] is what it is drawn on. Everything in a list is drawn
//! from the catalogue of fields: `figure` says how a field of some unit and kind looks.

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
