/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Microstates: the time that each thread spends in each state. A thread's account is in task storage. Programs at switches, wake-ups and
 * faults end one span of time and begin the next; an iterator writes a record for each thread, with its account. Every nanosecond from the
 * first sight of a thread on belongs to exactly one state.
 *
 * On a CPU a thread is in user mode or in the kernel. Programs at each system call separate these exactly, and cost more than everything
 * else here, because no event is as frequent. Without them, the time on a CPU is still exact, and is divided by the clock ticks since the
 * last reading.
 */
#include "kernel.bpf.h"
#include "histogram.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* 0: the iterator only lists threads and opens no accounts. */
const volatile __u64 keeps_accounts = 1;

/* 1: system calls are counted, and begin and end spans. */
const volatile __u64 keeps_calls = 0;

/* 1: accounts also record the causes of waits. */
const volatile __u64 keeps_causes = 0;

/* The states, in the order of the record. src/microstates.rs has the same. */
enum state { USER, SYSTEM, TEXT_FAULT, DATA_FAULT, LOCK, ASLEEP, WAITING, STOPPED, STATES };

struct account {
	__u64 times[STATES];
	/* When the present state began, and when the thread was first seen; on the scheduler's clock. */
	__u64 since;
	__u64 began;
	__u64 calls;
	__u64 signals;
	__u32 state;
	/* Clock ticks in user mode and in the kernel at the last reading, and the CPU time divided by then. */
	__u64 ticks[2];
	__u64 divided[2];
	/* It never leaves the kernel. */
	__u8 of_kernel;
	/* It is in a system call; only if system calls are kept. */
	__u8 in_call;
	/* Its state if it sleeps outside of a system call: the last fault, or 0. */
	__u8 fault;
	/* It was on a CPU at first sight, and the mode is a guess: the next system call corrects it. */
	__u8 guessed;
	/* It waits for a disk. */
	__u8 disk;
	/* How the present wait for a lock ends, as far as known: enum ended. */
	__u8 ended;
	/* The futex word of its present or last wait; the expected value; the holder, if known. */
	__u64 lock;
	__u32 value;
	__u32 holder;
	/* enum operation, and SHARED. */
	__u32 how;
};

TASK_STORAGE(accounts, struct account);

/* How long threads waited for a CPU, by the CPU that they got. */
ARRAY(waits, struct histogram, BPF_F_MMAPABLE);

/* How a futex call waits. src/microstates.rs has the same. */
enum operation { WAIT, LOCK_PI, REQUEUE_PI, SEVERAL };
#define SHARED 0x100

/* How a wait ended. */
enum ended { BY_ANYTHING, BY_WAKE_UP, BY_END };

/* Remembered futex words per thread. A power of two. */
#define LOCKS 8

/* The waits at one futex word. src/microstates.rs has the same. */
struct lock {
	__u64 address;
	__u64 waited;
	/* The smallest and the largest expected value. */
	__u32 least;
	__u32 most;
	/*
	 * Waits ended by a wake call at the word by which the thread gained something; those after which it made such a call itself; those
	 * ended by the exit of another thread.
	 */
	__u32 woken;
	__u32 released;
	__u32 ends;
	/* The id of the holder, in the namespace of the process; 0: unknown. */
	__u32 holder;
	__u32 how;
	/* It was woken, and has not made a wake call since. */
	__u32 owes;
	/*
	 * Time from wake-ups to these wake calls; the run time and sleep time within it; run time from the last wake call to the next wait.
	 */
	__u64 held;
	__u64 held_ran;
	__u64 held_slept;
	__u64 apart_ran;
	/* The last wake-up or wake call: its time, and the thread's run time and sleep time then. */
	__u64 mark;
	__u64 mark_ran;
	__u64 mark_slept;
};

/* Causes of waits. src/microstates.rs has the same. */
struct causes {
	/* Time asleep for a disk. */
	__u64 disk;
	/* Time for locks that are not remembered any more. */
	__u64 forgotten;
	/* The remembered locks; address 0 is an unknown one. */
	struct lock locks[LOCKS];
};

/* Follows the causes in a record: the wait in progress, and the thread's id in its own namespace. */
struct present {
	struct lock lock;
	__u64 own;
};

TASK_STORAGE(causes_of, struct causes);

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid___m {
	int nr;
};
struct pid___m {
	unsigned int level;
	struct upid___m numbers[1];
};
struct thread_info___m {
	__u32 cpu;
};
typedef struct {
	__u32 val;
} kuid___m;
struct cred___m {
	kuid___m uid;
	kuid___m euid;
};
struct rq___m {
	__u64 clock;
};
struct cfs_rq___m {
	struct rq___m *rq;
};
struct sched_entity___m {
	__u64 sum_exec_runtime;
	struct cfs_rq___m *cfs_rq;
};
struct sched_info___m {
	unsigned long long run_delay;
};
struct signal_struct___m {
	struct pid___m *pids[4];
	unsigned long long sum_sched_runtime;
};
/* Task members that only this program reads. */
struct task_struct___m {
	struct thread_info___m thread_info;
	unsigned int __state;
	int exit_state;
	unsigned int flags;
	int on_cpu;
	int prio;
	int static_prio;
	unsigned int policy;
	unsigned int in_iowait : 1;
	int pid;
	int tgid;
	char comm[16];
	struct pid___m *thread_pid;
	struct task_struct___m *group_leader;
	const struct cred___m *real_cred;
	struct signal_struct___m *signal;
	struct sched_entity___m se;
	struct sched_info___m sched_info;
	__u64 utime;
	__u64 stime;
	__u64 start_boottime;
	unsigned long nvcsw;
	unsigned long nivcsw;
};
struct pt_regs___m {
#if defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__u64 orig_x0;
	int syscallno;
#elif defined(__TARGET_ARCH_riscv)
	unsigned long orig_a0;
	unsigned long a1;
	unsigned long a2;
	unsigned long a3;
	unsigned long a4;
	unsigned long a7;
	unsigned long cause;
#else
	unsigned long r8;
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
#endif
};

#pragma clang attribute pop

#define THREAD_OF_KERNEL 0x00200000
#define WORKER_OF_KERNEL 0x00000030 /* PF_IO_WORKER and PF_WQ_WORKER: threads that never leave the kernel */
#define STATE_STOPPED 0x4
#define STATE_TRACED 0x8
#define SESSION 3

static __always_inline struct task_struct___m *inside(struct task_struct *task)
{
	return (struct task_struct___m *)task;
}

/*
 * Clock. bpf_ktime_get_ns() would cost more than everything else at a switch, but the scheduler has just read the run queue's clock. That
 * clock lags behind the monotonic one by a nearly constant difference. It is measured when the reader gets a CPU, where both are available.
 */
__u64 behind;
__u64 reader;

/* Whether run queues are reachable from their threads: not without CONFIG_FAIR_GROUP_SCHED. */
static __always_inline bool has_clock(void)
{
	return bpf_core_field_exists(struct sched_entity___m, cfs_rq) && bpf_core_field_exists(struct cfs_rq___m, rq);
}

/* The run queue's clock, for a thread that the scheduler is about to switch to or has woken. */
static __always_inline __u64 clock_of(struct task_struct *task)
{
	return has_clock() ? inside(task)->se.cfs_rq->rq->clock : bpf_ktime_get_ns();
}

/* Now, on the same clock, in any context. */
static __always_inline __u64 clock_now(void)
{
	return bpf_ktime_get_ns() - behind;
}

/* Measures the clocks' difference when the reader gets a CPU, or any thread before there is a measurement. */
static __always_inline void compare_clocks(struct task_struct *next, __u64 now)
{
	if (has_clock() && ((__u64)next == reader || !behind))
		behind = bpf_ktime_get_ns() - now;
}

/* on_cpu has four bytes, or one since 7.2: the read uses the kernel's size. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(inside(task), on_cpu);
}

static __always_inline bool is_kernel(struct task_struct *task)
{
	return BPF_CORE_READ(inside(task), flags) & (THREAD_OF_KERNEL | WORKER_OF_KERNEL);
}

#include "futex.bpf.h"

/*
 * Ends the present span. Readers rely on the order of the writes, times and since before state: a reader in between sees sums that do not
 * match, or a span of length 0.
 */
static __always_inline void become(struct task_struct *task, struct account *account, __u32 state, __u64 now)
{
	__u32 was = account->state & (STATES - 1);
	__u64 since = account->since;

	if (now > since) {
		if (keeps_causes)
			blame(task, account, was, now - since);
		*(volatile __u64 *)&account->times[was] += now - since;
		*(volatile __u64 *)&account->since = now;
	}
	*(volatile __u32 *)&account->state = state;
}

static __always_inline bool is_off(__u32 state)
{
	return state >= TEXT_FAULT && state != WAITING;
}

TRACEPOINT(sys_enter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct account *account = account_of(task);

	if (!account)
		return 0;
	account->calls++;
	account->in_call = 1;
	account->guessed = 0;
	become(task, account, SYSTEM, clock_now());
	if (keeps_causes)
		release(task, account);
	return 0;
}

/* The thread was in the kernel all the time: moves the time counted as user mode. */
static __always_inline void correct(struct account *account)
{
	__u64 taken = account->times[USER];

	account->guessed = 0;
	account->times[SYSTEM] += taken;
	account->times[USER] = 0;
}

TRACEPOINT(sys_exit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct account *account = account_of(task);

	if (!account)
		return 0;
	become(task, account, USER, clock_now());
	if (account->guessed)
		correct(account);
	account->in_call = 0;
	return 0;
}

/* Arguments: address, registers, error code; bit 4 of the error code: instruction fetch. */
TRACEPOINT(page_fault_user)
{
	struct account *account = account_of(bpf_get_current_task_btf());

	if (account)
		account->fault = ctx->args[2] & 0x10 ? TEXT_FAULT : DATA_FAULT;
	return 0;
}

TRACEPOINT(signal_deliver)
{
	struct account *account = account_of(bpf_get_current_task_btf());

	if (account)
		account->signals++;
	return 0;
}

/* The state of a thread that leaves its CPU in this kernel state. */
static __always_inline __u32 sleeping(struct task_struct *task, struct account *account, __u32 state, bool is_here)
{
	struct pt_regs___m *regs;
	__u64 call;

	if (state & (STATE_STOPPED | STATE_TRACED))
		return STOPPED;
	if (account->of_kernel)
		return ASLEEP;
	regs = (void *)bpf_task_pt_regs(task);
	call = call_of(regs);
	if (call == NO_CALL)
		return account->fault ? account->fault : ASLEEP;
	if (!is_futex(call))
		return ASLEEP;
	if (keeps_causes)
		note_lock(account, regs, call, is_here);
	return LOCK;
}

/* The state of a thread on a CPU. */
static __always_inline __u32 running(struct account *account)
{
	return account->of_kernel || account->in_call ? SYSTEM : USER;
}

/* Records the wait of a thread that gets this CPU. */
static __always_inline void note_wait(struct account *account, __u64 now)
{
	__u32 processor = bpf_get_smp_processor_id();
	struct histogram *histogram;

	if (account->state != WAITING || now < account->since)
		return;
	histogram = bpf_map_lookup_elem(&waits, &processor);
	if (histogram)
		record_time(histogram, now - account->since);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	__u64 now = clock_of(next);
	struct account *account = account_of(prev);

	compare_clocks(next, now);
	if (account) {
		if (keeps_causes)
			account->disk = BPF_CORE_READ_BITFIELD_PROBED(inside(prev), in_iowait);
		become(prev, account, preempt || !prev_state ? WAITING : sleeping(prev, account, prev_state, true), now);
	}
	account = account_of(next);
	if (account) {
		note_wait(account, now);
		become(next, account, running(account), now);
	}
	return 0;
}

#define EXITING 0x4

/* Finds the cause of a lock wait's end. This tracepoint runs in the waker's context; sched_wakeup may not. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct account *account = account_of(task);
	struct task_struct *waker;
	struct pt_regs___m *regs;

	if (!account || account->state != LOCK)
		return 0;
	waker = bpf_get_current_task_btf();
	if (waker->tgid != task->tgid)
		return 0;
	if (waker->flags & EXITING) {
		account->ended = BY_END;
		return 0;
	}
	regs = (void *)bpf_task_pt_regs(waker);
	if (wakes_at(regs, call_of(regs), account->lock))
		account->ended = BY_WAKE_UP;
	return 0;
}

/* A thread that already runs or waits needs no change. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct account *account = account_of(task);

	if (account && is_off(account->state))
		become(task, account, WAITING, clock_of(task));
	return 0;
}

/* A child begins in the kernel, on its way out of the call that made it. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct account first = { .state = WAITING, .in_call = keeps_calls };

	first.of_kernel = is_kernel(child);
	first.since = first.began = clock_now();
	bpf_task_storage_get(&accounts, child, &first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (keeps_causes)
		bpf_task_storage_get(&causes_of, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* The state of a thread from the kernel's own fields. */
static __always_inline void look(struct task_struct *task, struct account *account)
{
	struct task_struct___m *t = inside(task);
	__u32 state = BPF_CORE_READ(t, __state);
	bool on_cpu = is_on_cpu(task);

	account->guessed = 0;
	account->of_kernel = is_kernel(task);
	if (on_cpu || !state) {
		account->state = on_cpu ? running(account) : WAITING;
		account->guessed = keeps_calls && !account->of_kernel;
		return;
	}
	/* A sleeping thread is nearly always in a system call. */
	account->in_call = keeps_calls;
	account->disk = BPF_CORE_READ_BITFIELD_PROBED(t, in_iowait);
	account->state = sleeping(task, account, state, false);
}

/* Opens an account with the state at first sight. A second look finds a change during the first. */
static __always_inline struct account *first_sight(struct task_struct *task)
{
	struct account first = {};
	struct account *account;
	__u64 began = clock_now();

	if (keeps_causes)
		bpf_task_storage_get(&causes_of, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	look(task, &first);
	first.since = first.began = began;
	first.ticks[0] = BPF_CORE_READ(inside(task), utime);
	first.ticks[1] = BPF_CORE_READ(inside(task), stime);
	account = bpf_task_storage_get(&accounts, task, &first, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account || account->began != began)
		return account;
	look(task, &first);
	if (account->since == began && account->state != first.state) {
		account->in_call = first.in_call;
		account->guessed = first.guessed;
		account->disk = first.disk;
		account->lock = first.lock;
		account->value = first.value;
		account->holder = first.holder;
		account->how = first.how;
		*(volatile __u32 *)&account->state = first.state;
	}
	return account;
}

/* A record, in words, followed by the causes if these are kept; src/microstates.rs decodes it. */
struct record {
	__u64 tid;
	__u64 pid;
	__u64 session;
	__u64 flags;
	/* The task state in the lower half, the exit state in the upper half. */
	__u64 state;
	__u64 on_cpu;
	__u64 cpu;
	__u64 prio;
	__u64 static_prio;
	__u64 policy;
	/* Since boot, in nanoseconds, including suspend. */
	__u64 started;
	__u64 uid;
	__u64 euid;
	__u64 runtime;
	/* Of the process's ended threads; with the first thread only. */
	__u64 ended_runtime;
	/* By clock ticks. */
	__u64 user_ticks;
	__u64 system_ticks;
	__u64 voluntary;
	__u64 involuntary;
	__u64 run_delay;
	char name[16];
	/* The account: now, its beginning (0: no account), times by state until now. */
	__u64 now;
	__u64 began;
	__u64 times[STATES];
	__u64 calls;
	__u64 signals;
};

/* For a thread without causes. */
const struct causes no_causes = {};

/* Copies an account. Returns whether no program wrote to it meanwhile. */
static __always_inline bool copy_once(struct record *record, struct account *account)
{
	__u64 since = *(volatile __u64 *)&account->since;
	__u32 state = *(volatile __u32 *)&account->state & (STATES - 1);
	__u64 lag = behind;
	__u64 sum = 0, now;

#pragma clang loop unroll(full)
	for (int i = 0; i < STATES; i++) {
		record->times[i] = *(volatile __u64 *)&account->times[i];
		sum += record->times[i];
	}
	record->began = account->began + lag;
	record->calls = account->calls;
	record->signals = account->signals;
	record->now = bpf_ktime_get_ns();
	now = record->now - lag;
	if (now > since)
		record->times[state] += now - since;
	return sum == since - account->began && since == *(volatile __u64 *)&account->since;
}

/* Retries while a program writes. Unrolled by hand, because kernel 6.1 rejects a loop whose end is its beginning. */
static __always_inline void copy_account(struct record *record, struct account *account)
{
	if (copy_once(record, account) || copy_once(record, account) || copy_once(record, account))
		return;
	copy_once(record, account);
}

#define PARTS 65536

/*
 * Divides the CPU time since the last reading in the ratio of the ticks since then; without new ticks, in the ratio of all ticks. Divided
 * time stays divided. Only the reader writes these members.
 */
static __always_inline void divide(struct record *record, struct account *account)
{
	/* In units of about a microsecond (1024 ns), so that years fit. */
	__u64 user = (record->user_ticks - account->ticks[0]) >> 10;
	__u64 system = (record->system_ticks - account->ticks[1]) >> 10;
	__u64 on_cpu = record->times[USER] + record->times[SYSTEM];
	__u64 time = on_cpu - account->divided[0] - account->divided[1];
	__u64 part;

	if (user + system == 0) {
		user = record->user_ticks >> 10;
		system = record->system_ticks >> 10;
	}
	part = user + system == 0 ? PARTS : user * PARTS / (user + system);
	/* Negative if the copy was made during a write. */
	if ((__s64)time > 0) {
		account->divided[0] += time / PARTS * part + time % PARTS * part / PARTS;
		account->divided[1] = on_cpu - account->divided[0];
	}
	account->ticks[0] = record->user_ticks;
	account->ticks[1] = record->system_ticks;
	record->times[USER] = account->divided[0];
	record->times[SYSTEM] = account->divided[1];
}

/* The id in the namespace at depth `level`. */
static __always_inline __u64 number_in(struct pid___m *pid, unsigned int level)
{
	struct pid___m *copy = 0;
	int number = 0;

	if (!pid || pid->level < level)
		return 0;
	if (level == 0)
		return pid->numbers[0].nr;
	/* The verifier of Linux 6.1 allows no variable offset on a typed pointer; a copied pointer is a plain number. */
	bpf_probe_read_kernel(&copy, sizeof(copy), &pid);
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)&copy->numbers[0].nr + level * bpf_core_type_size(struct upid___m));
	return number;
}

/* Writes the lock wait in progress, which is in no cause yet. */
static __always_inline void write_present(struct seq_file *seq, struct task_struct *task, struct account *account, __u64 now)
{
	struct present present = {};
	struct pid___m *pid = inside(task)->thread_pid;
	__u64 since;

	present.own = pid ? number_in(pid, pid->level) : 0;
	if (account && account->state == LOCK) {
		since = *(volatile __u64 *)&account->since + behind;
		begin_waits(&present.lock, account);
		add_wait(&present.lock, account, now > since ? now - since : 0);
		present.lock.woken = 0;
		present.lock.ends = 0;
		present.lock.owes = 0;
	}
	bpf_seq_write(seq, &present, sizeof(present));
}

SEC("iter/task")
int list(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct task_struct___m *t = inside(task);
	struct account *account = 0;
	struct record record = {};
	unsigned int level;

	if (!task)
		return 0;
	/* An iterator program reads its task and pointers from it directly, without a helper call per member. */
	reader = (__u64)bpf_get_current_task_btf();
	/* Ids in the reader's namespace. */
	level = inside(bpf_get_current_task_btf())->thread_pid->level;
	record.tid = number_in(t->thread_pid, level);
	record.pid = number_in(t->group_leader->thread_pid, level);
	record.session = number_in(t->signal->pids[SESSION], level);
	record.flags = t->flags;
	record.state = t->__state | (__u64)t->exit_state << 32;
	record.on_cpu = is_on_cpu(task);
	record.cpu = t->thread_info.cpu;
	record.prio = t->prio;
	record.static_prio = t->static_prio;
	record.policy = t->policy;
	record.started = t->start_boottime;
	record.uid = t->real_cred->uid.val;
	record.euid = t->real_cred->euid.val;
	record.runtime = t->se.sum_exec_runtime;
	if (record.tid == record.pid)
		record.ended_runtime = t->signal->sum_sched_runtime;
	record.user_ticks = t->utime;
	record.system_ticks = t->stime;
	record.voluntary = t->nvcsw;
	record.involuntary = t->nivcsw;
	record.run_delay = t->sched_info.run_delay;
	BPF_CORE_READ_INTO(&record.name, t, comm);
	record.now = bpf_ktime_get_ns();
	if (keeps_accounts)
		account = first_sight(task);
	if (account) {
		copy_account(&record, account);
		if (!keeps_calls && !account->of_kernel)
			divide(&record, account);
	}
	bpf_seq_write(seq, &record, sizeof(record));
	if (keeps_causes) {
		struct causes *causes = bpf_task_storage_get(&causes_of, task, 0, 0);

		if (causes)
			bpf_seq_write(seq, causes, sizeof(*causes));
		else
			bpf_seq_write(seq, &no_causes, sizeof(no_causes));
		write_present(seq, task, account, record.now);
	}
	return 0;
}
