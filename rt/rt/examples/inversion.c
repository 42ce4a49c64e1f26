/*
 * Priority inversion on one CPU: a low, a middle and a high thread, under a plain lock and under one with priority inheritance.
 *
 *     cc inversion.c $(pkg-config --cflags --libs millpond-rt) -lpthread
 */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

static rt_mutex_t mutex;
static sem_t high_may, middle_may;
/* No atomics: the threads share a CPU, so only one runs at a time. */
static volatile int middle_is_done, high_was_behind;

/* Computes for this much of its own CPU time. */
static void compute(long milliseconds)
{
	struct timespec now, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	end.tv_nsec += milliseconds * 1000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

static void *high(void *unused)
{
	sem_wait(&high_may);
	if (rt_mutex_lock(&mutex) != 0)
		return unused;
	high_was_behind = middle_is_done;
	rt_mutex_unlock(&mutex);
	return unused;
}

static void *middle(void *unused)
{
	sem_wait(&middle_may);
	compute(40);
	middle_is_done = 1;
	return unused;
}

static void *low(void *unused)
{
	if (rt_mutex_lock(&mutex) != 0)
		return unused;
	/* Each runs at once if its priority exceeds this thread's present one. */
	sem_post(&high_may);
	sem_post(&middle_may);
	compute(10);
	rt_mutex_unlock(&mutex);
	return unused;
}

/* Sets CPU and SCHED_FIFO priority. */
static int start(pthread_t *thread, void *(*body)(void *), int priority, const cpu_set_t *cpus)
{
	struct sched_param param;
	pthread_attr_t attr;
	int error;

	memset(&param, 0, sizeof(param));
	param.sched_priority = priority;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	pthread_attr_setaffinity_np(&attr, sizeof(*cpus), cpus);
	error = pthread_create(thread, &attr, body, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

static int meet(const char *name, int flags, const cpu_set_t *cpus)
{
	pthread_t threads[3];
	int error, at;

	middle_is_done = high_was_behind = 0;
	if (rt_mutex_init(&mutex, flags) != 0)
		return errno;
	error = start(&threads[0], high, 30, cpus);
	if (error != 0)
		return error;
	if ((error = start(&threads[1], middle, 20, cpus)) != 0 || (error = start(&threads[2], low, 10, cpus)) != 0)
		return error;
	for (at = 0; at < 3; at++)
		pthread_join(threads[at], NULL);
	printf("%s: the high one has the lock %s the middle one is done\n", name, high_was_behind ? "when" : "before");
	rt_mutex_destroy(&mutex);
	return 0;
}

int main(void)
{
	cpu_set_t allowed, last;
	int error, at;

	CPU_ZERO(&last);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return 1;
	for (at = CPU_SETSIZE - 1; at > 0 && !CPU_ISSET(at, &allowed); at--)
		;
	CPU_SET(at, &last);
	sem_init(&high_may, 0, 0);
	sem_init(&middle_may, 0, 0);
	error = meet("plain", RT_LOCK_PLAIN, &last);
	if (error == 0)
		error = meet("inherits", 0, &last);
	if (error != 0)
		printf("cannot show an inversion: %s (real-time classes need CAP_SYS_NICE, or ulimit -r 30)\n", strerror(error));
	return error != 0;
}
