//! The class SYS, of kernel threads: priorities never change. Other classes use its operations for events that they ignore.

use super::class::{Class, End};
use super::class_state::ClassState;
use millpond_model::ClassParams;

pub(super) const SYS: Class = Class {
    enter: |_, _| ClassState::Sys,
    set_params: |_, _, _| {},
    store: |_, _| {},
    unset: ClassParams::Sys,
    params: |_| ClassParams::Sys,
    priority: |_| None,
    tick: |_, _| {},
    preempt: |kernel, thread| kernel.enqueue(thread, End::Front),
    sleep: |_, _| {},
    wakeup: |kernel, thread| kernel.enqueue(thread, End::Back),
    trapret: |_, _| {},
    yield_cpu: |_, _| {},
    fork: |_, _| ClassState::Sys,
    forkret: |_, _| false,
    update: |_| {},
    check: |_, _| Ok(()),
};
