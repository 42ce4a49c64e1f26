//! The fields of each entity.

use super::field::{
    Cost::{self, Free, Programs, Read, Slow},
    Entity,
    Exactness::{self, Estimate, Exact, Ticks},
    Field, FieldId,
    FieldKind::{self, Counter, Gauge, Histogram, Key, Label},
    Unit,
};

/// Makes a module of constants for each entity, and [`fields`].
macro_rules! entities {
    ($($(#[$doc:meta])* $module:ident $entity:ident {
        $($id:ident $name:literal $heading:literal $kind:ident $unit:ident $exactness:ident $cost:ident $help:literal $source:literal;)+
    })+) => {
        $(
            $(#[$doc])*
            pub mod $module {
                use super::{Entity, FieldId};

                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum At { $($id,)+ }

                $(
                    #[doc = $help]
                    pub const $id: FieldId = FieldId { entity: Entity::$entity, index: At::$id as usize };
                )+
            }
        )+

        /// The fields of an entity, keys first.
        #[must_use]
        pub const fn fields(entity: Entity) -> &'static [Field] {
            match entity {
                $(Entity::$entity => const {
                    &[$(field($name, $heading, $kind, Unit::$unit, $exactness, $cost, $help, $source),)+]
                },)+
            }
        }
    };
}

#[expect(clippy::too_many_arguments, reason = "the columns of the table below")]
const fn field(
    name: &'static str,
    heading: &'static str,
    kind: FieldKind,
    unit: Unit,
    exactness: Exactness,
    cost: Cost,
    help: &'static str,
    source: &'static str,
) -> Field {
    Field { name, heading, kind, unit, exactness, cost, help, source }
}

entities! {
    /// The machine as a whole.
    machine Machine {
        NAME "machine" "MACHINE" Key None Exact Free "`real`, or the name of the machine" "-";
        CPUS "cpus" "CPUS" Gauge Count Exact Free "CPUs that run threads" "`/proc/stat`";
        PROCESSES "processes" "NPROC" Gauge Count Exact Read "processes" "the roster of threads";
        THREADS "threads" "NLWP" Gauge Count Exact Read "threads" "the roster of threads";
        LOAD_1 "load_1m" "LOAD1" Gauge Count Estimate Free "threads that ran or waited, on average over a minute" "`/proc/loadavg`";
        LOAD_5 "load_5m" "LOAD5" Gauge Count Estimate Free "the same over 5 minutes" "`/proc/loadavg`";
        LOAD_15 "load_15m" "LOAD15" Gauge Count Estimate Free "the same over 15 minutes" "`/proc/loadavg`";
        MEMORY "memory_bytes" "MEMORY" Gauge Bytes Exact Free "memory of the machine" "`/proc/meminfo`: MemTotal";
        SCHEDULER "scheduler" "SCHEDULER" Label None Exact Slow "the sched_ext scheduler that is loaded" "`/sys/kernel/sched_ext`";
        OBJECTIVES "objectives" "OBJECTIVES" Label None Exact Slow "what poold strives for everywhere, as poolcfg(8) writes it" "our configuration of pools";
        CONFIGURATION "configuration" "CONFIGURATION" Label None Exact Slow "the configuration of the cluster that its pools have" "our configuration of pools";
        REFUSED "refused" "REFUSED" Label None Exact Slow "why it did not take a newer one" "our configuration of pools";
        THROTTLED "throttled" "THROTTLED" Label None Exact Slow "projects, zones and processes that used up their CPU cap in a tenth of its periods or more, since the last slow look" "`cpu.stat`";
        WATCHING "watching_s" "WATCH" Counter Seconds Exact Free "CPU time of the program that watches" "`CLOCK_PROCESS_CPUTIME_ID`";
    }
    /// Pools.
    pool Pool {
        ID "pool" "POOL" Key None Exact Slow "number of the pool" "our configuration of pools";
        NAME "name" "NAME" Label None Exact Slow "name of the pool" "our configuration of pools";
        SET "set" "SET" Label None Exact Slow "number of its set; 0 is the default set" "our configuration of pools";
        IMPORTANCE "importance" "IMP" Gauge Count Exact Slow "what poold weighs it by" "our configuration of pools";
        SCHEDULER "class" "CLASS" Label None Exact Slow "the scheduling class that its members get" "our configuration of pools";
        MEMBERS "members" "MEMBERS" Gauge Count Exact Slow "processes that are bound to it; unknown for the default pool" "`/proc/PID/cgroup`";
    }
    /// Processor sets.
    pset Pset {
        ID "set" "SET" Key None Exact Slow "number of the set; 0 is the default set" "cgroups";
        NAME "name" "NAME" Label None Exact Slow "its name: that of its pool's set, or of its fence" "our configuration of pools, fences";
        MODE "mode" "MODE" Label None Exact Slow "how others are kept out" "cgroups";
        CPUS "cpus" "CPUS" Label None Exact Slow "numbers of its CPUs that run threads" "cgroups, /proc/stat";
        SIZE "size" "SIZE" Gauge Count Exact Slow "CPUs that run threads" "cgroups, /proc/stat";
        MIN "min" "MIN" Gauge Count Exact Slow "the least that poold leaves it" "our configuration of pools";
        MAX "max" "MAX" Gauge Count Exact Slow "the most that poold gives it" "our configuration of pools";
        OBJECTIVES "objectives" "OBJECTIVES" Label None Exact Slow "what poold strives for there, as poolcfg(8) writes it" "our configuration of pools";
        BUSY "busy_s" "USED" Counter Seconds Ticks Read "time of its present CPUs in user mode and in the kernel" "`/proc/stat`";
        RUNNABLE "runnable" "RUN" Gauge Count Estimate Read "threads that run or wait for a CPU; those of a process younger than five seconds count for the default set" "the roster of threads";
        WAITED "waited_s" "WAIT" Counter Seconds Exact Programs "time that its threads waited for a CPU, added up over threads" "pressure programs, /proc/PID/schedstat";
        PRESSED "pressed_s" "PRESS" Counter Seconds Exact Read "time in which at least one of its threads waited for a CPU" "cpu.pressure: some";
    }
    /// CPUs.
    cpu Cpu {
        ID "cpu" "CPU" Key None Exact Free "number of the CPU" "`/proc/stat`";
        SET "set" "SET" Label None Exact Slow "number of its set; 0 is the default set" "cgroups";
        STATE "state" "STATE" Label None Exact Slow "on-line or no-intr" "sysfs, our marks";
        CORE "core" "CORE" Label None Exact Slow "number of its core" "sysfs: topology";
        NODE "node" "NODE" Label None Exact Slow "number of its lgroup (NUMA node)" "sysfs: node";
        USER "user_s" "USR" Counter Seconds Ticks Read "time in user mode" "`/proc/stat`: user, nice";
        SYSTEM "system_s" "SYS" Counter Seconds Ticks Read "time in the kernel, interrupts included" "`/proc/stat`: system, irq, softirq";
        WAIT "wait_s" "WT" Counter Seconds Ticks Read "idle time with outstanding input or output" "`/proc/stat`: iowait";
        IDLE "idle_s" "IDL" Counter Seconds Ticks Read "other idle time" "`/proc/stat`: idle";
        STEAL "steal_s" "ST" Counter Seconds Ticks Read "time that the hypervisor took" "`/proc/stat`: steal";
        MINF "minf" "MINF" Counter Count Exact Programs "minor page faults" "as in mpstat(1)";
        MJF "mjf" "MJF" Counter Count Exact Programs "major page faults" "as in mpstat(1)";
        XCAL "xcal" "XCAL" Counter Count Exact Programs "calls to other CPUs" "as in mpstat(1)";
        INTR "intr" "INTR" Counter Count Exact Programs "interrupts" "as in mpstat(1)";
        ITHR "ithr" "ITHR" Counter Count Exact Programs "interrupts that were handled later or in threads" "as in mpstat(1)";
        CSW "csw" "CSW" Counter Count Exact Programs "context switches" "as in mpstat(1)";
        ICSW "icsw" "ICSW" Counter Count Exact Programs "involuntary context switches" "as in mpstat(1)";
        MIGR "migr" "MIGR" Counter Count Exact Programs "threads that came from another CPU" "as in mpstat(1)";
        SMTX "smtx" "SMTX" Counter Count Exact Programs "waits for kernel mutexes" "as in mpstat(1)";
        SRW "srw" "SRW" Counter Count Exact Programs "waits for kernel locks of readers and writers" "as in mpstat(1)";
        SYSCL "syscl" "SYSCL" Counter Count Exact Programs "system calls" "as in mpstat(1)";
    }
    /// Processes.
    process Process {
        PID "pid" "PID" Key None Exact Read "number of the process" "the roster of threads";
        BEGAN "began_s" "BEGAN" Key Seconds Exact Read "when it began, since boot: tells it from a later one of the same number" "the roster of threads";
        NAME "name" "PROCESS" Label None Exact Read "its short name" "the roster of threads";
        USER "uid" "UID" Label None Exact Read "number of its effective user" "the roster of threads";
        STATE "state" "STATE" Label None Exact Read "as in prstat(1), of the thread that stands for it" "the roster of threads";
        CLASS "class" "CLASS" Label None Exact Read "scheduling class of that thread" "the roster of threads";
        PRIORITY "priority" "PRI" Gauge None Exact Read "global priority of that thread, a high number first" "the roster of threads";
        NICE "nice" "NICE" Gauge None Exact Read "how nice that thread is" "the roster of threads";
        SET "set" "SET" Label None Exact Slow "the set it is bound to; 0 is the default set" "`/proc/PID/cgroup`";
        ZONE "zone" "ZONE" Label None Exact Slow "its zone" "`/proc/PID/cgroup`";
        THREADS "threads" "NLWP" Gauge Count Exact Read "how many threads it has" "the roster of threads";
        SIZE "size_bytes" "SIZE" Gauge Bytes Exact Slow "its address space" "`/proc/PID/statm`";
        RSS "rss_bytes" "RSS" Gauge Bytes Exact Slow "what of it is in memory" "`/proc/PID/statm`";
        TIME "time_s" "CPU" Counter Seconds Exact Read "CPU time, that of threads that ended included" "the roster of threads";
    }
    /// Threads.
    thread Thread {
        PID "pid" "PID" Key None Exact Read "number of its process" "the roster of threads";
        LWP "lwp" "LWP" Key None Exact Read "number of the thread" "the roster of threads";
        BEGAN "began_s" "BEGAN" Key Seconds Exact Read "when it began, since boot" "the roster of threads";
        NAME "name" "NAME" Label None Exact Read "its short name" "the roster of threads";
        STATE "state" "STATE" Label None Exact Read "as in prstat(1)" "the roster of threads";
        CLASS "class" "CLASS" Label None Exact Read "scheduling class" "the roster of threads";
        PRIORITY "priority" "PRI" Gauge None Exact Read "global priority, a high number first" "the roster of threads";
        NICE "nice" "NICE" Gauge None Exact Read "how nice it is" "the roster of threads";
        CPU "cpu" "ON" Label None Exact Read "the CPU that it is on, or was on last" "the roster of threads";
        SET "set" "SET" Label None Exact Slow "the set it is bound to; 0 is the default set" "`/proc/PID/cgroup`";
        TIME "time_s" "CPU" Counter Seconds Exact Read "CPU time" "the roster of threads";
        USER "user_s" "USR" Counter Seconds Ticks Programs "time in user mode; with USER and SYSTEM exact as a sum" "as in prstat(1)";
        SYSTEM "system_s" "SYS" Counter Seconds Ticks Programs "time in the kernel" "as in prstat(1)";
        TRAP "trap_s" "TRP" Counter Seconds Exact Programs "time in traps; unknown on Linux" "as in prstat(1)";
        TEXT_FAULT "text_fault_s" "TFL" Counter Seconds Exact Programs "time asleep until a page of text is there" "as in prstat(1)";
        DATA_FAULT "data_fault_s" "DFL" Counter Seconds Exact Programs "time asleep until a page of data is there" "as in prstat(1)";
        LOCK "lock_s" "LCK" Counter Seconds Exact Programs "time asleep in a futex" "as in prstat(1)";
        SLEEP "sleep_s" "SLP" Counter Seconds Exact Programs "time asleep for another reason" "as in prstat(1)";
        LATENCY "latency_s" "LAT" Counter Seconds Exact Programs "time runnable without a CPU" "as in prstat(1)";
        VOLUNTARY "vcx" "VCX" Counter Count Exact Programs "voluntary context switches" "as in prstat(1)";
        INVOLUNTARY "icx" "ICX" Counter Count Exact Programs "involuntary context switches" "as in prstat(1)";
        SIGNALS "signals" "SIG" Counter Count Exact Programs "signals" "as in prstat(1)";
    }
    /// How late threads ran.
    latency Latency {
        SET "set" "SET" Key None Exact Slow "number of the set of the CPU; 0 is the default set" "cgroups";
        STAGE "stage" "STAGE" Key None Exact Free "run-queue: from the moment a thread could run until a CPU ran it" "-";
        WAITS "waits_s" "WAITS" Histogram Seconds Exact Programs "how many waits ended, by their length" "programs at wake-ups and switches";
    }
    /// OS noise on CPUs of sets: what runs there and is no thread that is bound to the set.
    noise Noise {
        CPU "cpu" "CPU" Key None Exact Programs "number of the CPU" "as in quiet(1)";
        KIND "kind" "KIND" Key None Exact Programs "kind of disturbance" "as in quiet(1)";
        CAUSE "cause" "CAUSE" Key None Exact Programs "which one of its kind: a device, a function of the kernel, a thread" "as in quiet(1)";
        SET "set" "SET" Label None Exact Programs "number of the set" "cgroups";
        COUNT "count" "COUNT" Counter Count Exact Programs "how often" "as in quiet(1)";
        TIME "time_s" "TIME" Counter Seconds Exact Programs "how long, without what interrupted it" "as in quiet(1)";
        LONGEST "longest_s" "LONGEST" Gauge Seconds Exact Programs "the longest one since the watch began" "as in quiet(1)";
    }
    /// Interrupts of devices.
    interrupt Interrupt {
        ID "interrupt" "IRQ" Key None Exact Slow "number of the interrupt" "`/proc/irq`";
        NAME "name" "NAME" Label None Exact Slow "the device, as the kernel has it" "`/proc/interrupts`";
        KIND "kind" "KIND" Label None Exact Slow "interrupt of a device, default affinity, unbound work, packet steering" "-";
        ALLOWED "allowed" "ALLOWED" Label None Exact Slow "CPUs that may take it" "`/proc/irq/N/smp_affinity_list`";
        EFFECTIVE "effective" "TAKES" Label None Exact Slow "CPUs that take it" "`/proc/irq/N/effective_affinity_list`";
        FIXED "fixed" "WHY FIXED" Label None Exact Slow "why it cannot be moved, if so" "`/proc/irq`, the kernel's answer";
        COUNT "count" "COUNT" Counter Count Exact Slow "how often it came, to all CPUs together" "`/proc/interrupts`";
    }
    /// Fences.
    fence Fence {
        NAME "fence" "FENCE" Key None Exact Slow "name of the fence" "our mark on its cgroup";
        SET "set" "SET" Label None Exact Slow "number of its set" "our mark on its cgroup";
        PROFILE "profile" "PROFILE" Label None Exact Slow "its profile" "our mark on its cgroup";
        CPUS "cpus" "CPUS" Label None Exact Slow "numbers of its CPUs" "cgroups";
        LEAKS "leaks" "LEAKS" Label None Exact Slow "what does not hold, if anything" "the files of the fence's steps";
        PROOF "proof" "PROOF" Label None Exact Slow "the last verdict of `fence --prove`" "our mark on its cgroup";
    }
    /// Decisions of poold.
    decision Decision {
        AT "at_s" "AT" Key Seconds Exact Slow "when, since boot" "the record of poold";
        MOVES "moves" "MOVED" Label None Exact Slow "CPUs that were to move, from which set to which" "the record of poold";
        REASON "reason" "WHY" Label None Exact Slow "the reason" "the record of poold";
        DONE "done" "DONE" Label None Exact Slow "how many of them moved" "the record of poold";
    }
}
