/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Applies the rules to the state of a thread at each kernel event, and counts. */
#ifndef MILLPOND_CLASSES_EVENTS_BPF_H
#define MILLPOND_CLASSES_EVENTS_BPF_H

#include "groups.bpf.h"

static __always_inline bool is_background(struct task_struct *p, const struct task *tc)
{
	return X(p)->policy == POLICY_IDLE || is_in_background(tc);
}

/* The default class of a thread. */
static __always_inline void classify(struct task_struct *p, struct task *tc)
{
	struct rule_tables *t = tables_now();
	int nice = nice_of(p), upri = rule_nice(nice);

	if (!t)
		return;
	tc->nice = nice;
	if (X(p)->flags & PF_KTHREAD)
		rule_enter(&tc->st, t, RULE_SYS, 0, RULE_SYS_LOWEST - (nice < 0 ? nice : 0), 0, 0);
	else if (is_background(p, tc))
		rule_enter(&tc->st, t, RULE_IDLE, 0, 0, 0, 0);
	else
		rule_enter(&tc->st, t, RULE_TS, upri, upri, 0, 0);
}

/*
 * Charges the run time. 1: the slice has expired, and is refilled. It is refilled here because the thread may sleep before it is preempted, and would
 * then lose a level after each short run. Solaris refills it when the thread is preempted, and charges whole ticks.
 */
static __always_inline int charge(struct task_struct *p, struct task *tc)
{
	u64 now = X(p)->se.sum_exec_runtime, ran = now - tc->exec;
	int pri = tc->st.pri;
	struct rule_tables *t;
	struct level *level;

	tc->exec = now;
	if (!ran)
		return 0;
	pay(p, tc);
	level = level_here(pri);
	if (level)
		level->ran_ns += ran;
	/* The usual case of rule_charge, which needs no tables. A rest below REST counts as used up. */
	if (tc->st.timeleft > REST && ran < (u64)tc->st.timeleft - REST) {
		if (tc->st.timeleft != RULE_FOREVER)
			tc->st.timeleft -= ran;
		return 0;
	}
	t = tables_now();
	if (!t || !rule_charge(&tc->st, t, (s64)ran > tc->st.timeleft ? (s64)ran : tc->st.timeleft))
		return 0;
	tc->st.timeleft = rule_slice(&tc->st, t);
	COUNT_LEVEL(pri, expired);
	return 1;
}

/* Applies the seconds since the last update to a running thread. 1: its level or slice changed. */
static __always_inline int update_running(struct task *tc)
{
	u64 now = beats_now(), missed = now - tc->beat;
	struct rule_tables *t;

	if (!missed)
		return 0;
	tc->beat = now;
	if (missed > 1)
		rule_count(&tc->st, missed - 1);
	t = tables_now();
	if (!t || !rule_update_running(&tc->st, t))
		return 0;
	COUNT_LEVEL(tc->st.pri, boosted);
	return rule_boost_if_due(&tc->st, t);
}

/* Applies the seconds since the last update to a thread that waited. 1: its level changed. */
static __always_inline int update_waiting(struct task *tc, int queued)
{
	u64 now = beats_now(), missed = now - tc->beat;
	struct rule_tables *t;
	int pri = tc->st.pri;

	if (!missed)
		return 0;
	tc->beat = now;
	t = tables_now();
	if (!t)
		return 0;
	wait_for(&tc->st, t, missed, queued);
	if (tc->st.pri == pri)
		return 0;
	COUNT_LEVEL(pri, boosted);
	return 1;
}

/*
 * Whether a thread of IA is in the foreground: its process group is the foreground group of its terminal. The mode is unchanged where a command has
 * set it, for session leaders and for threads without a terminal.
 */
static __always_inline int is_foreground(struct task_struct *p, const struct task *tc)
{
	struct signal_struct___x *signal;
	struct tty_struct___x *tty;
	int before = tc->st.boost > 0;

	if (tc->st.klass != RULE_IA || !tc->by_terminal)
		return before;
	signal = X(p)->signal;
	tty = signal->tty;
	if (signal->leader || !tty)
		return before;
	return tty->ctrl.pgrp == signal->pids[PIDTYPE_PGID];
}

/* Updates the mode of IA from the terminal. 1: the level changed. */
static __always_inline int look_at_terminal(struct task_struct *p, struct task *tc, int place)
{
	int foreground = is_foreground(p, tc);
	struct rule_tables *t;

	if (foreground == (tc->st.boost > 0))
		return 0;
	t = tables_now();
	return t && rule_foreground(&tc->st, t, foreground, place) != RULE_STAYS;
}

/*
 * A command that changes the mode of a thread in IA fixes the mode. A command that enters the class in the foreground leaves the mode to the
 * terminal.
 */
static __always_inline void take_mode(struct task *tc, u64 word)
{
	if (REQUEST_CLASS(word) != RULE_IA || tc->st.klass != RULE_IA)
		tc->by_terminal = REQUEST_CLASS(word) == RULE_IA && REQUEST_FOREGROUND(word);
	else if (REQUEST_FOREGROUND(word) != (tc->st.boost > 0))
		tc->by_terminal = 0;
	if (REQUEST_BY_COMMAND(word))
		tc->by_terminal = 0;
}

/* Records the class of a thread for a scheduler that is loaded later. */
static __noinline void remember(struct task_struct *p, struct task *tc)
{
	u64 tid = X(p)->pid;
	struct wish wish = {
		.start = X(p)->start_boottime / USER_TICK,
		.request = REQUEST_SET | (u64)tc->st.klass << 8 | (u64)(tc->st.uprilim + 64) << 16 | (u64)(tc->st.upri + 64) << 24 |
			   (u64)(tc->st.boost > 0) << 32 | (u64)(tc->st.klass == RULE_IA && !tc->by_terminal) << 40,
		.request_quantum = tc->st.quantum,
	};

	if (!rule_is_ts(&tc->st) && tc->st.klass != RULE_FX)
		return;
	tc->wished = 1;
	bpf_map_update_elem(&wishes, &tid, &wish, BPF_ANY);
}

/* Applies a pending request. 1: the request was applied. */
static __always_inline int take_request(struct task_struct *p, struct task *tc, int place)
{
	u64 word = *(volatile u64 *)&tc->request;
	int nice, upri, foreground = 0, klass = tc->st.klass;
	struct rule_tables *t;

	if (!word)
		return 0;
	t = tables_now();
	if (!t)
		return 0;
	tc->request = 0;
	switch (REQUEST_KIND(word)) {
	case REQUEST_PAY:
		if (!rule_fork_parent(&tc->st, t))
			return 0;
		tc->end = RULE_BACK;
		break;
	case REQUEST_NICE:
		nice = nice_of(p);
		upri = rule_nice(nice);
		tc->nice = nice;
		if (!rule_is_ts(&tc->st))
			return 0;
		foreground = tc->st.boost > 0;
		rule_set(&tc->st, t, klass, upri, upri, foreground, 0, place);
		if (tc->wished)
			remember(p, tc);
		break;
	default:
		take_mode(tc, word);
		rule_set(&tc->st, t, REQUEST_CLASS(word), REQUEST_LIMIT(word), REQUEST_UPRI(word), REQUEST_FOREGROUND(word),
			 *(volatile u64 *)&tc->request_quantum, place);
		remember(p, tc);
	}
	return 1;
}

/* Restores a request for this thread or an ancestor from before this scheduler was loaded, or from when the thread was SCHED_IDLE. */
static __always_inline void recall(struct task_struct *p, struct task *tc)
{
	u64 tid = X(p)->pid;
	struct wish *wish = bpf_map_lookup_elem(&wishes, &tid);

	if (!wish || wish->start != X(p)->start_boottime / USER_TICK)
		return;
	tc->request_quantum = wish->request_quantum;
	tc->request = wish->request;
	tc->wished = 1;
}

/* Updates the class after a change of SCHED_IDLE or of an idle group, or after a kernel thread became a program. */
static __always_inline void reclassify(struct task_struct *p, struct task *tc)
{
	int is_idle = is_background(p, tc), is_kernel = (X(p)->flags & PF_KTHREAD) != 0, was_idle = tc->st.klass == RULE_IDLE;

	if (is_kernel == (tc->st.klass == RULE_SYS) && (is_idle && !is_kernel) == was_idle)
		return;
	classify(p, tc);
	if (was_idle)
		recall(p, tc);
}

/* A thread becomes runnable. */
static __always_inline void wake(struct task_struct *p, struct task *tc)
{
	struct task_struct *parent;
	struct rule_tables *t;
	struct task *pc;

	tc->rescued = 0;
	reclassify(p, tc);
	charge(p, tc);
	update_waiting(tc, 0);
	take_request(p, tc, RULE_ASLEEP);
	look_at_terminal(p, tc, RULE_ASLEEP);
	/* The tick count is not known here, so a thread that slept for less than a tick goes to the back as well. */
	t = rule_has_not_waited(&tc->st) ? NULL : tables_now();
	tc->end = rule_wakeup(&tc->st, t, 0);
	if (!tc->fresh)
		return;
	tc->fresh = 0;
	if (tc->wished)
		remember(p, tc);
	parent = bpf_get_current_task_btf();
	pc = parent_pays && X(p)->tgid == X(p)->pid ? task_of(parent) : NULL;
	if (!pc || pc->request || pc->st.klass == RULE_SYS || pc->st.klass == RULE_IDLE)
		return;
	pc->request = REQUEST_PAY;
	scx_bpf_kick_cpu(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

/* The end of its level to which a preempted thread goes. */
static __always_inline u32 preempt(struct task *tc)
{
	struct rule_tables *t;

	/* The usual case of rule_preempt, which needs no tables. */
	if (!tc->st.back)
		return RULE_FRONT;
	t = tables_now();
	return t ? rule_preempt(&tc->st, t) : RULE_BACK;
}

/* The rank of a thread: its level, or FIRST while it is rescued. */
static __always_inline s32 rank_of(const struct task *tc)
{
	return tc->rescued ? FIRST : tc->st.pri;
}

/* The remaining slice of a thread, as sched_ext expects it. */
static __always_inline u64 rest_of(struct task_struct *p, const struct task *tc)
{
	return tc->rescued ? tc->rescued - X(p)->se.sum_exec_runtime : slice_of(&tc->st);
}

/*
 * Whether a rescued thread goes on after its slice. It does if it was preempted in an RCU read-side section: the kernel reports an RCU stall after 21
 * seconds. In a virtual machine whose clock goes on while its CPU is stopped, a slice can end before the thread has run at all.
 */
static __always_inline bool is_prolonged(struct task_struct *p, struct task *tc)
{
	/* This BPF program is in a read-side section itself, which counts for the thread that is being preempted. */
	const int own = p == bpf_get_current_task_btf();

	if (!bpf_core_field_exists(struct task_struct___x, rcu_read_lock_nesting) || X(p)->rcu_read_lock_nesting <= own)
		return false;
	return tc->prolonged++ < MOST_PROLONGED;
}

/*
 * The key of a thread that is queued at the decided end. A rescued thread keeps the first position until it has run its slice, even when a class of
 * the kernel took the CPU meanwhile: it may hold a lock that others wait for, and may be preempted again before it releases it.
 */
static __always_inline u64 place_of(struct task_struct *p, struct task *tc, u64 arrival)
{
	u64 ran = X(p)->se.sum_exec_runtime;

	if (tc->rescued > 1 && ran >= tc->rescued)
		tc->rescued = is_prolonged(p, tc) ? ran + RESCUE_SLICE : 0;
	return tc->rescued ? key_of(FIRST, RULE_BACK, 0) : key_of(tc->st.pri, tc->end, arrival);
}

#endif
