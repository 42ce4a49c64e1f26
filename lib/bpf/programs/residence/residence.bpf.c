/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * How long the threads of some programs ran on each processor. A thread that belongs to a program is marked with the program's number, in
 * the thread's own storage; a child inherits the mark. At each switch the time since the last one goes to the program of the thread that
 * leaves. The reader adds the span that still goes on, so that nothing has to happen on a processor for its figures to be right: memory is
 * read, and no processor is interrupted.
 *
 * Marks are set by an iterator over all threads, which asks for the nearest ancestor that is a program.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* How many programs there are: words of times for each processor. */
const volatile __u64 programs = 1;

/* Of a thread: its program, counted from 1 (0 is none), and since when that is known; 0 for since it began. */
struct mark {
	__u64 program;
	__u64 since;
};

TASK_STORAGE(marks, struct mark);

/* The number of each program, by that of its process as the reader has it. */
MAP(HASH, wanted, __u64, __u64, 1);

/* What goes on on a processor; a cache line and more, so that processors do not slow each other. src/residence.rs has the same. */
struct row {
	/* Odd while it is being written. */
	__u64 version;
	/* When the last switch was, on the monotonic clock; 0 before the first. */
	__u64 since;
	/* The program of the thread that came then, or 0. */
	__u64 running;
	/* How often a thread of a program could not be marked here: the kernel had no memory for it. */
	__u64 refused;
	__u64 unused[12];
};

ARRAY(rows, struct row, BPF_F_MMAPABLE);

/* Nanoseconds, by processor and program. */
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

/* Threads of a program and processes that it starts belong to it. */
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

/* The number of a process in the namespace that is `level` deep. */
static __always_inline __u64 number_in(struct pid___r *pid, unsigned int level)
{
	int number = 0;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)&pid->numbers[0].nr + level * bpf_core_type_size(struct upid___r));
	return number;
}

/* Processes stand no deeper below one another than this. */
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

/* Of a thread that belongs to a program; src/residence.rs takes it apart. */
struct record {
	/* The number of the program. */
	__u64 program;
	/* 1 for one that has not ended. */
	__u64 alive;
	/* Whether it is on a processor, and on which. */
	__u64 on_cpu;
	__u64 cpu;
	/* Since when its time is counted; 0 for since it began. */
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
