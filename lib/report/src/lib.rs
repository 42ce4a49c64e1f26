//! Output formats for rows: text, CSV, JSON and pictures.
//!
//! # Theory
//!
//! A measurement produces rows, and each consumer needs another format: a person needs columns, a spreadsheet commas, a program objects, a
//! page a picture. This crate has the formats and does not interpret the rows.
//!
//! ```text
//!              ┌─ text()  columns as wide as their contents
//!   Table ─────┼─ csv()   RFC 4180
//!   (rows)     └─ json()  an array of objects, numbers as numbers
//!
//!   Sheet ─────── svg(), html()  one page: sentences, a table, points on a time line
//!   Bars, Lines ─ svg()   a self-contained picture: no script, no font, no external style sheet
//!   Screen ────── svg()   a terminal session with its colours
//!   Page ──────── html()  a self-contained page of texts, tables and such pictures
//! ```
//!
//! A [`Cell`] has its number and the number of digits to display. CSV and JSON have the same digits, so the formats of a row never
//! disagree.
//!
//! # Guarantees for callers
//!
//! The same rows give the same bytes: no date, no hash order, no locale. An absent value is a [`Cell::Missing`]
//! (`-`, an empty field, `null`), never a zero. Nothing is printed and no file is accessed.

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
