/* Programs whose verdict is known: each thread computes, holds or waits as the shape says, until the process is killed. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 8

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t jobs;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	errno = pthread_create(thread, NULL, run, argument);
	if (errno)
		fail("pthread_create");
}

static unsigned long long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Computes for so long on its CPU. */
static void compute(unsigned long long nanoseconds)
{
	unsigned long long until = now_ns(CLOCK_THREAD_CPUTIME_ID) + nanoseconds;
	volatile unsigned sink = 0;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		for (unsigned i = 0; i < 10000; i++)
			sink += i;
}

static void *computes(void *unused)
{
	(void)unused;
	for (;;)
		compute(1000000);
	return NULL;
}

static void *waits_for_work(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&condition, &mutex);
	return NULL;
}

static void *waits_with_a_timeout(void *unused)
{
	struct timespec until;

	(void)unused;
	pthread_mutex_lock(&mutex);
	for (;;) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 50000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&condition, &mutex, &until);
	}
	return NULL;
}

static void *waits_for_a_job(void *unused)
{
	(void)unused;
	for (;;)
		while (sem_wait(&jobs))
			;
	return NULL;
}

/* Takes a job and posts it again, as workers do that make work for others. */
static void *takes_and_posts(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&jobs))
			;
		compute(200000);
		sem_post(&jobs);
	}
	return NULL;
}

static void *contends(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&mutex);
		compute(2000000);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* Requests in a rhythm of their own, each for one of those that wait for a job. */
static void *serves(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&jobs))
			;
		compute(200000);
	}
	return NULL;
}

static void *requests(void *unused)
{
	(void)unused;
	for (;;) {
		usleep(5000);
		sem_post(&jobs);
	}
	return NULL;
}

/* Of one permit: computes with it, and then without it. */
static void *uses_a_permit(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&jobs))
			;
		compute(4000000);
		sem_post(&jobs);
		compute(1000000);
	}
	return NULL;
}

/* One waits for the next request, makes another one the leader and handles it. With one connection to a slow server it would look the same. */
static void *leads_and_follows(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&jobs))
			;
		usleep(5000);
		sem_post(&jobs);
		compute(200000);
	}
	return NULL;
}

static void *waits_for_events(void *unused)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), events = eventfd(0, 0);

	(void)unused;
	epoll_ctl(epoll, EPOLL_CTL_ADD, events, &event);
	for (;;)
		epoll_wait(epoll, &event, 1, -1);
	return NULL;
}

/* Waits at a word of its own that has the value of a contended mutex, and no owner behind it. */
static void *waits_at_a_word(void *unused)
{
	static unsigned words[4] = { 2 };

	(void)unused;
	for (;;)
		syscall(SYS_futex, words, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	return NULL;
}

/* Priority inversion: all on one CPU. A nice thread holds the mutex and computes, one of the usual class computes, one for real time wants the mutex. */
static sem_t held;

static void *holds(void *unused)
{
	(void)unused;
	/* A third of the weight of the others: it has its CPU less often than they, but before a second is over. */
	if (setpriority(PRIO_PROCESS, 0, 5))
		fail("setpriority");
	for (;;) {
		pthread_mutex_lock(&mutex);
		sem_post(&held);
		compute(5000000);
		pthread_mutex_unlock(&mutex);
		usleep(1000);
	}
	return NULL;
}

static void *is_urgent(void *unused)
{
	struct sched_param first = { .sched_priority = 1 };

	(void)unused;
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fail("SCHED_FIFO");
	for (;;) {
		sem_wait(&held);
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

/* The same with a mutex whose holder is lent the priority of those that wait for it. */
static void inherit(void)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	errno = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	if (!errno)
		errno = pthread_mutex_init(&mutex, &attributes);
	if (errno)
		fail("PTHREAD_PRIO_INHERIT");
}

static void bind(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static int first_cpu(void)
{
	cpu_set_t set;
	int cpu = 0;

	sched_getaffinity(0, sizeof(set), &set);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}

static void many(void *(*run)(void *), int count)
{
	pthread_t thread;

	for (int i = 0; i < count; i++)
		start(&thread, run, NULL);
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "";
	pthread_t thread;

	alarm(120);
	sem_init(&jobs, 0, 0);
	sem_init(&held, 0, 0);
	if (!strcmp(shape, "spin")) {
		bind(first_cpu());
	} else if (!strcmp(shape, "pool")) {
		bind(first_cpu());
		many(waits_for_work, WORKERS);
		start(&thread, computes, NULL);
		printf("ready\n");
		fflush(stdout);
		pthread_join(thread, NULL);
	} else if (!strcmp(shape, "connections")) {
		many(waits_for_a_job, WORKERS / 2);
		many(waits_with_a_timeout, WORKERS / 2);
	} else if (!strcmp(shape, "posters")) {
		sem_post(&jobs);
		many(takes_and_posts, 3);
	} else if (!strcmp(shape, "requests")) {
		many(serves, WORKERS);
		many(requests, 1);
	} else if (!strcmp(shape, "permits")) {
		sem_post(&jobs);
		many(uses_a_permit, 4);
	} else if (!strcmp(shape, "leaders")) {
		sem_post(&jobs);
		many(leads_and_follows, 4);
	} else if (!strcmp(shape, "mutex")) {
		many(contends, 3);
		many(waits_for_a_job, 1);
	} else if (!strcmp(shape, "held")) {
		pthread_mutex_lock(&mutex);
		many(contends, 2);
	} else if (!strcmp(shape, "events")) {
		many(waits_for_events, WORKERS);
	} else if (!strcmp(shape, "word")) {
		many(waits_at_a_word, 2);
	} else if (!strcmp(shape, "inversion") || !strcmp(shape, "inheritance")) {
		if (!strcmp(shape, "inheritance"))
			inherit();
		bind(first_cpu());
		many(holds, 1);
		many(computes, 1);
		many(is_urgent, 1);
	} else {
		fprintf(stderr, "shapes: which shape?\n");
		return 2;
	}
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(shape, "spin"))
		computes(NULL);
	for (;;)
		pause();
}
