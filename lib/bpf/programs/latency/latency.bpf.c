/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Timestamps of one thread's wake-up, from its timer to its CPU, and a log of what else ran on that CPU: the last events in a ring, and
 * sums by name. The thread itself reads the timestamps from mapped memory in user mode.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The observed CPU. */
const volatile __u64 processor = 0;

/* Kinds of events: the upper half of an event's second word; the lower half has the number. src/latency.rs has the same. */
enum what { TASK = 1, IRQ_IN, IRQ_OUT, SOFT_IN, SOFT_OUT, VECTOR_IN, VECTOR_OUT };
enum vector { LOCAL_TIMER, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK, OTHER_IPI };

#define MOMENTS 1024

struct moment {
	__u64 at;
	__u64 what;
	__u64 name[2];
};

/* Words, in the order that src/latency.rs reads. */
struct state {
	__u64 irq;
	__u64 woken;
	__u64 on_cpu;
	__u64 phase;
	__u64 thread;
	__u64 next;
	__u64 since;
	__u64 irq_since;
	__u64 soft_since;
	__u64 vector_since;
	/* Activities without room among the sums. */
	__u64 beyond_times;
	__u64 beyond_ns;
	__u64 spare[4];
	struct moment moments[MOMENTS];
};

ARRAY(states, struct state, BPF_F_MMAPABLE);

/* Key 0: the thread's id. */
MAP(HASH, threads, __u64, __u64, 1);

struct sum {
	__u64 times;
	__u64 ns;
	__u64 name[2];
};

/* By activity. */
MAP(HASH, sums, __u64, struct sum, 4096);

static __always_inline struct state *state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&states, &zero);
}

static __always_inline bool is_here(void)
{
	return bpf_get_smp_processor_id() == processor;
}

static __always_inline __u64 word(enum what what, __u32 number)
{
	return (__u64)what << 32 | number;
}

/* Logs an event. An interrupt may log another one meanwhile: each takes its own slot. */
static __always_inline void note(struct state *s, __u64 now, __u64 what, const char *name)
{
	struct moment *moment = &s->moments[__sync_fetch_and_add(&s->next, 1) & (MOMENTS - 1)];

	moment->at = now;
	moment->what = what;
	moment->name[0] = 0;
	moment->name[1] = 0;
	if (name)
		bpf_probe_read_kernel(moment->name, sizeof(moment->name), name);
}

static __always_inline void add(__u64 what, __u64 ns, const char *name)
{
	struct sum fresh = { .times = 1, .ns = ns };
	struct sum *sum = bpf_map_lookup_elem(&sums, &what);

	if (sum) {
		sum->times += 1;
		sum->ns += ns;
		return;
	}
	if (name)
		bpf_probe_read_kernel(fresh.name, sizeof(fresh.name), name);
	if (bpf_map_update_elem(&sums, &what, &fresh, BPF_NOEXIST)) {
		struct state *s = state();

		if (s) {
			s->beyond_times += 1;
			s->beyond_ns += ns;
		}
	}
}

/* Arguments: timer, now. For a sleeper's timer, the task follows the timer. */
TRACEPOINT(hrtimer_expire_entry)
{
	struct state *s = state();
	struct hrtimer_sleeper *sleeper = (void *)ctx->args[0];

	if (!s || !s->thread || (__u64)BPF_CORE_READ(sleeper, task) != s->thread)
		return 0;
	s->irq = bpf_ktime_get_ns();
	s->phase = 1;
	return 0;
}

/* Argument: task. */
TRACEPOINT(sched_wakeup)
{
	struct state *s = state();

	if (!s || ctx->args[0] != s->thread || s->phase != 1)
		return 0;
	s->woken = bpf_ktime_get_ns();
	s->phase = 2;
	return 0;
}

static __always_inline void learn(struct state *s, struct task_struct *task, __u32 pid)
{
	__u64 zero = 0;
	__u64 *wanted = s->thread ? 0 : bpf_map_lookup_elem(&threads, &zero);

	if (wanted && *wanted == pid)
		s->thread = (__u64)task;
}

/* Arguments: preempted, previous task, next task, state of the previous one. */
TRACEPOINT(sched_switch)
{
	struct task_struct *previous = (void *)ctx->args[1];
	struct task_struct *next = (void *)ctx->args[2];
	struct state *s = state();
	__u64 now;
	__u32 pid;

	if (!s || !is_here())
		return 0;
	now = bpf_ktime_get_ns();
	pid = BPF_CORE_READ(next, pid);
	learn(s, next, pid);
	if (s->phase == 2 && (__u64)next == s->thread) {
		s->on_cpu = now;
		s->phase = 3;
	}
	note(s, now, word(TASK, pid), next->comm);
	if (s->since)
		add(word(TASK, BPF_CORE_READ(previous, pid)), now - s->since, previous->comm);
	s->since = now;
	return 0;
}

static __always_inline int begins(enum what what, __u32 number, const char *name)
{
	struct state *s = state();
	__u64 now;

	if (!s || !is_here())
		return 0;
	now = bpf_ktime_get_ns();
	note(s, now, word(what, number), name);
	if (what == IRQ_IN)
		s->irq_since = now;
	else if (what == SOFT_IN)
		s->soft_since = now;
	else
		s->vector_since = now;
	return 0;
}

static __always_inline int ends(enum what what, __u32 number, const char *name)
{
	struct state *s = state();
	__u64 now, since;

	if (!s || !is_here())
		return 0;
	now = bpf_ktime_get_ns();
	note(s, now, word(what, number), name);
	since = what == IRQ_OUT ? s->irq_since : what == SOFT_OUT ? s->soft_since : s->vector_since;
	if (since)
		add(word(what, number), now - since, name);
	return 0;
}

/* Arguments: number, action. */
TRACEPOINT(irq_handler_entry)
{
	return begins(IRQ_IN, ctx->args[0], BPF_CORE_READ((struct irqaction *)ctx->args[1], name));
}

TRACEPOINT(irq_handler_exit)
{
	return ends(IRQ_OUT, ctx->args[0], BPF_CORE_READ((struct irqaction *)ctx->args[1], name));
}

TRACEPOINT(softirq_entry)
{
	return begins(SOFT_IN, ctx->args[0], 0);
}

TRACEPOINT(softirq_exit)
{
	return ends(SOFT_OUT, ctx->args[0], 0);
}

#define VECTOR(tracepoint, number)                                     \
	TRACEPOINT(tracepoint##_entry)                             \
	{                                                              \
		return begins(VECTOR_IN, number, 0);                   \
	}                                                              \
	TRACEPOINT(tracepoint##_exit)                              \
	{                                                              \
		return ends(VECTOR_OUT, number, 0);                    \
	}

VECTOR(local_timer, LOCAL_TIMER)
VECTOR(reschedule, RESCHEDULE)
VECTOR(call_function, CALL_FUNCTION)
VECTOR(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR(irq_work, IRQ_WORK)
VECTOR(ipi, OTHER_IPI)
