/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Timers: each second waiting threads move to the position of their new level; at the end of a period capped groups are refilled. */
#ifndef MILLPOND_CLASSES_WAITING_BPF_H
#define MILLPOND_CLASSES_WAITING_BPF_H

#include "events.bpf.h"
#include "queues.bpf.h"

/* The key in the young queue for a thread of the old one; 0: the same key. */
static __always_inline u64 new_key(struct task_struct *p, struct task *tc, const struct rule_tables *t, const struct beat *beat, u64 now)
{
	struct rule_thread then;

	if (!tc || !tc->queued_at || tc->rescued)
		return 0;
	if (tc->st.klass == RULE_IDLE && !is_background(p, tc)) {
		/* Its group is no longer idle. Its class changes when it runs. */
		tc->rescued = 1;
		return key_of(FIRST, RULE_BACK, 0);
	}
	if (rescue_ns && now > tc->queued_at && now - tc->queued_at > rescue_ns) {
		tc->rescued = 1;
		COUNT_LEVEL(tc->st.pri, rescued);
		return key_of(FIRST, RULE_BACK, 0);
	}
	/* A thread with a request is already at its new position. It applies the request when it runs, and seconds count from then on. */
	if (tc->beat == beat->count || (tc->request && REQUEST_KIND(tc->request) != REQUEST_PAY))
		return 0;
	then = tc->st;
	wait_for(&then, t, beat->count - tc->beat, 1);
	rule_foreground(&then, t, is_foreground(p, tc), RULE_QUEUED);
	if (then.pri == rule_key_pri(X(p)->scx.dsq_vtime))
		return 0;
	return key_of(then.pri, rule_end_of(&then, RULE_BACK), beat->at);
}

/* Moves the threads of the old queue to the young one, the best first. 0: the chunk ended before the last thread. */
__noinline int empty_old(u64 pair)
{
	struct rule_tables *t = tables_now();
	struct beat *beat = beat_here();
	u64 now = scx_bpf_now(), young, key;
	struct task_struct *p;
	bool in_time = true;
	s32 idle;

	if (!t || !beat)
		return 1;
	young = pair + YOUNG(beat->generations);
	if (!scx_bpf_dsq_nr_queued(pair + OLD(beat->generations)))
		return 1;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, pair + OLD(beat->generations), 0) {
		/* The clock is read for every fourth thread. */
		if (!(++beat->met & 3) && bpf_ktime_get_ns() > beat->until)
			in_time = false;
		key = new_key(p, task_of(p), t, beat, now);
		if (key) {
			beat->moved++;
			scx_bpf_dsq_move_set_vtime(&___it, key);
		}
		scx_bpf_dsq_move_vtime(&___it, p, young, 0);
		/* For a moment it was in neither queue, and a CPU may have gone idle. */
		idle = nr_cpus > 1 ? scx_bpf_pick_idle_cpu(X(p)->cpus_ptr, 0) : -1;
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		if (!in_time)
			break;
	}
	bpf_rcu_read_unlock();
	return in_time;
}

/* Empties the old queue of a pair by its number: pairs of sets first, then pairs of CPUs. 0: the chunk ended before the last thread. */
static __always_inline int empty_numbered(u64 queue)
{
	struct cpu *c;

	if (queue < nr_queues)
		return empty_old(QUEUE_DSQ(queue));
	c = cpu_of(queue - nr_queues);
	return c && c->bound ? empty_old(CPU_DSQ(queue - nr_queues)) : 1;
}

/* Counts a second, or several on a machine that was busy or stopped. */
static __always_inline void count_seconds(struct beat *beat, u64 now)
{
	u64 seconds = now > beat->due ? (now - beat->due) / SECOND + 1 : 1;

	beat->due += seconds * SECOND;
	beat->at = scx_bpf_now() >> ARRIVAL_SHIFT;
	beat->count += seconds;
	*(volatile u64 *)&beat->generations = YOUNG(~beat->generations) | MIXED;
	beat->round = 1;
	beat->queue = beat->met = 0;
}

/* Ends a pass over all old queues. Returns the delay until the next run of the timer. */
static __always_inline u64 end_round(struct beat *beat)
{
	u64 now;

	/* A thread that was being put into the old queue during the swap arrives a little later. */
	if (beat->met || beat->round == 1) {
		beat->round++;
		beat->queue = beat->met = 0;
		return SETTLING;
	}
	__sync_fetch_and_and(&beat->generations, ~MIXED);
	beat->round = 0;
	now = bpf_ktime_get_ns();
	return beat->due > now ? beat->due - now : 1;
}

static int on_timer(void *map, int *key, struct bpf_timer *timer)
{
	u64 from = bpf_ktime_get_ns(), took;
	struct beat *beat = beat_here();
	int i;

	if (!beat)
		return 0;
	if (!beat->round)
		count_seconds(beat, from);
	beat->until = from + CHUNK_NS;
	bpf_for(i, 0, MOST_QUEUES) {
		if (beat->queue >= nr_queues + nr_cpus || (!(~i & 15) && bpf_ktime_get_ns() > beat->until))
			break;
		if (!empty_numbered(beat->queue))
			break;
		beat->queue++;
	}
	beat->chunks++;
	bpf_timer_start(timer, beat->queue < nr_queues + nr_cpus ? BETWEEN_CHUNKS : end_round(beat), 0);
	took = bpf_ktime_get_ns() - from;
	if (took > beat->chunk_max_ns)
		beat->chunk_max_ns = took;
	return 0;
}

/* Moves a thread from the queue of its group to its normal queue. */
static __always_inline void release(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct task *tc, u64 key)
{
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct cpu *c = cpu_of(cpu);
	bool bound = nr_cpus > 1 && is_bound(p);

	if (!c)
		return;
	if (key)
		scx_bpf_dsq_move_set_vtime(it, key);
	tc->dsq = bound ? CPU_DSQ(cpu) : QUEUE_DSQ(queue_of(cpu));
	scx_bpf_dsq_move_vtime(it, p, tc->dsq + YOUNG(generations_now()), 0);
	if (bound)
		__sync_lock_test_and_set(&c->bound, 1);
	else
		c->shared = 1;
	if (bound || nr_cpus == 1)
		idle = scx_bpf_test_and_clear_cpu_idle(cpu) ? cpu : -1;
	else
		idle = scx_bpf_pick_idle_cpu(X(p)->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Releases the threads of a group that has time left, and rescued threads. 0: there are more. */
__noinline int release_parked(u64 number, u64 until)
{
	struct rule_tables *t = tables_now();
	struct beat *beat = beat_here();
	struct task_struct *p;
	u64 now = scx_bpf_now();
	int done = 1;

	if (!t || !beat || !scx_bpf_dsq_nr_queued(PARKED_DSQ(number)))
		return 1;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, PARKED_DSQ(number), 0) {
		struct task *tc = task_of(p);
		u64 key = new_key(p, tc, t, beat, now);

		if (tc && !waits_for_group(p, tc))
			release(&___it, p, tc, key);
		if (bpf_ktime_get_ns() > until) {
			done = 0;
			break;
		}
	}
	bpf_rcu_read_unlock();
	return done;
}

/* Adds the quota of the periods that have ended. */
static __always_inline void refill(struct group *g, u64 now)
{
	u64 periods = g->due && now > g->due ? (now - g->due) / g->period + 1 : 1, more;
	s64 left = g->left, most = g->quota + g->burst;

	if (periods > 1000)
		periods = 1000;
	more = periods * g->quota;
	if (left + (s64)more > most)
		more = most > left ? most - left : 0;
	__sync_fetch_and_add(&g->left, more);
	/* Periods of the same length end at the same time. */
	g->due = now - now % g->period + g->period;
}

static int on_group_timer(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = bpf_ktime_get_ns(), next = now + SECOND, number, until = now + CHUNK_NS;
	bool any = false;

	bpf_for(number, 1, MOST_GROUPS) {
		struct group *g = group_of(number);

		if (number >= group_end)
			break;
		if (!g || !g->is_used)
			continue;
		if (g->quota && g->period) {
			any = true;
			if (now >= g->due)
				refill(g, now);
			if (g->due < next)
				next = g->due;
		}
		if (!release_parked(number, until))
			next = now + BETWEEN_CHUNKS;
	}
	if (any || next < now + SECOND)
		bpf_timer_start(timer, next > now ? next - now : 1, 0);
	return 0;
}

#endif
