/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * sched_ext, the kernel's scheduling class for loadable schedulers: the callbacks and kernel functions that the scheduler of the classes
 * uses. One object serves kernels from 6.17 on.
 *
 * Kernel functions (kfuncs) were added, removed and changed between versions. Each form is a weak symbol: it is 0 where the kernel lacks it,
 * and branches on that are resolved at load time. libbpf removes one `___suffix` from a name before it looks for the symbol; where the
 * kernel's own name ends in one, ours has two.
 */
#ifndef MILLPOND_SCHED_EXT_BPF_H
#define MILLPOND_SCHED_EXT_BPF_H

#include "kernel.bpf.h"

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#define NULL ((void *)0)
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define CLOCK_MONOTONIC 1
#define NICE_0 120

/* Built-in dispatch queues: the local queue of the current CPU, and of a given CPU. */
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_LOCAL_ON (3ULL << 62)
#define SCX_SLICE_INF (~0ULL)
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_EXITING 4ULL
#define SCX_OPS_ENQ_MIGRATION_DISABLED 16ULL
#define SCX_TASK_QUEUED 1

/* Some of these values changed in 6.19. The kernel's own values are read at load time. */
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ULL << 0,
	SCX_ENQ_HEAD = 1ULL << 4,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
};
#define ENQ(name) bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_##name)

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cgroup;
struct kernfs_node___x {
	u64 id;
};
struct cgroup___x;
struct cgroup_subsys_state___x {
	struct cgroup___x *cgroup;
	struct cgroup_subsys_state___x *parent;
};
struct cgroup___x {
	struct cgroup_subsys_state___x self;
	struct kernfs_node___x *kn;
	struct cgroup_subsys_state___x *subsys[16];
};
/* What the controller `cpu` has of a cgroup: the state of the controller is its first member. */
struct task_group___x {
	int idle;
};
enum cgroup_subsys_id {
	cpu_cgrp_id = 1,
};
struct cpumask {
	unsigned long bits[1];
};

struct sched_entity___x {
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

/* A controlling terminal with its foreground process group, and the pids of a process by kind. */
struct pid;
struct tty_struct___x {
	struct {
		struct pid *pgrp;
	} ctrl;
};
#define PIDTYPE_PGID 2
struct signal_struct___x {
	int leader;
	struct tty_struct___x *tty;
	struct pid *pids[4];
};

/* Task members that only this scheduler reads. */
struct task_struct___x {
	int pid;
	int tgid;
	unsigned int flags;
	int static_prio;
	int nr_cpus_allowed;
	unsigned short migration_disabled;
	unsigned int policy;
	/* Nesting depth of RCU read-side sections; exists only in kernels with preemptible RCU. */
	int rcu_read_lock_nesting;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	struct sched_entity___x se;
	struct sched_ext_entity scx;
	u64 start_boottime;
	struct signal_struct___x *signal;
	char comm[16];
};

/* A CPU's count of timer interrupts. */
struct hrtimer_cpu_base___x {
	unsigned int nr_events;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};
struct scx_cgroup_init_args {
	u32 weight;
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};
struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	unsigned long *bt;
	u32 bt_len;
	char *msg;
	char *dump;
};
struct scx_cpu_release_args;
struct scx_exit_task_args;
struct scx_dump_ctx;

/* The loader writes the first four members by their offsets: keep their order. */
struct sched_ext_ops {
	u64 flags;
	u64 hotplug_seq;
	u32 timeout_ms;
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	s32 (*cgroup_init)(struct cgroup *cgroup, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgroup);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_bandwidth)(struct cgroup *cgroup, u64 period_us, u64 quota_us, u64 burst_us);
	void (*cgroup_set_idle)(struct cgroup *cgroup, bool idle);
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*dump_task)(struct scx_dump_ctx *ctx, struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 exit_dump_len;
	char name[128];
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

#pragma clang attribute pop

/* These live on the program's stack or in maps; sizes match the kernel's. */
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));
struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
u64 scx_bpf_now(void) __ksym;
void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 len) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym;
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 flags) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 flags) __ksym;
extern struct hrtimer_cpu_base___x hrtimer_bases __ksym __weak;
extern int __preempt_count __ksym __weak;
/* Until 6.18 only callable from cpu_release. Kernels with the second form warn about schedulers that have this callback. */
u32 scx_bpf_reenqueue_local(void) __ksym __weak;
void scx_bpf_reenqueue_local___v2___two(void) __ksym __weak;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

/* Until 6.18 it returns nothing. */
bool scx_bpf_dsq_insert___v2___two(struct task_struct *p, u64 dsq_id, u64 slice, u64 flags) __ksym __weak;
void scx_bpf_dsq_insert___one(struct task_struct *p, u64 dsq_id, u64 slice, u64 flags) __ksym __weak;

static __always_inline void dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___two))
		scx_bpf_dsq_insert___v2___two(p, dsq, slice, flags);
	else
		scx_bpf_dsq_insert___one(p, dsq, slice, flags);
}

/* From 6.19 on the arguments are in a structure. */
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
void scx_bpf_dsq_insert_vtime___one(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags) __ksym __weak;

static __always_inline void dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags)
{
	if (bpf_core_type_exists(struct scx_bpf_dsq_insert_vtime_args)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq, .slice = slice, .vtime = vtime, .enq_flags = flags
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
	} else {
		scx_bpf_dsq_insert_vtime___one(p, dsq, slice, vtime, flags);
	}
}

/* From 7.1 on with flags. */
bool scx_bpf_dsq_move_to_local___v2___two(u64 dsq, u64 flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___one(u64 dsq) __ksym __weak;

static __always_inline bool dsq_move_to_local(u64 dsq)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___two))
		return scx_bpf_dsq_move_to_local___v2___two(dsq, 0);
	return scx_bpf_dsq_move_to_local___one(dsq);
}

/* From 6.19 on. Until 7.0 it may give a thread that has left the queue; nothing says that but what came with 7.1. */
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;
#define CAN_PEEK (bpf_ksym_exists(scx_bpf_dsq_peek) && bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___two))

/* Until 6.18 the members of the thread are written, which later kernels warn of. */
bool scx_bpf_task_set_slice___two(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime___two(struct task_struct *p, u64 vtime) __ksym __weak;

/* Whether a scheduler can return the threads in a local queue to `enqueue` from any callback. */
#define CAN_REENQUEUE bpf_ksym_exists(scx_bpf_reenqueue_local___v2___two)

static __always_inline void reenqueue_local(void)
{
	if (CAN_REENQUEUE)
		scx_bpf_reenqueue_local___v2___two();
}

#define X(p) ((struct task_struct___x *)(p))

static __always_inline void set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice___two))
		scx_bpf_task_set_slice___two(p, slice);
	else
		X(p)->scx.slice = slice;
}

static __always_inline void set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime___two))
		scx_bpf_task_set_dsq_vtime___two(p, vtime);
	else
		X(p)->scx.dsq_vtime = vtime;
}

#endif
