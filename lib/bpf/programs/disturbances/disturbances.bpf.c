/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * OS noise on a set of CPUs: everything that runs there and is not the job, by kind, name and sender, with count, total and longest time.
 * Sums are in a map. Stretches longer than a threshold are reported one by one in a ring buffer.
 *
 * Interrupts begin and end at tracepoints, threads at context switches; nesting.h assigns the time. On a CPU that is not watched a program
 * reads one word and returns.
 */
#include "kernel.bpf.h"
#include "nesting.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Kinds, from 1: src/disturbances.rs has the same. VECTOR is an interrupt that is known by its number only. */
enum kind { HOME, DEVICE, VECTOR, SOFT, TIMER, WORK, KERNEL, TASK, FAULT, NMI, CALL, NUDGE };
/* Origin of a disturbance; in the bits above the kind. */
enum whose { OTHERS, JOB, OURS };
#define WHOSE(whose) ((__u64)(whose) << 16)
/* Vectors: the order of VECTORS in src/disturbances.rs. */
enum vector { LOCAL_TIMER = 1, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK, PLATFORM, SPURIOUS, APIC_ERROR, THERMAL, THRESHOLD, DEFERRED, ARM_IPI };

#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define RB_NO_WAKEUP 1

/*
 * Constants that the loader sets: the process that watches, the shortest stretch to report in nanoseconds, and the address of the function
 * that wakes a sleeper (hrtimer_wakeup).
 */
const volatile __u64 watcher = 0;
const volatile __u64 worth_telling = 0;
const volatile __u64 wakes_sleeper = 0;

struct key {
	__u64 cpu;
	__u64 kind;
	__u64 name;
	__u64 words[2];
};

struct sum {
	__u64 count;
	__u64 total;
	__u64 longest;
	__u64 longest_at;
	__u64 sender;
};

struct sender {
	__u64 words[2];
	__u64 tgid;
	__u64 whose;
};

/* By CPU: what runs on it. */
ARRAY(states, struct state, 0);

MAP(HASH, sums, struct key, struct sum, 16384);

/* Threads of the job. */
MAP(HASH, job, __u64, __u64, 65536);

/* Kernel workers and the function that each executes. */
MAP(LRU_HASH, working, __u64, __u64, 4096);

/* Pending calls to a watched CPU, and their senders. */
MAP(LRU_HASH, calls, __u64, struct sender, 4096);

/* By CPU: the last sender of a reschedule interrupt. */
MAP(HASH, nudges, __u64, struct sender, 1);

/* Losses: sums, stretches, members of the job. */
MAP(HASH, lost, __u64, __u64, 4);
enum { LOST_SUMS, LOST_STRETCHES, LOST_MEMBERS };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} stretches SEC(".maps");

static __always_inline void lose(__u64 what)
{
	__u64 one = 1, *count = bpf_map_lookup_elem(&lost, &what);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&lost, &what, &one, BPF_ANY);
}

/* The state of a CPU, or 0 if it is not watched. */
static __always_inline struct state *state_of(__u32 cpu)
{
	struct state *state = bpf_map_lookup_elem(&states, &cpu);

	return state && state->on ? state : 0;
}

static __noinline void add(const struct what *what, __u64 count, __u64 own, __u64 start)
{
	struct key key = { .cpu = bpf_get_smp_processor_id() };
	struct sum *sum, none = {};

	if (!what)
		return;
	key.kind = what->kind;
	key.name = what->name;
	key.words[0] = what->words[0];
	key.words[1] = what->words[1];
	sum = bpf_map_lookup_elem(&sums, &key);
	if (!sum) {
		bpf_map_update_elem(&sums, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sums, &key);
		if (!sum) {
			lose(LOST_SUMS);
			return;
		}
	}
	__sync_fetch_and_add(&sum->count, count);
	__sync_fetch_and_add(&sum->total, own);
	sum->sender = what->sender;
	if (own > sum->longest) {
		sum->longest = own;
		sum->longest_at = start;
	}
}

static __always_inline void charge(const struct what *what, __u64 own, __u64 start)
{
	add(what, 1, own, start);
}

struct stretch {
	__u64 cpu;
	__u64 start;
	__u64 length;
	struct what culprit;
};

static __always_inline void tell_stretch(struct state *state, __u64 start, __u64 length)
{
	struct stretch *stretch;

	if (length < worth_telling)
		return;
	stretch = bpf_ringbuf_reserve(&stretches, sizeof(*stretch), 0);
	if (!stretch) {
		lose(LOST_STRETCHES);
		return;
	}
	stretch->cpu = bpf_get_smp_processor_id();
	stretch->start = start;
	stretch->length = length;
	stretch->culprit = state->culprit;
	/* Wakes no reader, because a wake-up would be a disturbance: the reader polls. */
	bpf_ringbuf_submit(stretch, RB_NO_WAKEUP);
}

static __always_inline __u64 whose(__u64 tid, __u64 tgid)
{
	if (tgid == watcher)
		return OURS;
	return bpf_map_lookup_elem(&job, &tid) ? JOB : OTHERS;
}

/* The activity of a CPU that runs this thread. */
static __always_inline void of_task(struct task_struct *task, struct what *what)
{
	__u64 tid = (__u32)BPF_CORE_READ(task, pid), tgid = (__u32)BPF_CORE_READ(task, tgid), *function;
	__u32 flags = BPF_CORE_READ(task, flags);

	__builtin_memset(what, 0, sizeof(*what));
	if (!tid || bpf_map_lookup_elem(&job, &tid))
		return;
	what->sender = tgid;
	if (flags & PF_WQ_WORKER) {
		function = bpf_map_lookup_elem(&working, &tid);
		if (function) {
			what->kind = WORK;
			what->name = *function;
			return;
		}
	}
	what->kind = flags & PF_KTHREAD ? KERNEL : TASK | WHOSE(tgid == watcher ? OURS : OTHERS);
	bpf_probe_read_kernel(what->words, sizeof(what->words), &task->comm);
}

/* The state of this CPU. The first event on a watched CPU finds out which thread it runs. */
static __always_inline struct state *here(__u64 now)
{
	struct state *state = state_of(bpf_get_smp_processor_id());

	if (state && !state->frames[0].start) {
		of_task((struct task_struct *)bpf_get_current_task(), &state->frames[0].what);
		state->frames[0].start = now;
		if (state->frames[0].what.kind)
			leave_home(state, now);
	}
	return state;
}

static __always_inline void sender_here(struct sender *sender)
{
	__u64 both = bpf_get_current_pid_tgid();

	sender->tgid = both >> 32;
	sender->whose = whose((__u32)both, both >> 32);
	sender->words[0] = sender->words[1] = 0;
	bpf_get_current_comm(sender->words, sizeof(sender->words));
}

static __always_inline void sent_by(struct what *what, const struct sender *sender)
{
	what->kind |= WHOSE(sender->whose);
	what->words[0] = sender->words[0];
	what->words[1] = sender->words[1];
	what->sender = sender->tgid;
}

static __always_inline int opens(__u64 kind, __u64 name, __u64 id)
{
	__u64 now = bpf_ktime_get_ns();
	struct state *state = here(now);
	struct what what = { .kind = kind, .name = name };

	if (state)
		begin(state, now, &what, id);
	return 0;
}

static __always_inline int closes(__u64 id)
{
	__u64 now = bpf_ktime_get_ns();
	struct state *state = here(now);

	if (state)
		end(state, now, id);
	return 0;
}

/* Makes ids unique across kinds: numbers are small, other ids are addresses. */
#define ID(kind, number) ((__u64)(kind) << 48 | (number))

/* Arguments: preempted, previous task, next task, state of the previous one. */
TRACEPOINT(sched_switch)
{
	__u64 now = bpf_ktime_get_ns();
	struct state *state = here(now);
	struct what what;

	if (!state)
		return 0;
	of_task((struct task_struct *)ctx->args[2], &what);
	turn(state, now, &what);
	return 0;
}

/* Arguments: number, action. */
TRACEPOINT(irq_handler_entry)
{
	return opens(DEVICE, (__u32)ctx->args[0], ID(DEVICE, (__u32)ctx->args[0]));
}

TRACEPOINT(irq_handler_exit)
{
	return closes(ID(DEVICE, (__u32)ctx->args[0]));
}

/* Argument: softirq number. */
TRACEPOINT(softirq_entry)
{
	return opens(SOFT, (__u32)ctx->args[0], ID(SOFT, (__u32)ctx->args[0]));
}

TRACEPOINT(softirq_exit)
{
	return closes(ID(SOFT, (__u32)ctx->args[0]));
}

#define VECTOR_EACH(tracepoint, vector)                            \
	TRACEPOINT(tracepoint##_entry)                             \
	{                                                          \
		return opens(VECTOR, vector, ID(VECTOR, vector));  \
	}                                                          \
	TRACEPOINT(tracepoint##_exit)                              \
	{                                                          \
		return closes(ID(VECTOR, vector));                 \
	}

VECTOR_EACH(local_timer, LOCAL_TIMER)
VECTOR_EACH(call_function, CALL_FUNCTION)
VECTOR_EACH(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR_EACH(irq_work, IRQ_WORK)
VECTOR_EACH(x86_platform_ipi, PLATFORM)
VECTOR_EACH(spurious_apic, SPURIOUS)
VECTOR_EACH(error_apic, APIC_ERROR)
VECTOR_EACH(thermal_apic, THERMAL)
VECTOR_EACH(threshold_apic, THRESHOLD)
VECTOR_EACH(deferred_error_apic, DEFERRED)
VECTOR_EACH(ipi, ARM_IPI)

/* A reschedule interrupt is attributed to its last sender. */
TRACEPOINT(reschedule_entry)
{
	__u64 now = bpf_ktime_get_ns(), cpu = bpf_get_smp_processor_id();
	struct state *state = here(now);
	struct what what = { .kind = NUDGE };
	struct sender *sender;

	if (!state)
		return 0;
	sender = bpf_map_lookup_elem(&nudges, &cpu);
	if (sender)
		sent_by(&what, sender);
	begin(state, now, &what, ID(VECTOR, RESCHEDULE));
	return 0;
}

TRACEPOINT(reschedule_exit)
{
	return closes(ID(VECTOR, RESCHEDULE));
}

/* Arguments: target, call site, function. No function: a reschedule interrupt. */
TRACEPOINT(ipi_send_cpu)
{
	__u32 cpu = ctx->args[0];
	__u64 key = cpu;
	struct sender sender;

	if (ctx->args[2] || !state_of(cpu))
		return 0;
	sender_here(&sender);
	bpf_map_update_elem(&nudges, &key, &sender, BPF_ANY);
	return 0;
}

/* Arguments: target, call site, function, the call itself. */
TRACEPOINT(csd_queue_cpu)
{
	__u64 call = ctx->args[3];
	struct sender sender;

	if (!state_of((__u32)ctx->args[0]))
		return 0;
	sender_here(&sender);
	bpf_map_update_elem(&calls, &call, &sender, BPF_ANY);
	return 0;
}

/*
 * The work of an interrupt that is known by its number only. The first piece of work names the interrupt, which is therefore counted once;
 * each further piece gets a frame of its own.
 */
static __always_inline void name_or_begin(struct state *state, __u64 now, const struct what *what, __u64 id)
{
	struct frame *top = place(state, state->depth);

	if (state->depth && (top->what.kind & 0xffff) == VECTOR)
		top->what = *what;
	else
		begin(state, now, what, id);
}

/* Arguments: function, the call itself. The call is 0 where a thread calls the function for its own CPU: that is the thread's time. */
TRACEPOINT(csd_function_entry)
{
	__u64 now = bpf_ktime_get_ns(), call = ctx->args[1];
	struct state *state = here(now);
	struct what what = { .kind = CALL, .name = ctx->args[0] };
	struct sender *sender;

	if (!state || !call)
		return 0;
	sender = bpf_map_lookup_elem(&calls, &call);
	if (sender)
		sent_by(&what, sender);
	name_or_begin(state, now, &what, call);
	return 0;
}

TRACEPOINT(csd_function_exit)
{
	return ctx->args[1] ? closes(ctx->args[1]) : 0;
}

/* Arguments: timer, now. */
TRACEPOINT(hrtimer_expire_entry)
{
	__u64 now = bpf_ktime_get_ns(), tid, tgid;
	struct hrtimer *timer = (struct hrtimer *)ctx->args[0];
	struct state *state = here(now);
	struct what what = { .kind = TIMER };
	struct task_struct *task;

	if (!state)
		return 0;
	what.name = (__u64)BPF_CORE_READ(timer, function);
	if (what.name && what.name == wakes_sleeper) {
		/* The timer is the first member of its sleeper. */
		task = BPF_CORE_READ((struct hrtimer_sleeper *)timer, task);
		if (task) {
			tid = (__u32)BPF_CORE_READ(task, pid);
			tgid = (__u32)BPF_CORE_READ(task, tgid);
			what.kind |= WHOSE(whose(tid, tgid));
			what.sender = tgid;
			bpf_probe_read_kernel(what.words, sizeof(what.words), &task->comm);
		}
	}
	name_or_begin(state, now, &what, (__u64)timer);
	return 0;
}

TRACEPOINT(hrtimer_expire_exit)
{
	return closes(ctx->args[0]);
}

/* Arguments: timer, expiry time. */
TRACEPOINT(timer_expire_entry)
{
	struct timer_list *timer = (struct timer_list *)ctx->args[0];

	return opens(TIMER, (__u64)BPF_CORE_READ(timer, function), (__u64)timer);
}

TRACEPOINT(timer_expire_exit)
{
	return closes(ctx->args[0]);
}

/* A worker begins or ends a function. Handled like a switch to another thread. */
static __always_inline int works(__u64 function)
{
	__u64 now = bpf_ktime_get_ns(), tid = (__u32)bpf_get_current_pid_tgid();
	struct state *state = here(now);
	struct what what;

	if (!state)
		return 0;
	if (function)
		bpf_map_update_elem(&working, &tid, &function, BPF_ANY);
	else
		bpf_map_delete_elem(&working, &tid);
	of_task((struct task_struct *)bpf_get_current_task(), &what);
	turn(state, now, &what);
	return 0;
}

/* Argument: the work. */
TRACEPOINT(workqueue_execute_start)
{
	return works((__u64)BPF_CORE_READ((struct work_struct *)ctx->args[0], func));
}

TRACEPOINT(workqueue_execute_end)
{
	return works(0);
}

/* Arguments: handler, duration, result. */
TRACEPOINT(nmi_handler)
{
	__u64 now = bpf_ktime_get_ns();
	struct state *state = here(now);
	struct what what = { .kind = NMI, .name = ctx->args[0] };

	if (state)
		within(state, now, &what, ctx->args[1]);
	return 0;
}

/* A page fault has no tracepoint at its end: it is counted without a duration. */
static __always_inline int faults(void)
{
	__u64 tid = (__u32)bpf_get_current_pid_tgid();
	struct what what = { .kind = FAULT | WHOSE(JOB) };

	if (!state_of(bpf_get_smp_processor_id()) || !bpf_map_lookup_elem(&job, &tid))
		return 0;
	bpf_get_current_comm(what.words, sizeof(what.words));
	what.sender = bpf_get_current_pid_tgid() >> 32;
	add(&what, 1, 0, 0);
	return 0;
}

TRACEPOINT(page_fault_user)
{
	return faults();
}

TRACEPOINT(page_fault_kernel)
{
	return faults();
}

/* Arguments: parent, child. Children of the job belong to the job. */
TRACEPOINT(sched_process_fork)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0], *child = (struct task_struct *)ctx->args[1];
	__u64 tid = (__u32)BPF_CORE_READ(parent, pid), one = 1;

	if (!bpf_map_lookup_elem(&job, &tid))
		return 0;
	tid = (__u32)BPF_CORE_READ(child, pid);
	if (bpf_map_update_elem(&job, &tid, &one, BPF_ANY))
		lose(LOST_MEMBERS);
	return 0;
}

/* Argument: task. Its pid may be reused soon. */
TRACEPOINT(sched_process_free)
{
	__u64 tid = (__u32)BPF_CORE_READ((struct task_struct *)ctx->args[0], pid);

	bpf_map_delete_elem(&job, &tid);
	return 0;
}
