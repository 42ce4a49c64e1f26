//! Rows, drawn: as text, CSV, JSON or a picture.
//!
//! # Theory
//!
//! A measurement ends with rows, and each reader wants them in another form: a person in columns, a
//! spreadsheet with commas, a program as objects, a page as a picture. This room knows the dresses and nothing of what
//! is in the rows.
//!
//! ```text
//!              ┌─ text()  columns as wide as what is in them
//!   Table ─────┼─ csv()   RFC 4180
//!   (rows)     └─ json()  an array of objects, numbers as numbers
//!
//!   Sheet ─────── svg(), html()  one page: sentences, a table, points on a line of time
//!   Bars, Lines ─ svg()   a picture that stands alone: no script, no font, no style sheet from elsewhere
//!   Screen ────── svg()   a terminal session with its colours
//!   Page ──────── html()  a page of texts, tables and such pictures that stands alone, too
//! ```
//!
//! A [`Cell`] keeps its number and how many digits of it a person should see; CSV and JSON have the same digits, so that
//! two dresses of one row never disagree.
//!
//! # What callers may rely on
//!
//! The same rows give the same bytes: no date, no hash order, no locale. What is not there is a [`Cell::Missing`]
//! (`-`, nothing, `null`), never a zero. Nothing is printed and no file is touched.

mod bars;
mod cell;
mod lines;
mod page;
mod scale;
mod screen;
mod sheet;
mod svg;
mod table;

pub use bars::{Bars, Group};
pub use cell::Cell;
pub use lines::{Line, Lines};
pub use page::Page;
pub use screen::Screen;
pub use sheet::{Mark, Sheet};
pub use table::{Align, Table};
