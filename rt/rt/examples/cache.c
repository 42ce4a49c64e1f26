/*
 * A cache of objects that stay constructed while they are free: used a thousand times, constructed once.
 *
 *     cc cache.c $(pkg-config --cflags --libs millpond-rt) -lpthread
 *     ./a.out
 *     UMEM_DEBUG=default ./a.out
 *
 * Where buffers are checked, each allocation constructs the object, so that all memory of a free buffer can be checked.
 */
#include <millpond/umem.h>
#include <pthread.h>
#include <stdio.h>

#define TIMES 1000

/* The constructed parts are the lock and the empty list. The number changes from use to use. */
struct job {
	pthread_mutex_t lock;
	struct job *first;
	unsigned long number;
};

static unsigned long made, ended;

static int make_job(void *buffer, void *priv, int flags)
{
	struct job *job = (struct job *)buffer;

	(void)priv;
	(void)flags;
	if (pthread_mutex_init(&job->lock, NULL) != 0)
		return -1;
	job->first = NULL;
	made++;
	return 0;
}

static void end_job(void *buffer, void *priv)
{
	struct job *job = (struct job *)buffer;

	(void)priv;
	pthread_mutex_destroy(&job->lock);
	ended++;
}

/* Restores the constructed state of the job: the lock is free, the list is empty. */
static void work(struct job *job, unsigned long number)
{
	pthread_mutex_lock(&job->lock);
	job->number = number;
	job->first = job;
	job->first = NULL;
	pthread_mutex_unlock(&job->lock);
}

int main(void)
{
	umem_cache_t *jobs = umem_cache_create("jobs", sizeof(struct job), 0, make_job, end_job, NULL, NULL, NULL, 0);
	unsigned long number;

	if (jobs == NULL) {
		perror("cannot make a cache");
		return 1;
	}
	for (number = 0; number < TIMES; number++) {
		struct job *job = (struct job *)umem_cache_alloc(jobs, UMEM_DEFAULT);

		if (job == NULL) {
			perror("cannot allocate a job");
			return 1;
		}
		work(job, number);
		umem_cache_free(jobs, job);
	}
	umem_cache_destroy(jobs);
	printf("used %d times, made %lu, ended %lu\n", TIMES, made, ended);
	return 0;
}
