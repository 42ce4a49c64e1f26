//! Pools: a configuration of pools and processor sets as plain data.
//!
//! A *pool* has a name, an importance and one processor set; any number of pools may share a set. A *configuration*
//! ([`PoolsConf`]) is the system, its pools, its sets and their processors, each an *element* with typed properties
//! ([`Props`]). Which properties an element of each kind has, and what may be done to them, says one table
//! ([`rules`]). The *dynamic* configuration is the machine's; a *static* one is a file's.
//!
//! Here are values only. What may be changed, and how a configuration becomes the machine's, is the business of `pools`; the
//! text forms are in `formats`.

mod conf;
mod name;
mod notice;
mod objective;
mod props;
mod rule;
mod state;
mod value;

pub use conf::{CpuNode, DEFAULT_POOL, DEFAULT_PSET, PoolNode, PoolsConf, PsetNode, UNBOUNDED};
pub use name::{is_element_name, is_hidden_name, is_property_name};
pub use notice::{NoticeError, PoolNotice, PoolSize, notice_file};
pub use objective::{Bound, Importance, Locality, Objective, Weighted};
pub use props::Props;
pub use rule::{ElementKind, Rule, rule, rules};
pub use state::PoolsState;
pub use value::{PropValue, ValueType};
