//! A two-way network stream over one link, to and from another machine.
//!
//! # What is modelled
//!
//! iperf in its dual mode. One thread sends, one receives, and one reports; the reporter polls the clock all the time. Data
//! moves in pairs of frames, because every second frame is acknowledged. Each direction has a window of pairs in flight:
//!
//! ```text
//!   sender ─▶ buffer ─▶ link, one pair after the other ─▶ the other machine ─▶ interrupt: acknowledged ─▶ buffer
//!   receiver ─▶ acknowledged ─▶ the other machine ─▶ link ─▶ interrupt: a pair is there ─▶ receiver
//! ```
//!
//! Threads do not wait for each pair. The other machine writes 8 KiB at a time, the default of iperf. The end of such a write is
//! pushed to the reader (RFC 1122, 4.2.2.2), so the receiver continues with that many pairs at once. The sender fills a buffer as
//! large as the window. Once it is full, the sender continues when half of it is free (assumed).
//!
//! A write, a read and an interrupt cost a fixed number of instructions. The stream's speed depends on the CPUs where the
//! threads run and on their neighbours there. Counted operations are frame pairs in both directions; logs have them separately.

use super::options::{Constant, Opt, Unit, Workload};
use crate::kernel::{Action, Kernel, Mix, Origin, Program};
use crate::kernel::{ChannelId, CpuIndex};

/// Data bytes of two frames.
pub const PAIR_BYTES: u64 = 2 * 1_460;
/// Default size of iperf's writes, in bytes.
const WRITE_BYTES: u64 = 8 * 1_024;
/// Nanoseconds per bit on a link of one gigabit per second. A frame has 78 bytes besides its data.
const BIT_NS: u64 = 1;
const WIRE_NS: u64 = 2 * (1_460 + 78) * 8 * BIT_NS;
/// The level of the network's interrupts.
const LEVEL: u8 = 6;
/// Reads of the clock that are simulated as one.
const LOOKS: u64 = 10;

/// Memory accesses for a pair of frames and for a read of the clock.
const REACH_PPM: u64 = 10_000;
const MISS_PPM: u64 = 4_000;
const FOOTPRINTS_KIB: [u64; 2] = [64, 8];

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
        // With the interrupts about 1.1 to 1.3 GHz of CPUs for 1.1 Gbit/s both ways: one cycle per bit (Foong et al., TCP Performance
        // Re-Visited, 2003).
        Opt {
            flag: "--call-instructions",
            value: "N",
            summary: "instructions in the kernel for a pair of frames that is written or read; 6500 if not given (assumed)",
            unit: Unit::Count(1, 10_000_000),
            default: 6_500,
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
        // Fitted: t2000, interrupts on all CPUs, 518 Mbit/s in. The outgoing rate also depends on the buffer, which is assumed.
        Opt {
            flag: "--peer-us",
            value: "N",
            summary: "microseconds until the other machine answers, on average; 592 if not given (fitted)",
            unit: Unit::Count(1, 1_000_000),
            default: 592,
        },
    ],
    constants: &[
        Constant { name: "accesses beyond the first cache in a million instructions", values: &[REACH_PPM] },
        Constant { name: "of them to memory", values: &[MISS_PPM] },
        Constant {
            name: "KiB in the outer cache: of the stream, of looks at the time",
            values: &FOOTPRINTS_KIB,
        },
        Constant { name: "looks at the time of each of which one is simulated", values: &[LOOKS] },
    ],
    programs: |values, kernel| {
        // Kernel code that moves data: its code and data exceed the first cache, and the buffers are not in the CPU's cache.
        let mix = kernel.mix(Mix {
            reach_ppm: REACH_PPM,
            miss_ppm: MISS_PPM,
            footprint_kib: FOOTPRINTS_KIB[0],
            ..Mix::PLAIN
        });
        let look = kernel.mix(Mix { footprint_kib: FOOTPRINTS_KIB[1], ..Mix::PLAIN });
        let call = Action::KernelWork(mix, values.get("--call-instructions"));
        let interrupt = Action::KernelWork(mix, values.get("--interrupt-instructions"));
        let window = values.get("--window") * 1_024 / PAIR_BYTES;
        // From 0.5 to 1.5 times the mean, equally likely.
        let mean = values.get("--peer-us") * 1_000;
        let peer = Action::SleepAmong((0..=16).map(|part| mean / 2 + mean * part / 16).collect());
        // An interrupt for each pair; after every group of pairs a thread may continue.
        let network =
            |kernel: &mut Kernel, raised: ChannelId, pairs: u64, each: Option<ChannelId>, all: ChannelId| {
                let one = |pair: u64| {
                    let waits = if pair == 0 { None } else { Some(Action::Wait(raised)) };
                    let more = each.map(Action::Post);
                    waits.into_iter().chain([interrupt.clone()]).chain(more)
                };
                let actions = (0..pairs).flat_map(one).chain([Action::Post(all)]).collect();
                kernel.handler(LEVEL, Origin::Network, CpuIndex(0), raised, actions);
            };
        // Out: data written, room in the window, data on the wire, data arrived there, data acknowledged, half of a free buffer.
        let half = (window / 2).max(1);
        let [written, room, wire, there, acknowledged, free] = [(); 6].map(|()| kernel.channel());
        kernel.device(Program::repeat(vec![Action::Wait(written), Action::Wait(room), Action::Post(wire)]));
        kernel.device(Program::repeat(vec![Action::Wait(wire), Action::Sleep(WIRE_NS), Action::Post(there)]));
        for _ in 0..window {
            let answer = vec![Action::Wait(there), peer.clone(), Action::Post(acknowledged)];
            kernel.device(Program::begin(vec![Action::Post(room)], answer));
        }
        // The buffer and the window are free at first.
        kernel.device(Program::once(vec![Action::Post(free); 4]));
        network(kernel, acknowledged, half, Some(room), free);
        // In: data that the other machine may send, data that it puts on the wire, data arrived here, data that can be read.
        let [may, sent, here, readable] = [(); 4].map(|()| kernel.channel());
        for _ in 0..window {
            let answer = vec![Action::Wait(may), peer.clone(), Action::Post(sent)];
            kernel.device(Program::begin(vec![Action::Post(may)], answer));
        }
        kernel.device(Program::repeat(vec![Action::Wait(sent), Action::Sleep(WIRE_NS), Action::Post(here)]));
        let pushed = (WRITE_BYTES + PAIR_BYTES / 2) / PAIR_BYTES;
        network(kernel, here, pushed, None, readable);
        let several = |count: u64, one: [Action; 3]| {
            std::iter::repeat_n(one, usize::try_from(count).unwrap_or(1)).flatten()
        };
        let write = [call.clone(), Action::Post(written), Action::Done(1)];
        let sender = std::iter::once(Action::Wait(free)).chain(several(half, write)).collect();
        let read = [call, Action::Post(may), Action::Done(1)];
        let receiver = std::iter::once(Action::Wait(readable)).chain(several(pushed, read)).collect();
        // Three quarters of a clock read are in the program, one quarter in the kernel.
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
