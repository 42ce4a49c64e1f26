//! A real container runtime with everything that it keeps in a directory of its own, what a kubelet asks it, and the agent beside it.

mod cri;
mod runtime;

pub use cri::{Cri, RunningPod};
pub use runtime::{Daemon, IMAGE, Runtime, eventually, tools_of_guest};
