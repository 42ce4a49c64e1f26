/*
 * millpond/rt.h - for real-time programs: stacks for threads that never fault, what a thread may ask of its own stack, and locks that do not invert
 * priorities.
 *
 *     void *stack = stack_alloc(256 * 1024);
 *     if (stack == NULL)
 *             return fail("stack_alloc", errno);
 *     pthread_attr_setstack(&attr, stack, 256 * 1024);
 *     pthread_create(&thread, &attr, work, NULL);
 *     pthread_join(thread, NULL);
 *     stack_free(stack, 256 * 1024);
 *
 * Link with what pkg-config --libs millpond-rt says: -lmillpond_rt. Sizes and addresses are in bytes. Calls that fail give -1 (or NULL) and set
 * errno. A program that wants its stacks locked calls mlockall(MCL_CURRENT | MCL_FUTURE) before the first one.
 */
#ifndef MILLPOND_RT_H
#define MILLPOND_RT_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A stack of that size, which must be one of fetch_stack_sizes: its lowest address. It can be read and written, all its pages are in memory, and
 * the pages below and above cannot be touched. NULL:
 *     EINVAL  it is none of the sizes
 *     ENOMEM  no memory, no address space, or too many mappings
 *     EAGAIN  all future memory is to be locked, and that would be more than RLIMIT_MEMLOCK
 */
void *stack_alloc(size_t size);

/*
 * Frees a stack whose thread was joined, for whoever asks next. 0, or -1 and the stack is as it was:
 *     EINVAL    none of the sizes, or not that stack's
 *     EFAULT    not the lowest address of a stack of stack_alloc; it is not followed
 *     EALREADY  it is free already
 *     EBUSY     the caller runs on it
 */
int stack_free(void *address, size_t size);

/*
 * Writes the sizes that there are to sizes, the smallest first, at most count of them, and gives how many were written. With NULL and 0: how many
 * there are. -1 and EINVAL: only one of both is null, or count is negative.
 */
int fetch_stack_sizes(size_t *sizes, int count);

/*
 * The bounds of the calling thread's stack, to *bounds: ss_sp its lowest address, ss_size, ss_flags 0. The main stack reaches down to its limit.
 * 0, or -1: EINVAL bounds is null; or what the C library says.
 */
int stack_getbounds(stack_t *bounds);

/*
 * Tells the bounds of the stack that the calling thread runs on from now on. 0, or -1 and EINVAL: a null pointer or base, a base or size that is no
 * multiple of 16, flags that are not 0, or less than MINSIGSTKSZ.
 */
int stack_setbounds(const stack_t *bounds);

/* 1: the address is in the calling thread's stack, by its bounds. 0: it is not. */
int stack_inbounds(const void *address);

/*
 * For handlers of SIGSEGV and SIGBUS (SA_SIGINFO | SA_ONSTACK), with what they were given. 1: the fault looks as if the thread had left its
 * stack. 0: it does not, or a program sent the signal.
 */
int stack_violation(int signal, const siginfo_t *info, const void *context);

/*
 * Makes the whole stack of the calling thread resident and locks it there; a main stack grows to its limit first. 0, or -1:
 *     EAGAIN   more than RLIMIT_MEMLOCK
 *     EPERM    no right to lock at all
 *     ENOMEM   a main stack cannot grow to its limit; or bounds that were set are not mapped
 *     ENOTSUP  a main stack has no limit (ulimit -s)
 */
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

/* How much of the calling thread's stack is in memory. 0, or -1 as stack_getbounds; EINVAL: residency is null. */
int stack_residency(struct stack_residency *residency);

/*
 * A mutex: whoever holds it has the priority of the first who waits for it, and who ends with it leaves word. Memory of the caller, which stays where
 * it is from rt_mutex_init to rt_mutex_destroy; its members are not for programs.
 *
 * Who relocks, or unlocks what another one holds, is refused. A thread that ends, is cancelled or is killed while it holds the mutex leaves it to the
 * next one, who is told (EOWNERDEAD), holds it, repairs what it protects and calls rt_mutex_consistent. If it unlocks without, nobody gets the mutex
 * any more (ENOTRECOVERABLE). A child of a fork holds nothing: what was held when it was forked is of no use to it, unless it is shared, and then it
 * is the parent's.
 *
 * EINVAL, of all calls: a null pointer, or not what rt_mutex_init or rt_cond_init made. No call is a cancellation point or for handlers of signals.
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

/* 0, or -1: EINVAL other flags; ENOTSUP the kernel has no priority inheritance; ENOMEM. */
int rt_mutex_init(rt_mutex_t *mutex, int flags);

/*
 * Waits until the caller holds it. 0, or -1:
 *     EOWNERDEAD       its owner died; the caller holds it
 *     EDEADLK          the caller holds it already, or threads wait in a circle
 *     ENOTRECOVERABLE  its owner died, and nobody repaired what it left
 */
int rt_mutex_lock(rt_mutex_t *mutex);

/* As rt_mutex_lock, without waiting. EBUSY: somebody holds it, perhaps the caller. */
int rt_mutex_trylock(rt_mutex_t *mutex);

/* As rt_mutex_lock, until then by CLOCK_MONOTONIC. ETIMEDOUT: it is later; EINVAL: that is no moment. */
int rt_mutex_timedlock(rt_mutex_t *mutex, const struct timespec *deadline);

/* 0, or -1: EPERM the caller does not hold it. */
int rt_mutex_unlock(rt_mutex_t *mutex);

/* What it protects is whole again, after EOWNERDEAD. 0, or -1: EINVAL it needs no repair. */
int rt_mutex_consistent(rt_mutex_t *mutex);

/* 0, or -1: EBUSY somebody holds it. */
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

/*
 * Unlocks the mutex, waits for a signal and locks the mutex again, as rt_mutex_lock does. It may return without a signal: ask again whether what was
 * waited for is true. 0, or -1: as rt_mutex_lock; EPERM the caller does not hold the mutex, and nothing was done.
 */
int rt_cond_wait(rt_cond_t *cond, rt_mutex_t *mutex);

/* As rt_cond_wait, until then by CLOCK_MONOTONIC. ETIMEDOUT: it is later, and the mutex is held. */
int rt_cond_timedwait(rt_cond_t *cond, rt_mutex_t *mutex, const struct timespec *deadline);

/* Wakes the one of the highest priority that waits, if any. Hold the mutex, or somebody who began to wait later may be woken instead. */
int rt_cond_signal(rt_cond_t *cond);

/* Wakes all that wait. */
int rt_cond_broadcast(rt_cond_t *cond);

/* Nobody waits for it any more. */
int rt_cond_destroy(rt_cond_t *cond);

#ifdef __cplusplus
}
#endif

#endif
