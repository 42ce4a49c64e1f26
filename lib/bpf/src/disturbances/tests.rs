//! Tests of decoding, and of the accounting in nesting.h, compiled from the same source as in the kernel.

use super::records::{AWAY, FRAMES, WHAT_WORDS};
use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

const PROGRAM: &str = include_str!("../../programs/disturbances/disturbances.bpf.c");
const NESTING: &str = include_str!("../../programs/disturbances/nesting.h");

/// The names in an enum of the program.
fn listed(name: &str) -> Vec<String> {
    let list = PROGRAM.split_once(&format!("enum {name} {{")).and_then(|(_, rest)| rest.split_once('}'));
    list.unwrap().0.split(',').map(|word| word.trim().replace('_', "").to_lowercase()).collect()
}

#[test]
fn kinds_stand_as_in_the_program() {
    let names: Vec<String> = KINDS.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    assert_eq!(listed("kind")[1..], names);
    assert_eq!(listed("whose"), ["others", "job", "ours"]);
    assert_eq!(listed("vector").len(), VECTORS.len());
}

#[test]
fn each_program_is_known_by_its_name() {
    let names = OTHERS.iter().flat_map(|(names, _)| names.iter()).chain(&NEEDED);
    for name in names {
        assert!(PROGRAM.contains(&format!("TRACEPOINT({name})")), "{name}");
    }
    for name in VECTORS.iter().filter(|name| **name != "reschedule") {
        assert!(PROGRAM.contains(&format!("VECTOR_EACH({name}, ")), "{name}");
    }
}

fn what(name: &str) -> What {
    What { kind: Kind::Task, whose: Origin::Others, name: 0, thread: name.into(), process: 7 }
}

#[test]
fn words_become_what_they_stand_for() {
    let name = u64::from_ne_bytes(*b"sh\0\0\0\0\0\0");
    assert_eq!(what_of(&[7, 0, name, 0, 7]), Some(what("sh")));
    assert_eq!(what_of(&[7 | 1 << 16, 0, name, 0, 7]).map(|what| what.whose), Some(Origin::Job));
    assert_eq!(what_of(&[0, 0, 0, 0, 0]), None);
    assert_eq!(what_of(&[99, 0, 0, 0, 0]), None);
    assert_eq!(what_of(&[1]), None);
}

#[test]
fn what_goes_on_joins_what_was() {
    let sum = |count, total_ns| Sum {
        processor: 1,
        what: what("sh"),
        count,
        total_ns,
        longest_ns: total_ns,
        longest_at_ns: 0,
    };
    let mut sums = vec![sum(2, 100)];
    join(&mut sums, sum(1, 300));
    assert_eq!((sums.len(), sums[0].count, sums[0].total_ns, sums[0].longest_ns), (1, 3, 400, 300));
    join(&mut sums, Sum { processor: 2, ..sum(1, 5) });
    assert_eq!(sums.len(), 2);
}

#[test]
fn a_thread_that_never_left_is_seen() {
    let mut state = vec![0; STATE_WORDS];
    state[0] = 1;
    state[FRAMES] = 7;
    state[FRAMES + WHAT_WORDS + 1] = 1_000;
    state[FRAMES + WHAT_WORDS + 2] = 200;
    let seen = going_on(3, &state, 5_000).unwrap();
    assert_eq!((seen.processor, seen.total_ns, seen.longest_at_ns), (3, 3_800, 1_000));
    // It may be the longest part of a stretch in progress, or not.
    assert_eq!(away(3, &state, 5_000), None);
    state[AWAY] = 500;
    let stretch = away(3, &state, 5_000).unwrap();
    assert_eq!((stretch.at_ns, stretch.length_ns, stretch.culprit.kind), (500, 4_500, Kind::Task));
    state[AWAY + 1] = 4_000;
    state[AWAY + 2] = 1;
    assert_eq!(away(3, &state, 5_000).unwrap().culprit.kind, Kind::Device);
    state[FRAMES + WHAT_WORDS + 1] = 0;
    assert_eq!(going_on(3, &state, 5_000), None);
}

/// A step of a CPU's sequence of events; each comes with the nanoseconds since the previous one.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(u64),
    End,
    /// The end of an activity that began before the sequence.
    EndOfNothing,
    Within(u64),
    Turn(u64),
}

/// Reads steps and executes them with nesting.h; prints charges and stretches.
const PLAYER: &str = r#"
#include <stdio.h>
typedef unsigned long long __u64;
#define __always_inline inline __attribute__((always_inline))
#include "nesting.h"
static void charge(const struct what *what, __u64 own, __u64 start)
{ printf("c %llu %llu %llu\n", what->kind, own, start); }
static void tell_stretch(struct state *state, __u64 start, __u64 length)
{ printf("s %llu %llu %llu\n", state->culprit.kind, length, start); }
int main(void)
{
	static struct state state;
	__u64 now, value, id;
	char step;
	while (scanf(" %c %llu %llu %llu", &step, &now, &value, &id) == 4) {
		struct what what = { .kind = value };
		if (step == 'b') begin(&state, now, &what, id);
		if (step == 'e') end(&state, now, id);
		if (step == 'w') within(&state, now, &what, id);
		if (step == 't') turn(&state, now, &what);
		if (step == 'z') { printf("z 0 0 0\n"); state = (struct state){0}; }
	}
	return 0;
}
"#;

/// Own nanoseconds by kind, and the stretches with their start times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Told {
    own: std::collections::BTreeMap<u64, u64>,
    stretches: Vec<(u64, u64)>,
}

/// An independent model: assigns each nanosecond to the top of the stack.
struct Oracle {
    told: Told,
    base: u64,
    stack: Vec<u64>,
    away: Option<u64>,
    now: u64,
    left: u64,
}

impl Oracle {
    fn is_away(&self) -> bool {
        self.base > 0 || !self.stack.is_empty()
    }

    fn pass(&mut self, until: u64) {
        let top = self.stack.last().copied().unwrap_or(self.base);
        if top > 0 {
            *self.told.own.entry(top).or_default() += until - self.now;
        }
        self.left = until - self.now;
        self.now = until;
    }

    fn look(&mut self) {
        match (self.away, self.is_away()) {
            (None, true) => self.away = Some(self.now),
            (Some(since), false) => {
                self.told.stretches.push((since, self.now - since));
                self.away = None;
            }
            _ => {}
        }
    }
}

/// Converts sequences to input of the player and runs the model on them. Each ends at home, so that everything is charged.
fn stories(all: &[Vec<(u64, Step)>]) -> (String, Vec<Told>) {
    let mut text = String::new();
    let tolds = all.iter().map(|story| tell(story, &mut text)).collect();
    (text, tolds)
}

fn tell(story: &[(u64, Step)], text: &mut String) -> Told {
    let mut o = Oracle { told: Told::default(), base: 0, stack: Vec::new(), away: None, now: 1_000, left: 0 };
    let mut line = |step, now, value, id| text.push_str(&format!("{step} {now} {value} {id}\n"));
    line('t', 1_000, 0, 0);
    for (gap, step) in story.iter().copied().chain([(5, Step::Turn(0))]) {
        let now = o.now + gap;
        match step {
            // The player has seven frames above the thread.
            Step::Begin(kind) if o.stack.len() < 7 => {
                o.pass(now);
                o.stack.push(kind);
                line('b', now, kind, o.stack.len() as u64);
            }
            Step::End => {
                o.pass(now);
                line('e', now, 0, o.stack.len() as u64);
                o.stack.pop();
            }
            Step::Begin(_) | Step::EndOfNothing => line('e', o.now, 0, 99),
            Step::Within(length) => {
                // It takes time from the last piece only, at most all of it.
                o.pass(now);
                let taken = length.min(o.left);
                if let Some(top) = o.stack.last().copied().or(Some(o.base)).filter(|top| *top > 0) {
                    *o.told.own.entry(top).or_default() -= taken;
                }
                *o.told.own.entry(900).or_default() += taken;
                line('w', now, 900, taken);
            }
            Step::Turn(base) => {
                o.pass(now);
                o.stack.clear();
                o.base = base;
                line('t', now, base, 0);
            }
        }
        o.look();
    }
    line('z', 0, 0, 0);
    o.told
}

fn play(directory: &std::path::Path, text: &str) -> Vec<Told> {
    let mut player =
        Command::new(directory.join("player")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = player.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let output = player.wait_with_output().unwrap();
    writer.join().unwrap();
    let mut tolds = vec![Told::default()];
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let last = tolds.last_mut().unwrap();
        match words[0] {
            "c" => *last.own.entry(number(1)).or_default() += number(2),
            "s" => last.stretches.push((number(3), number(2))),
            _ => tolds.push(Told::default()),
        }
    }
    tolds.pop();
    tolds
}

/// A directory with the compiled player; `None` without a C compiler.
fn player() -> Option<std::path::PathBuf> {
    let directory = std::env::temp_dir().join(format!("millpond-nesting-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("player.c"), PLAYER).unwrap();
    std::fs::write(directory.join("nesting.h"), NESTING).unwrap();
    let builds = |compiler: &&str| {
        let mut build = Command::new(compiler);
        build
            .args(["-O1", "-Wall", "-Werror", "-o"])
            .arg(directory.join("player"))
            .arg(directory.join("player.c"));
        build.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let built = ["cc", "gcc", "clang-19"].iter().any(builds);
    built.then_some(directory)
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        4 => (1u64..9).prop_map(Step::Begin),
        4 => Just(Step::End),
        1 => Just(Step::EndOfNothing),
        1 => (0u64..90).prop_map(Step::Within),
        2 => (0u64..4).prop_map(|base| Step::Turn(base * 100)),
    ];
    proptest::collection::vec((0u64..100, step), 0..40)
}

#[test]
fn each_moment_belongs_to_one() {
    let Some(directory) = player() else {
        eprintln!("skipped: each_moment_belongs_to_one: there is no C compiler for this machine");
        return;
    };
    // By hand: interrupts on a job, one nested, and a foreign thread with an interrupt.
    let story = vec![
        (10, Step::Begin(1)),
        (5, Step::Begin(2)),
        (7, Step::End),
        (3, Step::End),
        (20, Step::Turn(100)),
        (4, Step::Begin(1)),
        (6, Step::End),
        (9, Step::Turn(0)),
    ];
    let (text, _) = stories(std::slice::from_ref(&story));
    let by_hand =
        Told { own: [(1, 5 + 3 + 6), (2, 7), (100, 4 + 9)].into(), stretches: vec![(1010, 15), (1045, 19)] };
    assert_eq!(play(&directory, &text), [by_hand]);
    // A thousand random sequences against the model.
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4));
    let result = runner.run(&proptest::collection::vec(steps(), 250..=250), |all| {
        let (text, expected) = stories(&all);
        let played = play(&directory, &text);
        prop_assert_eq!(played.len(), expected.len());
        for ((played, expected), story) in played.iter().zip(&expected).zip(&all) {
            let mut played = played.clone();
            played.own.retain(|_, own| *own > 0);
            let mut expected = expected.clone();
            expected.own.retain(|_, own| *own > 0);
            prop_assert_eq!(&played, &expected, "{:?}", story);
            let elapsed: u64 = story.iter().map(|(gap, _)| gap).sum::<u64>() + 5;
            prop_assert!(played.own.values().sum::<u64>() <= elapsed);
        }
        Ok(())
    });
    std::fs::remove_dir_all(&directory).unwrap();
    result.unwrap();
}
