//! The figures and pages that are generated, and random words, in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod any_pools;
mod any_words;
mod document;
mod library;
mod printed;
mod remedies;
mod schemas;
