//! What the rules remember about one thread, and the words of its events, in the layout and with the numbers of the header.

/// The user's part of a priority of TS and IA is at most this, and at least its negative.
pub const UPRI_MAX: i32 = 60;

/// What being in the foreground is worth in IA, and being in the background costs.
pub const IA_BOOST: i32 = 10;

/// The level of [`Class::Idle`], below all others.
pub const BACKGROUND: i32 = -1;

/// A class, with the number that Solaris gives it: `enum rule_class`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Of the kernel: its level never moves.
    Sys = 0,
    /// Time sharing.
    Ts = 1,
    /// Fixed priority.
    Fx = 2,
    /// Interactive: time sharing with a boost in the foreground.
    Ia = 4,
    /// Runs where nothing else wants to: `SCHED_IDLE` of Linux.
    Idle = 5,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 5] = [Class::Sys, Class::Ts, Class::Fx, Class::Ia, Class::Idle];

    /// The class of a number, if there is one.
    #[must_use]
    pub fn of_number(number: i32) -> Option<Class> {
        Class::ALL.into_iter().find(|class| *class as i32 == number)
    }
}

/// Where a thread goes among the equals of its level: `enum rule_end`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Before them.
    Front = 0,
    /// Behind them.
    Back = 1,
    /// It keeps its place. Only `rule_set` gives this.
    Stays = 2,
}

/// Where a thread is when a user changes it: `enum rule_place`.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It sleeps.
    Asleep = 0,
    /// It waits in a queue.
    Queued = 1,
    /// It runs.
    Running = 2,
    /// It runs, and after the change something better waits for its CPU.
    Outranked = 3,
}

/// A thread: `struct rule_thread`. `class` and `back` are plain numbers, because a program that runs in the kernel writes them.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Thread {
    /// What is left of the slice, in nanoseconds for BPF and in clock ticks on the host. Below 0 when it was overrun.
    pub timeleft: i64,
    /// FX: the slice, in the same unit; [`FOREVER`](crate::FOREVER) for one that never ends.
    pub quantum: i64,
    /// TS, IA: seconds since the slice began, as the update counts them.
    pub dispwait: u32,
    /// The number of a [`Class`].
    pub class: i32,
    /// TS, IA: the system's part of the priority, 0 to 59.
    pub cpupri: i32,
    /// The user's part: -60 to 60 in TS and IA, the level in FX.
    pub upri: i32,
    /// What the user's part may be at most.
    pub uprilim: i32,
    /// IA: [`IA_BOOST`] in the foreground, its negative in the background.
    pub boost: i32,
    /// The level that the queue is ordered by: -1 to 99. Of TS and IA the sum of the parts, 0 to 59.
    pub pri: i32,
    /// 1: it goes behind its equals when it leaves its CPU, with a full slice.
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
