//! Deliberate defects, which show that the comparison finds errors.

use millpond_rules::{Class, Tables, Thread, TsRow, host};

/// The rules that the events of the comparison use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    Charge,
    Surrender,
    Preempt,
    BoostIfDue,
    Wakeup,
    UpdateRunning,
    UpdateQueued,
    Wait,
    Yield,
    ForkChild,
    ForkParent,
    Set,
    Foreground,
}

/// A rule with a defect.
pub struct Defect {
    pub name: &'static str,
    pub rule: Rule,
    /// Changes the correct new state into a wrong one, given the state before.
    pub spoil: fn(&Thread, &mut Thread, &Tables),
}

/// A change of each row of a table.
type Alter = fn(&mut TsRow);

/// An error in one column of the TS and IA table.
pub const COLUMNS: [(&str, Alter); 5] = [
    ("quantum", |row| row.quantum += 1),
    ("tqexp", |row| row.tqexp = (row.tqexp + 1) % 60),
    ("slpret", |row| row.slpret = (row.slpret + 1) % 60),
    ("lwait", |row| row.lwait = (row.lwait + 1) % 60),
    ("maxwait", |row| row.maxwait += 1),
];

fn refill(after: &mut Thread, tables: &Tables) {
    after.timeleft = host::slice(after, tables);
}

/// The defects. Each one changes the state only in some cases.
pub const DEFECTS: [Defect; 15] = [
    Defect {
        name: "a slice that was used up is filled by the tick",
        rule: Rule::Charge,
        spoil: |_, after, tables| {
            if after.back == 1 {
                refill(after, tables);
            }
        },
    },
    Defect {
        name: "a used-up slice leaves the wait",
        rule: Rule::Charge,
        spoil: |before, after, _| after.dispwait = before.dispwait,
    },
    Defect {
        name: "a better thread is not noticed",
        rule: Rule::Surrender,
        spoil: |before, after, _| *after = *before,
    },
    Defect {
        name: "preemption leaves the wait",
        rule: Rule::Preempt,
        spoil: |before, after, _| after.dispwait = before.dispwait,
    },
    Defect {
        name: "preemption always fills the slice",
        rule: Rule::Preempt,
        spoil: |_, after, tables| refill(after, tables),
    },
    Defect {
        name: "the boost goes by the wait column",
        rule: Rule::BoostIfDue,
        spoil: |before, after, tables| {
            if before.dispwait != after.dispwait {
                *after = *before;
                host::promote(after, tables);
                refill(after, tables);
            }
        },
    },
    Defect {
        name: "wake-up fills the slice",
        rule: Rule::Wakeup,
        spoil: |_, after, tables| refill(after, tables),
    },
    Defect {
        name: "wake-up keeps the mark for the back",
        rule: Rule::Wakeup,
        spoil: |before, after, _| after.back = before.back,
    },
    Defect {
        name: "the update of a queued thread does not fill the slice",
        rule: Rule::UpdateQueued,
        spoil: |before, after, _| after.timeleft = before.timeleft,
    },
    Defect {
        name: "the update of sleepers fills the slice",
        rule: Rule::Wait,
        spoil: |before, after, tables| {
            if before.cpupri != after.cpupri {
                refill(after, tables);
            }
        },
    },
    Defect {
        name: "yield always fills the slice",
        rule: Rule::Yield,
        spoil: |_, after, tables| refill(after, tables),
    },
    Defect {
        name: "a child has its parent's slice",
        rule: Rule::ForkChild,
        spoil: |before, after, _| after.timeleft = before.timeleft,
    },
    Defect {
        name: "a parent in TS does not pay",
        rule: Rule::ForkParent,
        spoil: |before, after, _| {
            if after.class == Class::Ts as i32 {
                after.cpupri = before.cpupri;
            }
        },
    },
    Defect {
        name: "a change by the user leaves the wait",
        rule: Rule::Set,
        spoil: |before, after, _| {
            if before.class == after.class {
                after.dispwait = before.dispwait;
            }
        },
    },
    Defect {
        name: "another foreground leaves the level",
        rule: Rule::Foreground,
        spoil: |before, after, _| after.pri = before.pri,
    },
];
