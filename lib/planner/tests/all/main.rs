//! Policies from outside: properties for any frames, and sizes over time.

mod laws;
mod properties;
mod scenarios;
