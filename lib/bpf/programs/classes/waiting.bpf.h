/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Each second: threads that wait are moved to where their new level stands. */
#ifndef MILLPOND_CLASSES_WAITING_BPF_H
#define MILLPOND_CLASSES_WAITING_BPF_H

#include "state.bpf.h"

/*
 * Moves the threads of a queue whose level has changed by waiting, and those that wait for too long, as many as are left of the chunk. The counters stand
 * in the map: the verifier would go through each of their values.
 */
__noinline int update_queue(u64 dsq)
{
	struct rule_tables *t = tables_now();
	struct beat *beat = beat_here();
	u64 now = scx_bpf_now(), key;
	struct rule_thread then;
	struct task_struct *p;
	struct task *tc;

	if (!t || !beat || !scx_bpf_dsq_nr_queued(dsq))
		return 0;
	beat->place = 0;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (beat->place++ < beat->passed)
			continue;
		if (!beat->left)
			break;
		if (beat->left == CHUNK)
			beat->until = bpf_ktime_get_ns() + CHUNK_NS;
		/* The clock is looked at for every eighth thread; this one is still gone through. */
		if (!(--beat->left & 7) && bpf_ktime_get_ns() > beat->until)
			beat->left = 0;
		beat->passed++;
		tc = task_of(p);
		if (!tc || tc->rescued || !tc->queued_at)
			continue;
		if (rescue_ns && now > tc->queued_at && now - tc->queued_at > rescue_ns) {
			tc->rescued = 1;
			COUNT_LEVEL(tc->st.pri, rescued);
			key = key_of(FIRST, RULE_BACK, 0);
		} else {
			if (tc->beat == beat->count)
				continue;
			then = tc->st;
			wait_for(&then, t, beat->count - tc->beat, 1);
			if (then.pri == rule_key_pri(X(p)->scx.dsq_vtime))
				continue;
			key = key_of(then.pri, rule_end_of(&then, RULE_BACK), beat->at);
		}
		beat->moved++;
		scx_bpf_dsq_move_set_vtime(&___it, key);
		scx_bpf_dsq_move_vtime(&___it, p, dsq, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* The queues are numbered: those of sets, then those of CPUs. */
static int on_timer(void *map, int *key, struct bpf_timer *timer)
{
	u64 from = bpf_ktime_get_ns(), took;
	struct beat *beat = beat_here();
	int i;

	if (!beat)
		return 0;
	if (!beat->queue && !beat->passed) {
		beat->at = scx_bpf_now() >> ARRIVAL_SHIFT;
		beat->count++;
	}
	beat->left = CHUNK;
	bpf_for(i, 0, MOST_QUEUES) {
		if (beat->queue >= nr_queues + nr_cpus)
			break;
		update_queue(beat->queue < nr_queues ? QUEUE_DSQ(beat->queue) : CPU_DSQ(beat->queue - nr_queues));
		if (!beat->left)
			break;
		beat->queue++;
		beat->passed = 0;
	}
	beat->chunks++;
	took = bpf_ktime_get_ns() - from;
	if (took > beat->chunk_max_ns)
		beat->chunk_max_ns = took;
	if (beat->queue >= nr_queues + nr_cpus) {
		beat->queue = beat->passed = 0;
		bpf_timer_start(timer, SECOND, 0);
	} else {
		bpf_timer_start(timer, BETWEEN_CHUNKS, 0);
	}
	return 0;
}

#endif
