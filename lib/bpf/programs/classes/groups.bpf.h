/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * CPU bandwidth limits (cpu.max), here called caps, and idle groups (cpu.idle), as far as sched_ext reports them: of cgroups with the `cpu`
 * controller.
 *
 * The kernel's ID of a cgroup maps to the number of a group; 0 is none. `left` is the time that its threads may still run in this period. The run
 * time of a thread is subtracted from each capped group that contains it, at each charge and at clock ticks. Once nothing is left, threads of the
 * group leave their CPUs at the next tick, and wait in a queue of the group (PARKED_DSQ). At the end of its period a group gets its quota, less its
 * overrun. A timer does this, and moves the threads to their normal queues (waiting.bpf.h).
 */
#ifndef MILLPOND_CLASSES_GROUPS_BPF_H
#define MILLPOND_CLASSES_GROUPS_BPF_H

#include "state.bpf.h"

/* The most groups; the loader has the same value. The caps of further cgroups are not enforced. */
#define MOST_GROUPS 4096
/* The most nested capped groups that are charged for a thread. */
#define MOST_NESTED 16
#define PARKED_DSQ(number) (0x400000ULL + (number))

struct group {
	u64 is_used;
	u64 parent;
	/* In nanoseconds. Without a cap the quota is 0. */
	s64 left;
	u64 quota;
	u64 period;
	u64 burst;
	/* When the cap was set, and the end of the period, on CLOCK_MONOTONIC. */
	u64 since;
	u64 due;
	/* `cpu.idle` of this group; of this group or of an ancestor. */
	u32 is_idle;
	u32 is_background;
	/* The nearest group with a cap: this one or an ancestor; 0 for none. */
	u64 capped;
};
ARRAY(groups, struct group, 0);
MAP(HASH, group_numbers, u64, u64, MOST_GROUPS);
ARRAY(group_timers, struct timer_value, 0);

/* The number of groups with a cap; one more than the highest number in use so far. */
u64 caps = 0;
u64 group_end = 1;

static __always_inline struct group *group_of(u64 number)
{
	u32 at = number;

	return number ? bpf_map_lookup_elem(&groups, &at) : NULL;
}

static __always_inline u64 id_of(struct cgroup *cgroup)
{
	return ((struct cgroup___x *)cgroup)->kn->id;
}

static __always_inline u64 number_of(u64 id)
{
	u64 *number = bpf_map_lookup_elem(&group_numbers, &id);

	return number ? *number : 0;
}

/* The nearest capped group of a thread. */
static __always_inline u64 cap_of(const struct task *tc)
{
	struct group *g = *(volatile u64 *)&caps ? group_of(tc->group) : NULL;

	return g ? g->capped : 0;
}

/* The nearest capped ancestor of a capped group. */
static __always_inline u64 cap_around(const struct group *g)
{
	struct group *parent = group_of(g->parent);

	return parent ? parent->capped : 0;
}

/* Subtracts run time from the capped groups of a thread. Time before a cap was set does not count. */
__noinline int pay_from(u64 number, u64 ran, u64 now)
{
	int i;

	bpf_for(i, 0, MOST_NESTED) {
		struct group *g = group_of(number);
		u64 since;

		if (!g)
			break;
		since = now > g->since ? now - g->since : 0;
		__sync_fetch_and_add(&g->left, -(s64)(ran < since ? ran : since));
		number = cap_around(g);
	}
	return 0;
}

static __always_inline void pay(struct task_struct *p, struct task *tc)
{
	u64 ran = X(p)->se.sum_exec_runtime, number = cap_of(tc), unpaid = ran - tc->paid;

	tc->paid = ran;
	if (number && unpaid)
		pay_from(number, unpaid, bpf_ktime_get_ns());
}

/* The innermost group, from this one outwards, with no time left; 0 for none. */
__noinline u64 used_up_from(u64 number)
{
	int i;

	bpf_for(i, 0, MOST_NESTED) {
		struct group *g = group_of(number);

		if (!g)
			break;
		if (g->quota && *(volatile s64 *)&g->left <= 0)
			return number;
		number = cap_around(g);
	}
	return 0;
}

/*
 * The group whose next period a thread must wait for; 0 for none. A rescued thread does not wait, nor does an exiting one: its cgroup may be removed
 * before the thread has ended, and the queue with it.
 */
static __always_inline u64 waits_for_group(struct task_struct *p, const struct task *tc)
{
	u64 number = tc->rescued || X(p)->flags & PF_EXITING ? 0 : cap_of(tc);

	return number ? used_up_from(number) : 0;
}

static __always_inline bool is_in_background(const struct task *tc)
{
	struct group *g = group_of(tc->group);

	return g && g->is_background;
}

/* Updates the values that each group inherits from its ancestors. */
__noinline int inherit(void)
{
	u64 number, capped = 0;

	bpf_for(number, 1, MOST_GROUPS) {
		struct group *g = group_of(number), *up = g;
		u64 nearest = 0, at = number;
		u32 background = 0;
		int i;

		if (number >= group_end)
			break;
		if (!g || !g->is_used)
			continue;
		bpf_for(i, 0, 64) {
			if (!up)
				break;
			if (up->quota && !nearest)
				nearest = at;
			background |= up->is_idle;
			at = up->parent;
			up = group_of(at);
		}
		g->capped = nearest;
		g->is_background = background;
		capped += g->quota != 0;
	}
	*(volatile u64 *)&caps = capped;
	return 0;
}

/* Runs the group timer at once. */
static __always_inline void wake_group_timer(void)
{
	u32 zero = 0;
	struct timer_value *value = bpf_map_lookup_elem(&group_timers, &zero);

	if (value)
		bpf_timer_start(&value->timer, 1, 0);
}

/* A quota of 2^44 us and more is `max`. */
static __always_inline void set_quota(struct group *g, u64 period_us, u64 quota_us, u64 burst_us)
{
	bool has_cap = quota_us && quota_us < 1ULL << 44 && period_us;

	g->period = period_us * 1000;
	g->burst = burst_us < 1ULL << 44 ? burst_us * 1000 : 0;
	if (has_cap && !g->quota) {
		g->since = bpf_ktime_get_ns();
		g->due = 0;
		g->left = quota_us * 1000;
	}
	g->quota = has_cap ? quota_us * 1000 : 0;
}

/* Whether a cgroup is idle when the scheduler first sees it. False on kernels that do not report later changes. */
static __always_inline bool is_idle_from_the_start(struct cgroup *cgroup)
{
	struct task_group___x *tg;
	int idle = 0;

	if (!bpf_core_field_exists(struct sched_ext_ops, cgroup_set_idle))
		return false;
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id) || !bpf_core_field_exists(struct task_group___x, idle))
		return false;
	bpf_core_read(&tg, sizeof(tg), &((struct cgroup___x *)cgroup)->subsys[bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id)]);
	bpf_core_read(&idle, sizeof(idle), &tg->idle);
	return idle > 0;
}

SEC("struct_ops.s/cgroup_init")
s32 BPF_PROG(cgroup_init, struct cgroup *cgroup, struct scx_cgroup_init_args *args)
{
	struct cgroup_subsys_state___x *parent = ((struct cgroup___x *)cgroup)->self.parent;
	u64 id = id_of(cgroup), number = 0, i;
	struct group *g = NULL;
	s32 error;

	bpf_for(i, 1, MOST_GROUPS) {
		g = group_of(i);
		if (g && !g->is_used) {
			number = i;
			break;
		}
	}
	if (!number || !g)
		return 0;
	error = scx_bpf_create_dsq(PARKED_DSQ(number), -1);
	if (error)
		return error;
	__builtin_memset(g, 0, sizeof(*g));
	g->is_used = 1;
	if (parent)
		g->parent = number_of(parent->cgroup->kn->id);
	if (bpf_core_field_exists(args->bw_quota_us))
		set_quota(g, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	g->is_idle = is_idle_from_the_start(cgroup);
	if (number >= group_end)
		group_end = number + 1;
	bpf_map_update_elem(&group_numbers, &id, &number, BPF_ANY);
	inherit();
	if (g->quota)
		wake_group_timer();
	return 0;
}

SEC("struct_ops.s/cgroup_exit")
void BPF_PROG(cgroup_exit, struct cgroup *cgroup)
{
	u64 id = id_of(cgroup), number = number_of(id);
	struct group *g = group_of(number);

	if (!g)
		return;
	bpf_map_delete_elem(&group_numbers, &id);
	scx_bpf_destroy_dsq(PARKED_DSQ(number));
	g->is_used = g->quota = 0;
	inherit();
}

SEC("struct_ops/cgroup_move")
void BPF_PROG(cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task *tc = task_of(p);

	if (!tc)
		return;
	pay(p, tc);
	tc->group = number_of(id_of(to));
}

SEC("struct_ops/cgroup_set_bandwidth")
void BPF_PROG(cgroup_set_bandwidth, struct cgroup *cgroup, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct group *g = group_of(number_of(id_of(cgroup)));

	if (!g)
		return;
	set_quota(g, period_us, quota_us, burst_us);
	inherit();
	wake_group_timer();
}

SEC("struct_ops/cgroup_set_idle")
void BPF_PROG(cgroup_set_idle, struct cgroup *cgroup, bool idle)
{
	struct group *g = group_of(number_of(id_of(cgroup)));

	if (!g)
		return;
	g->is_idle = idle;
	inherit();
}

#endif
