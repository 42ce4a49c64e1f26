/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Queries and changes of threads by commands. */
#ifndef MILLPOND_CLASSES_QUESTIONS_BPF_H
#define MILLPOND_CLASSES_QUESTIONS_BPF_H

#include "state.bpf.h"

/* A query about a thread, and the answer. src/classes.rs has the same order. */
struct question {
	u64 tid;
	/* 0: read the state; 1: set the request first. */
	u64 set;
	u64 request;
	u64 request_quantum;
	u64 found;
	u64 dsq;
	/* The CPU that it runs on, plus 1; 0 for none. */
	u64 on_cpu;
	u64 ran_ns;
	s64 timeleft;
	s64 quantum;
	u64 dispwait;
	s64 klass, cpupri, upri, uprilim, boost, pri;
};

/* Moves a waiting thread to the position that its request will give it. */
static __always_inline void move_queued(struct task_struct *p, struct task *tc, const struct rule_thread *then)
{
	struct task_struct *q;
	struct beat *beat = beat_here();
	u64 pair = tc->dsq, generations;
	int i;

	if (!beat || !pair || tc->rescued)
		return;
	generations = generations_now();
	/* The old queue first: the timer moves it from there to the young one. */
	bpf_for(i, 0, 2)
		bpf_for_each(scx_dsq, q, pair + (i ? YOUNG(generations) : OLD(generations)), 0) {
			if (X(q)->pid != X(p)->pid)
				continue;
			scx_bpf_dsq_move_set_vtime(&___it, key_of(then->pri, rule_end_of(then, RULE_BACK), beat->at));
			scx_bpf_dsq_move_vtime(&___it, q, pair + YOUNG(generations), 0);
			break;
		}
}

SEC("syscall")
int ask(struct question *q)
{
	struct rule_tables *t = tables_now();
	struct task_struct *p;
	struct rule_thread then;
	struct task *tc;
	u64 word, quantum, missed, now;
	bool running, queued;
	s32 cpu;

	p = bpf_task_from_pid(q->tid);
	if (!p)
		return 0;
	tc = bpf_task_storage_get(&tasks, p, 0, 0);
	if (!tc || !t) {
		bpf_task_release(p);
		return 0;
	}
	bpf_rcu_read_lock();
	cpu = scx_bpf_task_cpu(p);
	running = scx_bpf_task_running(p);
	queued = !running && X(p)->scx.flags & SCX_TASK_QUEUED;
	if (q->set) {
		*(volatile u64 *)&tc->request_quantum = q->request_quantum;
		*(volatile u64 *)&tc->request = q->request;
	}
	/* The state that it will have once it has applied its request and the seconds that have passed. */
	then = tc->st;
	now = X(p)->se.sum_exec_runtime;
	missed = beats_now() - tc->beat;
	if (!running)
		wait_for(&then, t, missed, queued);
	word = *(volatile u64 *)&tc->request;
	quantum = *(volatile u64 *)&tc->request_quantum;
	if (REQUEST_KIND(word) == REQUEST_SET)
		rule_set(&then, t, REQUEST_CLASS(word), REQUEST_LIMIT(word), REQUEST_UPRI(word), REQUEST_FOREGROUND(word), quantum,
			 running ? RULE_RUNNING : queued ? RULE_QUEUED : RULE_ASLEEP);
	if (q->set && running)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	else if (q->set && queued)
		move_queued(p, tc, &then);
	q->found = 1;
	q->dsq = queued ? tc->dsq : 0;
	q->on_cpu = running ? cpu + 1 : 0;
	q->ran_ns = now;
	q->timeleft = then.timeleft == RULE_FOREVER ? then.timeleft : then.timeleft - (s64)(now - tc->exec);
	q->quantum = then.quantum;
	q->dispwait = then.dispwait;
	q->klass = then.klass;
	q->cpupri = then.cpupri;
	q->upri = then.upri;
	q->uprilim = then.uprilim;
	q->boost = then.boost;
	q->pri = then.pri;
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return 0;
}

#endif
