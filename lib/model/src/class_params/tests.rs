//! The parameter rules of priocntl(1), and the mapping of nice values to user priorities.

use super::*;
use crate::{FX_LEVELS, QuantumTable, RT_LEVELS, TS_LEVELS, TsRow, TsTable};
use proptest::prelude::*;

fn tables() -> DispatchTables {
    let row = TsRow { quantum: 4, tqexp: 0, slpret: 59, maxwait: 0, lwait: 59 };
    let by_level = |levels: u32| QuantumTable::new((1..=levels).map(|n| Quantum::Ticks(n * 10)).collect());
    DispatchTables {
        ts: TsTable::new(vec![row; TS_LEVELS]).unwrap(),
        rt: by_level(u32::try_from(RT_LEVELS).unwrap()).unwrap(),
        fx: by_level(u32::try_from(FX_LEVELS).unwrap()).unwrap(),
        fss: crate::FssQuantum::default(),
    }
}

fn after(now: &str, request: ClassRequest) -> (String, Option<Clamped>) {
    let (params, clamped) = request.apply(now.parse().unwrap(), &tables()).unwrap();
    (params.to_string(), clamped)
}

fn ts(uprilim: Option<i32>, upri: Option<i32>) -> ClassRequest {
    ClassRequest::Ts { uprilim, upri }
}

#[test]
fn v6_a_point_of_nice_is_three_of_user_priority() {
    assert_eq!([10, -20, 19].map(upri_of_nice), [-30, 60, -57]);
    assert_eq!([-30, 60, -57, -60, 10, -10, 1].map(nice_of_upri), [10, -20, 19, 19, -3, 3, 0]);
}

#[test]
fn a_priority_above_the_limit_becomes_the_limit_and_is_told() {
    assert_eq!(after("TS 0 0", ts(Some(10), Some(5))), ("TS 10 5".into(), None));
    assert_eq!(
        after("TS 0 -5", ts(None, Some(10))),
        ("TS 0 0".into(), Some(Clamped { asked: 10, limit: 0 }))
    );
    assert_eq!(after("TS 20 20", ts(Some(5), None)), ("TS 5 5".into(), None), "the limit takes it along");
    assert_eq!(after("TS 20 -7", ts(Some(5), None)), ("TS 5 -7".into(), None));
}

#[test]
fn who_enters_a_class_gets_its_defaults_and_who_stays_keeps_what_is_not_named() {
    let bare = |class| ClassRequest::bare(class).unwrap();
    assert_eq!(after("RT 10 100 9", bare(Class::Ts)).0, "TS 0 0");
    assert_eq!(after("RT 10 100 9", ts(Some(-7), None)).0, "TS -7 -7");
    assert_eq!(after("TS 9 9", bare(Class::Ia)).0, "IA 0 0 foreground");
    assert_eq!(after("IA 9 -9 background", bare(Class::Ia)).0, "IA 9 -9 background");
    assert_eq!(after("TS 9 9", bare(Class::Fx)).0, "FX 0 0 10");
    assert_eq!(after("TS 9 9", bare(Class::Rt)).0, "RT 0 10 0");
    let to_3 = ClassRequest::Rt { pri: Some(3), quantum: None, tqsig: None };
    assert_eq!(after("TS 9 9", to_3).0, "RT 3 40 0", "the slice of its level");
    assert_eq!(after("RT 10 infinite 9", to_3).0, "RT 3 infinite 9", "the slice of its own");
}

#[test]
fn what_the_class_does_not_have_is_refused_and_fx_brings_it_inside() {
    let refused = ts(None, Some(61)).apply(ClassParams::default(), &tables()).unwrap_err();
    assert_eq!(refused.to_string(), "TS has user priorities -60 to 60, not 61");
    let rt = ClassRequest::Rt { pri: Some(-1), quantum: None, tqsig: None };
    let refused = rt.apply(ClassParams::default(), &tables()).unwrap_err();
    assert_eq!(refused.to_string(), "RT has priorities 0 to 59, not -1");
    let fx = ClassRequest::Fx { uprilim: Some(99), upri: Some(-4), quantum: Some(Quantum::Infinite) };
    assert_eq!(after("TS 0 0", fx).0, "FX 60 0 infinite");
    assert_eq!(ClassRequest::bare(Class::Sys), None);
}

#[test]
fn the_most_favoured_thread_of_the_first_one_s_class_stands_for_its_process() {
    let stands = |threads: &[&str]| most_favoured(threads.iter().map(|text| text.parse().unwrap()));
    assert_eq!(stands(&["TS 0 -9", "RT 9 1 0", "TS 9 3", "TS 0 0"]), "TS 9 3".parse().ok());
    assert_eq!(stands(&[]), None);
}

#[test]
fn texts_that_are_no_parameters_are_refused() {
    for text in
        ["", "TS", "TS 0", "TS 0 1", "TS 61 0", "FX 0 0 0", "RT 60 1 0", "IA 0 0 1", "TS +0 0", "SYS "]
    {
        assert_eq!(text.parse::<ClassParams>(), Err(NoSuchParams(text.into())));
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_for_the_parameters_are_possible_and_survive_being_saved(
        lim in proptest::option::of(-70i32..70),
        pri in proptest::option::of(-70i32..70),
        ticks in proptest::option::of(1u32..1000),
        class in 0usize..5,
        was in prop::sample::select(vec!["SYS", "TS 9 -9", "IA 0 0 background", "FX 7 7 3", "RT 59 infinite 2"]),
    ) {
        let quantum = ticks.map(Quantum::Ticks);
        let request = match class {
            0 => ClassRequest::Ts { uprilim: lim, upri: pri },
            1 => ClassRequest::Ia { uprilim: lim, upri: pri, foreground: None },
            2 => ClassRequest::Fx { uprilim: lim, upri: pri, quantum },
            _ => ClassRequest::Rt { pri, quantum, tqsig: None },
        };
        if let Ok((params, _)) = request.apply(was.parse().unwrap(), &tables()) {
            prop_assert_eq!(params.class(), request.class());
            let saved = serde_json::to_string(&params).unwrap();
            prop_assert_eq!(serde_json::from_str::<ClassParams>(&saved).unwrap(), params);
        }
    }
}
