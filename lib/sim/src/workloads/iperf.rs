//! A two-way network stream over one link, to and from another machine.
//!
//! # What is imitated
//!
//! iperf in its dual mode: one thread sends, one receives, and one reports, which it does by looking at the time without end. Data
//! moves in pairs of frames, since every second frame is acknowledged. In each direction a window of pairs is under way:
//!
//! ```text
//!   sender ─▶ link, one pair after the other ─▶ the other machine ─▶ interrupt: acknowledged ─▶ sender
//!   receiver ─▶ acknowledged ─▶ the other machine ─▶ link ─▶ interrupt: a pair is there ─▶ receiver
//! ```
//!
//! A write, a read and an interrupt are so many instructions; where the threads run, and beside which others, makes the stream fast or
//! slow. Operations that are noted are frames' pairs in both directions; logs have them apart.

use super::options::{Opt, Unit, Workload};
use crate::kernel::{Action, Kernel, Mix, Origin, Program};
use crate::kernel::{ChannelId, CpuIndex};

/// Bytes of the data of two frames.
pub const PAIR_BYTES: u64 = 2 * 1_460;
/// Nanoseconds of a bit on a link of one gigabit a second; a frame has 78 bytes around its data.
const BIT_NS: u64 = 1;
const WIRE_NS: u64 = 2 * (1_460 + 78) * 8 * BIT_NS;
/// The level of the network's interrupts.
const LEVEL: u8 = 6;
/// Looks at the clock that are simulated as one.
const LOOKS: u64 = 10;

pub(super) const WORKLOAD: Workload = Workload {
    name: "iperf",
    summary: "A two-way stream over the network: a thread that sends, one that receives, and one that looks at the time.",
    options: &[
        Opt {
            flag: "--client",
            value: "HOST",
            summary: "the machine at the other end, by any name; without --dualtest the stream then goes there only",
            unit: Unit::Any,
            default: 0,
        },
        Opt {
            flag: "--dualtest",
            value: "",
            summary: "both ways at once, as without --client",
            unit: Unit::Given,
            default: 0,
        },
        Opt {
            flag: "--server",
            value: "",
            summary: "not simulated: the machine at the other end is always there",
            unit: Unit::Never(
                "the machine at the other end answers by itself: iperf --client HOST --dualtest",
            ),
            default: 0,
        },
        Opt {
            flag: "--call-instructions",
            value: "N",
            summary: "instructions in the kernel for a pair of frames that is written or read; 13000 if not given (assumed)",
            unit: Unit::Count(1, 10_000_000),
            default: 13_000,
        },
        Opt {
            flag: "--interrupt-instructions",
            value: "N",
            summary: "instructions of an interrupt; 3000 if not given (assumed)",
            unit: Unit::Count(1, 10_000_000),
            default: 3_000,
        },
        Opt {
            flag: "--window",
            value: "KIB",
            summary: "data under way in each direction; 48 if not given, the system's default",
            unit: Unit::Count(3, 1_024),
            default: 48,
        },
        // Fitted: t2000, all CPUs taking interrupts, 540 Mbit/s out.
        Opt {
            flag: "--peer-us",
            value: "N",
            summary: "microseconds until the other machine answers, on average; 583 if not given (fitted)",
            unit: Unit::Count(1, 1_000_000),
            default: 583,
        },
    ],
    programs: |values, kernel| {
        // A kernel that moves data: code and data beyond the first cache, and buffers that are new to the CPU.
        let mix = kernel.mix(Mix { reach_ppm: 10_000, miss_ppm: 4_000, footprint_kib: 64, ..Mix::PLAIN });
        let look = kernel.mix(Mix { footprint_kib: 8, ..Mix::PLAIN });
        let call = Action::KernelWork(mix, values.get("--call-instructions"));
        let interrupt = Action::KernelWork(mix, values.get("--interrupt-instructions"));
        let window = values.get("--window") * 1_024 / PAIR_BYTES;
        // From half of that to half more, one as likely as the other.
        let mean = values.get("--peer-us") * 1_000;
        let peer = Action::SleepAmong((0..=16).map(|part| mean / 2 + mean * part / 16).collect());
        let network = |kernel: &mut Kernel, raised: ChannelId, posts: ChannelId| {
            kernel.handler(
                LEVEL,
                Origin::Network,
                CpuIndex(0),
                raised,
                vec![interrupt.clone(), Action::Post(posts)],
            );
        };
        // Out: room in the window, what is on the wire, what has arrived there, what is acknowledged.
        let [room, wire, there, acknowledged] = [(); 4].map(|()| kernel.channel());
        kernel.device(Program::repeat(vec![Action::Wait(wire), Action::Sleep(WIRE_NS), Action::Post(there)]));
        for _ in 0..window {
            let answer = vec![Action::Wait(there), peer.clone(), Action::Post(acknowledged)];
            kernel.device(Program::begin(vec![Action::Post(room)], answer));
        }
        network(kernel, acknowledged, room);
        // In: what the other machine may send, what it puts on the wire, what has arrived here, what can be read.
        let [may, sent, here, readable] = [(); 4].map(|()| kernel.channel());
        for _ in 0..window {
            let answer = vec![Action::Wait(may), peer.clone(), Action::Post(sent)];
            kernel.device(Program::begin(vec![Action::Post(may)], answer));
        }
        kernel.device(Program::repeat(vec![Action::Wait(sent), Action::Sleep(WIRE_NS), Action::Post(here)]));
        network(kernel, here, readable);
        let sender = vec![Action::Wait(room), call.clone(), Action::Post(wire), Action::Done(1)];
        let receiver = vec![Action::Wait(readable), call, Action::Post(may), Action::Done(1)];
        // Three parts of a look at the clock are in the program and one in the kernel.
        let reporter = vec![
            Action::Work(look, LOOKS * 1_000),
            Action::KernelWork(look, LOOKS * 333),
            Action::Calls(LOOKS - 1),
        ];
        let one_way = values.get("--client") == 1 && values.get("--dualtest") == 0;
        let threads = if one_way { vec![sender, reporter] } else { vec![sender, receiver, reporter] };
        threads.into_iter().map(Program::repeat).collect()
    },
};
