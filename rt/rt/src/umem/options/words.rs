//! The words of the three variables.

use super::items::Trouble;
use super::number::Unit;
use super::{CONTENTS, FRAMES, FRAMES_MAX, LOG, Settings, Variable};

pub(super) struct Word {
    pub(super) name: &'static str,
    pub(super) value: Value,
}

/// The value of a word, and its effect.
pub(super) enum Value {
    None(fn(&mut Settings)),
    Number {
        unit: Unit,
        /// Default value; `None`: a value is required.
        usual: Option<usize>,
        set: fn(&mut Settings, usize) -> Result<(), Trouble>,
    },
    /// One of these values, and the complaint about it. They change nothing.
    OneOf(&'static [(&'static str, Result<(), Trouble>)]),
}

pub(super) fn of(variable: Variable) -> &'static [Word] {
    match variable {
        Variable::Debug => DEBUG,
        Variable::Logging => LOGGING,
        Variable::Options => OPTIONS,
    }
}

const fn alone(name: &'static str, set: fn(&mut Settings)) -> Word {
    Word { name, value: Value::None(set) }
}

type Set = fn(&mut Settings, usize) -> Result<(), Trouble>;

const fn number(name: &'static str, unit: Unit, usual: Option<usize>, set: Set) -> Word {
    Word { name, value: Value::Number { unit, usual, set } }
}

/// Sets a number of any value.
fn any(place: &mut impl From<usize>, number: usize) -> Result<(), Trouble> {
    *place = number.into();
    Ok(())
}

/// Sets a number of at least one.
fn at_least_one(place: &mut impl From<usize>, number: usize) -> Result<(), Trouble> {
    if number == 0 { Err(Trouble::Says("must be at least 1. ignored")) } else { any(place, number) }
}

/// Complaints about words that have an effect on other systems only.
const NO_BREAK: Trouble = Trouble::Says("has no effect here: memory comes from mmap");
const NO_CHOICE: Trouble = Trouble::Says("has no effect here: there is one way to look for free memory");
const NO_THREAD_CACHE: Trouble =
    Trouble::Says("has no effect here: the magazines serve threads without one more cache");

const DEBUG: &[Word] = &[
    alone("default", |s| {
        s.debug.audit = Some(FRAMES);
        s.debug.contents = Some(CONTENTS);
        s.debug.guards = true;
    }),
    number("audit", Unit::Count, Some(FRAMES), |s, frames| {
        s.debug.audit = Some(frames.min(FRAMES_MAX));
        if frames > FRAMES_MAX { Err(Trouble::Says("64 frames are kept, which is the most")) } else { Ok(()) }
    }),
    number("contents", Unit::Bytes, Some(CONTENTS), |s, n| any(&mut s.debug.contents, n)),
    alone("guards", |s| s.debug.guards = true),
    // An alternative spelling, published with `audit=64`.
    alone("guard", |s| s.debug.guards = true),
    alone("lite", |s| s.debug.lite = true),
    number("firewall", Unit::Bytes, None, |s, n| any(&mut s.debug.firewall, n)),
    number("maxverify", Unit::Bytes, None, |s, n| any(&mut s.debug.max_verify, n)),
    number("mtbf", Unit::Count, None, |s, n| at_least_one(&mut s.debug.mtbf, n)),
    alone("random", |s| s.debug.random = true),
    alone("noabort", |s| s.debug.no_abort = true),
    alone("nosignal", |s| s.debug.no_signal = true),
    alone("verbose", |s| s.debug.verbose = true),
    alone("allverbose", |s| s.debug.all_verbose = true),
    alone("checknull", |s| s.debug.check_null = true),
];

const LOGGING: &[Word] = &[
    number("transaction", Unit::Bytes, Some(LOG), |s, n| any(&mut s.logs.transaction, n)),
    number("contents", Unit::Bytes, Some(LOG), |s, n| any(&mut s.logs.contents, n)),
    number("fail", Unit::Bytes, Some(LOG), |s, n| any(&mut s.logs.fail, n)),
    number("slab", Unit::Bytes, Some(LOG), |s, n| any(&mut s.logs.slab, n)),
];

const OPTIONS: &[Word] = &[
    Word { name: "backend", value: Value::OneOf(&[("mmap", Ok(())), ("sbrk", Err(NO_BREAK))]) },
    Word {
        name: "allocator",
        value: Value::OneOf(&[
            ("best", Err(NO_CHOICE)),
            ("first", Err(NO_CHOICE)),
            ("next", Err(NO_CHOICE)),
            ("instant", Err(NO_CHOICE)),
        ]),
    },
    number("perthread_cache", Unit::Bytes, None, |_, _| Err(NO_THREAD_CACHE)),
    number("concurrency", Unit::Count, None, |s, n| at_least_one(&mut s.options.concurrency, n)),
    number("max_contention", Unit::Count, None, |s, n| any(&mut s.options.max_contention, n)),
    alone("nomagazines", |s| s.options.no_magazines = true),
    number("reap_interval", Unit::Count, None, |s, n| any(&mut s.options.reap_interval, n)),
    number("size_add", Unit::Bytes, None, |s, size| s.options.sizes.add(size)),
    number("size_remove", Unit::Bytes, None, |s, size| s.options.sizes.remove(size)),
    alone("size_clear", |s| s.options.sizes.clear()),
    number("sbrk_minalloc", Unit::Bytes, None, |_, _| Err(NO_BREAK)),
    number("sbrk_pagesize", Unit::Bytes, None, |_, _| Err(NO_BREAK)),
];
