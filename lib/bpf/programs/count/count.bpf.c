/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Event counters for mpstat: a row of words per CPU, a word per column, mapped into the reader's memory. A program adds one to a word of
 * its CPU. No program needs a kernel structure.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The columns, in the order of the listing. src/count.rs has the same. */
enum column { MINF, MJF, XCAL, INTR, ITHR, CSW, ICSW, MIGR, SMTX, SRW, SYSCL, COLUMNS };

/* Two cache lines, to avoid false sharing between CPUs. */
struct row {
	__u64 words[16];
};

ARRAY(rows, struct row, BPF_F_MMAPABLE);

static __always_inline void count_on(__u32 processor, enum column column)
{
	struct row *row = bpf_map_lookup_elem(&rows, &processor);

	if (row)
		__sync_fetch_and_add(&row->words[column], 1);
}

static __always_inline void count(enum column column)
{
	count_on(bpf_get_smp_processor_id(), column);
}

#define COUNT_EACH(tracepoint, column)                             \
	TRACEPOINT(tracepoint)                                     \
	{                                                          \
		count(column);                                     \
		return 0;                                          \
	}

COUNT_EACH(sys_enter, SYSCL)
COUNT_EACH(page_fault_user, MINF)
COUNT_EACH(page_fault_kernel, MINF)

/*
 * Each kind of interrupt has its own tracepoint; the set depends on the architecture. The first, for devices, exists everywhere; ipi_entry
 * is for Arm and others; the rest are for x86.
 */
COUNT_EACH(irq_handler_entry, INTR)
COUNT_EACH(ipi_entry, INTR)
COUNT_EACH(local_timer_entry, INTR)
COUNT_EACH(reschedule_entry, INTR)
COUNT_EACH(call_function_entry, INTR)
COUNT_EACH(call_function_single_entry, INTR)
COUNT_EACH(irq_work_entry, INTR)
COUNT_EACH(x86_platform_ipi_entry, INTR)
COUNT_EACH(spurious_apic_entry, INTR)
COUNT_EACH(error_apic_entry, INTR)
COUNT_EACH(thermal_apic_entry, INTR)
COUNT_EACH(threshold_apic_entry, INTR)
COUNT_EACH(deferred_error_apic_entry, INTR)

/* Arguments: preempted, previous task, next task, state of the previous task (0: runnable). */
TRACEPOINT(sched_switch)
{
	count(CSW);
	/* The idle thread (pid 0) is never preempted: it has no work to lose. */
	if ((__u32)bpf_get_current_pid_tgid() == 0)
		return 0;
	if ((__u8)ctx->args[0] || (__u32)ctx->args[3] == 0)
		count(ICSW);
	return 0;
}

/* Arguments: task, destination CPU. Counted on the destination. */
TRACEPOINT(sched_migrate_task)
{
	count_on((__u32)ctx->args[1], MIGR);
	return 0;
}

/*
 * Softirqs that finish device work, as bits: HI 0, NET_TX 2, NET_RX 3, BLOCK 4, IRQ_POLL 5, TASKLET 6. The others (TIMER, SCHED, HRTIMER,
 * RCU) belong to clocks.
 */
#define DEVICE_SOFTIRQS 0x7d

/* Argument: softirq number. */
TRACEPOINT(softirq_entry)
{
	__u32 number = ctx->args[0];

	if (number < 32 && (DEVICE_SOFTIRQS >> number & 1))
		count(ITHR);
	return 0;
}

/* Arguments: number, action, result. A result with bit 1 (IRQ_WAKE_THREAD) wakes the interrupt thread. */
TRACEPOINT(irq_handler_exit)
{
	if (ctx->args[2] & 2)
		count(ITHR);
	return 0;
}

/* Arguments: target, call site, function. Without a function it is a reschedule interrupt, not a cross call. */
static __always_inline int call(struct bpf_raw_tracepoint_args *ctx)
{
	if (ctx->args[2])
		count(XCAL);
	return 0;
}

TRACEPOINT(ipi_send_cpu)
{
	return call(ctx);
}

TRACEPOINT(ipi_send_cpumask)
{
	return call(ctx);
}

enum { SPINNING = 1, READER = 2, WRITER = 4, REAL_TIME = 8, MUTEX = 32 };

/* Arguments: lock, flags. */
TRACEPOINT(contention_begin)
{
	__u32 flags = ctx->args[1];

	/* A spinning mutex: once per contended mutex. Or a lock of a real-time kernel. */
	if ((flags & (MUTEX | SPINNING)) == (MUTEX | SPINNING) || (flags & (REAL_TIME | READER | WRITER)) == REAL_TIME)
		count(SMTX);
	/* A reader or writer that is about to block. */
	if (!(flags & SPINNING) && (flags & (READER | WRITER)))
		count(SRW);
	return 0;
}

/* Major faults have no tracepoint: a per-CPU perf event runs this program at each fault. */
SEC("perf_event")
int major_fault(void *ctx)
{
	count(MJF);
	return 0;
}
