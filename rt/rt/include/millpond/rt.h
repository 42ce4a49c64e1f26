/*
 * millpond/rt.h - for real-time programs: pre-faulted thread stacks, the stack of the calling thread, priority-inheritance mutexes, real-time set-up
 * of a thread, and counts of what disturbed it.
 *
 *     void *stack = stack_alloc(256 * 1024);
 *     if (stack == NULL)
 *             return fail("stack_alloc", errno);
 *     pthread_attr_setstack(&attr, stack, 256 * 1024);
 *     pthread_create(&thread, &attr, work, NULL);
 *     pthread_join(thread, NULL);
 *     stack_free(stack, 256 * 1024);
 *
 * It compiles with -std=c99 and later. A program that wants stack_t and siginfo_t with such a -std defines _POSIX_C_SOURCE as 200809L before the first
 * header; without these types stack_getbounds, stack_setbounds and stack_violation take pointers to void.
 *
 * Link with what pkg-config --libs millpond-rt says: -lmillpond_rt. Sizes and addresses are in bytes. Calls give 0, or fail with -1 (or NULL) and
 * errno. Each has a manual page that lists its errors: man 3 stack_alloc. A program that wants its stacks locked calls
 * mlockall(MCL_CURRENT | MCL_FUTURE) before the first one.
 */
#ifndef MILLPOND_RT_H
#define MILLPOND_RT_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* <signal.h> has stack_t and siginfo_t where it has the flags of the first. */
#ifdef SS_ONSTACK
typedef stack_t rt_stack_t;
typedef siginfo_t rt_siginfo_t;
#else
typedef void rt_stack_t;
typedef void rt_siginfo_t;
#endif

/* As <sys/types.h> of Solaris has it. Define MILLPOND_NO_UINT_T where another header does. */
#ifndef MILLPOND_NO_UINT_T
typedef unsigned int uint_t;
#endif

/* <time.h> may not have it. */
struct timespec;

/*
 * A stack of that size, which must be one of fetch_stack_sizes: its lowest address. It can be read and written, all its pages are in memory, and
 * the pages below and above cannot be touched.
 */
void *stack_alloc(size_t size);

/* Frees a stack whose thread was joined, for the next caller. After an error (EALREADY: it is free, EBUSY: the caller runs on it) it is as it was. */
int stack_free(void *address, size_t size);

/* The sizes, the smallest first, and 0 behind the last. The caller frees the array by free(3). NULL and ENOMEM: there is no memory. */
unsigned int *fetch_stack_sizes(void);

/* The bounds of the calling thread's stack: ss_sp is its lowest address, ss_flags 0. The main stack reaches down to its limit. */
int stack_getbounds(rt_stack_t *bounds);

/* Sets the bounds of the stack that the calling thread runs on from now on: multiples of 16, MINSIGSTKSZ at least, ss_flags 0. */
int stack_setbounds(const rt_stack_t *bounds);

/* 1: the address is in the calling thread's stack, by its bounds. 0: it is not. */
int stack_inbounds(const void *address);

/*
 * For handlers of SIGSEGV and SIGBUS (SA_SIGINFO | SA_ONSTACK), with what they were given. 1: the fault looks as if the thread had left its
 * stack. 0: it does not, or a program sent the signal.
 */
int stack_violation(int signal, const rt_siginfo_t *info, const void *context);

/* Makes the whole stack of the calling thread resident and locks it there; a main stack grows to its limit first. */
int stack_lock(void);

/* What is in memory of a stack, in pages. */
struct stack_residency {
	/* Between its bounds. */
	size_t pages;
	/* That exist: all, but for a main stack that has not grown to its limit. */
	size_t mapped;
	/* That can be used without waiting for memory. */
	size_t resident;
};

/* How much of the calling thread's stack is in memory. */
int stack_residency(struct stack_residency *residency);

/* Flags of a mapping. */
#define STACK_MAPPING_READ 1
#define STACK_MAPPING_WRITE 2
#define STACK_MAPPING_EXECUTE 4
#define STACK_MAPPING_LOCKED 8
/* The main stack. */
#define STACK_MAPPING_GROWS_DOWN 16
/* Every use of it is a fault. */
#define STACK_MAPPING_GUARD 32

/* A mapping of the kernel, with the size in bytes. */
struct stack_mapping {
	void *address;
	void *end;
	size_t ss_size;
	unsigned int flags;
};

/*
 * Writes at most count mappings of the calling thread's stack, the lowest first, and gives how many were written. With NULL and 0: how many there are.
 * The guard below the stack is one of them. It takes as long as the kernel needs to look at all memory of the process.
 */
int stack_mappings(struct stack_mapping *mappings, int count);

/*
 * A mutex with priority inheritance: its holder has the priority of the first waiting thread. It stays where it is from rt_mutex_init to
 * rt_mutex_destroy; its members are not for programs. No call is a cancellation point or for signal handlers.
 *
 * A thread that ends, is cancelled or is killed while it holds the mutex leaves it to the next one. That gets EOWNERDEAD, holds the mutex, repairs
 * what it protects and calls rt_mutex_consistent. If it unlocks without, every later call fails with ENOTRECOVERABLE. A child of a fork holds nothing,
 * and a shared mutex that was held stays the parent's.
 */
typedef struct rt_mutex {
	pthread_mutex_t rt_mutex;
	unsigned int rt_mark;
	unsigned int rt_reserved;
} rt_mutex_t;

/* Flags. Without inheritance, for comparison: EOWNERDEAD is never told. */
#define RT_LOCK_PLAIN 1
/* For all processes that have the memory mapped. */
#define RT_LOCK_SHARED 2

/* Flags: RT_LOCK_PLAIN, RT_LOCK_SHARED. ENOTSUP: the kernel has no priority inheritance. */
int rt_mutex_init(rt_mutex_t *mutex, int flags);

/* Waits until the caller holds it. EDEADLK: the caller holds it already. EOWNERDEAD: its owner died, and the caller holds it. */
int rt_mutex_lock(rt_mutex_t *mutex);

/* As rt_mutex_lock, without waiting. EBUSY: a thread holds it, perhaps the caller. */
int rt_mutex_trylock(rt_mutex_t *mutex);

/* As rt_mutex_lock, until then by CLOCK_MONOTONIC. ETIMEDOUT: it is later; EINVAL: that is no moment. */
int rt_mutex_timedlock(rt_mutex_t *mutex, const struct timespec *deadline);

/* EPERM: the caller does not hold it. */
int rt_mutex_unlock(rt_mutex_t *mutex);

/* What it protects is whole again, after EOWNERDEAD. */
int rt_mutex_consistent(rt_mutex_t *mutex);

/* EBUSY: a thread holds it. */
int rt_mutex_destroy(rt_mutex_t *mutex);

/* A condition, for any mutex of ours. Its members are not for programs. */
typedef struct rt_cond {
	unsigned int rt_number;
	unsigned int rt_waiting;
	unsigned int rt_mark;
	unsigned int rt_shared;
} rt_cond_t;

/* Flags: 0 or RT_LOCK_SHARED. 0, or -1 and EINVAL. */
int rt_cond_init(rt_cond_t *cond, int flags);

/* Unlocks the mutex, waits for a signal and locks the mutex again, as rt_mutex_lock does. It may return without a signal: call it in a loop. */
int rt_cond_wait(rt_cond_t *cond, rt_mutex_t *mutex);

/* As rt_cond_wait, until then by CLOCK_MONOTONIC. ETIMEDOUT: it is later, and the mutex is held. */
int rt_cond_timedwait(rt_cond_t *cond, rt_mutex_t *mutex, const struct timespec *deadline);

/* Wakes the one of the highest priority that waits, if any. Hold the mutex, or a thread that began to wait later may be woken instead. */
int rt_cond_signal(rt_cond_t *cond);

/* Wakes all that wait. */
int rt_cond_broadcast(rt_cond_t *cond);

/* No thread waits for it any more. */
int rt_cond_destroy(rt_cond_t *cond);

/*
 * Items that a thread needs to be in time, in the order in which they are set up. They are bits: required and wished are sets of them.
 */
#define RT_SETUP_CPUS         0x01u
#define RT_SETUP_MEMORY       0x02u
#define RT_SETUP_HEAP         0x04u
#define RT_SETUP_STACK        0x08u
#define RT_SETUP_IDLE_LATENCY 0x10u
#define RT_SETUP_TIMER_SLACK  0x20u
#define RT_SETUP_CLASS        0x40u

/* What a thread wants. All zero: nothing. What belongs to items in neither set is not looked at. */
struct rt_setup {
	/* Without these the call fails. */
	unsigned int required;
	/* Without these it goes on, and says so. */
	unsigned int wished;
	/* CPUS: a list like "2-3,6"; or, when that is null, a mask in the form of a cpu_set_t, of so many bytes (a multiple of 8). */
	const char *cpu_list;
	const void *cpu_mask;
	size_t cpu_bytes;
	/* HEAP: what the calling thread can allocate without a fault, and free and allocate again. */
	size_t heap_bytes;
	/* IDLE_LATENCY: no CPU takes longer to wake up. 0: none is idle. */
	uint32_t idle_latency_us;
	/* CLASS: SCHED_FIFO or SCHED_RR with a priority of 1 to 99; SCHED_OTHER with a nice value; SCHED_DEADLINE (6) with its times. */
	int policy;
	int priority;
	int nice;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
	/* TIMER_SLACK: timers are at most that late; 1 at least. */
	uint64_t timer_slack_ns;
};

/* What became of an item. Texts live as long as the handle. */
struct rt_outcome {
	/* One of the bits. */
	unsigned int item;
	/* 1: required. 0: wished. */
	int required;
	/* 0: it was had. Otherwise an errno. */
	int error;
	/* What was asked for, and what there is. */
	const char *wanted;
	const char *had;
	/* Why it was not had and what helps; or what is to be known about what was had; or NULL. */
	const char *reason;
};

/* What a thread has. */
struct rt_handle;

/*
 * Makes the calling thread a real-time thread. After a failure everything is as it was (but a main stack stays as large as it has grown), and errno is
 * that of the required item that could not be had. *handle is for rt_setup_report and rt_setup_undo, after a failure, too. It is NULL when setup is
 * invalid (EINVAL), when there is no memory for a report (ENOMEM), and after a defect of the library (ENOTRECOVERABLE).
 */
int rt_setup_begin(const struct rt_setup *setup, struct rt_handle **handle);

/*
 * Writes what became of at most count items, in the order in which they were set up, and gives how many were written. With NULL and 0: how many there
 * are. After a failure the last one is that which failed.
 */
int rt_setup_report(const struct rt_handle *handle, struct rt_outcome *outcomes, int count);

/* Puts everything back to how it was, in reverse, and ends the handle. NULL is fine. ESRCH: another thread began it, and nothing was done. */
int rt_setup_undo(struct rt_handle *handle);

/* How migrations were found: each by a counter of the kernel; or 0 or 1, by the CPU at both ends. */
#define RT_MIGRATIONS_COUNTED  0
#define RT_MIGRATIONS_COMPARED 1

/* What happened to a thread. */
struct rt_disturbances {
	/* Page faults without and with a disk. */
	uint64_t minor_faults;
	uint64_t major_faults;
	/* It waited; it was made to. */
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	/* To another CPU. */
	uint64_t migrations;
	/* RT_MIGRATIONS_... */
	int migrations_by;
};

/* What counts them for a thread. */
struct rt_calm;

/* Opens it for the calling thread, before anything must be in time. A child opens its own. */
int rt_calm_open(struct rt_calm **calm);

/* A section begins; one that had begun is forgotten. ESRCH: calm is another thread's. */
int rt_calm_begin(struct rt_calm *calm);

/* It ends: what happened, to *found (which may be NULL). 0: nothing did. 1: something did. */
int rt_calm_end(struct rt_calm *calm, struct rt_disturbances *found);

/* Ends it. NULL is fine. */
void rt_calm_close(struct rt_calm *calm);

#ifdef __cplusplus
}
#endif

#endif
