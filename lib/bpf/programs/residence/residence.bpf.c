/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * CPU time of selected programs on each CPU. A thread of a program is marked with the program's number, in task storage; a child inherits
 * the mark. At each switch the time since the last one is added to the program of the previous thread. The reader adds the span in progress.
 * Figures are therefore current without any event on a CPU: the reader only reads memory and interrupts no CPU.
 *
 * An iterator over all threads sets the marks, by the nearest ancestor that is a selected program.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The number of programs: words of times per CPU. */
const volatile __u64 programs = 1;

/* The mark of a thread: its program, from 1 (0: none), and when the mark was set; 0 for the thread's beginning. */
struct mark {
	__u64 program;
	__u64 since;
};

TASK_STORAGE(marks, struct mark);

/* Program numbers by process id, in the reader's namespace. */
MAP(HASH, wanted, __u64, __u64, 1);

/* The state of a CPU. Two cache lines, to avoid false sharing between CPUs. src/residence.rs has the same. */
struct row {
	/* Odd during a write. */
	__u64 version;
	/* Time of the last switch, on the monotonic clock; 0 before the first. */
	__u64 since;
	/* The program of the thread switched to, or 0. */
	__u64 running;
	/* How often a thread could not be marked on this CPU, for lack of kernel memory. */
	__u64 refused;
	__u64 unused[12];
};

ARRAY(rows, struct row, BPF_F_MMAPABLE);

/* Nanoseconds, by CPU and program. */
ARRAY(times, __u64, BPF_F_MMAPABLE);

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid___r {
	int nr;
};
struct pid___r {
	unsigned int level;
	struct upid___r numbers[1];
};
struct thread_info___r {
	__u32 cpu;
};
struct task_struct___r {
	struct thread_info___r thread_info;
	int on_cpu;
	int exit_state;
	struct pid___r *thread_pid;
	struct task_struct___r *group_leader;
	struct task_struct___r *real_parent;
};

#pragma clang attribute pop

static __always_inline struct mark *mark_of(struct task_struct *task)
{
	return bpf_task_storage_get(&marks, task, 0, 0);
}

static __always_inline struct mark *put_mark(struct task_struct *task, struct mark *first)
{
	struct mark *mark = bpf_task_storage_get(&marks, task, first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u32 processor = bpf_get_smp_processor_id();
	struct row *row = mark ? 0 : bpf_map_lookup_elem(&rows, &processor);

	if (row)
		__sync_fetch_and_add(&row->refused, 1);
	return mark;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 processor = bpf_get_smp_processor_id();
	struct row *row = bpf_map_lookup_elem(&rows, &processor);
	__u64 now = bpf_ktime_get_ns();
	struct mark *mark;
	__u64 since, *time;
	__u32 word;

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->version, 1);
	since = row->since;
	mark = mark_of(prev);
	if (mark && mark->program) {
		if (since < mark->since)
			since = mark->since;
		word = processor * programs + mark->program - 1;
		time = bpf_map_lookup_elem(&times, &word);
		if (time && since && now > since)
			__sync_fetch_and_add(time, now - since);
	}
	mark = mark_of(next);
	*(volatile __u64 *)&row->running = mark ? mark->program : 0;
	*(volatile __u64 *)&row->since = now;
	__sync_fetch_and_add(&row->version, 1);
	return 0;
}

/* Threads of a program, and processes that it starts, belong to it. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct mark *mark = mark_of(parent);
	struct mark first = {};

	if (!mark || !mark->program)
		return 0;
	first.program = mark->program;
	put_mark(child, &first);
	return 0;
}

/* The id of a process in the namespace at depth `level`. */
static __always_inline __u64 number_in(struct pid___r *pid, unsigned int level)
{
	int number = 0;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)&pid->numbers[0].nr + level * bpf_core_type_size(struct upid___r));
	return number;
}

/* The largest depth of the search for an ancestor. */
#define ANCESTORS 48

static __always_inline __u64 program_of(struct task_struct___r *task, unsigned int level)
{
	struct task_struct___r *process = BPF_CORE_READ(task, group_leader);

	for (int i = 0; i < ANCESTORS; i++) {
		__u64 number = number_in(BPF_CORE_READ(process, thread_pid), level);
		__u64 *program = bpf_map_lookup_elem(&wanted, &number);
		struct task_struct___r *above;

		if (program && number)
			return *program;
		above = BPF_CORE_READ(process, real_parent, group_leader);
		if (!above || above == process)
			break;
		process = above;
	}
	return 0;
}

/* A thread of a program; src/residence.rs decodes it. */
struct record {
	/* The program's number. */
	__u64 program;
	/* 1 if it has not ended. */
	__u64 alive;
	/* Whether it is on a CPU, and on which. */
	__u64 on_cpu;
	__u64 cpu;
	/* Start of its counted time; 0 for the thread's beginning. */
	__u64 since;
};

SEC("iter/task")
int list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct___r *t = (void *)task;
	struct task_struct___r *self = (void *)bpf_get_current_task_btf();
	struct record record = {};
	struct mark *mark;
	unsigned int level;

	if (!task)
		return 0;
	level = BPF_CORE_READ(self, thread_pid, level);
	mark = mark_of(task);
	if (!mark) {
		struct mark first = { .program = program_of(t, level), .since = bpf_ktime_get_ns() };

		if (!first.program)
			return 0;
		mark = put_mark(task, &first);
	}
	if (!mark || !mark->program)
		return 0;
	record.program = mark->program;
	record.alive = !BPF_CORE_READ(t, exit_state);
	record.on_cpu = BPF_CORE_READ_BITFIELD_PROBED(t, on_cpu);
	record.cpu = BPF_CORE_READ(t, thread_info.cpu);
	record.since = mark->since;
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
