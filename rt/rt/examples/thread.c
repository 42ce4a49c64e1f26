/*
 * A thread on a stack without page faults: the same function on a usual stack and on such a stack, with its page faults.
 *
 *     cc thread.c $(pkg-config --cflags --libs millpond-rt) -lpthread
 */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

#define SIZE ((size_t)256 * 1024)

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

/* A separate function, which uses half of the stack. */
static __attribute__((noinline)) void go_deep(void)
{
	volatile char memory[SIZE / 2];
	size_t at;

	for (at = 0; at < sizeof(memory); at += 1024)
		memory[at] = 1;
}

static void *work(void *result)
{
	long before = faults();

	go_deep();
	*(long *)result = faults() - before;
	return NULL;
}

static int run(void *stack, long *result)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (pthread_attr_init(&attr) != 0)
		return -1;
	if (stack != NULL && pthread_attr_setstack(&attr, stack, SIZE) != 0)
		return -1;
	if (pthread_create(&thread, &attr, work, result) != 0)
		return -1;
	pthread_join(thread, NULL);
	return pthread_attr_destroy(&attr);
}

int main(void)
{
	long usual, ours;
	void *stack = stack_alloc(SIZE);

	if (stack == NULL) {
		perror("cannot allocate a stack");
		return 1;
	}
	if (run(NULL, &usual) != 0 || run(stack, &ours) != 0 || stack_free(stack, SIZE) != 0)
		return 1;
	printf("page faults on a usual stack: %ld\npage faults on ours: %ld\n", usual, ours);
	return 0;
}
