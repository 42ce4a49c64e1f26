//! Tests of generated figures and pages, and of random command lines, in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod any_pools;
mod any_words;
mod document;
mod library;
mod printed;
mod remedies;
mod schemas;
