/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * A sched_ext scheduler: the Solaris classes TS, IA and FX with dispatch tables that can change at run time, SYS for kernel threads, and
 * SCHED_IDLE below all of them. RT and DEADLINE stay with the kernel, which runs them first.
 *
 * rules.h has the effect of each event on a thread; it does not depend on the kernel. This file has the callbacks that apply the rules, and the
 * queues.
 *
 *   wake-up ─▶ select_cpu ── an idle CPU, else the CPU that runs the lowest level
 *                  ▼
 *              enqueue ───── its cgroup has used up its quota ──────────▶ the queue of that cgroup, until its next period
 *                  │         that CPU is idle, and nothing waits for it ─▶ its local queue
 *                  │         better than what it runs ───────────────────▶ its local queue, which preempts
 *                  │         may run on one CPU only ────────────────────▶ the queue of the CPU
 *                  └─────────────────────────────────────────────────────▶ the queue of its processor set
 *   a CPU is free ─▶ dispatch: the best of the last thread, the CPU's queue and that of its set; if both are empty, another queue of the set
 *
 * A queue is ordered by a key: level first, then arrival. The loader decides the number of queues of a set (`places`): one for each last-level cache
 * of a large set, else one. "Better" means a higher level.
 *
 * Time. The run time of a thread is the growth of its `sum_exec_runtime` since the last charge. That counter does not move while the thread does not
 * run. So a thread is charged at its next event: preemption, wake-up or exit. Going to sleep needs no action. The run time of a level (`ran_ns`)
 * therefore lacks the last run of each sleeping thread until that thread wakes up.
 *
 * Seconds. A timer counts them (`beats`). A thread takes them into account at its next event: a sleeping thread at its wake-up, a running thread at
 * the next tick, a waiting thread when it is taken from its queue. But waiting changes the position in the queue at once. So each queue is a pair.
 * After each second the empty queue becomes the young one, which receives threads from then on. The timer moves the threads of the old queue to the
 * young one in bounded chunks, the best first. It changes only the position in the queue. So the state of a thread is only written under its
 * run-queue lock, and needs no other lock. While both queues have threads a CPU compares both.
 *
 * Order. A CPU publishes the level that it runs and the level that it has chosen (struct cpu). enqueue compares with both under that CPU's run-queue
 * lock. So on one CPU no thread begins to run while a better one waits. There are three exceptions. Each lasts until the kernel has preempted the
 * thread, or at most until the next tick:
 *   1. On several CPUs, the better thread entered the queue of the set after the CPU had looked there. The CPU that queued it preempts this one.
 *      Until that arrives, a third thread that is better than the running one may do the same.
 *   2. The better thread arrived while another one was on its way to the local queue, or, until 6.18, was in it. No other CPU takes a thread from
 *      there (`missed`).
 *   3. More than LOOKED_AT threads that may not run on this CPU are first in the queue, or more than COMPARED_CPUS CPUs share one queue.
 * The audit counts the second as `again` and the others as `passed_over`. When a tick finds a better thread, the CPU chooses again. When a later
 * timer interrupt finds the same thread before the CPU has chosen, it is `overdue`: the kernel is still in code that cannot be preempted. If that
 * code is a softirq, during which no program runs, it is counted as `deferred` instead.
 *
 * Parity. By Solaris' rule each message to a better thread preempts the sender. To limit this, a wake-up by a program does not preempt a thread that
 * began to run less than `parity_ns` ago: the woken thread waits in its queue until the CPU chooses, at the latest at the next tick. Wake-ups by
 * interrupts are not delayed.
 *
 * Requests. A user's request is one word in the task storage of the thread (`request`). The next event of the thread applies it.
 */
#include "events.bpf.h"
#include "queues.bpf.h"
#include "waiting.bpf.h"
#include "questions.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

s32 SEC("struct_ops/select_cpu") BPF_PROG(select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task *tc = task_of(p);
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle), other;

	if (!tc || defect)
		return cpu;
	wake(p, tc);
	tc->woken = is_idle ? 2 : 1;
	if (is_idle)
		return cpu;
	other = outranked_cpu(p, tc->st.pri, prev_cpu, sparing_from(tc));
	return other >= 0 ? other : cpu;
}

/* Defect 1, for tests: this thread is never queued. */
static __always_inline bool is_stalled(struct task_struct *p)
{
	return defect == 1 && X(p)->comm[0] == 's' && X(p)->comm[1] == 't' && X(p)->comm[2] == 'a' && X(p)->comm[3] == 'l';
}

/*
 * Whether a thread that may run on this CPU alone is next in line: its level equals the running one, and no other thread waits. It then goes to the
 * local queue, from which the kernel takes it without calling dispatch. When a tick finds it there, it moves to its normal queue, which the timer and
 * other CPUs see. Kernels until 6.18 cannot do the latter. There it waits for the rest of the slice, at most a second, and takes a beat into account
 * only when it begins.
 */
static __always_inline bool is_next(const struct task *tc, const struct cpu *c, s32 cpu, u64 enq_flags)
{
	if (enq_flags & ENQ(REENQ) || defect || (!CAN_REENQUEUE && !c->brief))
		return false;
	if (tc->st.pri != c->pri || c->chosen != VACANT || c->line != NO_KEY || tc->end != RULE_BACK || c->bound)
		return false;
	return nr_cpus == 1 ? !c->shared : is_empty(QUEUE_DSQ(queue_of(cpu)));
}

/* A thread is queued for a CPU that will first run a thread of a lower level: see `running`. */
static __always_inline void miss(struct cpu *c, int pri)
{
	if (c->missed < pri)
		c->missed = pri;
}

/* The lowest level that is in the local queue, or on the way there; OUTRANKED for none. */
static __always_inline s64 local_level(struct cpu *c)
{
	if (c->line != NO_KEY)
		return rule_key_pri(c->line);
	return c->chosen != VACANT ? c->chosen : c->pri == CHOOSING ? CHOOSING : OUTRANKED;
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *tc = task_of(p);
	s32 cpu = home_of(p), other;
	struct cpu *c = cpu_of(cpu);
	u64 key, now, queue, group, sparing = 0;
	bool bound, next, is_idle = tc && tc->woken == 2, kick = false;

	if (!tc || !c) {
		dsq_insert(p, SCX_DSQ_LOCAL, 20000000, 0);
		return;
	}
	if (is_stalled(p))
		return;
	now = scx_bpf_now();
	key = now >> ARRIVAL_SHIFT;
	if (tc->woken) {
		tc->woken = 0;
		sparing = sparing_from(tc);
	} else if (enq_flags & ENQ(WAKEUP) || tc->fresh) {
		wake(p, tc);
		sparing = sparing_from(tc);
	} else if (tc->end == UNDECIDED) {
		if (tc->queued_at && tc->exec == X(p)->se.sum_exec_runtime) {
			/* It has not run since it was queued: its affinity or its parameters changed. It keeps its position in the queue. */
			tc->end = key_end(X(p)->scx.dsq_vtime);
			key = key_arrival(X(p)->scx.dsq_vtime);
			now = tc->queued_at;
			update_waiting(tc, 1);
			look_at_terminal(p, tc, RULE_QUEUED);
			reclassify(p, tc);
			if (take_request(p, tc, RULE_QUEUED))
				tc->end = rule_end_of(&tc->st, RULE_BACK);
		} else {
			charge(p, tc);
			update_running(tc);
			reclassify(p, tc);
			take_request(p, tc, RULE_QUEUED);
			tc->end = preempt(tc);
		}
	} else {
		/* It was charged when its end was decided, but its run time has grown since. Uncharged time would look as if the thread had run. */
		charge(p, tc);
	}
	key = place_of(p, tc, key);
	tc->queued_at = now;
	group = waits_for_group(p, tc);
	if (group) {
		/* The quota of its group is used up. */
		tc->end = UNDECIDED;
		tc->dsq = 0;
		dsq_insert_vtime(p, PARKED_DSQ(group), slice_of(&tc->st), key, enq_flags);
		return;
	}
	/* It was the last runnable thread, and the CPU is about to idle: check the queues again. */
	if (enq_flags & ENQ(LAST))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	bound = is_bound(p);
	next = bound && is_next(tc, c, cpu, enq_flags);
	tc->end = UNDECIDED;
	if (!c->online) {
		insert_local(p, tc, SCX_DSQ_LOCAL_ON | cpu, key, 0);
		return;
	}
	queue = queue_of(cpu);
	if (c->pri == VACANT && c->chosen == VACANT && !defect) {
		/* The CPU is idle: run the thread at once, unless other threads wait. In partial mode the CPU may run a thread of the kernel's own scheduler. */
		if ((bound || is_idle) && !c->bound && (nr_cpus == 1 ? !c->shared : is_empty(QUEUE_DSQ(queue)))) {
			c->chosen = tc->st.pri;
			c->direct++;
			insert_local(p, tc, SCX_DSQ_LOCAL, key, enq_flags);
			return;
		}
	} else if (score_of(c) < tc->st.pri && is_spared(c, sparing)) {
		/* The next tick or switch takes it, or the next wake-up after that time. */
		if (c->spared_by < tc->st.pri)
			c->spared_by = tc->st.pri;
		c->spared++;
		if (tc->st.pri > local_level(c))
			miss(c, tc->st.pri);
	} else if (score_of(c) < tc->st.pri && !defect) {
		/* Better than the running thread and than the one chosen to run next: preempt at once. */
		if (c->spared_by >= tc->st.pri && c->chosen == VACANT) {
			/* A thread of the same or a higher level has waited since its delayed wake-up. The CPU chooses. */
			c->spared_by = VACANT;
			kick = true;
		} else if (c->chosen == VACANT ? c->pri != CHOOSING : CAN_REENQUEUE) {
			c->crowded = c->chosen != VACANT;
			c->chosen = tc->st.pri;
			c->preempting++;
			insert_local(p, tc, SCX_DSQ_LOCAL, key, enq_flags | ENQ(PREEMPT));
			return;
		}
		miss(c, tc->st.pri);
	} else if (next) {
		c->line = key;
		c->next++;
		insert_local(p, tc, SCX_DSQ_LOCAL, key, enq_flags);
		return;
	} else if (tc->st.pri > local_level(c)) {
		miss(c, tc->st.pri);
	}
	if (nr_cpus > 1 && bound) {
		tc->dsq = CPU_DSQ(cpu);
		c->bound = 1;
		c->queued_bound++;
		dsq_insert_vtime(p, tc->dsq + YOUNG(generations_now()), slice_of(&tc->st), key, enq_flags);
		if (kick)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		else if (scx_bpf_test_and_clear_cpu_idle(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	tc->dsq = QUEUE_DSQ(queue);
	c->queued_shared++;
	c->shared = 1;
	dsq_insert_vtime(p, tc->dsq + YOUNG(generations_now()), slice_of(&tc->st), key, enq_flags);
	if (kick || defect == 2) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	/* The kernel itself checks whether this CPU is idle. */
	if (nr_cpus == 1)
		return;
	if (enq_flags & ENQ(WAKEUP) && X(p)->nr_cpus_allowed > 1) {
		/* select_cpu has already looked for a CPU. A CPU that has since begun a thread of a lower level did not see this one in the queue. */
		other = outranked_cpu(p, tc->st.pri, cpu, sparing);
		if (other >= 0)
			scx_bpf_kick_cpu(other, SCX_KICK_PREEMPT);
		return;
	}
	other = scx_bpf_pick_idle_cpu(X(p)->cpus_ptr, 0);
	if (other >= 0)
		scx_bpf_kick_cpu(other, SCX_KICK_IDLE);
}

/* No thread was found. A thread that was queued meanwhile needs another dispatch. */
static __always_inline void vacate(struct cpu *c, s32 cpu)
{
	c->pri = VACANT;
	if (c->missed != VACANT)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 cpu, struct task_struct *prev)
{
	u64 mine = NO_KEY, bound, shared, queue = queue_of(cpu), generations = generations_now();
	struct cpu *c = cpu_of(cpu);
	struct task *tc = NULL;

	if (!c || defect == 3)
		return;
	/* The local queue is empty. */
	c->chosen = c->missed = c->spared_by = VACANT;
	c->line = NO_KEY;
	c->crowded = 0;
	c->better = NO_KEY;
	if (prev && X(prev)->scx.flags & SCX_TASK_QUEUED) {
		tc = task_of(prev);
		if (tc) {
			charge(prev, tc);
			update_running(tc);
			reclassify(prev, tc);
			if (REQUEST_KIND(tc->request) == REQUEST_PAY)
				c->forks++;
			take_request(prev, tc, RULE_OUTRANKED);
			if (tc->end == UNDECIDED)
				tc->end = preempt(tc);
			mine = place_of(prev, tc, scx_bpf_now() >> ARRIVAL_SHIFT);
			if (waits_for_group(prev, tc)) {
				/* The quota of its group is used up: it leaves the CPU like a thread that goes to sleep. */
				set_slice(prev, 0);
				tc = NULL;
			}
		}
	}
	/* Nothing to compare: the usual case when a thread goes to sleep. */
	if (!tc)
		c->pri = CHOOSING;
	if (!tc && !c->bound) {
		if (!take(QUEUE_DSQ(queue), cpu, generations) && (nr_queues == 1 || !steal(c, cpu, queue, generations)))
			vacate(c, cpu);
		if (nr_cpus == 1 && c->shared)
			c->shared = !is_empty(QUEUE_DSQ(queue));
		return;
	}
	/* A timer may add a thread meanwhile. It sets `bound` afterwards. */
	bound = __sync_lock_test_and_set(&c->bound, 0) ? best_key(CPU_DSQ(cpu), cpu, generations) : NO_KEY;
	if (bound != NO_KEY)
		c->bound = 1;
	shared = best_key(QUEUE_DSQ(queue), cpu, generations);
	/* No better thread waits, and no equal one that is before it in the queue: it goes on. */
	if (tc && mine < bound && mine < shared) {
		tc->end = UNDECIDED;
		c->pri = rank_of(tc);
		c->brief = slice_of(&tc->st) <= SECOND;
		set_slice(prev, rest_of(prev, tc));
		c->kept++;
		return;
	}
	/* The run-queue lock is dropped while a thread moves here from another CPU. */
	if (bound != NO_KEY || shared != NO_KEY)
		c->chosen = rule_key_pri(bound < shared ? bound : shared);
	if (bound <= shared && bound != NO_KEY && take(CPU_DSQ(cpu), cpu, generations))
		return;
	if (take(QUEUE_DSQ(queue), cpu, generations))
		return;
	if (bound != NO_KEY && take(CPU_DSQ(cpu), cpu, generations))
		return;
	if (!tc && (nr_queues == 1 || !steal(c, cpu, queue, generations)))
		vacate(c, cpu);
}

/* Handles a thread that begins to run after a beat passed while it waited, or after the timer moved it. Returns its level; `rank` is its rank. */
static __always_inline s32 begin_after_beat(struct task_struct *p, u64 *waited, u64 now, s32 *rank)
{
	struct task *tc = task_of(p);

	*waited = 0;
	if (!tc)
		return RULE_BACKGROUND;
	if (tc->queued_at && tc->exec == X(p)->se.sum_exec_runtime) {
		*waited = now - tc->queued_at;
		if (update_waiting(tc, 1) | look_at_terminal(p, tc, RULE_QUEUED))
			set_slice(p, slice_of(&tc->st));
		/* Its position in the queue already follows from the request. */
		if (REQUEST_KIND(tc->request) != REQUEST_PAY && take_request(p, tc, RULE_QUEUED))
			set_slice(p, slice_of(&tc->st));
	}
	if (tc->rescued) {
		if (tc->rescued == 1) {
			tc->rescued = X(p)->se.sum_exec_runtime + RESCUE_SLICE;
			tc->prolonged = 0;
		}
		set_slice(p, rest_of(p, tc));
	}
	*rank = rank_of(tc);
	return tc->st.pri;
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *p)
{
	u64 key = X(p)->scx.dsq_vtime, now = scx_bpf_now(), waited;
	s32 cpu = home_of(p), pri = rule_key_pri(key), rank = pri;
	struct beat *beat = beat_here();
	struct cpu *c = cpu_of(cpu);
	struct level *level;
	struct task *tc;
	bool again, goes_on;

	if (!c || !beat)
		return;
	waited = now - (key_arrival(key) << ARRIVAL_SHIFT);
	if (pri > RULE_SYS_HIGHEST || key_arrival(key) <= beat->at)
		pri = begin_after_beat(p, &waited, now, &rank);
	/* Clocks of CPUs differ a little. */
	if ((s64)waited < 0)
		waited = 0;
	/* The kernel calls `running` again when a user changes a running thread: then its level is no longer that of the key. */
	goes_on = c->begun_key == key && c->begun_tid == (u32)X(p)->pid;
	if (goes_on) {
		tc = task_of(p);
		if (tc) {
			pri = tc->st.pri;
			rank = rank_of(tc);
		}
	} else {
		c->begun_key = key;
		c->begun_tid = (u32)X(p)->pid;
		c->begun_at = now;
		c->spared_by = VACANT;
		level = level_here(pri);
		if (level) {
			level->begun++;
			level->waited_ns += waited;
			if (waited > level->waited_max_ns)
				level->waited_max_ns = waited;
		}
	}
	c->pri = rank;
	c->chosen = VACANT;
	c->better = NO_KEY;
	c->brief = X(p)->scx.slice <= SECOND;
	if (c->line == key)
		c->line = NO_KEY;
	/* A thread that is left in the local queue would run without a comparison. */
	if (CAN_REENQUEUE && (c->crowded || c->line != NO_KEY)) {
		c->line = NO_KEY;
		reenqueue_local();
	}
	c->crowded = 0;
	again = c->missed > rank;
	if (again) {
		c->missed = VACANT;
		c->again++;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	/* A thread that goes on was not chosen: a better one may have arrived, and the preemption may be on its way. Ticks check that case. */
	if (audit && !again && !goes_on) {
		u64 generations = generations_now();
		u64 bound = best_key(CPU_DSQ(cpu), cpu, generations), other = best_key(QUEUE_DSQ(queue_of(cpu)), cpu, generations);

		if (bound < other)
			other = bound;
		if (other != NO_KEY && rule_key_pri(other) > rank && rule_key_pri(other) <= RULE_SYS_HIGHEST)
			c->passed_over++;
	}
}

SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *p)
{
	s32 cpu = home_of(p);
	struct task *tc = task_of(p);
	struct cpu *c = cpu_of(cpu);
	struct beat *beat = beat_here();
	u64 key, other, pair, generations;

	if (!tc || !c || !beat)
		return;
	if (!hardirq_moved && preempt_count() & HARDIRQ)
		hardirq_moved = 1;
	if (tc->request) {
		set_slice(p, 0);
		return;
	}
	if (tc->beat != beats_now()) {
		charge(p, tc);
		/* A thread that is next in line, and can leave the local queue only by running, does not wait for another slice. */
		if (update_running(tc) | look_at_terminal(p, tc, RULE_RUNNING))
			set_slice(p, CAN_REENQUEUE || c->line == NO_KEY ? slice_of(&tc->st) : 0);
		c->brief = slice_of(&tc->st) <= SECOND;
	}
	if (cap_of(tc)) {
		pay(p, tc);
		if (waits_for_group(p, tc)) {
			set_slice(p, 0);
			return;
		}
	}
	/* A rescued thread runs before all others for its whole slice: if it was preempted inside the kernel, other threads wait for it. */
	if (c->pri == FIRST && X(p)->scx.slice) {
		c->better = NO_KEY;
		return;
	}
	c->pri = tc->st.pri;
	if (CAN_REENQUEUE && (c->chosen != VACANT || c->line != NO_KEY)) {
		c->line = NO_KEY;
		reenqueue_local();
	}
	c->chosen = VACANT;
	/* The old queue should be empty, but see best_key. */
	generations = generations_now();
	pair = QUEUE_DSQ(queue_of(cpu));
	if (!(generations & MIXED) && (scx_bpf_dsq_nr_queued(pair + OLD(generations)) ||
				       (c->bound && scx_bpf_dsq_nr_queued(CPU_DSQ(cpu) + OLD(generations))))) {
		__sync_fetch_and_or(&beat->generations, MIXED);
		generations |= MIXED;
	}
	key = c->bound ? best_key(CPU_DSQ(cpu), cpu, generations) : NO_KEY;
	other = best_key(pair, cpu, generations);
	if (other < key)
		key = other;
	if (key == NO_KEY || rule_key_pri(key) <= tc->st.pri) {
		c->better = NO_KEY;
		return;
	}
	/*
	 * It keeps the rest of its slice, as where Solaris' update preempts at once. It loses the rest at the second request: there a tick preempts
	 * it in Solaris, too.
	 */
	if (c->better != key) {
		c->better = key;
		c->better_in = interrupts_here();
	} else if (c->better_in != interrupts_here()) {
		if (is_in_deferred_work())
			c->deferred++;
		else
			c->overdue++;
		rule_surrender(&tc->st);
	}
	COUNT_LEVEL(tc->st.pri, surrendered);
	set_slice(p, 0);
}

SEC("struct_ops/yield")
bool BPF_PROG(yield, struct task_struct *from, struct task_struct *to)
{
	struct rule_tables *t = tables_now();
	struct task *tc = task_of(from);

	if (!tc || !t || to)
		return false;
	charge(from, tc);
	rule_yield(&tc->st, t);
	/* To the back, with the rest of the slice. */
	tc->end = RULE_BACK;
	set_slice(from, 0);
	return false;
}

SEC("struct_ops/set_weight")
void BPF_PROG(set_weight, struct task_struct *p, u32 weight)
{
	struct task *tc = task_of(p);

	if (tc && nice_of(p) != tc->nice && !tc->request)
		tc->request = REQUEST_NICE;
}

/* A scheduling class of the kernel takes the CPU. The caller moves the threads of its local queue elsewhere. */
static __always_inline void outrank(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c) {
		c->pri = OUTRANKED;
		c->chosen = c->missed = VACANT;
		c->line = NO_KEY;
	}
}

/* Kernels until 6.18; on others the loader removes this callback and attaches the tracepoint. */
SEC("struct_ops/cpu_release")
void BPF_PROG(cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	outrank(cpu);
	if (bpf_ksym_exists(scx_bpf_reenqueue_local))
		scx_bpf_reenqueue_local();
}

/* Kernels from 6.19 on. */
SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->prio >= PRIO_NORMAL && (!partial || X(next)->policy == POLICY_EXT || !next->pid))
		return 0;
	outrank(bpf_get_smp_processor_id());
	if (CAN_REENQUEUE && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		reenqueue_local();
	return 0;
}

SEC("struct_ops.s/init_task")
s32 BPF_PROG(init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *tc = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE), *parent;
	struct rule_tables *t = tables_now();

	if (!tc || !t)
		return -12;
	if (bpf_core_field_exists(args->cgroup) && args->cgroup)
		tc->group = number_of(id_of(args->cgroup));
	tc->paid = X(p)->se.sum_exec_runtime;
	tc->beat = beats_now();
	tc->end = UNDECIDED;
	tc->exec = X(p)->se.sum_exec_runtime;
	tc->nice = nice_of(p);
	parent = args->fork ? task_of(bpf_get_current_task_btf()) : NULL;
	if (!parent) {
		classify(p, tc);
		recall(p, tc);
		return 0;
	}
	tc->fresh = 1;
	tc->by_terminal = parent->by_terminal;
	tc->wished = parent->wished;
	rule_fork_child(&tc->st, &parent->st, t);
	return 0;
}

/* Adds the run time since the last charge. Unloading the scheduler calls this for live threads, too: their wishes stay. */
SEC("struct_ops/exit_task")
void BPF_PROG(exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task *tc = task_of(p);
	struct level *level = tc ? level_here(tc->st.pri) : NULL;
	u64 tid = X(p)->pid;

	if (tc)
		pay(p, tc);
	if (tc && tc->wished && X(p)->flags & PF_EXITING)
		bpf_map_delete_elem(&wishes, &tid);
	if (level)
		__sync_fetch_and_add(&level->ran_ns, X(p)->se.sum_exec_runtime - tc->exec);
}

static __always_inline void make_vacant(struct cpu *c)
{
	c->pri = c->chosen = c->missed = c->spared_by = VACANT;
	c->line = c->better = NO_KEY;
	c->online = 1;
}

SEC("struct_ops.s/cpu_online")
void BPF_PROG(cpu_online, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	make_vacant(c);
}

/*
 * A CPU goes off-line. The kernel no longer calls dispatch for it, but waits until no thread belongs to it. It is only woken up when the CPU itself
 * removes the last one, not when another CPU takes it (until 6.18 at least). So all threads go to the local queue, from which the kernel moves them.
 */
SEC("struct_ops.s/cpu_offline")
void BPF_PROG(cpu_offline, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);
	u64 number;

	if (!c)
		return;
	c->online = 0;
	drain(CPU_DSQ(cpu), cpu);
	drain(QUEUE_DSQ(queue_of(cpu)), cpu);
	bpf_for(number, 1, MOST_GROUPS) {
		if (number >= group_end)
			break;
		drain_parked(number, cpu);
	}
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	struct timer_value *value, *group_value;
	struct beat *beat = beat_here();
	u32 zero = 0;
	s32 i, error;

	bpf_for(i, 0, 2 * (s32)nr_queues) {
		error = scx_bpf_create_dsq(QUEUE_DSQ(0) + i, -1);
		if (error)
			return error;
	}
	bpf_for(i, 0, 2 * (s32)nr_cpus) {
		struct cpu *c = cpu_of(i);

		error = scx_bpf_create_dsq(CPU_DSQ(0) + i, -1);
		if (error)
			return error;
		if (c)
			make_vacant(c);
	}
	value = bpf_map_lookup_elem(&timers, &zero);
	group_value = bpf_map_lookup_elem(&group_timers, &zero);
	if (!value || !group_value || !beat)
		return -2;
	bpf_timer_init(&group_value->timer, &group_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&group_value->timer, on_group_timer);
	beat->due = bpf_ktime_get_ns() + SECOND;
	bpf_timer_init(&value->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, on_timer);
	return bpf_timer_start(&value->timer, SECOND, 0);
}

SEC("struct_ops/exit")
void BPF_PROG(ended, struct scx_exit_info *info)
{
	u32 zero = 0;
	struct ending *ending = bpf_map_lookup_elem(&endings, &zero);
	u64 entries;

	if (!ending)
		return;
	bpf_probe_read_kernel_str(ending->reason, sizeof(ending->reason), info->reason);
	bpf_probe_read_kernel_str(ending->message, sizeof(ending->message), info->msg);
	bpf_probe_read_kernel_str(ending->dump, sizeof(ending->dump), info->dump);
	entries = *(volatile u32 *)&info->bt_len;
	if (entries > 16)
		entries = 16;
	bpf_probe_read_kernel(ending->backtrace, entries * 8, info->bt);
	ending->backtrace_len = entries;
	ending->code = info->exit_code;
	/* Last: the loader waits for it. */
	*(volatile u64 *)&ending->kind = info->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops millpond = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.tick = (void *)tick,
	.running = (void *)running,
	.exit_task = (void *)exit_task,
	.yield = (void *)yield,
	.set_weight = (void *)set_weight,
	.cpu_release = (void *)cpu_release,
	.cgroup_init = (void *)cgroup_init,
	.cgroup_exit = (void *)cgroup_exit,
	.cgroup_move = (void *)cgroup_move,
	.cgroup_set_bandwidth = (void *)cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)cgroup_set_idle,
	.init_task = (void *)init_task,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	.exit = (void *)ended,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "millpond",
};

/* A scheduler without rules, to measure the cost of sched_ext itself. */
SEC(".struct_ops.link")
struct sched_ext_ops bare = {
	.name = "millpond_bare",
};
