//! Tests on synthetic images, valid and corrupt.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "figures of a test are small"
)]

mod corrupt;
mod finding;
mod lost;
mod past;
pub(crate) mod space;
mod town;
mod verified;
