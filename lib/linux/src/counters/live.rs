//! Counters and samples on the machine that runs the tests.
