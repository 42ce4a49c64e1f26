//! The rules as Rust functions: `src/host.c` compiles the header for the host.
//!
//! Names are those of the header without `rule_`. Slices are in clock ticks, as in the tables passed in.

use crate::{Class, End, Place, Tables, Thread, TsRow};

// SAFETY: `host.c` defines each function with these types. In the C ABI `int` equals an enumeration of 32 bits, a pointer that is used only
// during the call equals a reference, and `_Bool` equals `bool`. A function declared to return an `End` returns only its values:
// enumerators, or an `End` passed in. No function keeps a pointer; the result of `row` points into the tables and lives as long.
unsafe extern "C" {
    /// Limits a value.
    #[link_name = "millpond_rule_clamp"]
    pub safe fn clamp(value: i32, lowest: i32, highest: i32) -> i32;

    /// The row of a level; the last row for levels outside the table.
    #[link_name = "millpond_rule_row"]
    pub safe fn row(tables: &Tables, level: i32) -> &TsRow;

    /// Whether the class is TS or IA.
    #[link_name = "millpond_rule_is_ts"]
    pub safe fn is_ts(thread: &Thread) -> bool;

    /// Computes the level from its parts.
    #[link_name = "millpond_rule_level"]
    pub safe fn level(thread: &mut Thread);

    /// Sets the system priority to a value of a table, and starts a new wait.
    #[link_name = "millpond_rule_move"]
    pub safe fn move_to(thread: &mut Thread, level: i32);

    /// The full slice.
    #[link_name = "millpond_rule_slice"]
    pub safe fn slice(thread: &Thread, tables: &Tables) -> i64;

    /// The boost of a class in the foreground or the background.
    #[link_name = "millpond_rule_ia_boost"]
    pub safe fn ia_boost(class: Class, foreground: bool) -> i32;

    /// The queue end for a thread of IA; for other classes `otherwise`.
    #[link_name = "millpond_rule_end_of"]
    pub safe fn end_of(thread: &Thread, otherwise: End) -> End;

    /// The default slice of an FX level.
    #[link_name = "millpond_rule_fx_quantum"]
    pub safe fn fx_quantum(tables: &Tables, level: i32) -> i64;

    /// Enters a class.
    #[link_name = "millpond_rule_enter"]
    pub safe fn enter(
        thread: &mut Thread,
        tables: &Tables,
        class: Class,
        uprilim: i32,
        upri: i32,
        foreground: bool,
        quantum: i64,
    );

    /// The slice has ended: lowers the system priority.
    #[link_name = "millpond_rule_expire"]
    pub safe fn expire(thread: &mut Thread, tables: &Tables);

    /// Charges a part of the slice. `true`: the CPU should switch to another thread.
    #[link_name = "millpond_rule_charge"]
    pub safe fn charge(thread: &mut Thread, tables: &Tables, ran: i64) -> bool;

    /// A thread of a higher level waits for the CPU.
    #[link_name = "millpond_rule_surrender"]
    pub safe fn surrender(thread: &mut Thread);

    /// The thread is preempted.
    #[link_name = "millpond_rule_preempt"]
    pub safe fn preempt(thread: &mut Thread, tables: &Tables) -> End;

    /// Whether the thread has waited longer than its level's `maxwait`.
    #[link_name = "millpond_rule_waited_too_long"]
    pub safe fn waited_too_long(thread: &Thread, tables: &Tables) -> bool;

    /// Boosts a thread that waited too long: before a sleep, or on the return to user mode. `true` if it did.
    #[link_name = "millpond_rule_boost_if_due"]
    pub safe fn boost_if_due(thread: &mut Thread, tables: &Tables) -> bool;

    /// Whether no wait of this length is too long by any table.
    #[link_name = "millpond_rule_has_not_waited"]
    pub safe fn has_not_waited(thread: &Thread) -> bool;

    /// The thread becomes runnable. `same_tick`: it already ran during this clock tick.
    #[link_name = "millpond_rule_wakeup"]
    pub safe fn wakeup(thread: &mut Thread, tables: &Tables, same_tick: bool) -> End;

    /// Adds seconds to `dispwait`.
    #[link_name = "millpond_rule_count"]
    pub safe fn count(thread: &mut Thread, seconds: u64);

    /// The once-per-second update of a running thread. `true`: call [`boost_if_due`] on its next return to user mode.
    #[link_name = "millpond_rule_update_running"]
    pub safe fn update_running(thread: &mut Thread, tables: &Tables) -> bool;

    /// Sets the system priority to `lwait`, after too long a wait.
    #[link_name = "millpond_rule_promote"]
    pub safe fn promote(thread: &mut Thread, tables: &Tables);

    /// The once-per-second update of a queued thread. `true`: it goes to [`end_of`] its new level; the back except for IA.
    #[link_name = "millpond_rule_update_queued"]
    pub safe fn update_queued(thread: &mut Thread, tables: &Tables) -> bool;

    /// Seconds until the thread is promoted, from `dispwait` on.
    #[link_name = "millpond_rule_until_promoted"]
    pub safe fn until_promoted(thread: &Thread, tables: &Tables) -> u64;

    /// Applies one promotion to a thread that waits for `seconds`, if they suffice; else counts them. Returns the remaining seconds.
    #[link_name = "millpond_rule_wait_one"]
    pub safe fn wait_one(thread: &mut Thread, tables: &Tables, seconds: u64, queued: bool) -> u64;

    /// Applies one promotion. Returns the seconds that it takes.
    #[link_name = "millpond_rule_promote_one"]
    pub safe fn promote_one(thread: &mut Thread, tables: &Tables) -> u64;

    /// Applies `seconds` once-per-second updates to a queued or sleeping thread.
    #[link_name = "millpond_rule_wait"]
    pub safe fn wait(thread: &mut Thread, tables: &Tables, seconds: u64, queued: bool);

    /// Applies `seconds` once-per-second updates to a sleeping thread.
    #[link_name = "millpond_rule_update_asleep"]
    pub safe fn update_asleep(thread: &mut Thread, tables: &Tables, seconds: u64);

    /// The thread yields its CPU.
    #[link_name = "millpond_rule_yield"]
    pub safe fn yield_cpu(thread: &mut Thread, tables: &Tables) -> End;

    /// The initial state of a child.
    #[link_name = "millpond_rule_fork_child"]
    pub safe fn fork_child(child: &mut Thread, parent: &Thread, tables: &Tables);

    /// The parent pays for its child. `true`: it gives up its CPU and goes to the back.
    #[link_name = "millpond_rule_fork_parent"]
    pub safe fn fork_parent(thread: &mut Thread, tables: &Tables) -> bool;

    /// Stores the parameters that a user may set, without the consequences.
    #[link_name = "millpond_rule_store"]
    pub safe fn store(thread: &mut Thread, uprilim: i32, upri: i32, foreground: bool, quantum: i64);

    /// Consequences of changed parameters: a new wait, and a full slice unless the thread leaves its CPU.
    #[link_name = "millpond_rule_changed"]
    pub safe fn changed(thread: &mut Thread, tables: &Tables, place: Place) -> End;

    /// The process group of an IA thread enters or leaves the foreground of its terminal.
    #[link_name = "millpond_rule_foreground"]
    pub safe fn foreground(thread: &mut Thread, tables: &Tables, foreground: bool, place: Place) -> End;

    /// A user sets parameters or another class. Returns the queue end for a queued thread.
    #[link_name = "millpond_rule_set"]
    pub safe fn set(
        thread: &mut Thread,
        tables: &Tables,
        class: Class,
        uprilim: i32,
        upri: i32,
        foreground: bool,
        quantum: i64,
        place: Place,
    ) -> End;

    /// The user priority for a nice value.
    #[link_name = "millpond_rule_nice"]
    pub safe fn nice(nice: i32) -> i32;

    /// The key of a thread in a queue ordered by key, smallest first.
    #[link_name = "millpond_rule_key"]
    pub safe fn key(pri: i32, end: End, arrival: u64) -> u64;

    /// The level of a key.
    #[link_name = "millpond_rule_key_pri"]
    pub safe fn key_pri(key: u64) -> i32;
}

#[cfg(test)]
mod tests {
    use crate::*;
    use std::mem::{offset_of, size_of};

    const LAYOUT: [usize; 21] = [
        size_of::<TsRow>(),
        offset_of!(TsRow, quantum),
        offset_of!(TsRow, tqexp),
        offset_of!(TsRow, slpret),
        offset_of!(TsRow, lwait),
        offset_of!(TsRow, maxwait),
        size_of::<Tables>(),
        offset_of!(Tables, ts),
        offset_of!(Tables, fx),
        offset_of!(Tables, sys),
        size_of::<Thread>(),
        offset_of!(Thread, timeleft),
        offset_of!(Thread, quantum),
        offset_of!(Thread, dispwait),
        offset_of!(Thread, class),
        offset_of!(Thread, cpupri),
        offset_of!(Thread, upri),
        offset_of!(Thread, uprilim),
        offset_of!(Thread, boost),
        offset_of!(Thread, pri),
        offset_of!(Thread, back),
    ];

    #[expect(clippy::cast_possible_wrap, reason = "numbers of levels are small")]
    const NUMBERS: [i64; 23] = [
        TS_LEVELS as i64,
        59,
        29,
        FX_LEVELS as i64,
        60,
        UPRI_MAX as i64,
        IA_BOOST as i64,
        BACKGROUND as i64,
        60,
        99,
        Class::Sys as i64,
        Class::Ts as i64,
        Class::Fx as i64,
        Class::Ia as i64,
        Class::Idle as i64,
        End::Front as i64,
        End::Back as i64,
        End::Stays as i64,
        Place::Asleep as i64,
        Place::Queued as i64,
        Place::Running as i64,
        Place::Outranked as i64,
        FOREVER,
    ];

    // SAFETY: `host.c` defines both as constants, with these numbers of 64-bit elements.
    unsafe extern "C" {
        safe static millpond_rule_layout: [u64; LAYOUT.len()];
        safe static millpond_rule_numbers: [i64; NUMBERS.len()];
    }

    #[test]
    fn types_have_the_layout_that_c_gives_them() {
        assert_eq!(millpond_rule_layout, LAYOUT.map(|n| n as u64));
    }

    #[test]
    fn constants_are_those_of_the_header() {
        assert_eq!(millpond_rule_numbers, NUMBERS);
    }

    #[test]
    fn every_rule_of_the_header_is_a_function_of_the_host() {
        let (header, c) = (include_str!("../include/rules.h"), include_str!("host.c"));
        let rules = header.lines().filter_map(|line| line.strip_prefix("RULE ")?.split_once('('));
        let names: Vec<&str> = rules.filter_map(|(head, _)| head.rsplit([' ', '*']).next()).collect();
        assert!(names.len() > 30, "{names:?}");
        let rust = include_str!("host.rs");
        for name in names {
            assert!(c.contains(&format!("({name},")) || c.contains(&format!(", {name},")), "host.c: {name}");
            assert!(rust.contains(&format!("\"millpond_{name}\"")), "host.rs: {name}");
        }
    }
}
