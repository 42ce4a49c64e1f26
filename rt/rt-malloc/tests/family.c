/* Tests the malloc family against its manual, in an unmodified program. Prints the line of each failure. Compiles as C and C++. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); fflush(stdout); failed = 1; } } while (0)
#define MANY(array) (sizeof (array) / sizeof *(array))

/* Volatile, because compilers know the results of malloc, and omit the checks. */
static volatile size_t size_max = SIZE_MAX;
static volatile size_t no_power = 24;

static int all_are(const unsigned char *bytes, unsigned char value, size_t count)
{
	size_t at;
	for (at = 0; at < count; at++)
		if (bytes[at] != value)
			return 0;
	return 1;
}

static void sizes(void)
{
	static const size_t all[] = { 0, 1, 8, 24, 25, 100, 4096, 65536, 131056, 131064, 131065, 200000, 1 << 20, 20 << 20 };
	size_t at, other;
	for (at = 0; at < MANY(all); at++) {
		unsigned char *one = (unsigned char *)malloc(all[at]);
		unsigned char *zeros = (unsigned char *)calloc(3, all[at]);
		CHECK(one != NULL && (uintptr_t)one % 16 == 0 && malloc_usable_size(one) >= all[at]);
		CHECK(zeros != NULL && (uintptr_t)zeros % 16 == 0 && all_are(zeros, 0, 3 * all[at]));
		memset(one, 7, all[at]);
		memset(zeros, 8, 3 * all[at]);
		CHECK(all_are(one, 7, all[at]));
		errno = 77;
		free(zeros);
		CHECK(errno == 77);
		for (other = 0; other < MANY(all); other++) {
			size_t kept = all[at] < all[other] ? all[at] : all[other];
			unsigned char *from = (unsigned char *)malloc(all[at]), *to;
			memset(from, 9, all[at]);
			if (all[other] == 0) {
				CHECK(realloc(from, 0) == NULL);
				continue;
			}
			to = (unsigned char *)realloc(from, all[other]);
			CHECK(to != NULL && (uintptr_t)to % 16 == 0 && all_are(to, 9, kept));
			memset(to, 10, all[other]);
			free(to);
		}
		free(one);
	}
	free(NULL);
	free(realloc(NULL, 10));
	CHECK(malloc_usable_size(NULL) == 0);
}

static void refused(void)
{
	/* Volatile, too: compilers assume that the data is unchanged. */
	unsigned char *volatile kept = (unsigned char *)malloc(100);
	void *to = kept;
	memset(kept, 5, 100);
	errno = 0;
	CHECK(malloc(size_max) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(malloc(size_max / 2 + 1) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(calloc(size_max / 2, 3) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(calloc(size_max / 4, 2) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(realloc(kept, size_max - 100) == NULL && errno == ENOMEM && all_are(kept, 5, 100));
	errno = 0;
	CHECK(reallocarray(kept, size_max / 2, 3) == NULL && errno == ENOMEM && all_are(kept, 5, 100));
	errno = 0;
	CHECK(aligned_alloc(no_power, 48) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(memalign(64, size_max - 8) == NULL && errno == ENOMEM);
	errno = 0;
	CHECK(pvalloc(size_max) == NULL && errno == ENOMEM);
	errno = 77;
	CHECK(posix_memalign(&to, 3, 8) == EINVAL && posix_memalign(&to, 4, 8) == EINVAL && posix_memalign(&to, no_power, 8) == EINVAL);
	CHECK(posix_memalign(&to, 64, size_max - 8) == ENOMEM);
	CHECK(errno == 77 && to == kept);
	free(kept);
}

static void alignments(void)
{
	size_t align, size, at;
	void *all[200];
	for (align = 8; align <= 1 << 20; align *= 2) {
		for (size = 1; size <= 1 << 20; size *= 32) {
			void *one = NULL, *other = memalign(align, size), *third = aligned_alloc(align, size);
			CHECK(posix_memalign(&one, align, size) == 0);
			CHECK(one != NULL && (uintptr_t)one % align == 0 && malloc_usable_size(one) >= size);
			CHECK(other != NULL && (uintptr_t)other % align == 0);
			CHECK(third != NULL && (uintptr_t)third % align == 0);
			memset(one, 1, size);
			memset(other, 2, size);
			memset(third, 3, size);
			CHECK(all_are((unsigned char *)one, 1, size) && all_are((unsigned char *)other, 2, size));
			one = realloc(one, size * 2);
			CHECK(one != NULL && all_are((unsigned char *)one, 1, size));
			free(one);
			free(other);
			free(third);
		}
	}
	for (at = 0; at < MANY(all); at++) {
		all[at] = at % 2 ? valloc(at) : pvalloc(at);
		CHECK(all[at] != NULL && (uintptr_t)all[at] % (size_t)sysconf(_SC_PAGESIZE) == 0);
		memset(all[at], 1, at);
	}
	for (at = 0; at < MANY(all); at++)
		free(all[at]);
}

/* Memory that the C library allocates, and the program frees. */
static void of_the_library(void)
{
	char *line = NULL, *text = strdup("of the library"), *printed = NULL, *written = NULL;
	size_t room = 0, length = 0;
	FILE *file = open_memstream(&written, &length);
	CHECK(text != NULL && strcmp(text, "of the library") == 0);
	CHECK(asprintf(&printed, "%0300d", 7) == 300 && strlen(printed) == 300);
	CHECK(file != NULL && fprintf(file, "%s\n%s\n", text, printed) > 0 && fclose(file) == 0 && length == 316);
	file = fmemopen(written, length, "r");
	CHECK(file != NULL && getline(&line, &room, file) == 15 && getline(&line, &room, file) == 301);
	CHECK(strncmp(line, printed, 300) == 0);
	fclose(file);
	CHECK(setenv("MILLPOND_FAMILY", printed, 1) == 0 && strcmp(getenv("MILLPOND_FAMILY"), printed) == 0);
	free(line);
	free(text);
	free(printed);
	free(written);
	CHECK(malloc_trim(0) == 1 || malloc_trim(0) == 0);
}

static int stop;

static unsigned next_random(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 8;
}

/* Buffers that other threads free. */
static void *places[64];

static int exchange(unsigned *state, int rounds)
{
	for (; rounds > 0; rounds--) {
		size_t size = 16 + next_random(state) % (next_random(state) % 50 == 0 ? 300000 : 3000);
		size_t *one = (size_t *)malloc(size), *other;
		if (one == NULL)
			return 1;
		memset(one, 0x77, size);
		one[0] = size;
		other = (size_t *)__atomic_exchange_n(&places[next_random(state) % MANY(places)], (void *)one, __ATOMIC_ACQ_REL);
		if (other != NULL) {
			size = other[0];
			if (!all_are((unsigned char *)&other[1], 0x77, size - sizeof size))
				return 2;
			if (size % 3 == 0)
				other = (size_t *)realloc(other, size / 2 + 16);
			free(other);
		}
	}
	return 0;
}

static void *busy(void *seed)
{
	unsigned state = (unsigned)(uintptr_t)seed;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		CHECK(exchange(&state, 100) == 0);
	return NULL;
}

static void threads_and_forks(void)
{
	pthread_t all[4];
	size_t at;
	int round;
	for (at = 0; at < MANY(all); at++)
		CHECK(pthread_create(&all[at], NULL, busy, (void *)(at + 1)) == 0);
	for (round = 0; round < 100; round++) {
		pid_t child = fork();
		int status = 0;
		if (child == 0) {
			unsigned state = 99;
			/* Detect a child that waits for ever for a lock. */
			alarm(120);
			_exit(exchange(&state, 200));
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (at = 0; at < MANY(all); at++)
		CHECK(pthread_join(all[at], NULL) == 0);
	for (at = 0; at < MANY(places); at++)
		free(places[at]);
}

int main(void)
{
	sizes();
	refused();
	alignments();
	of_the_library();
	threads_and_forks();
	return failed;
}
