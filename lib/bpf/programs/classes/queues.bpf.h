/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Queues of waiting threads: find the first thread of a queue, and move threads out. */
#ifndef MILLPOND_CLASSES_QUEUES_BPF_H
#define MILLPOND_CLASSES_QUEUES_BPF_H

#include "groups.bpf.h"

/* The key of the first thread of a queue that may run on a CPU. */
__noinline u64 first_key(u64 dsq, s32 cpu)
{
	struct task_struct *p;
	u64 key = NO_KEY;
	int looked = 0;

	if (CAN_PEEK) {
		/* Peeking does not take the lock of the queue. */
		p = scx_bpf_dsq_peek(dsq);
		if (!p)
			return key;
		if (bpf_cpumask_test_cpu(cpu, X(p)->cpus_ptr))
			return X(p)->scx.dsq_vtime;
	} else if (!scx_bpf_dsq_nr_queued(dsq)) {
		return key;
	}
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (bpf_cpumask_test_cpu(cpu, X(p)->cpus_ptr)) {
			key = X(p)->scx.dsq_vtime;
			break;
		}
		if (++looked >= LOOKED_AT)
			break;
	}
	return key;
}

/* The key of the best thread in a pair of queues that may run on a CPU. */
static __always_inline u64 best_key(u64 pair, s32 cpu, u64 generations)
{
	u64 key = first_key(pair + YOUNG(generations), cpu), other;

	/* A thread can enter the old queue late: enqueue read the generation before the beat. */
	if (!(generations & MIXED) && key != NO_KEY)
		return key;
	other = first_key(pair + OLD(generations), cpu);
	return other < key ? other : key;
}

/* Moves the best thread of a pair of queues to the local queue. */
static __always_inline bool take(u64 pair, s32 cpu, u64 generations)
{
	u64 first = pair + YOUNG(generations), second = pair + OLD(generations);

	if (generations & MIXED && first_key(second, cpu) < first_key(first, cpu)) {
		first = second;
		second = pair + YOUNG(generations);
	}
	return dsq_move_to_local(first) || dsq_move_to_local(second);
}

static __always_inline bool is_empty(u64 pair)
{
	return !scx_bpf_dsq_nr_queued(pair) && !scx_bpf_dsq_nr_queued(pair + 1);
}

static __always_inline s64 score_of(struct cpu *c)
{
	return c->pri > c->chosen ? c->pri : c->chosen;
}

/*
 * A waking thread does not preempt threads that began to run after this moment. 0: it may preempt all of them. Kernel threads, and threads that an
 * interrupt wakes, have 0.
 */
static __always_inline u64 sparing_from(const struct task *tc)
{
	return parity_ns && tc->st.klass != RULE_SYS && is_woken_by_program() ? scx_bpf_now() - parity_ns : 0;
}

/*
 * Whether the running thread of a CPU is spared. SCHED_IDLE never is, nor a thread whose slice lasts longer than a second: no tick may end it where
 * the kernel stops the clock tick. A thread that is only chosen has not begun.
 */
static __always_inline bool is_spared(const struct cpu *c, u64 from)
{
	return from && c->brief && c->pri > RULE_BACKGROUND && c->chosen == VACANT && (s64)(c->begun_at - from) > 0;
}

/* The CPU whose running or chosen level is the lowest below `pri` and not spared. The search starts at `from`. -1: no such CPU. */
static __always_inline s32 outranked_cpu(struct task_struct *p, s32 pri, s32 from, u64 sparing)
{
	s64 lowest = pri;
	u32 cpu = from;
	s32 best = -1;
	int i;

	bpf_for(i, 0, COMPARED_CPUS) {
		struct place *place = bpf_map_lookup_elem(&places, &cpu);
		struct cpu *c = cpu_of(cpu);

		if (!place || !c)
			break;
		if (c->online && score_of(c) < lowest && !is_spared(c, sparing) && bpf_cpumask_test_cpu(cpu, X(p)->cpus_ptr)) {
			lowest = score_of(c);
			best = cpu;
			if (lowest <= RULE_BACKGROUND)
				break;
		}
		cpu = place->next_cpu;
		if (cpu == (u32)from)
			break;
	}
	return best;
}

/* Inserts a thread into a local queue. The key does not order that queue; `running` reads it. */
static __always_inline void insert_local(struct task_struct *p, struct task *tc, u64 dsq, u64 key, u64 flags)
{
	tc->dsq = 0;
	set_vtime(p, key);
	dsq_insert(p, dsq, slice_of(&tc->st), flags);
}

/*
 * Whether a thread may run on its CPU only: it is bound, or it has disabled migration. For a thread that is just leaving its CPU, only the counter
 * shows the latter. For the current thread this BPF program itself has added one.
 */
static __always_inline bool is_bound(struct task_struct *p)
{
	return X(p)->nr_cpus_allowed == 1 || (u64)X(p)->cpus_ptr != (u64)&X(p)->cpus_mask ||
	       X(p)->migration_disabled > (p == bpf_get_current_task_btf());
}

/* Takes a thread for this CPU from another queue of the set. */
static __always_inline bool steal(struct cpu *c, s32 cpu, u64 own, u64 generations)
{
	u32 queue = own;
	int i;

	bpf_for(i, 0, STOLEN_FROM) {
		u64 *next = bpf_map_lookup_elem(&rings, &queue);

		if (!next || *next == own || *next >= nr_queues)
			return false;
		queue = *next;
		if (take(QUEUE_DSQ((u64)queue), cpu, generations)) {
			c->stolen++;
			return true;
		}
	}
	return false;
}

/*
 * Moves the threads of a pair of queues that belong to a CPU to its local queue. The old queue comes first, because threads only move from old to
 * young. The young queue is read twice, because a moving thread is in neither.
 */
__noinline int drain(u64 pair, s32 cpu)
{
	u64 generations = generations_now();
	struct task_struct *p;
	int i;

	bpf_rcu_read_lock();
	bpf_for(i, 0, 3)
		bpf_for_each(scx_dsq, p, pair + (i ? YOUNG(generations) : OLD(generations)), 0)
			if (scx_bpf_task_cpu(p) == cpu)
				scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	bpf_rcu_read_unlock();
	return 0;
}

/* The same for threads that wait for their group. Each returns to the group's queue from its new CPU. */
__noinline int drain_parked(u64 number, s32 cpu)
{
	struct group *g = group_of(number);
	struct task_struct *p;

	if (!g || !g->is_used)
		return 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, PARKED_DSQ(number), 0)
		if (scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	bpf_rcu_read_unlock();
	return 0;
}

#endif
