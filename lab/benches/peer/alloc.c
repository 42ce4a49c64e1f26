/*
 * Allocates and frees memory many times. Prints nanoseconds per pair, CPU nanoseconds per pair of all threads, and resident megabytes
 * at the end; or the times of single allocations.
 *
 *     alloc WHAT PATTERN SIZE THREADS ROUNDS [LIBRARY]
 *
 * WHAT     malloc: malloc and free of the preloaded library
 *          umem:   umem_alloc and umem_free of LIBRARY
 *          cache:  umem_cache_alloc and umem_cache_free of LIBRARY
 *          object: an object allocated by malloc and constructed, and destroyed before free
 *          made:   the same object from a cache with a constructor
 * PATTERN  pair:   one buffer, freed at once
 *          batch:  a thousand buffers, then all are freed
 *          cross:  each buffer is freed by the next thread
 *          pages:  as pair, and each page of the buffer is written
 *          mixed:  400 buffers of up to SIZE bytes; in each round one is freed or grows, and another one is written completely (as in git and python)
 *          larson: a thousand buffers of up to SIZE bytes; one is freed and replaced; after ten thousand rounds another thread continues with them
 *          xmalloc: as cross, with sizes up to SIZE
 *          worst:  as pair with growing and shrinking sizes, by a real-time thread that competes with THREADS others; percentiles in nanoseconds
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 1000
#define RING 1024

struct umem_cache;
typedef void *alloc_fn(size_t);
typedef void free_fn(void *);

static void *(*umem_alloc)(size_t, int);
static void (*umem_free)(void *, size_t);
static void *(*umem_cache_alloc)(struct umem_cache *, int);
static void (*umem_cache_free)(struct umem_cache *, void *);
static struct umem_cache *(*umem_cache_create)(const char *, size_t, size_t, int (*)(void *, void *, int),
    void (*)(void *, void *), void (*)(void *), void *, void *, int);

static size_t size;
static unsigned threads;
static unsigned long rounds;
static struct umem_cache *cache;

static void fail(const char *what)
{
	fprintf(stderr, "cannot %s\n", what);
	exit(1);
}

static double by(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static double now(void)
{
	return by(CLOCK_MONOTONIC);
}

/* An object with an expensive constructor: locks, lists, a table. */
struct object {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	void *lists[32][2];
	char table[256];
};

static int make(void *memory, void *private, int flags)
{
	struct object *object = memory;
	(void)private;
	(void)flags;
	pthread_mutex_init(&object->lock, NULL);
	pthread_cond_init(&object->cond, NULL);
	for (int i = 0; i < 32; i++)
		object->lists[i][0] = object->lists[i][1] = &object->lists[i];
	memset(object->table, 0xff, sizeof object->table);
	return 0;
}

static void end(void *memory, void *private)
{
	struct object *object = memory;
	(void)private;
	pthread_cond_destroy(&object->cond);
	pthread_mutex_destroy(&object->lock);
}

static void *of_malloc(size_t bytes) { return malloc(bytes); }
static void to_malloc(void *memory) { free(memory); }
static void *of_umem(size_t bytes) { return umem_alloc(bytes, 0); }
static void to_umem(void *memory) { umem_free(memory, size); }
static void *of_cache(size_t bytes) { (void)bytes; return umem_cache_alloc(cache, 0); }
static void to_cache(void *memory) { umem_cache_free(cache, memory); }

static void *of_object(size_t bytes)
{
	void *memory = malloc(bytes);
	if (memory)
		make(memory, NULL, 0);
	return memory;
}

static void to_object(void *memory)
{
	end(memory, NULL);
	free(memory);
}

static alloc_fn *get;
static free_fn *put;

static void use(void *memory)
{
	if (memory == NULL)
		fail("allocate");
	*(volatile char *)memory = 1;
}

static pthread_barrier_t together;

static void *pair(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&together);
	for (unsigned long i = 0; i < rounds; i++) {
		void *one = get(size);
		use(one);
		put(one);
	}
	return NULL;
}

static void *batch(void *unused)
{
	void *some[BATCH];
	(void)unused;
	pthread_barrier_wait(&together);
	for (unsigned long i = 0; i < rounds; i += BATCH) {
		for (int at = 0; at < BATCH; at++) {
			some[at] = get(size);
			use(some[at]);
		}
		for (int at = 0; at < BATCH; at++)
			put(some[at]);
	}
	return NULL;
}

static void write_pages(char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 4096)
		((volatile char *)memory)[at] = 1;
}

static void *pages(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&together);
	for (unsigned long i = 0; i < rounds; i++) {
		void *one = get(size);
		use(one);
		write_pages(one, size);
		put(one);
	}
	return NULL;
}

static uint64_t next_of(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void *mixed(void *number)
{
	void *some[400] = { 0 };
	uint64_t state = (uintptr_t)number + 1;
	pthread_barrier_wait(&together);
	for (unsigned long i = 0; i < rounds; i++) {
		unsigned at = next_of(&state) % 400;
		size_t bytes = 1 + next_of(&state) % size;
		if (next_of(&state) % 4 == 0) {
			some[at] = realloc(some[at], bytes);
		} else {
			put(some[at]);
			some[at] = get(bytes);
		}
		use(some[at]);
		memset(some[at], 1, bytes);
	}
	for (int at = 0; at < 400; at++)
		put(some[at]);
	return NULL;
}

/* A thousand buffers, and the number of remaining rounds. */
struct stock {
	void *some[1000];
	uint64_t state;
	unsigned long left;
};

static void *larson_part(void *with)
{
	struct stock *stock = with;
	for (int i = 0; i < 10000 && stock->left > 0; i++, stock->left--) {
		unsigned at = next_of(&stock->state) % 1000;
		put(stock->some[at]);
		use(stock->some[at] = get(1 + next_of(&stock->state) % size));
	}
	return NULL;
}

static void *larson(void *number)
{
	struct stock stock = { .state = (uintptr_t)number + 1, .left = rounds };
	pthread_barrier_wait(&together);
	for (pthread_t id; stock.left > 0; pthread_join(id, NULL))
		if (pthread_create(&id, NULL, larson_part, &stock))
			fail("create a thread");
	for (int at = 0; at < 1000; at++)
		put(stock.some[at]);
	return NULL;
}

static int varies;

/* A queue of buffers from one thread to the next. */
static struct ring {
	_Alignas(64) _Atomic unsigned long in;
	_Alignas(64) _Atomic unsigned long out;
	void *places[RING];
} *rings;

static void *cross(void *number)
{
	struct ring *mine = &rings[(uintptr_t)number], *next = &rings[((uintptr_t)number + 1) % threads];
	unsigned long made = 0, ended = 0;
	uint64_t state = (uintptr_t)number + 1;
	pthread_barrier_wait(&together);
	while (made < rounds || ended < rounds) {
		unsigned long out = atomic_load_explicit(&next->out, memory_order_acquire), before = made + ended;
		while (made < rounds && made - out < RING) {
			void *one = get(varies ? 1 + next_of(&state) % size : size);
			use(one);
			next->places[made++ % RING] = one;
		}
		atomic_store_explicit(&next->in, made, memory_order_release);
		unsigned long in = atomic_load_explicit(&mine->in, memory_order_acquire);
		while (ended < in)
			put(mine->places[ended++ % RING]);
		atomic_store_explicit(&mine->out, ended, memory_order_release);
		if (made + ended == before)
			sched_yield();
	}
	return NULL;
}

/* CPU nanoseconds per round of all threads together. */
static double cpu;

static double run(void *(*body)(void *))
{
	pthread_t ids[64];
	if (threads < 1 || threads > 64)
		fail("use so many threads");
	rings = calloc(threads, sizeof *rings);
	pthread_barrier_init(&together, NULL, threads + 1);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, body, (void *)i))
			fail("create a thread");
	double begin = now(), cpu_begin = by(CLOCK_PROCESS_CPUTIME_ID);
	pthread_barrier_wait(&together);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	cpu = (by(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin) / rounds;
	return (now() - begin) / rounds;
}

/* A histogram of times with sixteen steps per power of two, as in HDR histograms. */
#define STEPS 16
static unsigned long counts[64 * STEPS];

static unsigned step_of(uint64_t ns)
{
	if (ns < STEPS)
		return ns;
	unsigned power = 63 - __builtin_clzll(ns);
	return (power - 3) * STEPS + ((ns >> (power - 4)) & (STEPS - 1));
}

static uint64_t end_of(unsigned step)
{
	if (step < STEPS)
		return step;
	unsigned power = step / STEPS + 3;
	return ((uint64_t)(STEPS + step % STEPS + 1) << (power - 4)) - 1;
}

static atomic_bool is_over;

static void *disturb(void *number)
{
	void *some[256] = { 0 };
	uint64_t state = (uintptr_t)number + 1;
	while (!is_over) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		unsigned at = state >> 56;
		free(some[at]);
		some[at] = malloc(16 + (state >> 33) % 8000);
	}
	return NULL;
}

static void worst(void)
{
	struct sched_param priority = { .sched_priority = 50 };
	void *some[512] = { 0 };
	uint64_t state = 1, most = 0;
	pthread_t id;
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&id, NULL, disturb, (void *)i))
			fail("create a thread");
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
		fail("have real-time priority");
	for (unsigned long i = 0; i < rounds; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		unsigned at = (state >> 55) % 512;
		size_t bytes = 16 + (state >> 33) % size;
		double begin = now();
		free(some[at]);
		some[at] = malloc(bytes);
		use(some[at]);
		uint64_t took = now() - begin;
		counts[step_of(took)]++;
		most = took > most ? took : most;
		/* Let the other threads run; a real-time thread that never waits would be throttled. */
		if (i % 64 == 0) {
			struct timespec nap = { 0, 20000 };
			nanosleep(&nap, NULL);
		}
	}
	is_over = 1;
	const double wanted[] = { 0.5, 0.99, 0.999, 0.9999, 0.99999 };
	unsigned long seen = 0;
	unsigned step = 0;
	for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		while (step < 64 * STEPS - 1 && seen + counts[step] < wanted[i] * rounds)
			seen += counts[step++];
		printf("%llu ", (unsigned long long)end_of(step));
	}
	printf("%llu\n", (unsigned long long)most);
}

/* Resident memory in megabytes. */
static double resident(void)
{
	long all, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file == NULL || fscanf(file, "%ld %ld", &all, &pages) != 2)
		fail("read statm");
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1048576.0);
}

int main(int count, char **words)
{
	if (count < 6) {
		fprintf(stderr, "usage: alloc WHAT PATTERN SIZE THREADS ROUNDS [LIBRARY]\n");
		return 2;
	}
	const char *what = words[1], *pattern = words[2];
	size = strtoul(words[3], NULL, 10);
	threads = strtoul(words[4], NULL, 10);
	rounds = strtoul(words[5], NULL, 10);
	if (count > 6) {
		void *library = dlopen(words[6], RTLD_NOW);
		if (library == NULL)
			fail(dlerror());
		*(void **)&umem_alloc = dlsym(library, "umem_alloc");
		*(void **)&umem_free = dlsym(library, "umem_free");
		*(void **)&umem_cache_alloc = dlsym(library, "umem_cache_alloc");
		*(void **)&umem_cache_free = dlsym(library, "umem_cache_free");
		*(void **)&umem_cache_create = dlsym(library, "umem_cache_create");
		if (!umem_alloc || !umem_free || !umem_cache_alloc || !umem_cache_free || !umem_cache_create)
			fail("find the calls");
		int is_made = strcmp(what, "made") == 0;
		if (is_made)
			size = sizeof(struct object);
		cache = umem_cache_create("bench", size, 0, is_made ? make : NULL, is_made ? end : NULL, NULL, NULL, NULL, 0);
		if (cache == NULL)
			fail("make a cache");
	}
	if (strcmp(what, "object") == 0)
		size = sizeof(struct object);
	static const struct { const char *name; alloc_fn *get; free_fn *put; } ways[] = {
		{ "malloc", of_malloc, to_malloc }, { "umem", of_umem, to_umem }, { "cache", of_cache, to_cache },
		{ "object", of_object, to_object }, { "made", of_cache, to_cache },
	};
	for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
		if (strcmp(what, ways[i].name) == 0) {
			get = ways[i].get;
			put = ways[i].put;
		}
	if (get == NULL)
		fail("do that");
	if (strcmp(pattern, "worst") == 0) {
		worst();
		return 0;
	}
	static const struct { const char *name; void *(*body)(void *); } patterns[] = {
		{ "pair", pair }, { "batch", batch }, { "pages", pages }, { "mixed", mixed }, { "larson", larson },
	};
	void *(*body)(void *) = cross;
	for (unsigned i = 0; i < sizeof patterns / sizeof *patterns; i++)
		if (strcmp(pattern, patterns[i].name) == 0)
			body = patterns[i].body;
	varies = strcmp(pattern, "xmalloc") == 0;
	/* A first run fills magazines, arenas and pages. */
	unsigned long whole = rounds;
	rounds = whole / 4;
	run(body);
	rounds = whole;
	double took = run(body);
	printf("%.3f %.3f %.3f\n", took, cpu, resident());
	return 0;
}
