//! A Java server: each thread serves one warehouse, in a shared heap.
//!
//! # What is modelled
//!
//! SPECjbb2005 at its peak: one warehouse for each CPU of the machine's share, and transactions without end or
//! pause. An operation is a fixed number of instructions of one mix. The heap is one shared segment, which the first thread
//! places. Segments above a size threshold are placed at random over the lgroups.
//!
//! # The other threads
//!
//! By its documentation, a HotSpot server has other threads than those that serve:
//!
//! * *Garbage collectors*: one for each CPU that the server sees, up to eight, and 5/8 of one for each further CPU. A collection
//!   begins when all serving threads have stopped, each between two batches of operations. Its work is divided into pieces.
//!   Collectors take pieces until none is left; then the serving threads continue. A collection takes 3 % of all instructions,
//!   between the 1 % that HotSpot aims at and the 5 % of its documentation's example. One begins about every three seconds:
//!   21,000 operations a second of 24 KiB each use up half of a heap of 3,200 MiB in that time.
//! * The *VM thread* stops the serving threads and starts a collection.
//! * A thread for *periodic tasks* wakes up every 50 ms.
//! * Two *compilers* have little work at the peak: a method now and then.
//!
//! A collector that wakes up has a better priority than a thread that computed for long. Where servers share CPUs, it preempts
//! threads of other servers, and its memory evicts their data from the caches.
//!
//! # What is left out
//!
//! Threads that nearly always sleep (signals, finalizers, references), and the warm-up, in which compilers are busy. Checking
//! for a stop costs two system calls here, in successive batches; in HotSpot it costs none.

use super::options::{Constant, MILLI, Opt, THREADS, Unit, Workload};
use crate::kernel::{Action, ChannelId, Kernel, Mix, MixId, Program};

/// Operations between two counts. A thread stops for a collection only between batches.
const BATCH: u64 = 20;
/// Milliseconds between two collections, equally likely; 3,000 on average.
const COLLECT_MS: [u64; 5] = [2_600, 2_800, 3_000, 3_200, 3_400];
/// Pieces of a collection per collector.
const PIECES: u64 = 4;
/// Period and run time of the periodic tasks.
const PERIODIC: [u64; 2] = [50 * MILLI, MILLI / 50];
/// Compilers; their pause and run time are assumed.
const COMPILERS: u64 = 2;
const COMPILER_PAUSES_MS: [u64; 4] = [400, 800, 1_200, 1_600];
const COMPILE: u64 = 2 * MILLI;

pub(super) const WORKLOAD: Workload = Workload {
    name: "jbb",
    summary: "A Java server: threads that do transactions without end in a heap that they share.",
    options: &[
        THREADS,
        Opt {
            flag: "--heap",
            value: "MIB",
            summary: "size of the heap; 3200 if not given",
            unit: Unit::Count(1, 1 << 24),
            default: 3_200,
        },
        // Fitted together with --op-misses to one figure: ff2, 8 servers, standard table, 171,250. Only their combination is determined.
        Opt {
            flag: "--op-instructions",
            value: "N",
            summary: "instructions of an operation; 111550 if not given (fitted)",
            unit: Unit::Count(1, 1_000_000_000),
            default: 111_550,
        },
        Opt {
            flag: "--op-cpi",
            value: "X",
            summary: "of a core's own cycles for an instruction how many these take; 1 if not given",
            unit: Unit::Milli(1, 1_000_000),
            default: 1_000,
        },
        // Commercial Java of the time: about 25 misses of the first cache per 1,000 instructions.
        Opt {
            flag: "--op-reach",
            value: "X",
            summary: "of a thousand of these how many look beyond the first cache; 25 if not given (assumed)",
            unit: Unit::Milli(0, 1_000_000),
            default: 25_000,
        },
        // Fitted: ff2, 8 servers, standard table, 171,250 operations a second. Expected: between 2 and 3.
        Opt {
            flag: "--op-misses",
            value: "X",
            summary: "of a thousand of these how many go to memory; 2.836 if not given (fitted)",
            unit: Unit::Milli(0, 1_000_000),
            default: 2_836,
        },
        Opt {
            flag: "--footprint",
            value: "KIB",
            summary: "what a thread keeps in the outer cache; 768 if not given (assumed)",
            unit: Unit::Count(0, 1 << 20),
            default: 768,
        },
        Opt {
            flag: "--cpus",
            value: "N",
            summary: "CPUs that the server sees, which decide how many collectors of garbage it has; as many as threads if not given",
            unit: Unit::Count(0, 4_096),
            default: 0,
        },
        // 3 % of a thread's work in three seconds: 5,350 operations a second of 115,000 instructions.
        Opt {
            flag: "--collect-instructions",
            value: "N",
            summary: "instructions of a collection for each thread that serves; 55500000 if not given (assumed)",
            unit: Unit::Count(0, 1_000_000_000),
            default: 55_500_000,
        },
    ],
    constants: &[
        Constant { name: "operations between two notes", values: &[BATCH] },
        Constant { name: "milliseconds between two collections", values: &COLLECT_MS },
        Constant { name: "pieces of a collection for each collector", values: &[PIECES] },
        Constant { name: "nanoseconds between two periodic tasks, and of one", values: &PERIODIC },
        Constant { name: "compilers", values: &[COMPILERS] },
        Constant { name: "milliseconds between two compilations", values: &COMPILER_PAUSES_MS },
        Constant { name: "nanoseconds of a compilation", values: &[COMPILE] },
    ],
    programs: |values, kernel| {
        let mix = kernel.mix(Mix {
            base_milli: values.get("--op-cpi"),
            reach_ppm: values.get("--op-reach"),
            miss_ppm: values.get("--op-misses"),
            footprint_kib: values.get("--footprint"),
            ..Mix::PLAIN
        });
        let threads = values.get("-t");
        let server = Server {
            mix,
            map: Action::Map(kernel.segment(), values.get("--heap") * 1_024),
            threads,
            collectors: match values.get("--cpus") {
                0 => collectors(threads),
                seen => collectors(seen),
            },
        };
        let held: Vec<ChannelId> = (0..threads).map(|_| kernel.channel()).collect();
        let serving = server.serving(&held, values.get("--op-instructions"));
        let collecting = server.collecting(kernel, &held, values.get("--collect-instructions"));
        [serving, collecting, Server::others()].concat()
    },
};

/// Number of garbage collectors of a server that sees this many CPUs, as documented.
fn collectors(cpus: u64) -> u64 {
    cpus.min(8) + cpus.saturating_sub(8) * 5 / 8
}

/// Common data of a server's threads.
struct Server {
    mix: MixId,
    /// Maps its heap.
    map: Action,
    /// Number of serving threads.
    threads: u64,
    collectors: u64,
}

impl Server {
    /// The serving threads. Each holds a post of its own channel while it serves; taking that post stops it.
    fn serving(&self, held: &[ChannelId], instructions: u64) -> Vec<Program> {
        // Stagger the counts of the threads.
        let program = |(thread, held): (u64, &ChannelId)| {
            let serve = |operations: u64| {
                let work = Action::Work(self.mix, instructions * operations);
                vec![Action::Wait(*held), work, Action::Done(operations), Action::Post(*held)]
            };
            Program::begin([vec![self.map.clone()], serve(BATCH - thread % BATCH)].concat(), serve(BATCH))
        };
        (0..).zip(held).map(program).collect()
    }

    /// The VM thread and the collectors; both sleep nearly always.
    fn collecting(&self, kernel: &mut Kernel, held: &[ChannelId], instructions: u64) -> Vec<Program> {
        let [stop, stopped, go, collect, collected] = [(); 5].map(|()| kernel.channel());
        // All are stopped at once, each after its current batch.
        for held in held {
            let stops = [Action::Wait(stop), Action::Wait(*held), Action::Post(stopped)];
            let goes = [Action::Wait(go), Action::Post(*held)];
            kernel.device(Program::begin(vec![Action::Post(*held)], [stops.as_slice(), &goes].concat()));
        }
        let pieces = self.collectors * PIECES;
        let so_many = |n: u64, action: Action| (0..n).map(move |_| action.clone());
        let virtual_machine = [Action::SleepAmong(COLLECT_MS.map(|ms| ms * MILLI).to_vec())]
            .into_iter()
            .chain(so_many(self.threads, Action::Post(stop)))
            .chain(so_many(self.threads, Action::Wait(stopped)))
            .chain(so_many(pieces, Action::Post(collect)))
            .chain(so_many(pieces, Action::Wait(collected)))
            .chain(so_many(self.threads, Action::Post(go)));
        let piece = Action::Work(self.mix, instructions * self.threads / pieces);
        let collector = vec![Action::Wait(collect), piece, Action::Post(collected)];
        let collector = Program::begin(vec![self.map.clone()], collector);
        let all = (0..self.collectors).map(|_| collector.clone());
        std::iter::once(Program::repeat(virtual_machine.collect())).chain(all).collect()
    }

    /// The thread for periodic tasks, and the compilers.
    fn others() -> Vec<Program> {
        let periodic = vec![Action::Sleep(PERIODIC[0]), Action::User(PERIODIC[1])];
        let pause = Action::SleepAmong(COMPILER_PAUSES_MS.map(|ms| ms * MILLI).to_vec());
        let compiler = Program::repeat(vec![pause, Action::User(COMPILE)]);
        let compilers = (0..COMPILERS).map(|_| compiler.clone());
        std::iter::once(Program::repeat(periodic)).chain(compilers).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::workloads::Load;
    use crate::workloads::tests::plain;
    use millpond_machine::Clock;
    use millpond_model::Nanos;

    #[test]
    fn operations_cost_their_instructions_and_their_misses() {
        // 1,000 instructions, 10 of which go to memory at 100 ns: 2,000 ns on a machine with 1 ns per instruction.
        let words = "jbb -t 2 --op-instructions 1000 --op-misses 10 --op-reach 0 --footprint 0";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        // The first counts come after 20 and 19 operations.
        machine.sleep_until(Nanos(19 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 19);
        machine.sleep_until(Nanos(20 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 39);
        machine.sleep_until(Nanos(1_099 * 2_000));
        assert_eq!(machine.view(|s| s.operations(pid)), 1_080 + 1_099);
    }

    #[test]
    fn a_collection_stops_all_threads_that_serve() {
        // Two threads with a CPU each, batches of 20 operations of 1 us, and a collection of 4 ms per thread on two collectors.
        // It begins 2,600 to 3,400 ms after the start, within a batch, and ends 4 ms later. Stopping the threads loses at most 20 us.
        let words = "jbb -t 2 --op-instructions 1000 --op-misses 0 --op-reach 0 --footprint 0 --collect-instructions 4000000";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let machine = plain();
        let pid = machine.start_load(&Load::parse(&words).unwrap());
        let done = |ms: u64| {
            machine.sleep_until(Nanos(ms * 1_000_000));
            machine.view(|s| s.operations(pid))
        };
        let (before, after) = (done(2_500), done(3_500));
        // Compilers and periodic tasks use idle CPUs.
        let lost = 2 * 1_000_000 - (after - before);
        assert!((8_000..8_100).contains(&lost), "{lost}");
    }

    #[test]
    fn of_more_than_eight_processors_five_eighths_have_a_collector() {
        assert_eq!([1, 8, 16, 128].map(super::collectors), [1, 8, 13, 83]);
    }
}
