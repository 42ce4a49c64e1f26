/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * A scheduler for sched_ext: the classes TS, IA and FX by dispatch tables that may change while it runs, SYS for threads of the kernel, and
 * SCHED_IDLE below all of them. RT and DEADLINE stay with the kernel, which runs them first.
 *
 * What an event does to a thread is in rules.h, which knows no kernel. Here is what calls the rules, and where threads wait.
 *
 *   wake-up ─▶ select_cpu ── an idle CPU ────────────────────────────────▶ its local queue
 *                  │         none: the CPU that runs the lowest level
 *                  ▼
 *              enqueue ───── better than what that CPU runs ─────────────▶ its local queue, which preempts
 *                  │         may run on one CPU only ────────────────────▶ the queue of the CPU
 *                  └─────────────────────────────────────────────────────▶ the queue of its processor set
 *   a CPU is free ─▶ dispatch: the best of what ran here, the CPU's queue and that of its set; where both are empty, another queue of the set
 *
 * A queue is ordered by a key: level first, then arrival. The queues of a set are as many as the loader says (`places`): one for each last-level cache
 * of a large set, else one.
 *
 * Time. What a thread ran is the growth of its `sum_exec_runtime` since it was last charged; that stands still while the thread does not run. So a thread
 * is charged when the next thing happens to it: when it is preempted, when it wakes up, when it ends. Nothing has to be done when it goes to sleep. What a
 * level ran (`ran_ns`) misses what its sleeping threads ran last, until they wake up.
 *
 * Seconds. A timer counts them (`beats`). A thread learns of them when something else happens to it: one that sleeps when it wakes up, one that
 * runs at the next tick, one that waits when it is taken. Waiting changes where it should stand, though: after each second the timer goes through
 * the queues and moves the threads whose level has changed. It changes no state but the place in the queue. So the state of a thread is only
 * written while the lock of its run queue is held, and needs no lock of its own.
 *
 * Requests. What a user asks for is one word in the memory of the thread (`request`), which the next event of the thread takes.
 */
#include "state.bpf.h"
#include "waiting.bpf.h"
#include "questions.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The class that a thread has by itself. */
static __always_inline void classify(struct task_struct *p, struct task *tc)
{
	struct rule_tables *t = tables_now();
	int nice = nice_of(p), upri = rule_nice(nice);

	if (!t)
		return;
	tc->nice = nice;
	if (X(p)->flags & PF_KTHREAD)
		rule_enter(&tc->st, t, RULE_SYS, 0, RULE_SYS_LOWEST - (nice < 0 ? nice : 0), 0, 0);
	else if (X(p)->policy == POLICY_IDLE)
		rule_enter(&tc->st, t, RULE_IDLE, 0, 0, 0, 0);
	else
		rule_enter(&tc->st, t, RULE_TS, upri, upri, 0, 0);
}

/*
 * What ran is charged. 1: the slice has run out, and is filled: the thread may sleep before it is preempted, and would else lose a level whenever it
 * has run a little. Solaris fills it when the thread is preempted, and charges by whole ticks.
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
	level = level_here(pri);
	if (level)
		level->ran_ns += ran;
	/* The usual case of rule_charge, which needs no tables. A rest is used up: see REST. */
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

/* A thread that runs learns of the seconds. 1: its level or slice changed. */
static __always_inline int update_running(struct task *tc)
{
	struct rule_tables *t;
	u64 now = beats_now();

	if (tc->beat == now)
		return 0;
	tc->beat = now;
	t = tables_now();
	if (!t || !rule_update_running(&tc->st, t))
		return 0;
	COUNT_LEVEL(tc->st.pri, boosted);
	return rule_boost_if_due(&tc->st, t);
}

/* A thread that waited learns of the seconds. 1: its level or slice changed. */
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

/* What a user asked for. 1: there was something. */
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
		break;
	default:
		rule_set(&tc->st, t, REQUEST_CLASS(word), REQUEST_LIMIT(word), REQUEST_UPRI(word), REQUEST_FOREGROUND(word),
			 *(volatile u64 *)&tc->request_quantum, place);
	}
	return 1;
}

/* SCHED_IDLE came or went, or a thread of the kernel became a program. */
static __always_inline void reclassify(struct task_struct *p, struct task *tc)
{
	int is_idle = X(p)->policy == POLICY_IDLE, is_kernel = (X(p)->flags & PF_KTHREAD) != 0;

	if (is_kernel != (tc->st.klass == RULE_SYS) || (is_idle && !is_kernel) != (tc->st.klass == RULE_IDLE))
		classify(p, tc);
}

/* A thread becomes runnable. */
static __always_inline void wake(struct task_struct *p, struct task *tc)
{
	struct task_struct *parent;
	struct rule_tables *t;
	struct task *pc;

	reclassify(p, tc);
	charge(p, tc);
	update_waiting(tc, 0);
	take_request(p, tc, RULE_ASLEEP);
	/* What rule_wakeup does; 0 seconds are not too long by any table. */
	t = tc->st.dispwait ? tables_now() : NULL;
	if (t)
		rule_boost_if_due(&tc->st, t);
	tc->st.back = 0;
	/* No clock tick is at hand; a thread that slept for less than one stands at the back as well. */
	tc->end = rule_end_of(&tc->st, RULE_BACK);
	if (!tc->fresh)
		return;
	tc->fresh = 0;
	parent = bpf_get_current_task_btf();
	pc = parent_pays && X(p)->tgid == X(p)->pid ? task_of(parent) : NULL;
	if (!pc || pc->request || pc->st.klass == RULE_SYS || pc->st.klass == RULE_IDLE)
		return;
	pc->request = REQUEST_PAY;
	scx_bpf_kick_cpu(scx_bpf_task_cpu(parent), SCX_KICK_PREEMPT);
}

/* A thread leaves its CPU against its will: the end of its level that it goes to. */
static __always_inline u32 preempt(struct task *tc)
{
	struct rule_tables *t;

	/* The usual case of rule_preempt, which needs no tables. */
	if (!tc->st.back)
		return RULE_FRONT;
	t = tables_now();
	return t ? rule_preempt(&tc->st, t) : RULE_BACK;
}

/* The key of the first thread of a queue that may run on a CPU. */
__noinline u64 first_key(u64 dsq, s32 cpu)
{
	struct task_struct *p;
	u64 key = NO_KEY;
	int looked = 0;

	if (!scx_bpf_dsq_nr_queued(dsq))
		return key;
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

static __always_inline s64 score_of(struct cpu *c)
{
	return c->pri > c->chosen ? c->pri : c->chosen;
}

/* The CPU that runs, or will run, the lowest level below `pri`, from a CPU on; -1 when there is none. */
static __always_inline s32 outranked_cpu(struct task_struct *p, s32 pri, s32 from)
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
		if (c->online && score_of(c) < lowest && bpf_cpumask_test_cpu(cpu, X(p)->cpus_ptr)) {
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

/* Into a local queue, where the key orders nothing: it is for `running`. */
static __always_inline void insert_local(struct task_struct *p, struct task *tc, u64 dsq, u64 key, u64 flags)
{
	tc->dsq = 0;
	set_vtime(p, key);
	dsq_insert(p, dsq, slice_of(&tc->st), flags);
}

s32 SEC("struct_ops/select_cpu") BPF_PROG(select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task *tc = task_of(p);
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle), other;
	struct cpu *c;

	if (!tc || defect)
		return cpu;
	wake(p, tc);
	if (is_idle) {
		c = cpu_of(cpu);
		if (c) {
			c->direct++;
			c->chosen = tc->st.pri;
		}
		tc->queued_at = scx_bpf_now();
		insert_local(p, tc, SCX_DSQ_LOCAL, key_of(tc->st.pri, tc->end, tc->queued_at >> ARRIVAL_SHIFT), 0);
		tc->end = UNDECIDED;
		return cpu;
	}
	tc->woken = 1;
	other = outranked_cpu(p, tc->st.pri, prev_cpu);
	return other >= 0 ? other : cpu;
}

/* A defect for tests. */
static __always_inline bool is_stalled(struct task_struct *p)
{
	return defect == 1 && X(p)->comm[0] == 's' && X(p)->comm[1] == 't' && X(p)->comm[2] == 'a' && X(p)->comm[3] == 'l';
}

/*
 * Whether a thread that may run on this CPU alone is the next in line there: an equal of what runs, while nothing else waits. It then stands in the local
 * queue, from which the kernel takes it without asking. When a tick finds it there, it goes to its queue, where it is seen by the timer and by others.
 * Kernels until 6.18 cannot do the latter.
 */
static __always_inline bool is_next(const struct task *tc, const struct cpu *c, s32 cpu, u64 enq_flags)
{
	if (!bpf_ksym_exists(scx_bpf_reenqueue_local___v2___two) || enq_flags & ENQ(REENQ) || defect)
		return false;
	if (tc->st.pri != c->pri || c->chosen != VACANT || tc->end != RULE_BACK || c->bound)
		return false;
	return nr_cpus == 1 ? !c->shared : !scx_bpf_dsq_nr_queued(QUEUE_DSQ(queue_of(cpu)));
}

/* It may run here only: it is bound, or in a section in which it must not migrate. */
static __always_inline bool is_bound(struct task_struct *p)
{
	return X(p)->nr_cpus_allowed == 1 || (u64)X(p)->cpus_ptr != (u64)&X(p)->cpus_mask;
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *tc = task_of(p);
	s32 cpu = scx_bpf_task_cpu(p), idle;
	struct cpu *c = cpu_of(cpu);
	bool bound, next;
	u64 key, now;

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
	} else if (enq_flags & ENQ(WAKEUP) || tc->fresh) {
		wake(p, tc);
	} else if (tc->end == UNDECIDED) {
		if (tc->queued_at && tc->exec == X(p)->se.sum_exec_runtime) {
			/* It has not run since it was queued. Its CPUs or its parameters changed: it keeps its place in line. */
			tc->end = key_end(X(p)->scx.dsq_vtime);
			key = key_arrival(X(p)->scx.dsq_vtime);
			now = tc->queued_at;
			update_waiting(tc, 1);
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
	}
	key = key_of(tc->st.pri, tc->end, key);
	tc->queued_at = now;
	bound = is_bound(p);
	next = bound && is_next(tc, c, cpu, enq_flags);
	tc->end = UNDECIDED;
	if (!c->online) {
		insert_local(p, tc, SCX_DSQ_LOCAL_ON | cpu, key, 0);
		return;
	}
	/* Better than what runs there and than what was chosen to run there next: at once. */
	if (score_of(c) < tc->st.pri && c->pri != VACANT && !defect) {
		c->chosen = tc->st.pri;
		c->preempting++;
		insert_local(p, tc, SCX_DSQ_LOCAL, key, enq_flags | ENQ(PREEMPT));
		return;
	}
	if (next) {
		c->chosen = tc->st.pri;
		c->next++;
		insert_local(p, tc, SCX_DSQ_LOCAL, key, enq_flags);
		return;
	}
	if (nr_cpus > 1 && bound) {
		tc->dsq = CPU_DSQ(cpu);
		c->bound = 1;
		c->queued_bound++;
		dsq_insert_vtime(p, tc->dsq, slice_of(&tc->st), key, enq_flags);
		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	tc->dsq = QUEUE_DSQ(queue_of(cpu));
	c->queued_shared++;
	c->shared = 1;
	dsq_insert_vtime(p, tc->dsq, slice_of(&tc->st), key, enq_flags);
	if (defect == 2) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	/* The kernel itself looks whether this CPU is idle. A thread that was woken up looked for another one already. */
	if (nr_cpus == 1 || (enq_flags & ENQ(WAKEUP) && X(p)->nr_cpus_allowed > 1))
		return;
	idle = scx_bpf_pick_idle_cpu(X(p)->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Another queue of the set that has a thread for this CPU. */
static __always_inline bool steal(struct cpu *c, u64 own)
{
	u32 queue = own;
	int i;

	bpf_for(i, 0, STOLEN_FROM) {
		u64 *next = bpf_map_lookup_elem(&rings, &queue);

		if (!next || *next == own || *next >= nr_queues)
			return false;
		queue = *next;
		if (dsq_move_to_local(QUEUE_DSQ(queue))) {
			c->stolen++;
			return true;
		}
	}
	return false;
}

SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 cpu, struct task_struct *prev)
{
	u64 mine = NO_KEY, bound, shared, queue = queue_of(cpu);
	struct cpu *c = cpu_of(cpu);
	struct task *tc = NULL;

	if (!c || defect == 3)
		return;
	c->chosen = VACANT;
	if (prev && X(prev)->scx.flags & SCX_TASK_QUEUED) {
		tc = task_of(prev);
		if (tc) {
			charge(prev, tc);
			update_running(tc);
			if (REQUEST_KIND(tc->request) == REQUEST_PAY)
				c->forks++;
			take_request(prev, tc, RULE_OUTRANKED);
			if (tc->end == UNDECIDED)
				tc->end = preempt(tc);
			mine = key_of(tc->st.pri, tc->end, scx_bpf_now() >> ARRIVAL_SHIFT);
		}
	}
	/* Nothing to compare: the usual case when a thread goes to sleep. */
	if (!tc && !c->bound) {
		if (!dsq_move_to_local(QUEUE_DSQ(queue)) && (nr_queues == 1 || !steal(c, queue)))
			c->pri = VACANT;
		if (nr_cpus == 1 && c->shared && bpf_ksym_exists(scx_bpf_reenqueue_local___v2___two))
			c->shared = scx_bpf_dsq_nr_queued(QUEUE_DSQ(queue)) > 0;
		return;
	}
	bound = c->bound ? first_key(CPU_DSQ(cpu), cpu) : NO_KEY;
	if (bound == NO_KEY)
		c->bound = 0;
	shared = first_key(QUEUE_DSQ(queue), cpu);
	/* No better thread waits, nor an equal one that is before it in line: it goes on. */
	if (tc && mine < bound && mine < shared) {
		tc->end = UNDECIDED;
		c->pri = tc->st.pri;
		set_slice(prev, slice_of(&tc->st));
		c->kept++;
		return;
	}
	if (bound <= shared && bound != NO_KEY && dsq_move_to_local(CPU_DSQ(cpu)))
		return;
	if (dsq_move_to_local(QUEUE_DSQ(queue)))
		return;
	if (bound != NO_KEY && dsq_move_to_local(CPU_DSQ(cpu)))
		return;
	if (!tc && (nr_queues == 1 || !steal(c, queue)))
		c->pri = VACANT;
}

/* A thread that begins to run, and waited while a second passed, or was moved by the timer. Gives its level. */
static __always_inline s32 begin_after_beat(struct task_struct *p, u64 *waited, u64 now)
{
	struct task *tc = task_of(p);

	*waited = 0;
	if (!tc)
		return RULE_BACKGROUND;
	if (tc->queued_at && tc->exec == X(p)->se.sum_exec_runtime) {
		*waited = now - tc->queued_at;
		if (update_waiting(tc, 1))
			set_slice(p, slice_of(&tc->st));
	}
	if (tc->rescued) {
		tc->rescued = 0;
		set_slice(p, 1);
	}
	return tc->st.pri;
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *p)
{
	u64 key = X(p)->scx.dsq_vtime, now = scx_bpf_now(), waited;
	s32 cpu = scx_bpf_task_cpu(p), pri = rule_key_pri(key);
	struct beat *beat = beat_here();
	struct cpu *c = cpu_of(cpu);
	struct level *level;

	if (!c || !beat)
		return;
	waited = now - (key_arrival(key) << ARRIVAL_SHIFT);
	if (pri > RULE_SYS_HIGHEST || key_arrival(key) <= beat->at)
		pri = begin_after_beat(p, &waited, now);
	/* Clocks of CPUs differ a little. */
	if ((s64)waited < 0)
		waited = 0;
	/* It may begin anew because a user changed it while it ran. */
	if (c->begun_key != key || c->begun_tid != (u32)X(p)->pid) {
		c->begun_key = key;
		c->begun_tid = (u32)X(p)->pid;
		level = level_here(pri);
		if (level) {
			level->begun++;
			level->waited_ns += waited;
			if (waited > level->waited_max_ns)
				level->waited_max_ns = waited;
		}
	}
	c->pri = pri;
	c->chosen = VACANT;
	c->outranked = 0;
	if (audit) {
		u64 bound = first_key(CPU_DSQ(cpu), cpu), other = first_key(QUEUE_DSQ(queue_of(cpu)), cpu);

		if (bound < other)
			other = bound;
		if (other != NO_KEY && rule_key_pri(other) > pri && rule_key_pri(other) <= RULE_SYS_HIGHEST)
			c->passed_over++;
	}
}

SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task *tc = task_of(p);
	struct cpu *c = cpu_of(cpu);
	u64 key, other;

	if (!tc || !c)
		return;
	if (tc->request) {
		set_slice(p, 0);
		return;
	}
	if (tc->beat != beats_now()) {
		charge(p, tc);
		if (update_running(tc))
			set_slice(p, slice_of(&tc->st));
	}
	c->pri = tc->st.pri;
	if (c->chosen != VACANT) {
		c->chosen = VACANT;
		if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___two))
			scx_bpf_reenqueue_local___v2___two();
	}
	key = c->bound ? first_key(CPU_DSQ(cpu), cpu) : NO_KEY;
	other = first_key(QUEUE_DSQ(queue_of(cpu)), cpu);
	if (other < key)
		key = other;
	if (key == NO_KEY || rule_key_pri(key) <= tc->st.pri) {
		c->outranked = 0;
		return;
	}
	if (c->outranked++)
		c->overdue++;
	COUNT_LEVEL(tc->st.pri, surrendered);
	rule_surrender(&tc->st);
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
	/* To the back, with what is left of the slice. */
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

/* A class of the kernel takes the CPU: what waits in its local queue goes elsewhere. */
static __always_inline void outrank(s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (c)
		c->pri = OUTRANKED;
}

/* Kernels until 6.18; on others the loader takes this callback away and attaches the tracepoint. */
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
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___two) && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		scx_bpf_reenqueue_local___v2___two();
	return 0;
}

SEC("struct_ops.s/init_task")
s32 BPF_PROG(init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task *tc = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE), *parent;
	struct rule_tables *t = tables_now();
	u64 tid = X(p)->pid;
	struct wish *wish;

	if (!tc || !t)
		return -12;
	tc->beat = beats_now();
	tc->end = UNDECIDED;
	tc->exec = X(p)->se.sum_exec_runtime;
	tc->nice = nice_of(p);
	parent = args->fork ? task_of(bpf_get_current_task_btf()) : NULL;
	if (!parent) {
		classify(p, tc);
		wish = bpf_map_lookup_elem(&wishes, &tid);
		if (wish && wish->start == X(p)->start_boottime / USER_TICK) {
			tc->request_quantum = wish->request_quantum;
			tc->request = wish->request;
		}
		return 0;
	}
	tc->fresh = 1;
	rule_fork_child(&tc->st, &parent->st, t);
	return 0;
}

/* What it ran since it was charged last. */
SEC("struct_ops/exit_task")
void BPF_PROG(exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task *tc = task_of(p);
	struct level *level = tc ? level_here(tc->st.pri) : NULL;

	if (level)
		__sync_fetch_and_add(&level->ran_ns, X(p)->se.sum_exec_runtime - tc->exec);
}

SEC("struct_ops.s/cpu_online")
void BPF_PROG(cpu_online, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->pri = c->chosen = VACANT;
	c->online = 1;
}

/* The threads of a queue that belong to a CPU go to its local queue. */
__noinline int drain(u64 dsq, s32 cpu)
{
	struct task_struct *p;

	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, dsq, 0)
		if (scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(&___it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	bpf_rcu_read_unlock();
	return 0;
}

/*
 * A CPU goes. The kernel asks no longer for what waits in our queues, but waits until no thread belongs to this CPU. It is woken up when the last one
 * leaves by the CPU itself, not when another CPU takes it (until 6.18 at least): so all of them leave by the local queue, from which the kernel moves them.
 */
SEC("struct_ops.s/cpu_offline")
void BPF_PROG(cpu_offline, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	if (!c)
		return;
	c->online = 0;
	drain(CPU_DSQ(cpu), cpu);
	drain(QUEUE_DSQ(queue_of(cpu)), cpu);
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	struct timer_value *value;
	u32 zero = 0;
	s32 i, error;

	bpf_for(i, 0, (s32)nr_queues) {
		error = scx_bpf_create_dsq(QUEUE_DSQ(i), -1);
		if (error)
			return error;
	}
	bpf_for(i, 0, (s32)nr_cpus) {
		struct cpu *c = cpu_of(i);

		error = scx_bpf_create_dsq(CPU_DSQ(i), -1);
		if (error)
			return error;
		if (c) {
			c->pri = c->chosen = VACANT;
			c->online = 1;
		}
	}
	value = bpf_map_lookup_elem(&timers, &zero);
	if (!value)
		return -2;
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
	.init_task = (void *)init_task,
	.cpu_online = (void *)cpu_online,
	.cpu_offline = (void *)cpu_offline,
	.init = (void *)init,
	.exit = (void *)ended,
	.flags = SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "millpond",
};

/* What sched_ext itself costs: a scheduler without rules. */
SEC(".struct_ops.link")
struct sched_ext_ops bare = {
	.name = "millpond_bare",
};
