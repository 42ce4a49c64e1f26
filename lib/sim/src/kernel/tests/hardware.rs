//! Tests of instruction timing. Expected times are computed by hand from the formulas of [`super::super::hardware`].

use super::*;
use millpond_model::Lgroup;

/// 2 cycles; 1 % of the instructions access the outer cache, 0.1 % memory.
pub const MIX: Mix =
    Mix { base_milli: 2_000, reach_ppm: 10_000, miss_ppm: 1_000, footprint_kib: 0, float_ppm: 0 };

/// 1 GHz. Caches of 1 MiB at 20 cycles, one per core. Memory at 100 ns, 300 ns in the other lgroup. `strands` strands per core
/// and pipeline. The first half of the CPUs is in lgroup 0.
pub fn layout(cpus: u32, strands: u32) -> Layout {
    let lgroups = if cpus < 2 { 1 } else { 2 };
    let lgroup = |cpu: CpuIndex| u32::from(cpus > 1 && cpu >= CpuIndex(cpus.div_ceil(2)));
    let cores = || (0..cpus).map(|cpu| cpu / strands);
    let near = |from: usize, to: usize| if from == to { 100_000 } else { 300_000 };
    Layout {
        cpus: (0..cpus).map(|cpu| (lgroup(CpuIndex(cpu)), cpu / strands)).collect(),
        distances: (0..lgroups).map(|from| Lgroup::even_distances(from, lgroups)).collect(),
        hardware: Hardware {
            pipelines: cores().map(PipelineId).collect(),
            caches: cores().map(CacheId).collect(),
            cache_kib: 1_024,
            cache_cycles: 20,
            latency_ps: (0..lgroups).map(|from| (0..lgroups).map(|to| near(from, to)).collect()).collect(),
            memory_kib: vec![1 << 20; lgroups],
            ..Hardware::plain(cpus, lgroups)
        },
    }
}

fn machine(cpus: u32, strands: u32) -> Kernel {
    Kernel::new(&layout(cpus, strands), standard(), Tunables::default())
}

/// End times of these programs in nanoseconds, each bound to its CPU.
fn ends(k: &mut Kernel, programs: &[(CpuIndex, Vec<Action>)]) -> Vec<u64> {
    let start = |(cpu, actions): &(CpuIndex, Vec<Action>)| {
        let start = Start::new(k.ts_entry_at(0), Program::once(actions.clone()));
        k.start(Start { bound: Some(*cpu), ..start })
    };
    let threads: Vec<ThreadId> = programs.iter().map(start).collect();
    let mut ends = vec![0; threads.len()];
    while ends.contains(&0) {
        k.advance(k.now() + SECOND).unwrap();
        for news in k.take_news() {
            let News::Ended { thread, .. } = news else { continue };
            ends[threads.iter().position(|t| *t == thread).unwrap()] = k.now();
        }
    }
    ends
}

#[test]
fn an_instruction_costs_its_base_its_caches_and_its_memory() {
    // 2 + 0.01 × 20 + 0.001 × 100 = 2.3 cycles of 1 ns.
    let mut k = machine(1, 1);
    let mix = k.mix(MIX);
    assert_eq!(ends(&mut k, &[(CpuIndex(0), vec![Action::Work(mix, 1_000_000)])]), [2_300_000]);
    assert_eq!(k.cpus()[CpuIndex(0)].instructions, 1_000_000);
    assert_eq!((k.cpus()[CpuIndex(0)].user, k.cpus()[CpuIndex(0)].sys), (2_300_000, 0));
}

#[test]
fn the_same_mix_has_the_same_number_and_the_first_one_spins() {
    let mut k = machine(1, 1);
    assert_eq!((k.mix(Mix::SPIN), k.mix(MIX), k.mix(MIX)), (MixId(0), MixId(1), MixId(1)));
}

#[test]
fn strands_of_a_pipeline_hinder_one_another_while_they_issue() {
    // Each needs the pipeline for 1 of 2.3 cycles: slower by 1 + (1/2.3)² = 1.18904.
    let mut k = machine(2, 2);
    let mix = k.mix(MIX);
    let work = || vec![Action::Work(mix, 1_000_000)];
    let found = ends(&mut k, &[(CpuIndex(0), work()), (CpuIndex(1), work())]);
    assert!(found.iter().all(|end| (2_734_000..2_736_000).contains(end)), "{found:?}");
    // No delay on two pipelines.
    let mut k = machine(2, 1);
    let mix = k.mix(MIX);
    let work = || vec![Action::Work(mix, 1_000_000)];
    assert_eq!(ends(&mut k, &[(CpuIndex(0), work()), (CpuIndex(1), work())]), [2_300_000; 2]);
}

#[test]
fn a_pipeline_issues_one_instruction_in_a_cycle() {
    // Four that could issue in every cycle alternate: 4 ms for a million instructions each.
    let busy = Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 0, footprint_kib: 0, float_ppm: 0 };
    let mut k = machine(4, 4);
    let mix = k.mix(busy);
    let work: Vec<(CpuIndex, Vec<Action>)> =
        (0..4).map(|cpu| (CpuIndex(cpu), vec![Action::Work(mix, 1_000_000)])).collect();
    assert_eq!(ends(&mut k, &work), [4_000_000; 4]);
}

#[test]
fn who_is_alone_again_is_fast_again() {
    // The two alternate until the shorter one has its half million, at 1 ms; the rest runs at full speed.
    let busy = Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 0, footprint_kib: 0, float_ppm: 0 };
    let mut k = machine(2, 2);
    let mix = k.mix(busy);
    let work = |n| vec![Action::Work(mix, n)];
    assert_eq!(
        ends(&mut k, &[(CpuIndex(0), work(1_000_000)), (CpuIndex(1), work(500_000))]),
        [1_500_000, 1_000_000]
    );
}

#[test]
fn strands_that_wait_for_memory_leave_the_core_to_others_where_only_that_is_shared() {
    // A core of this kind is needed for 2.2 of 2.3 cycles: slower by max(1 + 0.9565², 1.913) = 1.91493.
    let mut layout = layout(2, 2);
    layout.hardware.exclusive = Exclusive::Base;
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    let mix = k.mix(MIX);
    let work = || vec![Action::Work(mix, 1_000_000)];
    let found = ends(&mut k, &[(CpuIndex(0), work()), (CpuIndex(1), work())]);
    assert!(found.iter().all(|end| (4_403_000..4_405_500).contains(end)), "{found:?}");
}

#[test]
fn what_does_not_fit_the_outer_cache_comes_from_memory() {
    // Half of 2 MiB fits. 1 % of the instructions access the outer cache, and half of those go to memory: 0.005 × 100 cycles more. At first a
    // full cache is loaded: 16,384 lines at 100 ns.
    let mut k = machine(1, 1);
    let mix = k.mix(Mix { footprint_kib: 2_048, ..MIX });
    let load = 16_384 * 100;
    assert_eq!(ends(&mut k, &[(CpuIndex(0), vec![Action::Work(mix, 1_000_000)])]), [load + 2_800_000]);
}

#[test]
fn a_cold_cache_is_paid_once_and_again_when_others_had_it() {
    // 512 KiB are 8,192 lines: 819,200 ns at 100 ns each.
    let load = 819_200;
    let once = |sizes: [u64; 2]| {
        let mut k = machine(1, 1);
        let [a, b] = sizes.map(|footprint_kib| k.mix(Mix { footprint_kib, ..MIX }));
        let first = vec![Action::Work(a, 1_000), Action::Sleep(5_000_000), Action::Work(a, 1_000)];
        let second = vec![Action::Sleep(2_000_000), Action::Work(b, 1_000)];
        ends(&mut k, &[(CpuIndex(0), first), (CpuIndex(0), second)])[0]
    };
    // Both fit: loaded once, 2 × 2,300 ns of work, 5 ms asleep.
    assert_eq!(once([512, 512]), load + 4_600 + 5_000_000);
    // The other one loads 768 KiB; 512 KiB were free, so 256 KiB of the first are lost: 4,096 lines.
    assert_eq!(once([512, 768]), load + 4_600 + 5_000_000 + 409_600);
}

#[test]
fn memory_is_near_or_far_by_where_the_first_thread_placed_it() {
    let time = |kib: u64, set_aware: bool, part: &[u32]| {
        let tunables = Tunables { mem_pset_aware: set_aware, ..Tunables::default() };
        let mut k = Kernel::new(&layout(2, 1), standard(), tunables);
        let apart = Arrangement {
            cpus: vec![DEFAULT, PartitionId(SETS + 1)],
            parts: vec![vec![CpuIndex(0)], vec![CpuIndex(0)], vec![CpuIndex(1)]].into(),
        };
        let all = Arrangement {
            cpus: vec![DEFAULT; 2],
            parts: vec![vec![CpuIndex(0), CpuIndex(1)], vec![CpuIndex(0), CpuIndex(1)]].into(),
        };
        k.arrange(if part.is_empty() { &all } else { &apart });
        let (mix, segment) = (k.mix(Mix { miss_ppm: 10_000, reach_ppm: 0, ..MIX }), k.segment());
        let program = Program::once(vec![Action::Map(segment, kib), Action::Work(mix, 1_000_000)]);
        let start = Start {
            part: part.first().map_or(DEFAULT, |set| PartitionId(SETS + set)),
            cpu: CpuIndex(1),
            ..Start::new(k.ts_entry_at(0), program)
        };
        k.start(start);
        k.advance(SECOND).unwrap();
        k.now()
    };
    // 1 % of the instructions at 100 ns: 2 + 1 cycles; at the mean of 100 and 300 ns: 2 + 2.
    assert_eq!(time(8_192, false, &[]), 3_000_000);
    assert_eq!(time(8_193, false, &[]), 4_000_000);
    assert_eq!(time(8_193, false, &[1]), 4_000_000);
    assert_eq!(time(8_193, true, &[1]), 3_000_000);
    // More than the memory of the set's lgroups.
    assert_eq!(time(1 << 20, true, &[1]), 4_000_000);
}

#[test]
fn a_switch_costs_time_in_the_kernel() {
    let mut layout = layout(1, 1);
    layout.hardware.switch_ns = 3_000;
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    assert_eq!(ends(&mut k, &[(CpuIndex(0), vec![Action::User(1_000_000)])]), [1_003_000]);
    assert_eq!((k.cpus()[CpuIndex(0)].user, k.cpus()[CpuIndex(0)].sys), (1_000_000, 3_000));
}

#[test]
fn threads_spread_over_pipelines_before_they_share_one() {
    // Three cores of two strands in one lgroup: three hogs take a core each.
    let layout = Layout {
        cpus: (0..6).map(|cpu| (0, cpu / 2)).collect(),
        hardware: Hardware {
            pipelines: (0..6).map(|cpu| PipelineId(cpu / 2)).collect(),
            ..Hardware::plain(6, 1)
        },
        ..Layout::flat(6)
    };
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    for _ in 0..3 {
        k.ts_start(Program::hog());
    }
    k.pass(1);
    let busy: Vec<u32> = (0..6).filter(|cpu| k.on(CpuIndex(*cpu)).is_some()).map(|cpu| cpu / 2).collect();
    assert_eq!(busy, [0, 1, 2]);
}

/// Threads on CPUs of two lgroups, each with its own pipeline, that share one station with 1 ns per request.
fn sharing(serves: Serves, mix: Mix, cpus: u32) -> Vec<u64> {
    let mut layout = layout(cpus, 1);
    let of = (0..cpus).map(|_| StationId(0)).collect();
    layout.hardware.stations = vec![Station { serves, of, service_fs: 1_000_000 }];
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    let mix = k.mix(mix);
    let work = |cpu| (CpuIndex(cpu), vec![Action::Work(mix, 1_000_000)]);
    ends(&mut k, &(0..cpus).map(work).collect::<Vec<_>>())
}

#[test]
fn threads_that_share_a_floating_point_unit_wait_for_it() {
    // Every second instruction of 2.3 ns needs it for 1 ns: 0.5 / 2.3 = 0.21739 of the time, slower by 1 + 0.21739² = 1.04726: 2.4087 ms.
    let found = sharing(Serves::Float, Mix { float_ppm: 500_000, ..MIX }, 2);
    assert!(found.iter().all(|end| (2_406_000..2_411_000).contains(end)), "{found:?}");
    // Other mixes do not use it.
    assert_eq!(sharing(Serves::Float, MIX, 2), [2_300_000; 2]);
    // Four threads that use it in every cycle get a quarter of it each.
    let busy = Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 0, footprint_kib: 0, float_ppm: 1_000_000 };
    assert_eq!(sharing(Serves::Float, busy, 4), [4_000_000; 4]);
}

#[test]
fn banks_and_memory_have_a_rate() {
    // 10 % of the instructions access the outer cache, at 20 cycles: 1 + 2 = 3 ns, 0.1 ns of it at the bank. 64 threads demand
    // 64 × 0.1 / 3 = 2.1333 of its capacity: 3 × 2.1333 = 6.4 ns, which is the service time of all, 64 × 0.1 ns.
    let near = Mix { base_milli: 1_000, reach_ppm: 100_000, miss_ppm: 0, footprint_kib: 0, float_ppm: 0 };
    let found = sharing(Serves::Cache, near, 64);
    assert!(found.iter().all(|end| (6_370_000..6_430_000).contains(end)), "{found:?}");
    // 1 % go to memory, at 100 ns: 1 + 1 = 2 ns, 0.01 ns of it at memory: 0.005 of its time. Together with one other thread it is
    // slower by 0.005², or 50 ns in 2 ms. Demand is rounded to 256ths, 0.0039 for 0.005: 39 ns.
    let far = Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 10_000, footprint_kib: 0, float_ppm: 0 };
    let found = sharing(Serves::Memory, far, 2);
    assert!(found.iter().all(|end| (2_000_000..2_000_070).contains(end)), "{found:?}");
}

#[test]
fn a_barrier_counts_threads_one_after_the_other() {
    // Four threads arrive after 1,000 instructions of 2.3 ns on CPUs with a cache each, in two lgroups. With two trips to the outer cache or
    // to memory, each keeps the counter's line for 2 × 20 ns (the first), 2 × 100 ns (the next of its lgroup), 2 × 300 ns (the first of the
    // other lgroup) and 2 × 100 ns: 1,040 ns in all. A thread that arrives 10 µs before them is counted in the meantime.
    let open = |early: bool, milli: u64| {
        let mut layout = layout(4, 1);
        layout.hardware.handover_milli = milli;
        let mut k = Kernel::new(&layout, standard(), Tunables::default());
        let (mix, barrier) = (k.mix(MIX), k.barrier(4));
        let thread = |cpu: u32| {
            let before = if early && cpu > 0 { Action::User(10_000) } else { Action::User(0) };
            let meet = Action::Meet(barrier, Waiting::Spin);
            (CpuIndex(cpu), vec![before, Action::Work(mix, 1_000), meet, Action::Work(mix, 1_000)])
        };
        ends(&mut k, &[thread(0), thread(1), thread(2), thread(3)])
    };
    assert_eq!(open(false, 0), [4_600; 4]);
    assert_eq!(open(false, 2_000), [4_600 + 1_040; 4]);
    assert_eq!(open(true, 2_000), [10_000 + 4_600 + 1_000; 4]);
}

#[test]
fn threads_that_meet_enter_two_moments_each_however_many_share_a_pipeline() {
    // Eight threads of equal shares on one pipeline begin and end together: the speed of each changes with each of the others.
    let (strands, rounds) = (8u32, 1_000u64);
    let mut k = machine(strands, strands);
    let (mix, barrier) = (k.mix(MIX), k.barrier(strands));
    let round = vec![Action::Work(mix, 1_000), Action::Meet(barrier, Waiting::Spin)];
    for cpu in 0..strands {
        let start = Start::new(k.ts_entry_at(0), Program::times(round.clone(), rounds));
        k.start(Start { bound: Some(CpuIndex(cpu)), ..start });
    }
    k.run_until(SECOND).unwrap();
    assert!(k.threads().iter().all(|t| t.state == RunState::Gone));
    // In each round, two events per thread are entered and removed: the end of its work, and the time at which it sees that the others
    // have arrived. Start, end and clock ticks add less than 10 %.
    let (most, moved) = (rounds * u64::from(strands) * 4, k.heap.moved);
    assert!(moved <= most + most / 10, "{moved} of {most}");
}

#[test]
fn a_cpu_that_idled_begins_later_and_a_kernel_may_execute_more() {
    let mut layout = Layout::flat(1);
    (layout.hardware.switch_ns, layout.hardware.idle_exit_ns, layout.hardware.kernel_milli) =
        (1_000, 4_000, 2_500);
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    let mix = k.mix(Mix { base_milli: 1_000, ..Mix::SPIN });
    // 5,000 to begin, and 2,500 instructions of 1 ns in place of 1,000.
    assert_eq!(ends(&mut k, &[(CpuIndex(0), vec![Action::KernelWork(mix, 1_000)])]), [7_500]);
}

#[test]
fn an_interrupt_reaches_a_cpu_that_idles_later_than_another_cpu_does() {
    let mut layout = Layout::flat(2);
    (layout.hardware.switch_ns, layout.hardware.idle_exit_ns, layout.hardware.interrupt_ns) =
        (1_000, 4_000, 6_000);
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    let tells = k.channel();
    let woken = Program::once(vec![Action::Wait(tells), Action::Kernel(500)]);
    let start = Start::new(k.ts_entry_at(0), woken);
    k.start(Start { bound: Some(CpuIndex(1)), ..start });
    let sleeper = Program::once(vec![Action::Sleep(100_000), Action::Kernel(500), Action::Post(tells)]);
    let start = Start::new(k.ts_entry_at(0), sleeper);
    k.start(Start { bound: Some(CpuIndex(0)), ..start });
    k.run_until(1_000_000).unwrap();
    // Both are started from outside, 11,000 each. A timer wakes one, 11,500, and that one wakes the other, 5,500.
    assert_eq!(k.cpus().iter().map(|cpu| cpu.sys).collect::<Vec<_>>(), [22_500, 16_500]);
}

#[test]
fn a_switch_to_another_address_space_takes_longer() {
    let spent = |shares: bool| {
        let mut layout = Layout::flat(1);
        layout.hardware.space_switch_ns = 1_000;
        let mut k = Kernel::new(&layout, standard(), Tunables::default());
        let (there, back) = (k.channel(), k.channel());
        let asks = Program::times(vec![Action::Post(there), Action::Wait(back)], 10);
        let answers = Program::times(vec![Action::Wait(there), Action::Post(back)], 10);
        let asks = k.start(Start::new(k.ts_entry_at(0), asks));
        let answers = k.start(Start::new(k.ts_entry_at(0), answers));
        if shares {
            k.share_space(answers, asks);
        }
        k.run_until(1_000_000).unwrap();
        k.cpus()[CpuIndex(0)].sys
    };
    // One requests ten times and ends; the other replies ten times. In one process, no switch has to load an address space.
    assert_eq!((spent(false), spent(true)), (21_000, 1_000));
}

#[test]
fn messages_wait_where_a_channel_was_made_empty() {
    let mut k = machine(1, 1);
    let (inbox, room) = (k.channel(), k.filled_channel(3));
    let send = vec![Action::Wait(room), Action::User(1_000), Action::Post(inbox)];
    k.ts_start(Program::times(send, 5));
    k.run_until(1_000_000).unwrap();
    // The fourth message would have to wait.
    assert_eq!(k.messages_waiting(), 3);
    k.ts_start(Program::once(vec![Action::Wait(inbox), Action::User(1_000), Action::Post(room)]));
    k.run_until(2_000_000).unwrap();
    assert_eq!(k.messages_waiting(), 3);
}

#[test]
fn a_cpu_that_idled_begins_later_with_an_interrupt_too() {
    let mut layout = Layout::flat(1);
    (layout.hardware.switch_ns, layout.hardware.idle_exit_ns) = (1_000, 4_000);
    let mut k = Kernel::new(&layout, standard(), Tunables::default());
    let raised = k.channel();
    k.handler(6, Origin::None, CpuIndex(0), raised, vec![Action::Kernel(500)]);
    let beat = vec![Action::Sleep(100_000), Action::Post(raised)];
    k.device(Program::times(beat, 2));
    k.run_until(1_000_000).unwrap();
    // Twice 4,000 and 500; an interrupt is not a switch.
    assert_eq!(k.cpus()[CpuIndex(0)].sys, 9_000);
}
