//! Processes that start and end, and whose classes, nice values and CPUs change at random all the time.

use crate::Outcome;
use crate::actor::Actor;
use crate::stage::{Stage, fx, wish};
use millpond_bpf::classes::Wish;
use millpond_rules::Class;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of processes at a time.
const ACTORS: usize = 40;

/// Their kinds, alternating; `fork` forks on a signal.
const WORDS: [&str; 2] = ["spin", "fork"];

/// A deterministic random sequence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn part(&mut self, lowest: i8, highest: i8) -> i8 {
        let span = u64::from(highest.abs_diff(lowest)) + 1;
        i8::try_from(i64::from(lowest) + i64::try_from(self.below(span)).unwrap_or_default())
            .unwrap_or_default()
    }

    fn wish(&mut self) -> Wish {
        let level = self.part(-60, 60);
        match self.below(4) {
            0 => Wish { foreground: self.below(2) == 0, ..wish(Class::Ia, level, level) },
            1 => fx(self.part(0, 60), Duration::from_millis(1 + self.below(300))),
            _ => wish(Class::Ts, level, level),
        }
    }
}

/// Runs for `seconds`. The outcome is an error if the scheduler has ended, else its counters.
pub fn all(seconds: u64) -> impl Iterator<Item = (String, Outcome)> {
    std::iter::once((format!("{ACTORS} processes that change at random for {seconds} s"), churn(seconds)))
}

fn churn(seconds: u64) -> Outcome {
    let stage = Stage::new()?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    // All start stopped, so that running ones do not delay the start of others.
    let mut actors: Vec<Actor> = (0..ACTORS).map(|at| Actor::new(WORDS[at % 2])).collect::<Result<_, _>>()?;
    actors.iter().for_each(Actor::go);
    let (mut changes, mut ended) = (0_u64, 0_u64);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        let at = usize::try_from(dice.below(actors.len() as u64)).unwrap_or_default();
        let actor = &actors[at];
        match dice.below(60) {
            0..10 => actor.nice(dice.part(-20, 19).into()),
            10..20 => actor.bind(cpus, &mut |most| dice.below(most)),
            20..34 => stage.want(actor, dice.wish())?,
            34..42 => actor.signal(libc::SIGSTOP),
            42..46 => actor.signal(libc::SIGUSR1),
            // Ends one with its children, and starts another one instead.
            46 => {
                drop(actors.swap_remove(at));
                actors.push(Actor::started(WORDS[at % 2])?);
                ended += 1;
            }
            _ => actor.go(),
        }
        changes += 1;
        sleep(Duration::from_millis(dice.below(5)));
    }
    drop(actors);
    let state = std::fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default();
    if state.trim() != "enabled" {
        return Err(format!("the scheduler is {} after {changes} changes", state.trim()));
    }
    let wait = stage.levels("waited_max_ns").max().unwrap_or_default() / 1_000_000;
    let begun: u64 = stage.levels("begun").sum();
    let [passed_over, overdue, deferred] = ["passed_over", "overdue", "deferred"].map(|name| stage.sum(name));
    Ok(format!(
        "{changes} changes, {ended} ended, {begun} times on a CPU, passed_over {passed_over}, overdue {overdue}, deferred {deferred}, longest wait {wait} ms"
    ))
}
