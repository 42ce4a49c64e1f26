/*
 * millpond/rt.h - for real-time programs: stacks for threads that never fault, and what a thread may ask of its own stack.
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

#include <signal.h>
#include <stddef.h>

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

#ifdef __cplusplus
}
#endif

#endif
