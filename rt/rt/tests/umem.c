/* Every call of umem.h, valid and invalid: a group of checks for each argument. Prints the line of each failure. Compiles as C and C++. */
#define _GNU_SOURCE 1
#include <millpond/umem.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); fflush(stdout); failed = 1; } } while (0)
#define MANY(array) (sizeof (array) / sizeof *(array))

/* More than any memory. */
static const size_t HUGE_SIZE = (size_t)1 << 62;
/* Less than the address space, but more than its free part. */
static const size_t MOST_SIZE = ((size_t)1 << 47) - ((size_t)1 << 40);

struct object {
	uint64_t mark;
	uint64_t user[4];
};

#define MARK 0x6d696c6c706f6e64u

/* Calls of a cache's functions, counted from many threads. */
struct counts {
	int made;
	int ended;
	int reclaims;
	int wrong;
	/* Whether the constructor fails, and how often it did. */
	int cannot;
	int refused;
	/* Freed by the reclaim function. */
	umem_cache_t *cache;
	void *kept;
	/* The cache is destroyed. */
	int gone;
};

static int counted(const int *count)
{
	return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

static void count(int *what)
{
	__atomic_add_fetch(what, 1, __ATOMIC_SEQ_CST);
}

static int make(void *buffer, void *priv, int flags)
{
	struct object *object = (struct object *)buffer;
	struct counts *counts = (struct counts *)priv;
	if (flags != UMEM_DEFAULT)
		count(&counts->wrong);
	if (counts->cannot) {
		count(&counts->refused);
		return -1;
	}
	object->mark = MARK;
	count(&counts->made);
	return 0;
}

static void end(void *buffer, void *priv)
{
	struct object *object = (struct object *)buffer;
	struct counts *counts = (struct counts *)priv;
	if (object->mark != MARK)
		count(&counts->wrong);
	object->mark = 0;
	count(&counts->ended);
}

static void reclaim(void *priv)
{
	struct counts *counts = (struct counts *)priv;
	counts->reclaims++;
	if (counts->kept != NULL) {
		void *kept = counts->kept;
		counts->kept = NULL;
		umem_cache_free(counts->cache, kept);
	}
}

static umem_cache_t *objects(struct counts *counts, int cflags)
{
	memset(counts, 0, sizeof *counts);
	return umem_cache_create("objects", sizeof (struct object), 0, make, end, reclaim, counts, NULL, cflags);
}

/* The status of a child, or minus its signal. */
static int ended(pid_t child)
{
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* ------------------------------------------------------------------------------------------------------------------- calls */

static void cache_that_cannot_be(const char *name, size_t size, size_t align, void *source, int cflags, int number)
{
	errno = 0;
	CHECK(umem_cache_create(name, size, align, NULL, NULL, NULL, NULL, (vmem_t *)source, cflags) == NULL);
	CHECK(errno == number);
}

static void calls(void)
{
	static const size_t sizes[] = { 1, 7, 8, 15, 16, 17, 100, 128, 4096, 5000, 131071, 131072, 131073, 1 << 20, 40 << 20 };
	char elsewhere;
	size_t at, byte;

	for (at = 0; at < MANY(sizes); at++) {
		size_t size = sizes[at];
		size_t align = size > 131072 ? 4096 : size % 64 == 0 ? 64 : size >= 16 ? 16 : 8;
		char *buffer = (char *)umem_alloc(size, UMEM_DEFAULT);
		char *zeros = (char *)umem_zalloc(size, UMEM_NOFAIL);
		CHECK(buffer != NULL && (uintptr_t)buffer % align == 0);
		CHECK(zeros != NULL && zeros != buffer && (uintptr_t)zeros % align == 0);
		for (byte = 0; byte < size; byte++)
			if (zeros[byte] != 0)
				break;
		CHECK(byte == size);
		memset(buffer, 1, size);
		memset(zeros, 2, size);
		CHECK(buffer[0] == 1 && buffer[size - 1] == 1);
		errno = 77;
		umem_free(buffer, size);
		umem_free(zeros, size);
		CHECK(errno == 77);
		/* Memory that was written to is zeroed again. */
		zeros = (char *)umem_zalloc(size, UMEM_DEFAULT);
		for (byte = 0; byte < size; byte++)
			if (zeros[byte] != 0)
				break;
		CHECK(byte == size);
		umem_free(zeros, size);
	}
	errno = 77;
	CHECK(umem_alloc(0, UMEM_DEFAULT) == NULL && umem_zalloc(0, UMEM_NOFAIL) == NULL);
	umem_free(NULL, 0);
	umem_free(NULL, 100);
	umem_free(NULL, HUGE_SIZE);
	umem_cache_destroy(NULL);
	umem_reap();
	CHECK(errno == 77);
	for (at = 0; at < 4; at++) {
		size_t too_large[] = { HUGE_SIZE, SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 4096 };
		errno = 0;
		CHECK(umem_alloc(too_large[at], UMEM_DEFAULT) == NULL && errno == ENOMEM);
		errno = 0;
		CHECK(umem_zalloc(too_large[at], UMEM_DEFAULT) == NULL && errno == ENOMEM);
	}

	cache_that_cannot_be(NULL, 8, 0, NULL, 0, EINVAL);
	cache_that_cannot_be("none", 0, 0, NULL, 0, EINVAL);
	cache_that_cannot_be("none", 8, 3, NULL, 0, EINVAL);
	cache_that_cannot_be("none", 8, 24, NULL, 0, EINVAL);
	cache_that_cannot_be("none", 8, (size_t)sysconf(_SC_PAGESIZE) * 2, NULL, 0, EINVAL);
	cache_that_cannot_be("none", 8, 0, &elsewhere, 0, EINVAL);
	cache_that_cannot_be("none", 8, 0, NULL, UMC_NOHASH | UMC_NOTOUCH, EINVAL);
	cache_that_cannot_be("none", SIZE_MAX, 0, NULL, 0, ENOMEM);
	cache_that_cannot_be("none", SIZE_MAX / 8, 0, NULL, 0, ENOMEM);

	for (at = 1; at <= (size_t)sysconf(_SC_PAGESIZE); at *= 2) {
		umem_cache_t *cache = umem_cache_create("aligned", at + 1, at, NULL, NULL, NULL, NULL, NULL, 0);
		void *one, *other;
		CHECK(cache != NULL);
		one = umem_cache_alloc(cache, UMEM_DEFAULT);
		other = umem_cache_alloc(cache, UMEM_NOFAIL);
		CHECK((uintptr_t)one % at == 0 && (uintptr_t)other % at == 0 && one != other);
		memset(one, 3, at + 1);
		umem_cache_free(cache, one);
		umem_cache_free(cache, other);
		umem_cache_free(cache, NULL);
		umem_cache_destroy(cache);
	}
	{
		/* A cache of a huge size can be created, but not its buffers. */
		umem_cache_t *cache = umem_cache_create("a name that is longer than what is kept of it", HUGE_SIZE / 64, 0,
		    NULL, NULL, NULL, NULL, NULL, 0);
		CHECK(cache != NULL);
		errno = 0;
		CHECK(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL && errno == ENOMEM);
		umem_cache_destroy(cache);
	}
	CHECK(UMEM_CALLBACK_EXIT(0x1ff) == 0x1ff && UMEM_CALLBACK_RETRY == 0);
}

/* ----------------------------------------------------------------------------------------------------------------- objects */

static void stay_constructed(void)
{
	struct counts counts;
	umem_cache_t *cache = objects(&counts, 0);
	struct object *all[100];
	size_t at;
	int round;

	CHECK(cache != NULL && counts.made == 0);
	for (round = 0; round < 10; round++) {
		for (at = 0; at < MANY(all); at++) {
			all[at] = (struct object *)umem_cache_alloc(cache, at % 2 ? UMEM_NOFAIL : UMEM_DEFAULT);
			CHECK(all[at] != NULL && all[at]->mark == MARK);
			CHECK(round == 0 || all[at]->user[0] == 42);
			all[at]->user[0] = 42;
		}
		for (at = 0; at < MANY(all); at++)
			umem_cache_free(cache, all[at]);
		/* Each object was constructed once, and none was destroyed when it was freed. */
		CHECK(counts.made == (int)MANY(all) && counts.ended == 0);
	}
	umem_cache_destroy(cache);
	CHECK(counts.made == counts.ended && counts.wrong == 0);
}

static void are_reclaimed(void)
{
	struct counts counts;
	umem_cache_t *cache = objects(&counts, 0);
	counts.cache = cache;
	counts.kept = umem_cache_alloc(cache, UMEM_DEFAULT);
	CHECK(counts.kept != NULL && counts.reclaims == 0);
	umem_reap();
	CHECK(counts.reclaims == 1 && counts.kept == NULL);
	umem_reap();
	CHECK(counts.reclaims == 2);
	/* No reclaim function is called for a size that exceeds the address space. */
	CHECK(umem_alloc(SIZE_MAX / 2 - 100, UMEM_DEFAULT) == NULL && counts.reclaims == 2);
	CHECK(umem_alloc((size_t)1 << 60, UMEM_DEFAULT) == NULL && counts.reclaims == 2);
	/* They are called when memory runs out, too. */
	counts.kept = umem_cache_alloc(cache, UMEM_DEFAULT);
	CHECK(umem_alloc(MOST_SIZE, UMEM_DEFAULT) == NULL);
	CHECK(counts.reclaims == 3 && counts.kept == NULL);
	umem_cache_destroy(cache);
	CHECK(counts.made == counts.ended && counts.wrong == 0);
	umem_reap();
	CHECK(counts.reclaims == 3);
}

static struct counts *asked_about;
static int asked;

static int make_possible(void)
{
	asked++;
	asked_about->cannot = 0;
	return UMEM_CALLBACK_RETRY;
}

static void cannot_be_made(int cflags)
{
	struct counts counts;
	umem_cache_t *cache = objects(&counts, cflags);
	void *one, *other;

	one = umem_cache_alloc(cache, UMEM_DEFAULT);
	counts.cannot = 1;
	/* A constructed object is returned if there is one. */
	umem_cache_free(cache, one);
	if (cflags == 0)
		CHECK((one = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	else
		one = NULL;
	errno = 0;
	CHECK(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL && errno == ENOMEM);
	CHECK(counts.refused == 1);
	counts.cannot = 0;
	other = umem_cache_alloc(cache, UMEM_DEFAULT);
	CHECK(other != NULL);

	asked = 0;
	asked_about = &counts;
	umem_nofail_callback(make_possible);
	counts.cannot = 1;
	umem_cache_free(cache, one);
	one = umem_cache_alloc(cache, UMEM_DEFAULT);
	if (one == NULL) {
		one = umem_cache_alloc(cache, UMEM_NOFAIL);
		CHECK(asked == 1);
	} else {
		void *more = umem_cache_alloc(cache, UMEM_NOFAIL);
		CHECK(more != NULL && asked == 1);
		umem_cache_free(cache, more);
	}
	CHECK(one != NULL && ((struct object *)one)->mark == MARK);
	umem_nofail_callback(NULL);
	umem_cache_free(cache, one);
	umem_cache_free(cache, other);
	umem_cache_destroy(cache);
	CHECK(counts.made == counts.ended && counts.wrong == 0);
}

/* If each allocation constructs and each free destroys. */
static void are_made_each_time(int cflags)
{
	struct counts counts;
	umem_cache_t *cache = objects(&counts, cflags);
	int round;
	for (round = 1; round <= 10; round++) {
		struct object *one = (struct object *)umem_cache_alloc(cache, UMEM_DEFAULT);
		CHECK(one != NULL && one->mark == MARK && counts.made == round && counts.ended == round - 1);
		umem_cache_free(cache, one);
		CHECK(counts.ended == round);
	}
	umem_cache_destroy(cache);
	CHECK(counts.made == 10 && counts.ended == 10 && counts.wrong == 0);
}

static void object_group(void)
{
	stay_constructed();
	are_reclaimed();
	cannot_be_made(0);
	cannot_be_made(UMC_NOMAGAZINE);
	are_made_each_time(UMC_NOMAGAZINE);
	are_made_each_time(UMC_NOMAGAZINE | UMC_NODEBUG);
	are_made_each_time(UMC_NOMAGAZINE | UMC_NOTOUCH);
	are_made_each_time(UMC_NOMAGAZINE | UMC_NOHASH);
}

/* With UMEM_DEBUG=guards. */
static void guarded(void)
{
	struct counts counts;
	umem_cache_t *cache;
	are_made_each_time(0);
	are_made_each_time(UMC_NOHASH);
	cannot_be_made(UMC_NOMAGAZINE);
	/* Objects of a cache without checks stay constructed. */
	cache = objects(&counts, UMC_NODEBUG);
	umem_cache_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
	umem_cache_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
	CHECK(counts.made == 1 && counts.ended == 0);
	umem_cache_destroy(cache);
	{
		uint64_t *words = (uint64_t *)umem_alloc(64, UMEM_DEFAULT);
		CHECK(words[0] == UINT64_C(0xbaddcafebaddcafe) && words[7] == UINT64_C(0xbaddcafebaddcafe));
		umem_free(words, 64);
		words = (uint64_t *)umem_zalloc(60, UMEM_DEFAULT);
		CHECK(words[0] == 0 && words[6] == 0);
		/* The byte after the requested size. */
		CHECK(((unsigned char *)words)[60] == 0xbb);
		umem_free(words, 60);
	}
}

/* ---------------------------------------------------------------------------------------------------------------- no memory */

static int retry_then_exit(void)
{
	static int calls;
	return ++calls < 5 ? UMEM_CALLBACK_RETRY : UMEM_CALLBACK_EXIT(7);
}

static int exit_300(void)
{
	return UMEM_CALLBACK_EXIT(300);
}

static int nonsense(void)
{
	return 5;
}

static int ask_again(void)
{
	return umem_alloc(HUGE_SIZE, UMEM_NOFAIL) == NULL ? UMEM_CALLBACK_EXIT(1) : UMEM_CALLBACK_EXIT(2);
}

static jmp_buf before;

static int leave(void)
{
	longjmp(before, 1);
}

static int leave_thread(void)
{
	pthread_exit(&before);
}

static void at_exit(void)
{
	umem_alloc(HUGE_SIZE, UMEM_NOFAIL);
}

static int status_with(umem_nofail_callback_t *callback, void (*last)(void))
{
	pid_t child = fork();
	if (child == 0) {
		struct rlimit none;
		none.rlim_cur = none.rlim_max = 0;
		setrlimit(RLIMIT_CORE, &none);
		umem_nofail_callback(callback);
		if (last != NULL)
			atexit(last);
		umem_alloc(HUGE_SIZE, UMEM_NOFAIL);
		_exit(1);
	}
	return ended(child);
}

static void *want(void *unused)
{
	(void)unused;
	return umem_zalloc(HUGE_SIZE, UMEM_NOFAIL);
}

/* Leaves from deeper in the stack each time, like a program that allocates in many places. */
static int want_deeply(int depth)
{
	volatile char room[256];
	room[0] = 0;
	if (depth > 0)
		return want_deeply(depth - 1) + room[0];
	return umem_alloc(HUGE_SIZE, UMEM_NOFAIL) != NULL;
}

static void no_memory(void)
{
	static volatile int times;
	pthread_t thread;
	void *result = NULL;

	CHECK(status_with(NULL, NULL) == 255);
	CHECK(status_with(retry_then_exit, NULL) == 7);
	CHECK(status_with(exit_300, NULL) == (300 & 0xff));
	CHECK(status_with(nonsense, NULL) == 255);
	CHECK(status_with(ask_again, NULL) == -SIGABRT);
	CHECK(status_with(exit_300, at_exit) == -SIGABRT || status_with(exit_300, at_exit) == (300 & 0xff));

	umem_nofail_callback(leave);
	for (times = 0; times < 50; times++) {
		if (setjmp(before) == 0) {
			want_deeply(times % 5);
			CHECK(!"it came back");
		}
	}
	umem_nofail_callback(leave_thread);
	CHECK(pthread_create(&thread, NULL, want, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == &before);
	umem_nofail_callback(NULL);
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
}

/* With UMEM_DEBUG=mtbf=7. */
static void injected(void)
{
	static int fails;
	int at;
	void *buffer;
	umem_cache_t *sound = umem_cache_create("sound", 40, 0, NULL, NULL, NULL, NULL, NULL, UMC_NODEBUG);
	for (at = 0; at < 7000; at++) {
		/* Large buffers, too. */
		size_t size = at % 10 == 0 ? 200000 : 64;
		errno = 0;
		buffer = umem_alloc(size, UMEM_DEFAULT);
		if (buffer == NULL)
			fails += errno == ENOMEM;
		else
			memset(buffer, 1, size);
		umem_free(buffer, size);
		buffer = umem_cache_alloc(sound, UMEM_DEFAULT);
		CHECK(buffer != NULL);
		umem_cache_free(sound, buffer);
	}
	umem_cache_destroy(sound);
	/* One in seven on average: 1000. The sequence is always the same. */
	CHECK(fails > 700 && fails < 1300);
}

static size_t bytes_mapped(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

struct chained {
	struct chained *next;
	char room[1000];
};

static int use_all(void)
{
	struct rlimit limit;
	struct chained *all = NULL, *one;
	int round, number = 0;
	limit.rlim_cur = limit.rlim_max = bytes_mapped() + (24 << 20);
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (round = 0; round < 3; round++) {
		number = 0;
		errno = 0;
		while ((one = (struct chained *)umem_alloc(sizeof *one, UMEM_DEFAULT)) != NULL) {
			memset(one, 0x5a, sizeof *one);
			one->next = all;
			all = one;
			number++;
		}
		CHECK(errno == ENOMEM && number > 1000 && number < 24 << 10);
		if (round == 1) {
			/* After some caches, there is no memory for more. */
			umem_cache_t *cache;
			int caches = 0;
			do {
				errno = 0;
				cache = umem_cache_create("more", 24, 0, NULL, NULL, NULL, NULL, NULL, 0);
			} while (cache != NULL && ++caches < 10000);
			CHECK(cache == NULL && errno == EAGAIN);
		}
		while ((one = all) != NULL) {
			all = one->next;
			CHECK(one->room[0] == 0x5a && one->room[999] == 0x5a);
			umem_free(one, sizeof *one);
		}
	}
	return failed;
}

static void limited(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(use_all());
	CHECK(ended(child) == 0);
}

/* ----------------------------------------------------------------------------------------------------------------- threads */

#define THREADS 4

/* Buffers pass between threads: each puts a new buffer into a place, and frees the previous one. */
static struct object *places[256];
static umem_cache_t *shared;
static int stop;

static unsigned next_random(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 8;
}

static void *exchange(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	int round;
	for (round = 0; round < 20000; round++) {
		struct object *one = (struct object *)umem_cache_alloc(shared, UMEM_DEFAULT);
		struct object *other;
		size_t size = 1 + next_random(&state) % 3000, byte;
		unsigned char *bytes = (unsigned char *)umem_alloc(size, UMEM_DEFAULT);
		CHECK(one->mark == MARK);
		one->user[1] = (uintptr_t)one;
		other = __atomic_exchange_n(&places[next_random(&state) % MANY(places)], one, __ATOMIC_ACQ_REL);
		if (other != NULL) {
			CHECK(other->mark == MARK && other->user[1] == (uintptr_t)other);
			umem_cache_free(shared, other);
		}
		memset(bytes, round, size);
		for (byte = 0; byte < size; byte++)
			if (bytes[byte] != (unsigned char)round)
				break;
		CHECK(byte == size);
		umem_free(bytes, size);
	}
	return NULL;
}

static void *some(void *unused)
{
	struct object *all[50];
	size_t at;
	(void)unused;
	for (at = 0; at < MANY(all); at++)
		all[at] = (struct object *)umem_cache_alloc(shared, UMEM_DEFAULT);
	for (at = 0; at < MANY(all); at++)
		umem_cache_free(shared, all[at]);
	return NULL;
}

/* Ends at the first cancellation point; none of the calls is one. */
static void *cancelled(void *passed)
{
	umem_cache_t *cache = umem_cache_create("left", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *buffer;
	pthread_cancel(pthread_self());
	buffer = umem_alloc(1000000, UMEM_DEFAULT);
	umem_free(buffer, 1000000);
	buffer = umem_zalloc(100, UMEM_NOFAIL);
	umem_free(buffer, 100);
	umem_reap();
	buffer = umem_cache_alloc(cache, UMEM_DEFAULT);
	/* This prints a report. */
	umem_cache_destroy(cache);
	*(int *)passed = 1;
	pthread_testcancel();
	*(int *)passed = 2;
	return buffer;
}

static void *until_cancelled(void *unused)
{
	unsigned state = 1;
	(void)unused;
	for (;;) {
		size_t size = 1 + next_random(&state) % 5000;
		umem_free(umem_alloc(size, UMEM_NOFAIL), size);
		umem_cache_free(shared, umem_cache_alloc(shared, UMEM_NOFAIL));
		pthread_testcancel();
	}
	return NULL;
}

static void threads(void)
{
	struct counts counts;
	pthread_t all[THREADS];
	size_t at;
	int round, made, passed = 0;
	void *result = NULL;

	shared = objects(&counts, 0);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_create(&all[at], NULL, exchange, (void *)(at + 1)) == 0);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_join(all[at], NULL) == 0);
	for (at = 0; at < MANY(places); at++) {
		umem_cache_free(shared, places[at]);
		places[at] = NULL;
	}
	umem_cache_destroy(shared);
	CHECK(counts.made == counts.ended && counts.wrong == 0);

	/* Later threads reuse the buffers of ended ones: 200 threads do not need 200 times as many as one. */
	shared = objects(&counts, 0);
	for (round = 0; round < 200; round++) {
		CHECK(pthread_create(&all[0], NULL, some, NULL) == 0);
		CHECK(pthread_join(all[0], NULL) == 0);
	}
	made = counted(&counts.made);
	CHECK(made >= 50 && (made < 50 * 10 || getenv("UMEM_DEBUG") != NULL));

	for (round = 0; round < 10; round++) {
		for (at = 0; at < THREADS; at++)
			CHECK(pthread_create(&all[at], NULL, until_cancelled, NULL) == 0);
		for (at = 0; at < THREADS; at++)
			CHECK(pthread_cancel(all[at]) == 0);
		for (at = 0; at < THREADS; at++)
			CHECK(pthread_join(all[at], &result) == 0 && result == PTHREAD_CANCELED);
	}
	umem_cache_destroy(shared);
	CHECK(counts.made == counts.ended && counts.wrong == 0);

	CHECK(pthread_create(&all[0], NULL, cancelled, &passed) == 0);
	CHECK(pthread_join(all[0], &result) == 0);
	CHECK(passed == 1 && result == PTHREAD_CANCELED);
}

/* ------------------------------------------------------------------------------------------------------------------- forks */

static void *busy(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		void *all[20];
		size_t sizes[20], at;
		for (at = 0; at < MANY(all); at++) {
			sizes[at] = 1 + next_random(&state) % 10000;
			all[at] = umem_alloc(sizes[at], UMEM_DEFAULT);
		}
		umem_cache_free(shared, umem_cache_alloc(shared, UMEM_DEFAULT));
		for (at = 0; at < MANY(all); at++)
			umem_free(all[at], sizes[at]);
	}
	return NULL;
}

static int in_child(void)
{
	unsigned state = 7;
	int round;
	pthread_t thread;
	/* Detect a child that waits for ever for a lock. */
	alarm(120);
	for (round = 0; round < 200; round++) {
		size_t size = 1 + next_random(&state) % 10000;
		struct object *one = (struct object *)umem_cache_alloc(shared, UMEM_DEFAULT);
		void *bytes = umem_alloc(size, UMEM_DEFAULT);
		if (one == NULL || one->mark != MARK || bytes == NULL)
			return 1;
		memset(bytes, 1, size);
		umem_free(bytes, size);
		umem_cache_free(shared, one);
	}
	if (state % 4 == 0 && pthread_create(&thread, NULL, some, NULL) == 0)
		pthread_join(thread, NULL);
	return 0;
}

static void forks(void)
{
	struct counts counts;
	pthread_t all[THREADS];
	size_t at;
	int round;

	shared = objects(&counts, 0);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_create(&all[at], NULL, busy, (void *)(at + 1)) == 0);
	for (round = 0; round < 300; round++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(in_child());
		CHECK(ended(child) == 0);
		if (failed)
			break;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_join(all[at], NULL) == 0);
	umem_cache_destroy(shared);
	CHECK(counts.made == counts.ended && counts.wrong == 0);
}

/* ------------------------------------------------------------------------------------------------------------------ caches */

static void many_caches(void)
{
	/* More caches than threads have pairs. */
	static umem_cache_t *all[600];
	static void *buffers[600];
	size_t at;
	int round;
	for (round = 0; round < 3; round++) {
		for (at = 0; at < MANY(all); at++) {
			char name[32];
			snprintf(name, sizeof name, "cache %u", (unsigned)at);
			all[at] = umem_cache_create(name, 8 + at * 8, 0, NULL, NULL, NULL, NULL, NULL, 0);
			CHECK(all[at] != NULL);
			buffers[at] = umem_cache_alloc(all[at], UMEM_DEFAULT);
			CHECK(buffers[at] != NULL);
			memset(buffers[at], 1, 8 + at * 8);
		}
		for (at = 0; at < MANY(all); at++) {
			umem_cache_free(all[at], buffers[at]);
			umem_cache_free(all[at], umem_cache_alloc(all[at], UMEM_DEFAULT));
			umem_cache_destroy(all[at]);
		}
	}
}

static void look_slowly(void *priv)
{
	struct counts *counts = (struct counts *)priv;
	sched_yield();
	if (counted(&counts->gone))
		count(&counts->wrong);
}

#define ROUNDS 1000

static void *make_and_end(void *all)
{
	struct counts *counts = (struct counts *)all;
	int round;
	for (round = 0; round < ROUNDS; round++, counts++) {
		umem_cache_t *cache = umem_cache_create("passing", sizeof (struct object), 0, make, end, look_slowly, counts, NULL, 0);
		void *one = umem_cache_alloc(cache, UMEM_DEFAULT);
		umem_cache_free(cache, one);
		umem_cache_destroy(cache);
		count(&counts->gone);
		CHECK(counts->made == 1 && counts->ended == 1);
	}
	return NULL;
}

static void *reap(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		umem_reap();
	return NULL;
}

/* Caches are created and destroyed while other threads visit all caches, and while threads end that used them. */
static void caches_come_and_go(void)
{
	static struct counts counts[THREADS][ROUNDS];
	pthread_t all[THREADS], reaper;
	size_t at, round;
	CHECK(pthread_create(&reaper, NULL, reap, NULL) == 0);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_create(&all[at], NULL, make_and_end, counts[at]) == 0);
	for (at = 0; at < THREADS; at++)
		CHECK(pthread_join(all[at], NULL) == 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	CHECK(pthread_join(reaper, NULL) == 0);
	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	for (at = 0; at < THREADS; at++)
		for (round = 0; round < ROUNDS; round++)
			CHECK(counts[at][round].wrong == 0);
}

/* With UMEM_DEBUG=verbose: the test checks the report. */
static void not_empty(void)
{
	umem_cache_t *cache = umem_cache_create("kept", 48, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *buffer = (char *)umem_cache_alloc(cache, UMEM_DEFAULT);
	umem_cache_destroy(cache);
	memset(buffer, 1, 48);
	CHECK(buffer[47] == 1);
}

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "calls", calls },
	{ "objects", object_group },
	{ "guarded", guarded },
	{ "no-memory", no_memory },
	{ "injected", injected },
	{ "limited", limited },
	{ "threads", threads },
	{ "forks", forks },
	{ "many-caches", many_caches },
	{ "caches-come-and-go", caches_come_and_go },
	{ "not-empty", not_empty },
};

int main(int argc, char **argv)
{
	int at;
	size_t group;
	for (at = 1; at < argc; at++) {
		for (group = 0; group < MANY(groups) && strcmp(argv[at], groups[group].name) != 0; group++)
			continue;
		if (group == MANY(groups)) {
			printf("no such group: %s\n", argv[at]);
			return 2;
		}
		groups[group].run();
	}
	return failed;
}
