//! Wake-ups with the tunable `wakeup_parity_nsec`: which threads they spare, until when, and what goes on as by the rule of Solaris.

use super::*;

const PARITY: u64 = 300_000;
const CPU: CpuIndex = CpuIndex(0);

/// A machine of one CPU.
fn tuned(wakeup_parity_nsec: u64) -> Kernel {
    Kernel::new(&Layout::flat(1), standard(), Tunables { wakeup_parity_nsec, ..Tunables::default() })
}

/// A thread of FX at a level that works for a millisecond for each post.
fn receiver(k: &mut Kernel, pri: i8) -> (ThreadId, ChannelId) {
    let channel = k.channel();
    let program = Program::repeat(vec![Action::Wait(channel), Action::User(1_000_000)]);
    let thread = k.start(Start::new(k.fx_start(pri, None), program));
    (thread, channel)
}

/// A thread of FX 10 that begins at once, and posts at these moments.
fn sender(k: &mut Kernel, posts: &[(u64, ChannelId)]) -> ThreadId {
    let (mut actions, mut now) = (Vec::new(), 0);
    for (at, channel) in posts {
        actions.extend([Action::User(at - now), Action::Post(*channel)]);
        now = *at;
    }
    actions.push(Action::User(50_000_000));
    k.start(Start::new(k.fx_start(10, None), Program::once(actions)))
}

#[test]
fn without_it_a_better_thread_preempts_at_once() {
    let mut k = tuned(0);
    let (better, channel) = receiver(&mut k, 20);
    sender(&mut k, &[(100_000, channel)]);
    k.run_until(100_001).unwrap();
    assert_eq!(k.on(CPU), Some(better));
}

#[test]
fn a_program_that_just_began_goes_on_until_the_tick() {
    let mut k = tuned(PARITY);
    let (better, channel) = receiver(&mut k, 20);
    let sender = sender(&mut k, &[(100_000, channel)]);
    k.run_until(TICK - 1).unwrap();
    assert_eq!((k.on(CPU), k.thread(sender).user), (Some(sender), TICK - 1));
    k.run_until(TICK + 1).unwrap();
    assert_eq!(k.on(CPU), Some(better));
}

#[test]
fn one_that_began_so_long_ago_is_preempted() {
    let mut k = tuned(PARITY);
    let (better, channel) = receiver(&mut k, 20);
    let sender = sender(&mut k, &[(PARITY, channel)]);
    k.run_until(PARITY - 1).unwrap();
    assert_eq!(k.on(CPU), Some(sender));
    k.run_until(PARITY + 1).unwrap();
    assert_eq!(k.on(CPU), Some(better));
}

#[test]
fn of_those_that_woke_up_the_best_runs_first() {
    let mut k = tuned(PARITY);
    let (best, first) = receiver(&mut k, 30);
    let (better, second) = receiver(&mut k, 20);
    sender(&mut k, &[(100_000, first), (PARITY, second)]);
    k.run_until(PARITY + 1).unwrap();
    assert_eq!(k.on(CPU), Some(best));
    k.run_until(PARITY + 1_000_001).unwrap();
    assert_eq!(k.on(CPU), Some(better));
}

#[test]
fn a_device_and_the_end_of_a_sleep_are_not_delayed() {
    let mut k = tuned(PARITY);
    let (better, channel) = receiver(&mut k, 20);
    k.device(Program::once(vec![Action::Sleep(100_000), Action::Post(channel)]));
    let nap = Program::once(vec![Action::Sleep(200_000), Action::User(5_000)]);
    let best = k.start(Start::new(k.fx_start(30, None), nap));
    sender(&mut k, &[]);
    k.run_until(100_001).unwrap();
    assert_eq!(k.on(CPU), Some(better));
    k.run_until(200_001).unwrap();
    assert_eq!(k.on(CPU), Some(best));
}

#[test]
fn a_thread_of_rt_is_not_delayed() {
    let mut k = tuned(PARITY);
    let channel = k.channel();
    let program = Program::repeat(vec![Action::Wait(channel), Action::User(1_000_000)]);
    let real_time = k.start(Start::new(k.rt_start(0, None, 0), program));
    sender(&mut k, &[(100_000, channel)]);
    k.run_until(100_001).unwrap();
    assert_eq!(k.on(CPU), Some(real_time));
}
