/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* State of the class scheduler: constants from the loader, and the state of CPUs, levels and threads. */
#ifndef MILLPOND_CLASSES_STATE_BPF_H
#define MILLPOND_CLASSES_STATE_BPF_H

#include "sched_ext.bpf.h"
#define RULE_FOR(i, count) bpf_for(i, 0, count)
#define RULE_ROUND __noinline
#include "rules.h"

#define SECOND 1000000000ULL
#define LEVELS 101
/* The row of a level, -1 to 99. */
#define ROW_OF(pri) ((pri) + 1)
/* No thread of this scheduler runs; the last one went to sleep, and dispatch looks for the next one; a scheduling class of the kernel has the CPU. */
#define VACANT (-3)
#define CHOOSING (-2)
#define OUTRANKED 200
#define NO_KEY (~0ULL)
/* The first of a pair of queues: see `generations` of struct beat. */
#define QUEUE_DSQ(queue) (0x1000ULL + 2 * (queue))
#define CPU_DSQ(cpu) (0x100000ULL + 2 * (u64)(cpu))
/* Limits: CPUs compared for one wake-up, queues of the set searched by a free CPU, threads searched at the head of a queue. */
#define COMPARED_CPUS 32
#define STOLEN_FROM 16
#define LOOKED_AT 64
/*
 * In nanoseconds: the length of a chunk of the timer; the pause between chunks; the delay before the timer checks that the old queues stayed empty.
 */
#define CHUNK_NS 50000ULL
#define BETWEEN_CHUNKS 200000ULL
#define SETTLING 10000000ULL
#define MOST_QUEUES 4096
/* The rank of a rescued thread: before all levels. */
#define FIRST 126
/* The minimum run time of such a thread, in nanoseconds. The slice ends at the next clock tick. */
#define RESCUE_SLICE 2000000
/* The most further slices that it gets while it is in an RCU read-side section. */
#define MOST_PROLONGED 50
#define POLICY_IDLE 5
#define POLICY_EXT 7
/* Priorities of the kernel below this one are those of FIFO, RR and DEADLINE, own or inherited. */
#define PRIO_NORMAL 100
/*
 * Bits of the preemption count: a softirq or a hardware interrupt is being served. Linux 7.3 moved the bits of hardware interrupts, and uses the old
 * ones for another count. Older kernels never set the bits of 7.3.
 */
#define SOFTIRQ_SERVED 0x100
#define HARDIRQ 0x0f000000
#define HARDIRQ_BEFORE_7_3 0x000f0000

/* Constants that the loader sets, all of 64 bits. */
const volatile u64 nr_cpus = 1;
const volatile u64 nr_queues = 1;
/* A thread that has waited for this time runs for a tick regardless of its level, in nanoseconds; 0: never. */
const volatile u64 rescue_ns = 5 * SECOND;
/* The parent of a new process falls by a level, and the child runs first, as in Solaris. */
const volatile u64 parent_pays = 1;
/* Count the threads that begin to run while a better one waits for this CPU. */
const volatile u64 audit = 0;
/* For tests. 1: threads whose names begin with `stall` are never queued; 2: CPUs are kicked without end; 3: nothing is dispatched. */
const volatile u64 defect = 0;
/* Schedule only threads with the policy SCHED_EXT; all others run before them. */
const volatile u64 partial = 0;

/* A wake-up by a program does not preempt a thread that began to run within this many nanoseconds; 0: it does, as in Solaris. */
const volatile u64 parity_ns = 0;

/* 1: hardware interrupts have the bits of 7.3. BTF does not show this, so a clock tick, which is a hardware interrupt, detects it. */
u64 hardirq_moved = 0;

/* Two copies of the tables. CHOSEN_TABLES in `settings` selects the valid one. A writer fills the other one first. */
ARRAY(tables, struct rule_tables, 0);

/* Settings that change at run time. The loader has the same order. */
enum setting { CHOSEN_TABLES, SETTINGS };
ARRAY(settings, u64, BPF_F_MMAPABLE);

/*
 * State of a CPU: three cache lines of its own, against false sharing. It is written under the run-queue lock. src/classes.rs has the same order.
 */
struct cpu {
	/* The running level, or VACANT, CHOOSING, OUTRANKED. */
	s64 pri;
	/* The level that was chosen to run next: it is in the local queue, or on the way there. VACANT for none. */
	s64 chosen;
	/* The highest level that was queued for this CPU while a lower one was in its local queue or on the way there; VACANT for none. */
	s64 missed;
	/* The key of the thread in the local queue that is next in line, see is_next; NO_KEY for none. */
	u64 line;
	u8 online;
	/* 1: a second thread was put into the local queue, before the chosen one. */
	u8 crowded;
	/* 1: the slice of the running thread ends within a second. */
	u8 brief;
	/* Not 0: threads may wait in the queue of this CPU. */
	u32 bound;
	/* On a machine with one CPU. Not 0: threads may wait in the queue of its set. */
	u32 shared;
	/* The highest level that woke up since this CPU chose, and did not preempt because of `parity_ns`; VACANT for none. */
	s32 spared_by;
	/* The thread that began to run last, and its key and the time then. */
	u64 begun_tid;
	u64 begun_key;
	u64 begun_at;
	/* The key of the better thread that the last tick found, if this CPU has not chosen since; else NO_KEY. */
	u64 better;
	/* The number of the timer interrupt of that tick: see interrupts_here. */
	u64 better_in;
	/*
	 * Counts of threads that went to an idle CPU, preempted another thread, were queued for one CPU, were queued for a set, went on after their
	 * slice, came from another queue, paid for a child. Then: a better thread waited when one began to run; a better thread was found by a second
	 * timer interrupt before the CPU had chosen.
	 */
	u64 direct;
	u64 preempting;
	u64 queued_bound;
	u64 queued_shared;
	u64 kept;
	u64 stolen;
	u64 forks;
	u64 passed_over;
	u64 overdue;
	/*
	 * Counts: a thread was next in line on its CPU; a thread began while a better one had just been queued, and the CPU was preempted again; the
	 * CPU could not choose before a second timer interrupt because of a softirq; a wake-up did not preempt.
	 */
	u64 next;
	u64 again;
	u64 deferred;
	u64 spared;
};
ARRAY(cpus, struct cpu, BPF_F_MMAPABLE);

/* Of a CPU, set by the loader: its queue, and the next CPU with the same queue (a ring). */
struct place {
	u64 queue;
	u64 next_cpu;
};
ARRAY(places, struct place, 0);

/* Of a queue, set by the loader: the next queue of the same set (a ring). */
ARRAY(rings, u64, 0);

/* Figures by CPU and level, level -1 first. src/classes.rs has the same order. */
struct level {
	u64 ran_ns;
	u64 begun;
	u64 waited_ns;
	u64 waited_max_ns;
	u64 expired;
	u64 boosted;
	u64 surrendered;
	u64 rescued;
};
ARRAY(levels, struct level, BPF_F_MMAPABLE);

/* State of the timer. */
struct beat {
	u64 count;
	u64 chunks;
	u64 chunk_max_ns;
	u64 moved;
	/*
	 * Each queue is a pair. Bit 0 selects the young queue of each pair, which receives threads. At a beat the two swap, and the timer moves each thread
	 * of the old queue to its new position in the young one. MIXED: both may have threads.
	 */
	u64 generations;
	/* Since the beat: the number of passes over all queues, 0 between beats; the next queue of this pass; the threads found in this pass. */
	u64 round;
	u64 queue;
	u64 met;
	/* The time of the last beat, in units of arrivals; the next beat and the end of the chunk, on CLOCK_MONOTONIC. */
	u64 at;
	u64 due;
	u64 until;
	u64 unused[5];
};
#define YOUNG(generations) ((generations) & 1)
#define OLD(generations) (~(generations) & 1)
#define MIXED 2ULL
ARRAY(beat_words, struct beat, BPF_F_MMAPABLE);

struct timer_value {
	struct bpf_timer timer;
};
ARRAY(timers, struct timer_value, 0);

/* Why the scheduler ended. Texts are padded to whole words. */
struct ending {
	u64 kind;
	s64 code;
	char reason[128];
	char message[256];
	u64 backtrace_len;
	u64 backtrace[16];
	char dump[8192];
};
ARRAY(endings, struct ending, 0);

struct task {
	struct rule_thread st;
	/* `sum_exec_runtime` up to which it was charged. */
	u64 exec;
	/* The last beat that it took into account. */
	u64 beat;
	/* When it was last put into a queue. */
	u64 queued_at;
	/* The first of its pair of queues; 0 for the local queue of a CPU. */
	u64 dsq;
	/* The end of its level (enum rule_end) for the next enqueue, if already decided; else UNDECIDED. */
	u32 end;
	/* 1: new, and has not run yet. */
	u32 fresh;
	/* 1: the wake-up rules were applied; 2: and an idle CPU was found. */
	u32 woken;
	s32 nice;
	/* IA. 1: no command has set the mode, so the terminal decides. */
	u32 by_terminal;
	/* 1: it has an entry in `wishes`, because a command set the class of this thread or of an ancestor. */
	u32 wished;
	/* A pending request: see REQUEST_*; 0 for none. */
	u64 request;
	u64 request_quantum;
	/* Not 0: it is rescued, and runs before all others. 1: it has not run since; else `sum_exec_runtime` at which the rescue ends. */
	u64 rescued;
	/* How often its rescue was prolonged. */
	u64 prolonged;
	/* Its group, and `sum_exec_runtime` up to which the group was charged: see groups.bpf.h. */
	u64 group;
	u64 paid;
};
#define UNDECIDED 2
TASK_STORAGE(tasks, struct task);

/* A request: a class and its parameters, one byte each; 64 is added to user priorities. */
#define REQUEST_SET 1ULL
#define REQUEST_PAY 2ULL
#define REQUEST_NICE 3ULL
#define REQUEST_KIND(word) ((word) & 0xff)
#define REQUEST_CLASS(word) ((int)((word) >> 8 & 0xff))
#define REQUEST_LIMIT(word) ((int)((word) >> 16 & 0xff) - 64)
#define REQUEST_UPRI(word) ((int)((word) >> 24 & 0xff) - 64)
#define REQUEST_FOREGROUND(word) ((int)((word) >> 32 & 0xff))
/* IA: the terminal does not decide. Only in wishes. */
#define REQUEST_BY_COMMAND(word) ((word) >> 40 & 1)

/* Nanoseconds of a clock tick (USER_HZ), the unit of a thread's start time in /proc. */
#define USER_TICK 10000000ULL

/*
 * The requests for threads, by thread ID. They also hold for a scheduler that is loaded later. Children inherit them. A command writes the entry as
 * well, so that no request is lost when schedd is killed before the thread has applied it.
 */
struct wish {
	/* Start time of the thread, in clock ticks since boot, as in /proc. */
	u64 start;
	u64 request;
	u64 request_quantum;
};
MAP(HASH, wishes, u64, struct wish, 65536);

static __always_inline struct task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static __always_inline struct cpu *cpu_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

/* The CPU that a thread belongs to. */
static __always_inline s32 home_of(const struct task_struct *p)
{
	return nr_cpus == 1 ? 0 : scx_bpf_task_cpu(p);
}

/*
 * The number of timer interrupts of this CPU. A late interrupt, as on an emulated CPU, causes several ticks at once, between which the CPU cannot
 * choose.
 */
static __always_inline u64 interrupts_here(void)
{
	struct hrtimer_cpu_base___x *base;

	if (!bpf_ksym_exists(&hrtimer_bases) || !bpf_core_field_exists(struct hrtimer_cpu_base___x, nr_events))
		return bpf_ktime_get_ns();
	base = bpf_this_cpu_ptr(&hrtimer_bases);
	return base->nr_events;
}

/* The preemption count of this CPU. 0 where it is not a per-CPU variable (arm64). */
static __always_inline u32 preempt_count(void)
{
	int *count;

	if (!bpf_ksym_exists(&__preempt_count))
		return 0;
	count = bpf_this_cpu_ptr(&__preempt_count);
	return *count;
}

/* Whether this interrupt arrived during a softirq, which the kernel completes before the CPU can choose. */
static __always_inline bool is_in_deferred_work(void)
{
	return preempt_count() & SOFTIRQ_SERVED;
}

/*
 * Whether a program causes this wake-up, and not an interrupt or a kernel thread, which may do deferred work of an interrupt. False where that is
 * unknown.
 */
static __always_inline bool is_woken_by_program(void)
{
	const u32 interrupts = SOFTIRQ_SERVED | HARDIRQ | (hardirq_moved ? 0 : HARDIRQ_BEFORE_7_3);

	if (!bpf_ksym_exists(&__preempt_count) || preempt_count() & interrupts)
		return false;
	return !(bpf_get_current_task_btf()->flags & PF_KTHREAD);
}

static __always_inline struct level *level_here(int pri)
{
	u32 cpu = nr_cpus == 1 ? 0 : bpf_get_smp_processor_id(), at = cpu * LEVELS + rule_clamp(ROW_OF(pri), 0, LEVELS - 1);

	return bpf_map_lookup_elem(&levels, &at);
}

#define COUNT_LEVEL(pri, what)                      \
	({                                          \
		struct level *l_ = level_here(pri); \
		if (l_)                             \
			l_->what++;                 \
	})

static __always_inline struct rule_tables *tables_now(void)
{
	u32 key = CHOSEN_TABLES, copy = 0;
	u64 *chosen = bpf_map_lookup_elem(&settings, &key);

	if (chosen)
		copy = *(volatile u64 *)chosen & 1;
	return bpf_map_lookup_elem(&tables, &copy);
}

static __always_inline struct beat *beat_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&beat_words, &zero);
}

static __always_inline u64 beats_now(void)
{
	struct beat *beat = beat_here();

	return beat ? *(volatile u64 *)&beat->count : 0;
}

/* One word, so that a reader gets the young queue and the MIXED bit in one read. */
static __always_inline u64 generations_now(void)
{
	struct beat *beat = beat_here();

	return beat ? *(volatile u64 *)&beat->generations : 0;
}

/*
 * The key of a thread in a queue: rule_key, with the arrival for both ends of a level. So the key alone gives the level and the start of the wait.
 * Threads in local queues have a key, too. An arrival is in units of 1,024 ns.
 */
#define ARRIVAL_SHIFT 10
#define ARRIVAL_MASK (RULE_KEY_BACK - 1)

static __always_inline u64 key_of(int pri, int end, u64 arrival)
{
	return end == RULE_BACK ? rule_key(pri, RULE_BACK, 0) + (arrival & ARRIVAL_MASK) : rule_key(pri, RULE_FRONT, arrival);
}

static __always_inline int key_end(u64 key)
{
	return key & RULE_KEY_BACK ? RULE_BACK : RULE_FRONT;
}

static __always_inline u64 key_arrival(u64 key)
{
	return key & RULE_KEY_BACK ? key & ARRIVAL_MASK : ARRIVAL_MASK - (key & ARRIVAL_MASK);
}

static __always_inline u64 queue_of(u32 cpu)
{
	struct place *place = nr_queues > 1 ? bpf_map_lookup_elem(&places, &cpu) : NULL;
	u64 queue = place ? place->queue : 0;

	return queue < nr_queues ? queue : 0;
}

/* The rule of waiting, which has loops. A function of its own, so that the verifier checks it once and not at each call. */
__noinline int wait_for(struct rule_thread *s, const struct rule_tables *t, u64 seconds, int queued)
{
	if (!s || !t)
		return 0;
	rule_wait(s, t, seconds, queued);
	return 0;
}

static __always_inline int nice_of(struct task_struct *p)
{
	return X(p)->static_prio - NICE_0;
}

/*
 * A slice begins and ends at a tick of the kernel. The cost of the context switch would make it end one tick late. So a rest of
 * this many nanoseconds counts as used up: less than the shortest tick, more than a context switch.
 */
#define REST 500000LL

/* The slice, as sched_ext expects it. */
static __always_inline u64 slice_of(const struct rule_thread *s)
{
	if (s->timeleft == RULE_FOREVER)
		return SCX_SLICE_INF;
	return s->timeleft > REST ? s->timeleft - REST : 1;
}

#endif
