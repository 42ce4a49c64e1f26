//! Policies from outside: what holds of any frames, and what becomes of sizes over time.

mod laws;
mod properties;
mod scenarios;
