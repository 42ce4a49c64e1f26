//! Laws of the classes, checked after each event: each CPU runs the best of its waiting threads, no thread waits longer than the table
//! allows, and a higher user priority gets at least as much time. The tests of live classes in tests/vm check the same laws on real kernels.

use super::*;
use crate::kernel::RunState;
use crate::kernel::partition::DEFAULT;
use crate::kernel::queue::IDLE;
use proptest::prelude::*;

/// Tolerance of a measured time: a quantum of the extended table's low levels, in ticks.
const SLICE: u64 = 38;

/// A waiting thread that is better than the one that its CPU runs, as a sentence.
fn passed_over(k: &Kernel) -> Option<String> {
    k.cpus().with_ids().find_map(|(number, cpu)| {
        let best = k.best_here(number);
        let Some(running) = cpu.running else {
            return (best != IDLE).then(|| format!("{number:?} idles while a thread of level {best} waits"));
        };
        let (thread, pri) = (k.thread(running), k.thread(running).effective());
        // Only the best levels preempt the kernel. This thread was asked to switch, and leaves at its return to user mode.
        let leaves_later = thread.in_kernel && cpu.runrun && best < k.tunables.kpreempt_pri;
        (best > pri && !leaves_later)
            .then(|| format!("{number:?} runs {running:?} of level {pri} while one of level {best} waits"))
    })
}

/// A waiting TS or IA thread that missed an update or has waited more seconds than its level allows, as a sentence.
fn overdue(k: &Kernel) -> Option<String> {
    k.threads().with_ids().find_map(|(number, thread)| {
        let (RunState::Queued(_), ClassState::Ts(state)) = (thread.state, &thread.class) else { return None };
        let most = k.tables().ts.row(state.umdpri).maxwait;
        if thread.beats < k.beats() {
            return Some(format!("{number:?} knows of {} seconds at {} ns", thread.beats, k.now()));
        }
        // A thread that ran at the update gets its boost at its return to user mode.
        (state.dispwait > most && !thread.trapret).then(|| {
            format!(
                "{number:?} has waited for {} s, and level {} allows {most}",
                state.dispwait, state.umdpri
            )
        })
    })
}

/// A program that computes, also in the kernel, sleeps, yields and forks.
fn program() -> impl Strategy<Value = Program> {
    let action = prop_oneof![
        4 => (1u64..300_000_000).prop_map(Action::User),
        1 => (1u64..30_000_000).prop_map(Action::Kernel),
        3 => (1u64..90_000_000).prop_map(Action::Sleep),
        1 => Just(Action::Yield),
        1 => Just(Action::Fork(Program::once(vec![Action::User(70_000_000)]))),
    ];
    prop_oneof![
        1 => Just(Program::hog()),
        2 => proptest::collection::vec(action, 1..6).prop_map(|mut actions| {
            actions.push(Action::User(1_000_000));
            Program::repeat(actions)
        }),
    ]
}

fn params() -> impl Strategy<Value = ClassParams> {
    prop_oneof![
        3 => (-60i8..=60).prop_map(|upri| ClassParams::Ts { uprilim: upri.max(0), upri }),
        1 => any::<bool>().prop_map(|foreground| ClassParams::Ia { uprilim: 0, upri: 0, foreground }),
        1 => (0i8..=60, 1u32..30).prop_map(|(pri, ticks)| ClassParams::Fx {
            uprilim: pri,
            upri: pri,
            quantum: Quantum::Ticks(ticks),
        }),
        1 => (0i8..=59).prop_map(|pri| ClassParams::Rt { pri, quantum: Quantum::Ticks(5), tqsig: 0 }),
    ]
}

/// A change that a user makes to a thread.
#[derive(Debug, Clone)]
enum Change {
    Class(ClassParams),
    Bind(Option<u32>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![params().prop_map(Change::Class), proptest::option::of(0u32..4).prop_map(Change::Bind)]
}

/// Runs up to a time, and checks the laws after each event.
fn observe(k: &mut Kernel, until: u64) -> Result<(), TestCaseError> {
    while let Some(at) = k.heap.next_at().filter(|at| *at <= until) {
        k.run_until(at).unwrap();
        if let Some(found) = passed_over(k).or_else(|| overdue(k)) {
            return Err(TestCaseError::fail(format!("at {at} ns: {found}")));
        }
    }
    k.run_until(until).unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_best_runs_and_no_thread_waits_too_long_at_each_event(
        threads in proptest::collection::vec((program(), params()), 1..10),
        cpus in 1u32..=4,
        is_large in any::<bool>(),
        changes in proptest::collection::vec((1u64..2_000_000_000, any::<u32>(), change()), 1..6),
    ) {
        let mut k = kernel(cpus, if is_large { extended() } else { standard() });
        let threads: Vec<ThreadId> = threads.into_iter().map(|(program, params)| {
            let class = k.entry(params);
            k.start(Start::new(class, program))
        }).collect();
        let mut until = 0;
        for (pause, who, change) in changes {
            until += pause;
            observe(&mut k, until)?;
            let who = threads[who as usize % threads.len()];
            match change {
                Change::Class(params) => k.set_params(who, params),
                Change::Bind(cpu) => k.confine(who, DEFAULT, cpu.map(|cpu| CpuIndex(cpu % cpus))),
            }
        }
        observe(&mut k, until + 4 * SECOND)?;
    }

    /// Two compute-bound threads with different user priorities share one CPU for a minute. A step of nice is three points.
    /// The law does not hold for a single point: with the standard table -49 gets 48 % against -50. That is the only such pair.
    #[test]
    fn a_higher_user_priority_gets_no_less(lower in -60i8..=58, more in 2i8..=60, is_large in any::<bool>()) {
        let higher = (lower + more).min(60);
        let mut k = kernel(1, if is_large { extended() } else { standard() });
        let [less, more] = [lower, higher].map(|upri| {
            let class = k.ts_entry_at(upri);
            k.start(Start::new(class, Program::hog()))
        });
        k.pass(6_000);
        let ran = |thread: ThreadId| k.thread(thread).user;
        prop_assert!(
            ran(more) + SLICE * TICK >= ran(less),
            "{lower}: {} ns, {higher}: {} ns", ran(less), ran(more)
        );
    }
}

#[test]
fn a_better_thread_that_is_passed_over_is_found() {
    let mut k = kernel(1, standard());
    let hog = k.ts_start(Program::hog());
    let better = k.ts_start_at(59, Program::once(vec![Action::Sleep(SECOND)]));
    k.pass(10);
    assert_eq!((passed_over(&k), k.on(CpuIndex(0))), (None, Some(hog)));
    // End its sleep without the event that asks the CPU to switch.
    k.end_wait(better);
    let Kernel { queues, threads, .. } = &mut k;
    queues[CpuIndex(0)].insert(threads, better, false);
    assert!(passed_over(&k).is_some());
}

#[test]
fn a_thread_that_waits_and_is_not_lifted_is_found() {
    let mut k = kernel(1, standard());
    let low = k.ts_start_at(0, Program::hog());
    k.start(Start::new(k.fx_start(60, None), Program::hog()));
    k.pass(90);
    assert!(matches!(k.thread(low).state, RunState::Queued(_)), "{:?}", k.thread(low));
    assert_eq!(overdue(&k), None);
    let ClassState::Ts(state) = &mut k.t(low).class else { panic!() };
    state.dispwait = 1;
    assert!(overdue(&k).is_some(), "the standard table allows no whole second");
    let ClassState::Ts(state) = &mut k.t(low).class else { panic!() };
    state.dispwait = 0;
    k.grow_old(SECOND);
    assert!(overdue(&k).is_some(), "a second has passed that it was not told of");
}
