//! Pools: a configuration of pools and processor sets as plain data.
//!
//! A *pool* has a name, an importance and one processor set; any number of pools may share a set. A *configuration*
//! ([`PoolsConf`]) is the system, its pools, its sets and their CPUs, each an *element* with typed settings and the
//! properties that users add ([`Properties`]). The *dynamic* configuration is the machine's; a *static* one is a file's.
//!
//! Here are values only. `pools` says what may be changed, and how a configuration is applied to the machine. The text forms,
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
