//! Pools: a configuration of pools and processor sets as plain data.
//!
//! A *pool* has a name, an importance and one processor set; several pools may share a set. A *configuration*
//! ([`PoolsConf`]) consists of the system, its pools, its sets and their CPUs. Each is an *element* with typed settings and
//! user-defined properties ([`Properties`]). The *dynamic* configuration is that of the machine; a *static* one is that of a file.
//!
//! This module has values only. The rules for changes, and the application of a configuration to the machine, are in `pools`. The text forms,
//! with the names of properties, are in `formats`.

mod conf;
mod keyword;
mod kind;
mod name;
mod notice;
mod objective;
mod props;
mod state;
mod value;

pub use conf::{
    CpuNode, DEFAULT_POOL, DEFAULT_PSET, PoolNode, PoolsConf, PsetNode, RefId, SystemNode, UNBOUNDED,
};
pub use keyword::{AllocateMethod, Keyword};
pub use kind::ElementKind;
pub use name::{is_element_name, is_hidden_name, is_property_name};
pub use notice::{NoticeError, PoolNotice, PoolSize, notice_file};
pub use objective::{Bound, Complaint, Importance, Locality, Objective, Objectives, Warning, Weighted};
pub use props::Properties;
pub use state::PoolsState;
pub use value::{PropValue, ValueType};
