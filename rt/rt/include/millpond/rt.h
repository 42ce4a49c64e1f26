/*
 * millpond/rt.h - for real-time programs: pre-faulted thread stacks, the stack of the calling thread, priority-inheritance mutexes, real-time set-up
 * of a thread, and counts of its disturbances.
 *
 *     void *stack = stack_alloc(256 * 1024);
 *     if (stack == NULL)
 *             return fail("stack_alloc", errno);
 *     pthread_attr_setstack(&attr, stack, 256 * 1024);
 *     pthread_create(&thread, &attr, work, NULL);
 *     pthread_join(thread, NULL);
 *     stack_free(stack, 256 * 1024);
 *
 * It compiles with -std=c99 and later. With such a -std, a program that needs stack_t and siginfo_t defines _POSIX_C_SOURCE as 200809L before the
 * first header. Without these types stack_getbounds, stack_setbounds and stack_violation take pointers to void.
 *
 * Link with the output of pkg-config --libs millpond-rt: -lmillpond_rt. Sizes and addresses are in bytes. Calls return 0, or fail with -1 (or NULL)
 * and errno. Each has a manual page that lists its errors: man 3 stack_alloc. To have its stacks locked, a program calls
 * mlockall(MCL_CURRENT | MCL_FUTURE) before the first stack.
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

/* <signal.h> defines stack_t and siginfo_t if it defines the flags of stack_t. */
#ifdef SS_ONSTACK
typedef stack_t rt_stack_t;
typedef siginfo_t rt_siginfo_t;
#else
typedef void rt_stack_t;
typedef void rt_siginfo_t;
#endif

/* As in <sys/types.h> of Solaris. Define MILLPOND_NO_UINT_T if another header defines it. */
#ifndef MILLPOND_NO_UINT_T
typedef unsigned int uint_t;
#endif

/* <time.h> may not define it. */
struct timespec;

/*
 * Allocates a stack of a size that is one of fetch_stack_sizes. Returns its lowest address. It is readable and writable, all its pages are in memory,
 * and the pages below and above are inaccessible.
 */
void *stack_alloc(size_t size);

/* Frees a stack whose thread was joined. After an error (EALREADY: it is free, EBUSY: the caller runs on it) it is unchanged. */
int stack_free(void *address, size_t size);

/* The sizes in ascending order, and a final 0. The caller frees the array by free(3). NULL and ENOMEM: out of memory. */
unsigned int *fetch_stack_sizes(void);

/* The bounds of the calling thread's stack: ss_sp is its lowest address, ss_flags 0. The main stack reaches down to its limit. */
int stack_getbounds(rt_stack_t *bounds);

/* Sets the bounds of the stack that the calling thread runs on from now on: multiples of 16, MINSIGSTKSZ at least, ss_flags 0. */
int stack_setbounds(const rt_stack_t *bounds);

/* 1: the address is within the bounds of the calling thread's stack. 0: it is not. */
int stack_inbounds(const void *address);

/*
 * For handlers of SIGSEGV and SIGBUS (SA_SIGINFO | SA_ONSTACK), with their arguments. 1: the fault looks as if the thread had left its
 * stack. 0: it does not, or a program sent the signal.
 */
int stack_violation(int signal, const rt_siginfo_t *info, const void *context);

/* Makes the whole stack of the calling thread resident and locks it. A main stack grows to its limit first. */
int stack_lock(void);

/* Pages of a stack by their state. */
struct stack_residency {
	/* Pages between its bounds. */
	size_t pages;
	/* Mapped pages: all, except for a main stack that has not grown to its limit. */
	size_t mapped;
	/* Mapped pages that are in memory. */
	size_t resident;
};

/* Counts the calling thread's stack pages in memory. */
int stack_residency(struct stack_residency *residency);

/* Flags of a mapping. */
#define STACK_MAPPING_READ 1
#define STACK_MAPPING_WRITE 2
#define STACK_MAPPING_EXECUTE 4
#define STACK_MAPPING_LOCKED 8
/* The main stack. */
#define STACK_MAPPING_GROWS_DOWN 16
/* Each access faults. */
#define STACK_MAPPING_GUARD 32

/* A mapping of the kernel, with its size in bytes. */
struct stack_mapping {
	void *address;
	void *end;
	size_t ss_size;
	unsigned int flags;
};

/*
 * Writes at most count mappings of the calling thread's stack, in ascending order, and returns the number written. With NULL and 0: returns how many
 * there are. The guard below the stack is one of them. The kernel walks all memory of the process, which takes time.
 */
int stack_mappings(struct stack_mapping *mappings, int count);

/*
 * A mutex with priority inheritance: its holder inherits the priority of the first waiting thread. Its address must not change between rt_mutex_init
 * and rt_mutex_destroy. Its members are private. No call is a cancellation point, and none may be made in signal handlers.
 *
 * If a thread ends, is cancelled or is killed while it holds the mutex, the next owner gets EOWNERDEAD and holds the mutex. It repairs the data and
 * calls rt_mutex_consistent. If it unlocks without that call, every later call fails with ENOTRECOVERABLE. The child of a fork holds no mutex, and a
 * shared mutex that was held stays the parent's.
 */
typedef struct rt_mutex {
	pthread_mutex_t rt_mutex;
	unsigned int rt_mark;
	unsigned int rt_reserved;
} rt_mutex_t;

/* Flag: without inheritance, for comparison. EOWNERDEAD is never returned. */
#define RT_LOCK_PLAIN 1
/* Flag: for all processes that map the memory. */
#define RT_LOCK_SHARED 2

/* Initialises a mutex. Flags: RT_LOCK_PLAIN, RT_LOCK_SHARED. ENOTSUP: the kernel does not support priority inheritance. */
int rt_mutex_init(rt_mutex_t *mutex, int flags);

/* Waits until the caller holds it. EDEADLK: the caller holds it already. EOWNERDEAD: its owner died, and the caller holds it. */
int rt_mutex_lock(rt_mutex_t *mutex);

/* As rt_mutex_lock, without waiting. EBUSY: a thread holds it, perhaps the caller. */
int rt_mutex_trylock(rt_mutex_t *mutex);

/* As rt_mutex_lock, until a deadline on CLOCK_MONOTONIC. ETIMEDOUT: the deadline has passed. EINVAL: the time is invalid. */
int rt_mutex_timedlock(rt_mutex_t *mutex, const struct timespec *deadline);

/* EPERM: the caller does not hold it. */
int rt_mutex_unlock(rt_mutex_t *mutex);

/* Declares the data repaired, after EOWNERDEAD. */
int rt_mutex_consistent(rt_mutex_t *mutex);

/* EBUSY: a thread holds it. */
int rt_mutex_destroy(rt_mutex_t *mutex);

/* A condition variable for these mutexes. Its members are private. */
typedef struct rt_cond {
	unsigned int rt_number;
	unsigned int rt_waiting;
	unsigned int rt_mark;
	unsigned int rt_shared;
} rt_cond_t;

/* Initialises a condition. Flags: 0 or RT_LOCK_SHARED. 0, or -1 and EINVAL. */
int rt_cond_init(rt_cond_t *cond, int flags);

/* Unlocks the mutex, waits for a signal and locks the mutex again, as rt_mutex_lock does. It may return without a signal: call it in a loop. */
int rt_cond_wait(rt_cond_t *cond, rt_mutex_t *mutex);

/* As rt_cond_wait, until a deadline on CLOCK_MONOTONIC. ETIMEDOUT: the deadline has passed, and the mutex is held. */
int rt_cond_timedwait(rt_cond_t *cond, rt_mutex_t *mutex, const struct timespec *deadline);

/* Wakes the waiting thread of the highest priority, if any. Hold the mutex; else a thread that began to wait later may be woken instead. */
int rt_cond_signal(rt_cond_t *cond);

/* Wakes all waiting threads. */
int rt_cond_broadcast(rt_cond_t *cond);

/* Destroys a condition that no thread waits for. */
int rt_cond_destroy(rt_cond_t *cond);

/*
 * Items of a real-time set-up, in the order in which they are set up. They are bits: required and wished are sets of them.
 */
#define RT_SETUP_CPUS         0x01u
#define RT_SETUP_MEMORY       0x02u
#define RT_SETUP_HEAP         0x04u
#define RT_SETUP_STACK        0x08u
#define RT_SETUP_IDLE_LATENCY 0x10u
#define RT_SETUP_TIMER_SLACK  0x20u
#define RT_SETUP_CLASS        0x40u

/* The wanted items of a thread. All zero: none. Members of items in neither set are ignored. */
struct rt_setup {
	/* If one of these is refused, the call fails. */
	unsigned int required;
	/* If one of these is refused, the call continues and reports it. */
	unsigned int wished;
	/* CPUS: a list like "2-3,6"; or, if that is null, a mask in the form of a cpu_set_t, of cpu_bytes bytes (a multiple of 8). */
	const char *cpu_list;
	const void *cpu_mask;
	size_t cpu_bytes;
	/* HEAP: bytes that the calling thread can allocate, free and allocate again without a page fault. */
	size_t heap_bytes;
	/* IDLE_LATENCY: maximum wake-up latency of all CPUs. 0: CPUs poll when idle. */
	uint32_t idle_latency_us;
	/* CLASS: SCHED_FIFO or SCHED_RR with a priority of 1 to 99; SCHED_OTHER with a nice value; SCHED_DEADLINE (6) with its times. */
	int policy;
	int priority;
	int nice;
	uint64_t runtime_ns;
	uint64_t deadline_ns;
	uint64_t period_ns;
	/* TIMER_SLACK: maximum delay of timers; at least 1. */
	uint64_t timer_slack_ns;
};

/* The outcome of an item. Strings live as long as the handle. */
struct rt_outcome {
	/* One of the bits. */
	unsigned int item;
	/* 1: required. 0: wished. */
	int required;
	/* 0: it was set up. Otherwise an errno. */
	int error;
	/* The wanted state, and the state after the call. */
	const char *wanted;
	const char *had;
	/* Why it was refused, with the remedy; or a warning about an item that was set up; or NULL. */
	const char *reason;
};

/* The set-up state of a thread. */
struct rt_handle;

/*
 * Makes the calling thread a real-time thread. After a failure everything is restored (but a main stack stays as large as it has grown), and errno is
 * that of the required item that was refused. *handle is for rt_setup_report and rt_setup_undo, after a failure, too. It is NULL if setup is
 * invalid (EINVAL), if there is no memory for a report (ENOMEM), and after a defect of the library (ENOTRECOVERABLE).
 */
int rt_setup_begin(const struct rt_setup *setup, struct rt_handle **handle);

/*
 * Writes at most count outcomes, in the order of set-up, and returns the number written. With NULL and 0: returns how many there are. After a failure
 * the last one is the item that failed.
 */
int rt_setup_report(const struct rt_handle *handle, struct rt_outcome *outcomes, int count);

/* Restores everything in reverse order, and frees the handle. NULL has no effect. ESRCH: another thread began it, and nothing was done. */
int rt_setup_undo(struct rt_handle *handle);

/* How migrations were detected: each by a counter of the kernel; or 0 or 1, by comparing the CPU at both ends. */
#define RT_MIGRATIONS_COUNTED  0
#define RT_MIGRATIONS_COMPARED 1

/* Disturbances of a thread in a section. */
struct rt_disturbances {
	/* Page faults without and with disk access. */
	uint64_t minor_faults;
	uint64_t major_faults;
	/* The thread waited; it was preempted. */
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	/* Moves to another CPU. */
	uint64_t migrations;
	/* RT_MIGRATIONS_... */
	int migrations_by;
};

/* Counters of a thread's disturbances. */
struct rt_calm;

/* Opens it for the calling thread, before time-critical work. A child process opens its own. */
int rt_calm_open(struct rt_calm **calm);

/* Begins a section. An open one is discarded. ESRCH: calm is another thread's. */
int rt_calm_begin(struct rt_calm *calm);

/* Ends the section, and writes its disturbances to *found (which may be NULL). 0: there were none. 1: there were some. */
int rt_calm_end(struct rt_calm *calm, struct rt_disturbances *found);

/* Closes it. NULL has no effect. */
void rt_calm_close(struct rt_calm *calm);

#ifdef __cplusplus
}
#endif

#endif
