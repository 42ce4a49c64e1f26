//! Descriptions of recorded events.

use millpond_bpf::latency::{MOMENT_WORDS, MomentEvent, VECTORS, name};
use millpond_model::{Moment, MomentKind, Nanos, printable};

/// Softirqs by number.
const SOFT: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The description of an event. `probe` is the measuring thread.
pub(super) fn called(what: MomentEvent, name: &str, probe: u32) -> String {
    let of = |words: &'static [&'static str], number: u32| {
        usize::try_from(number).ok().and_then(|number| words.get(number)).copied()
    };
    match what {
        MomentEvent::Task(0) => "idle".to_owned(),
        MomentEvent::Task(pid) if pid == probe => "probe".to_owned(),
        MomentEvent::Task(pid) => format!("task {} ({pid})", printable(name)),
        MomentEvent::Interrupt(number, _) if name.is_empty() => format!("interrupt {number}"),
        MomentEvent::Interrupt(number, _) => format!("interrupt {number} ({name})"),
        MomentEvent::Soft(number, _) => match of(&SOFT, number) {
            Some(word) => format!("soft interrupt {word}"),
            None => format!("soft interrupt {number}"),
        },
        MomentEvent::Vector(number, _) => format!("{} interrupt", of(&VECTORS, number).unwrap_or("other")),
    }
}

/// A recorded event; `None` for words that were never written.
pub(super) fn moment(words: &[u64; MOMENT_WORDS], probe: u32) -> Option<Moment> {
    let [at, what, name_words @ ..] = words;
    let what = MomentEvent::of(*what)?;
    let kind = match what {
        MomentEvent::Task(_) => MomentKind::Switch,
        MomentEvent::Interrupt(_, true) | MomentEvent::Soft(_, true) | MomentEvent::Vector(_, true) => {
            MomentKind::Begin
        }
        _ => MomentKind::End,
    };
    Some(Moment { at: Nanos(*at), what: called(what, &name(name_words), probe), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_name() {
        for (what, name, says) in [
            (MomentEvent::Task(0), "swapper/1", "idle"),
            (MomentEvent::Task(9), "latstat-probe", "probe"),
            (MomentEvent::Task(204), "hackbench", "task hackbench (204)"),
            (MomentEvent::Interrupt(24, true), "virtio0-input.0", "interrupt 24 (virtio0-input.0)"),
            (MomentEvent::Interrupt(24, false), "", "interrupt 24"),
            (MomentEvent::Soft(3, true), "", "soft interrupt NET_RX"),
            (MomentEvent::Soft(12, true), "", "soft interrupt 12"),
            (MomentEvent::Vector(1, true), "", "reschedule interrupt"),
            (MomentEvent::Vector(9, true), "", "other interrupt"),
        ] {
            assert_eq!(called(what, name, 9), says);
        }
    }

    #[test]
    fn words_that_were_never_written_are_no_moment() {
        assert_eq!(moment(&[0; 4], 9), None);
        let began = moment(&[77, 4 << 32, 0, 0], 9).unwrap();
        assert_eq!((began.at, &*began.what, began.kind), (Nanos(77), "soft interrupt HI", MomentKind::Begin));
        assert_eq!(moment(&[77, 1 << 32 | 9, 0, 0], 9).unwrap().kind, MomentKind::Switch);
    }
}
