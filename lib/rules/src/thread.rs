//! A thread's scheduling state, and the terms of its events, with the layout and the numbers of the header.

/// The largest user priority of TS and IA; its negative is the smallest.
pub const UPRI_MAX: i32 = 60;

/// IA: added to the level in the foreground, subtracted in the background.
pub const IA_BOOST: i32 = 10;

/// The level of [`Class::Idle`], below all others.
pub const BACKGROUND: i32 = -1;

/// A class, with Solaris' number: `enum rule_class`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Kernel threads: the level is constant.
    Sys = 0,
    /// Time sharing.
    Ts = 1,
    /// Fixed priority.
    Fx = 2,
    /// Interactive: time sharing with a boost in the foreground.
    Ia = 4,
    /// Runs only on otherwise idle CPUs: Linux' `SCHED_IDLE`.
    Idle = 5,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 5] = [Class::Sys, Class::Ts, Class::Fx, Class::Ia, Class::Idle];

    /// The class with a number, if it exists.
    #[must_use]
    pub fn of_number(number: i32) -> Option<Class> {
        Class::ALL.into_iter().find(|class| *class as i32 == number)
    }
}

/// The end of its level's queue that a thread goes to: `enum rule_end`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Ahead of all others of its level.
    Front = 0,
    /// Behind all others of its level.
    Back = 1,
    /// It keeps its place. Only `rule_set` and `rule_foreground` return this.
    Stays = 2,
}

/// The place of a thread when a user changes it: `enum rule_place`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It sleeps.
    Asleep = 0,
    /// It waits in a queue.
    Queued = 1,
    /// It runs.
    Running = 2,
    /// It runs, and after the change a thread of a higher level waits for its CPU.
    Outranked = 3,
}

/// A thread: `struct rule_thread`. `class` and `back` are plain numbers, because a BPF program writes them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thread {
    /// Rest of the slice, in nanoseconds for BPF and in clock ticks on the host. Negative after an overrun.
    pub timeleft: i64,
    /// FX: the slice, in the same unit; [`FOREVER`](crate::FOREVER) for an infinite one.
    pub quantum: i64,
    /// TS, IA: seconds since the slice began, counted by the once-per-second update.
    pub dispwait: u32,
    /// The number of a [`Class`].
    pub class: i32,
    /// TS, IA: the system priority, 0 to 59.
    pub cpupri: i32,
    /// The user priority: -60 to 60 in TS and IA, the level in FX.
    pub upri: i32,
    /// The limit of the user priority.
    pub uprilim: i32,
    /// IA: [`IA_BOOST`] in the foreground, its negative in the background.
    pub boost: i32,
    /// The level that orders the queue: -1 to 99. In TS and IA the sum of the parts, limited to 0 to 59.
    pub pri: i32,
    /// 1: when it leaves its CPU it goes to the back of its level, with a full slice.
    pub back: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_its_number_alone() {
        for class in Class::ALL {
            assert_eq!(Class::of_number(class as i32), Some(class));
        }
        assert_eq!([3, 6, -1].map(Class::of_number), [None; 3]);
    }
}
