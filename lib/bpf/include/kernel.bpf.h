/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Kernel types for the programs: integer types, and the structure members that are read. The loader finds their offsets in the running
 * kernel (CO-RE) from the kernel's own type information (BTF).
 */
#ifndef MILLPOND_KERNEL_BPF_H
#define MILLPOND_KERNEL_BPF_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0

/* Kinds of maps and their flags: the kernel's numbers. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_MMAPABLE = 1 << 10,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1 << 0,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	int prio;
	char comm[16];
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
};

/* A timer and its callback. */
struct hrtimer {
	long long _softexpires;
	void *function;
};

/* A sleeping thread and the timer that wakes it. */
struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
};

struct irqaction {
	const char *name;
};

struct timer_list {
	void *function;
};

struct work_struct {
	void *func;
};

/* Arguments of an iterator over threads. */
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* Arguments of a tracepoint, in order. */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* Maps: a map with this many entries by key; an array of values by CPU or index, whose length the loader sets; one value per thread. */
#define MAP(kind, name, key_type, value_type, entries) \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_##kind);     \
		__uint(max_entries, entries);          \
		__type(key, key_type);                 \
		__type(value, value_type);             \
	} name SEC(".maps")

#define ARRAY(name, value_type, flags)                 \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);      \
		__uint(map_flags, flags);              \
		__uint(max_entries, 1);                \
		__type(key, __u32);                    \
		__type(value, value_type);             \
	} name SEC(".maps")

#define TASK_STORAGE(name, value_type)                 \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE); \
		__uint(map_flags, BPF_F_NO_PREALLOC);  \
		__type(key, int);                      \
		__type(value, value_type);             \
	} name SEC(".maps")

/* A program at the tracepoint of this name. `ctx` has the arguments. */
#define TRACEPOINT(name) SEC("raw_tp/" #name) int name(struct bpf_raw_tracepoint_args *ctx)

#endif
