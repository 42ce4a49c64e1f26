//! Hackbench: groups of senders and receivers that pass messages.
//!
//! Every sender of a group writes its messages to each receiver of the group in turn; a receiver reads the messages as they
//! come. A write and a read cost a fixed number of kernel instructions; the rest of a message's cost is switches between threads.
//! A limited number of messages waits for a reader; then a sender waits. Each sender and receiver is a process: it has its own
//! address space, and its exit takes the machine's `process_end_ns`.
//!
//! A first thread starts all others one after the other, which takes time. They wait until all exist. Then the first thread
//! counts one operation, and they begin. The real program starts its clock at the same point.

use super::options::{Constant, Opt, Unit, Workload};
use crate::kernel::ChannelId;
use crate::kernel::{Action, Mix, Program};

/// The data of a message is not in the cache of the CPU that reads it: about ten lines.
const REACH_PPM: u64 = 20_000;
const MISS_PPM: u64 = 1_000;
const FOOTPRINT_KIB: u64 = 16;

/// Default of the option: as many messages as fit.
const AS_MANY_AS_FIT: u64 = 0;

pub(super) const WORKLOAD: Workload = Workload {
    name: "hackbench",
    summary: "Groups of senders and receivers; every sender passes its messages to every receiver of its group.",
    options: &[
        Opt {
            flag: "-g",
            value: "N",
            summary: "groups; 10 if not given",
            unit: Unit::Count(1, 1_000),
            default: 10,
        },
        Opt {
            flag: "-l",
            value: "N",
            summary: "messages of each sender to each receiver; 100 if not given",
            unit: Unit::Count(1, 100_000),
            default: 100,
        },
        Opt {
            flag: "-f",
            value: "N",
            summary: "senders of a group, and as many receivers; 20 if not given",
            unit: Unit::Count(1, 1_000),
            default: 20,
        },
        Opt {
            flag: "-s",
            value: "BYTES",
            summary: "length of a message, which says how many wait for a receiver; 100 if not given",
            unit: Unit::Count(1, 16_000),
            default: 100,
        },
        Opt {
            flag: "--buffer",
            value: "N",
            summary: "messages that wait for a receiver at most; if not given what a socket of the machine holds: of 100 bytes usually 160",
            unit: Unit::Count(1, 1_000_000),
            default: AS_MANY_AS_FIT,
        },
        // Fitted: x4200, 240 groups on an otherwise idle machine, 32.9 s.
        Opt {
            flag: "--instructions",
            value: "N",
            summary: "instructions in the kernel for a write, and for a read; 15020 if not given (fitted)",
            unit: Unit::Count(1, 10_000_000),
            default: 15_020,
        },
        // A fork: address space, descriptors, copied pages.
        Opt {
            flag: "--start-instructions",
            value: "N",
            summary: "instructions in the kernel to start a process; 1000000 if not given (assumed)",
            unit: Unit::Count(0, 100_000_000),
            default: 1_000_000,
        },
    ],
    constants: &[
        Constant { name: "accesses beyond the first cache in a million instructions", values: &[REACH_PPM] },
        Constant { name: "of them to memory", values: &[MISS_PPM] },
        Constant { name: "KiB in the outer cache", values: &[FOOTPRINT_KIB] },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            reach_ppm: REACH_PPM,
            miss_ppm: MISS_PPM,
            footprint_kib: FOOTPRINT_KIB,
            ..Mix::PLAIN
        });
        let call = Action::KernelWork(mix, values.get("--instructions"));
        let start = Action::KernelWork(mix, values.get("--start-instructions"));
        let all_there = kernel.channel();
        let (loops, peers) = (values.get("-l"), values.get("-f"));
        let fit = kernel.socket_bytes() / values.get("-s").max(1);
        let buffer = match values.get("--buffer") {
            AS_MANY_AS_FIT => fit.max(1),
            buffer => buffer,
        };
        let mut group = || {
            let inboxes: Vec<(ChannelId, ChannelId)> =
                (0..peers).map(|_| (kernel.channel(), kernel.filled_channel(buffer))).collect();
            let write = |(inbox, room): &(ChannelId, ChannelId)| {
                [Action::Wait(*room), call.clone(), Action::Post(*inbox)]
            };
            let round: Vec<Action> = inboxes.iter().flat_map(write).collect();
            let read = |(inbox, room): &(ChannelId, ChannelId)| {
                let message = vec![Action::Wait(*inbox), call.clone(), Action::Post(*room)];
                Program::begin_times(vec![Action::Wait(all_there)], message, peers * loops)
            };
            let receivers = inboxes.iter().map(read);
            let sender = || Program::begin_times(vec![Action::Wait(all_there)], round.clone(), loops);
            let senders = (0..peers).map(|_| sender());
            let end_ns = kernel.process_end_ns();
            senders.chain(receivers).map(|task| task.as_process().ending_in(end_ns)).collect::<Vec<Program>>()
        };
        let tasks: Vec<Program> = (0..values.get("-g")).flat_map(|_| group()).collect();
        let starts = std::iter::repeat_n(start, tasks.len());
        let begins = std::iter::repeat_n(Action::Post(all_there), tasks.len());
        let first = Program::once(starts.chain([Action::Done(1)]).chain(begins).collect());
        std::iter::once(first).chain(tasks).collect()
    },
};

#[cfg(test)]
mod tests {
    use crate::workloads::Load;
    use crate::workloads::tests::{plain, plain_with};
    use millpond_machine::Clock;
    use millpond_model::{Nanos, Outcome};

    #[test]
    fn a_process_takes_to_end_what_the_machine_says() {
        let words: Vec<String> = "hackbench 1 -l 1 --instructions 1".split(' ').map(str::to_owned).collect();
        let spent = |end_ns: u64| {
            let machine = plain_with(end_ns);
            machine.start_load(&Load::parse(&words).unwrap());
            assert_eq!(machine.run_until_idle(Nanos::from_secs(10)), Outcome::Idle);
            machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.sys).sum::<u64>())
        };
        // Forty processes; the first one, which started them, is the program itself.
        assert_eq!(spent(1_000_000) - spent(0), 40 * 1_000_000);
    }

    #[test]
    fn every_sender_reaches_every_receiver_and_all_end() {
        let words: Vec<String> =
            "hackbench 1 -l 3 --instructions 1000".split(' ').map(str::to_owned).collect();
        let machine = plain();
        machine.start_load(&Load::parse(&words).unwrap());
        assert_eq!(machine.run_until_idle(Nanos::from_secs(10)), Outcome::Idle);
        // 20 senders, 20 receivers, 3 messages: 1,200 writes and reads of at least 1 us each, on 32 CPUs.
        let sys: u64 = machine.view(|s| s.kernel.cpus().iter().map(|cpu| cpu.sys).sum());
        assert!(sys >= 2 * 1_200 * 1_000, "{sys}");
        assert!(machine.now() >= Nanos(2 * 1_200 * 1_000 / 32));
        let calls: u64 = machine.view(|s| {
            s.kernel.cpus().iter().map(|cpu| cpu.events[millpond_model::Column::Syscl.index()]).sum()
        });
        // Forty processes are started, at 1 ms each, before the first one writes.
        assert!(machine.now() >= Nanos(40 * 1_000_000));
        // A write and a read are one call each, even if they wait. Forty processes are started by one call each, and each waits for
        // the start in one call.
        assert_eq!(calls, 2 * 1_200 + 40 + 40);
    }
}
