//! Tests of the text form of knobs, which is the journal's format.

use super::*;
use millpond_model::{CpuId, MachineSetting};
use proptest::prelude::*;

fn any_task() -> impl Strategy<Value = TaskId> {
    (1u32..99999, proptest::option::of(1u32..99999), 0u64..u64::MAX / 2)
        .prop_map(|(pid, tid, start)| TaskId { pid, tid, start })
}

fn any_cpuset_file() -> impl Strategy<Value = CpusetFile> {
    prop_oneof![
        Just(CpusetFile::Cpus),
        Just(CpusetFile::ExclusiveCpus),
        Just(CpusetFile::Partition),
        Just(CpusetFile::Mems),
        Just(CpusetFile::MemoryMigrate),
    ]
}

fn any_file() -> impl Strategy<Value = ControlFile> {
    let path = "(/[a-z+@#:0-9-][a-z+@.#:0-9-]{0,11}){1,3}";
    let name = "[a-z][a-z0-9:.-]{0,9}";
    let mask = prop_oneof![Just(PacketMask::Rps), Just(PacketMask::Xps)];
    prop_oneof![
        (path, any_cpuset_file()).prop_map(|(group, file)| ControlFile::Cpuset(group, file)),
        any_cpuset_file().prop_map(|file| ControlFile::cpuset("/", file)),
        any::<u32>().prop_map(ControlFile::IrqAffinity),
        Just(ControlFile::DefaultIrqAffinity),
        Just(ControlFile::UnboundCpumask),
        name.prop_map(ControlFile::WorkqueueCpumask),
        (name, name, mask).prop_map(|(interface, queue, mask)| ControlFile::Packets {
            interface,
            queue,
            mask
        }),
        any::<u32>().prop_map(|cpu| ControlFile::Online(CpuId(cpu))),
        any::<u32>().prop_map(|cpu| ControlFile::FairServer(CpuId(cpu))),
        Just(ControlFile::Machine(MachineSetting::StatInterval)),
        Just(ControlFile::NoTurbo),
        Just(ControlFile::Schema(None, Resource::L3)),
        name.prop_map(|group| ControlFile::Schema(Some(group), Resource::Bandwidth)),
        name.prop_map(ControlFile::CacheCpus),
    ]
}

fn any_knob() -> impl Strategy<Value = LinuxKnob> {
    let path = "(/[a-z+@#:0-9-][a-z+@.#:0-9-]{0,11}){1,3}";
    prop_oneof![
        path.prop_map(LinuxKnob::Cgroup),
        Just(LinuxKnob::IrqbalanceBanned),
        "[a-z][a-z0-9.-]{0,9}".prop_map(LinuxKnob::CacheGroup),
        any_file().prop_map(LinuxKnob::File),
        path.prop_map(LinuxKnob::CpusetController),
        path.prop_map(LinuxKnob::Slice),
        path.prop_map(LinuxKnob::AllowedCpus),
        path.prop_map(LinuxKnob::AllowedMemoryNodes),
        path.prop_map(LinuxKnob::Weight),
        path.prop_map(LinuxKnob::Quota),
        path.prop_map(LinuxKnob::CpuController),
        path.prop_map(LinuxKnob::CpuCgroup),
        any_task().prop_map(LinuxKnob::CpuCgroupOf),
        any_task().prop_map(LinuxKnob::MemoryOf),
        "[a-z@-][a-z@.-]{0,11}".prop_map(LinuxKnob::UnitSlice),
        (path, prop_oneof![Just(Label::Set), Just(Label::Origin)]).prop_map(|(p, l)| LinuxKnob::Label(p, l)),
        any_task().prop_map(LinuxKnob::CgroupOf),
        any_task().prop_map(LinuxKnob::Affinity),
        any_task().prop_map(LinuxKnob::KernelThread),
        any_task().prop_map(LinuxKnob::Policy),
        any_task().prop_map(LinuxKnob::ClassOf),
        prop_oneof![Just(Class::Ts), Just(Class::Fx)].prop_map(LinuxKnob::DispatchTable),
        "[A-Z_a-z]{1,12}".prop_map(LinuxKnob::OsnoiseSetting),
        "millpond-[0-9]{1,6}".prop_map(LinuxKnob::TraceInstance),
        "[a-z0-9][a-z.0-9]{0,11}".prop_map(LinuxKnob::Record),
    ]
}

#[test]
fn fuzz_knobs() {
    let seeds = [
        "dir:/mpset1",
        "cg:/docker/cpuset.cpus",
        "proc:irq/24/smp_affinity_list",
        "label:/mpset1#set",
        "place:204/205@8123",
        "mask:204@8123",
    ];
    millpond_fuzz::check_text("linux-knobs", &seeds, |text| {
        if let Ok(knob) = LinuxKnob::parse(&Knob(text.to_owned())) {
            assert_eq!(LinuxKnob::parse(&knob.knob()), Ok(knob));
        }
        // A canonical value is unchanged. A mask has then become a list.
        for file in [CpusetFile::Cpus, CpusetFile::Partition] {
            let once = file.value_of(text);
            assert_eq!(once.as_deref().and_then(|value| file.value_of(value)), once, "{file:?}");
        }
        let _ = ControlFile::DefaultIrqAffinity.value_of(text);
    });
}

proptest! {
    #[test]
    fn every_knob_survives_the_journal(knob in any_knob()) {
        prop_assert_eq!(LinuxKnob::parse(&knob.knob()), Ok(knob));
    }

    #[test]
    fn parsing_any_text_never_panics(text in ".{0,30}") {
        let _ = LinuxKnob::parse(&Knob(text));
    }
}

#[test]
fn no_knob_of_a_journal_leads_out_of_its_tree() {
    for text in [
        "record:../../home/u/.profile",
        "record:a/b",
        "record:..",
        "record:.hidden",
        "record:",
        "kept:../../../etc/x",
        "proc:../etc/passwd",
        "proc:/etc/passwd",
        "proc:irq/../../etc/passwd",
        "proc:self/root/etc/passwd",
        "proc:sys/kernel/core_pattern",
        "sys:/etc/passwd",
        "sys:devices/system/cpu/../../../../etc/passwd",
        "sys:kernel/../../etc/passwd",
        "sys:kernel/debug/x",
        "cg:/../../../etc/passwd",
        "cg:etc/passwd",
        "dir:/../x",
        "controller:/a/../../x",
        "label:/../x#set",
        "unit:/../x",
        "allowed:/../x",
        "memory:/../x",
        "osnoise:../x",
        "tracer:../x",
    ] {
        let knob = Knob(text.to_owned());
        assert_eq!(LinuxKnob::parse(&knob), Err(KnobError::Unknown(text.to_owned())), "{text}");
    }
}

#[test]
fn only_the_online_file_of_one_cpu_is_an_online_state() {
    let parse = |text: &str| LinuxKnob::parse(&Knob(text.to_owned()));
    let state = LinuxKnob::File(ControlFile::Online(CpuId(12)));
    assert_eq!(parse("sys:devices/system/cpu/cpu12/online"), Ok(state));
    assert!(parse("sys:devices/system/cpu/online").is_err());
}

#[test]
fn a_journal_can_only_name_files_that_are_changed() {
    for text in [
        "cg:/mpset1/cgroup.procs",
        "cg:/mpset1/cgroup.kill",
        "cg:/../cpuset.cpus",
        "cg:cpuset.cpus",
        "cg://cpuset.cpus",
        "proc:irq/24/smp_affinity",
        "proc:irq/024/smp_affinity_list",
        "proc:irq/../smp_affinity_list",
        "sys:devices/system/cpu/cpu3/cpufreq/scaling_max_freq",
        "sys:devices/system/cpu/cpu+3/online",
        "sys:devices/virtual/workqueue/../cpumask",
        "sys:class/net/../queues/rx-0/rps_cpus",
        "sys:class/net/eth0/queues/rx-0/rps_flow_cnt",
        "label:/mpset1#user",
        "place:007@5",
    ] {
        let knob = Knob(text.to_owned());
        assert_eq!(LinuxKnob::parse(&knob), Err(KnobError::Unknown(text.to_owned())), "{text}");
    }
}

/// These are the texts in journals since the first version.
#[test]
fn each_kind_of_knob_is_read_and_written_as_journals_have_it() {
    let (group, unit) = ("/mpset1".to_owned(), "/mpset1.slice".to_owned());
    let process = TaskId { pid: 204, tid: None, start: 8123 };
    let thread = TaskId { pid: 204, tid: Some(205), start: 8123 };
    let file = LinuxKnob::File;
    for (text, knob) in [
        ("dir:/mpset1", LinuxKnob::Cgroup(group.clone())),
        ("dir:/mpset1/from+a+b", LinuxKnob::Cgroup("/mpset1/from+a+b".to_owned())),
        ("cg:/cpuset.cpus", file(ControlFile::cpuset("/", CpusetFile::Cpus))),
        ("cg:/docker/0a1b/cpuset.cpus", file(ControlFile::cpuset("/docker/0a1b", CpusetFile::Cpus))),
        ("cg:/a/cpuset.cpus.exclusive", file(ControlFile::cpuset("/a", CpusetFile::ExclusiveCpus))),
        ("cg:/mpset1/cpuset.cpus.partition", file(ControlFile::cpuset(&group, CpusetFile::Partition))),
        ("cg:/mpset1/cpuset.mems", file(ControlFile::cpuset(&group, CpusetFile::Mems))),
        ("cg:/mpset1/cpuset.memory_migrate", file(ControlFile::cpuset(&group, CpusetFile::MemoryMigrate))),
        ("proc:irq/24/smp_affinity_list", file(ControlFile::IrqAffinity(24))),
        ("proc:irq/default_smp_affinity", file(ControlFile::DefaultIrqAffinity)),
        ("sys:devices/virtual/workqueue/cpumask", file(ControlFile::UnboundCpumask)),
        (
            "sys:devices/virtual/workqueue/nvme-wq/cpumask",
            file(ControlFile::WorkqueueCpumask("nvme-wq".to_owned())),
        ),
        (
            "sys:class/net/eth0/queues/rx-0/rps_cpus",
            file(ControlFile::Packets {
                interface: "eth0".to_owned(),
                queue: "rx-0".to_owned(),
                mask: PacketMask::Rps,
            }),
        ),
        (
            "sys:class/net/eth0.7/queues/tx-11/xps_cpus",
            file(ControlFile::Packets {
                interface: "eth0.7".to_owned(),
                queue: "tx-11".to_owned(),
                mask: PacketMask::Xps,
            }),
        ),
        ("sys:devices/system/cpu/cpu3/online", file(ControlFile::Online(CpuId(3)))),
        ("sys:kernel/debug/sched/fair_server/cpu3/runtime", file(ControlFile::FairServer(CpuId(3)))),
        ("proc:sys/kernel/numa_balancing", file(ControlFile::Machine(MachineSetting::NumaBalancing))),
        ("proc:sys/vm/stat_interval", file(ControlFile::Machine(MachineSetting::StatInterval))),
        ("proc:sys/kernel/timer_migration", file(ControlFile::Machine(MachineSetting::TimerMigration))),
        ("sys:devices/system/cpu/cpufreq/boost", file(ControlFile::Machine(MachineSetting::Turbo))),
        ("sys:devices/system/cpu/intel_pstate/no_turbo", file(ControlFile::NoTurbo)),
        ("sys:fs/resctrl/schemata#L3", file(ControlFile::Schema(None, Resource::L3))),
        (
            "sys:fs/resctrl/mpset1/schemata#MB",
            file(ControlFile::Schema(Some("mpset1".to_owned()), Resource::Bandwidth)),
        ),
        ("sys:fs/resctrl/mpset1/cpus_list", file(ControlFile::CacheCpus("mpset1".to_owned()))),
        ("cache-group:mpset1", LinuxKnob::CacheGroup("mpset1".to_owned())),
        ("controller:/", LinuxKnob::CpusetController("/".to_owned())),
        ("label:/mpset1#set", LinuxKnob::Label(group.clone(), Label::Set)),
        ("label:/mpset1/from~3#origin", LinuxKnob::Label("/mpset1/from~3".to_owned(), Label::Origin)),
        ("place:204@8123", LinuxKnob::CgroupOf(process)),
        ("place:204/205@8123", LinuxKnob::CgroupOf(thread)),
        ("mask:204/205@8123", LinuxKnob::Affinity(thread)),
        ("kthread:204/205@8123", LinuxKnob::KernelThread(thread)),
        ("policy:204/205@8123", LinuxKnob::Policy(thread)),
        ("class:204/205@8123", LinuxKnob::ClassOf(thread)),
        ("table:TS", LinuxKnob::DispatchTable(Class::Ts)),
        ("unit:/mpset1.slice", LinuxKnob::Slice(unit.clone())),
        ("allowed:/system.slice", LinuxKnob::AllowedCpus("/system.slice".to_owned())),
        ("memory:/mpset1.slice", LinuxKnob::AllowedMemoryNodes(unit)),
        ("weight:/batch", LinuxKnob::Weight("/batch".to_owned())),
        ("quota:/batch", LinuxKnob::Quota("/batch".to_owned())),
        ("cpu-controller:/", LinuxKnob::CpuController("/".to_owned())),
        ("cpu-group:/mpcap-204", LinuxKnob::CpuCgroup("/mpcap-204".to_owned())),
        ("cpu-place:204@8123", LinuxKnob::CpuCgroupOf(process)),
        ("pages:204@8123", LinuxKnob::MemoryOf(process)),
        ("kept:nginx.service", LinuxKnob::UnitSlice("nginx.service".to_owned())),
        ("irqbalance:banned", LinuxKnob::IrqbalanceBanned),
        ("osnoise:timerlat_period_us", LinuxKnob::OsnoiseSetting("timerlat_period_us".to_owned())),
        ("osnoise:OSNOISE_WORKLOAD", LinuxKnob::OsnoiseSetting("OSNOISE_WORKLOAD".to_owned())),
        ("tracer:millpond-204", LinuxKnob::TraceInstance("millpond-204".to_owned())),
        ("record:processor.3", LinuxKnob::Record("processor.3".to_owned())),
        ("record:bind.205.8123", LinuxKnob::Record("bind.205.8123".to_owned())),
    ] {
        assert_eq!(knob.knob(), Knob(text.to_owned()));
        assert_eq!(LinuxKnob::parse(&Knob(text.to_owned())), Ok(knob), "{text}");
    }
}
