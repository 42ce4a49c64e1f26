/* Ends of threads and of the program.
 *
 *     ends exit       main ends by pthread_exit, and the last thread some time later: the program ends with status 0
 *     ends signal     the same, but the last thread waits: it prints the process ID, and SIGTERM ends the program
 *     ends joined WHAT, ends detached WHAT
 *                     many threads, one after the other, whose last free is in the C library, after all destructors. WHAT: strsignal, dlopen
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4000
/* More than an allocator needs for its lists. */
#define KEPT_KB 2048

static pthread_t first;
static int waits;
static sem_t is_done;

static void end(const char *what)
{
	fprintf(stderr, "%s\n", what);
	_exit(1);
}

static int tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = -2;

	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count;
}

/* Uses depots for longer than the interval of updates, which the environment sets to one second. */
static void *work(void *none)
{
	static void *some[20000];
	time_t begin;
	int at;

	free(malloc(100));
	sem_post(&is_done);
	pthread_join(first, NULL);
	for (begin = time(NULL); time(NULL) < begin + 4;) {
		for (at = 0; at < 20000; at++)
			some[at] = malloc(100 + at % 500);
		for (at = 0; at < 20000; at++)
			free(some[at]);
	}
	/* The first thread is a zombie, which is listed. */
	if (tasks() != 2)
		end("there is a thread that the program did not make");
	if (waits) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
		for (;;)
			pause();
	}
	return none;
}

static int calls_dlopen;

static void *one(void *none)
{
	if (calls_dlopen && dlopen("/nonexistent.so", RTLD_NOW) != NULL)
		end("there is such a library");
	if (!calls_dlopen && strsignal(123) == NULL)
		end("no text");
	sem_post(&is_done);
	return none;
}

static long resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, resident = 0;

	if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2)
		end("no figures");
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void many(int count, int is_detached)
{
	pthread_t thread;

	for (; count > 0; count--) {
		if (pthread_create(&thread, NULL, one, NULL) != 0)
			end("no thread");
		sem_wait(&is_done);
		if (is_detached)
			pthread_detach(thread);
		else
			pthread_join(thread, NULL);
	}
	while (tasks() > 1)
		usleep(1000);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	long before, after;

	if (strcmp(what, "exit") == 0 || strcmp(what, "signal") == 0) {
		pthread_t thread;

		alarm(120);
		waits = *what == 's';
		sem_init(&is_done, 0, 0);
		free(malloc(100));
		first = pthread_self();
		if (pthread_create(&thread, NULL, work, NULL) != 0)
			end("no thread");
		pthread_detach(thread);
		/* Both threads have allocated by now. */
		sem_wait(&is_done);
		pthread_exit(NULL);
	}
	sem_init(&is_done, 0, 0);
	calls_dlopen = count > 2 && strcmp(words[2], "dlopen") == 0;
	many(THREADS / 4, *what == 'd');
	before = resident_kb();
	many(THREADS, *what == 'd');
	after = resident_kb();
	if (after > before + KEPT_KB) {
		fprintf(stderr, "%d threads cost %ld kB\n", THREADS, after - before);
		return 1;
	}
	return 0;
}
