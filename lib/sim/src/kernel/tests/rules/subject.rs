//! Both sides in one form: tables, parameters and a thread's state.

use super::super::super::ThreadId;
use super::super::super::class_state::{ClassState, slice};
use super::super::super::state::Kernel;
use millpond_model::{ClassParams, DispatchTables};
use millpond_rules as rules;

/// The simulator's tables in the form of the rules, in ticks.
pub fn rule_tables(tables: &DispatchTables) -> rules::Tables {
    let row = |level: usize| {
        let row = &tables.ts.rows()[level];
        rules::TsRow {
            quantum: i64::from(row.quantum),
            tqexp: i32::from(row.tqexp),
            slpret: i32::from(row.slpret),
            lwait: i32::from(row.lwait),
            maxwait: row.maxwait,
        }
    };
    rules::Tables {
        ts: std::array::from_fn(row),
        fx: std::array::from_fn(|level| slice(tables.fx.rows()[level])),
        sys: 1,
    }
}

/// User parameters, as numbers.
#[derive(Clone, Copy)]
pub struct Params {
    pub class: rules::Class,
    pub uprilim: i32,
    pub upri: i32,
    pub foreground: bool,
    pub quantum: i64,
}

impl From<ClassParams> for Params {
    fn from(params: ClassParams) -> Self {
        let (class, uprilim, upri, foreground, quantum) = match params {
            ClassParams::Ts { uprilim, upri } => (rules::Class::Ts, uprilim, upri, false, 0),
            ClassParams::Ia { uprilim, upri, foreground } => (rules::Class::Ia, uprilim, upri, foreground, 0),
            ClassParams::Fx { uprilim, upri, quantum } => {
                (rules::Class::Fx, uprilim, upri, false, slice(quantum))
            }
            other => unreachable!("{other}"),
        };
        Params { class, uprilim: uprilim.into(), upri: upri.into(), foreground, quantum }
    }
}

/// The simulator's state of a thread, in the form of the rules.
pub fn seen(kernel: &Kernel, thread: ThreadId) -> rules::Thread {
    match kernel.thread(thread).class {
        ClassState::Ts(s) => rules::Thread {
            timeleft: s.timeleft,
            quantum: 0,
            dispwait: s.dispwait,
            class: if s.foreground.is_none() { rules::Class::Ts } else { rules::Class::Ia } as i32,
            cpupri: s.cpupri.into(),
            upri: s.upri.into(),
            uprilim: s.uprilim.into(),
            boost: s.boost.into(),
            pri: s.umdpri.into(),
            back: s.back.into(),
        },
        ClassState::Fx(s) => rules::Thread {
            timeleft: s.timeleft,
            quantum: slice(s.quantum),
            dispwait: 0,
            class: rules::Class::Fx as i32,
            cpupri: 0,
            upri: s.pri.into(),
            uprilim: s.uprilim.into(),
            boost: 0,
            pri: s.pri.into(),
            back: s.back.into(),
        },
        other => unreachable!("{other:?}"),
    }
}
