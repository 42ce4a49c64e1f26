/*
 * The guarantees of the malloc family at its limits. Prints the line of each failure. Invalid sizes are volatile, because compilers know them, too.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); failed = 1; } } while (0)
#define NO_MEMORY(call) do { errno = 0; CHECK((call) == NULL && errno == ENOMEM); } while (0)

static int failed;
static volatile size_t all = SIZE_MAX, half = SIZE_MAX / 2;
static volatile size_t zero = 0;

static int is_aligned(const void *data, size_t align)
{
	return ((uintptr_t)data & (align - 1)) == 0;
}

static void sizes_that_nobody_has(void)
{
	char *volatile kept = (char *)malloc(100);
	void *to = &failed;

	strcpy(kept, "kept");
	NO_MEMORY(malloc(all));
	NO_MEMORY(malloc(half));
	NO_MEMORY(malloc((size_t)1 << 48));
	NO_MEMORY(calloc(half, 2));
	NO_MEMORY(calloc(all / 2, 3));
	NO_MEMORY(realloc(kept, half));
	NO_MEMORY(reallocarray(kept, half, 4));
	NO_MEMORY(memalign(64, all - 10));
	NO_MEMORY(aligned_alloc(4096, half));
	NO_MEMORY(pvalloc(all));
	CHECK(strcmp(kept, "kept") == 0);
	errno = 77;
	CHECK(posix_memalign(&to, 64, half) == ENOMEM);
	CHECK(posix_memalign(&to, (size_t)1 << 40, 1) == ENOMEM);
	CHECK(posix_memalign(&to, (size_t)1 << 63, 1) == ENOMEM);
	CHECK(posix_memalign(&to, 3, 1) == EINVAL && posix_memalign(&to, 0, 1) == EINVAL);
	CHECK(posix_memalign(&to, 4, 1) == EINVAL);
	CHECK(to == (void *)&failed && errno == 77);
	free(kept);
}

static void nothing_at_all(void)
{
	char *one = (char *)malloc(zero), *two = (char *)malloc(zero);

	CHECK(one != NULL && two != NULL && one != two);
	CHECK(realloc(one, zero) == NULL);
	free(two);
	one = (char *)calloc(zero, 8);
	CHECK(one != NULL);
	free(one);
	one = (char *)realloc(NULL, zero);
	CHECK(one != NULL);
	free(one);
	free(NULL);
	CHECK(malloc_usable_size(NULL) == 0);
}

static void every_alignment(void)
{
	size_t align, size;

	for (align = 8; align <= (size_t)1 << 30; align <<= 1)
		for (size = 1; size < 300000; size = size * 3 + 1) {
			void *found = NULL;
			char *data;

			CHECK(posix_memalign(&found, align, size) == 0 && is_aligned(found, align));
			CHECK(malloc_usable_size(found) >= size);
			memset(found, 2, size);
			((char *)found)[malloc_usable_size(found) - 1] = 3;
			((char *)found)[size - 1] = 2;
			data = (char *)realloc(found, size + size / 2 + 1);
			CHECK(data != NULL && data[size - 1] == 2);
			free(data);
		}
}

static void what_is_in_a_buffer_stays_when_it_grows_and_shrinks(void)
{
	static const size_t path[] = { 1, 30, 100, 5000, 140000, 900000, 17 << 20, 50 << 20, 18 << 20, 200, 20 << 20, 10 };
	size_t at, least = 1;
	char *data = (char *)malloc(1);

	data[0] = 'x';
	for (at = 0; at < sizeof path / sizeof *path; at++) {
		data = (char *)realloc(data, path[at]);
		CHECK(data != NULL && data[0] == 'x' && data[least - 1] == 'x');
		CHECK(malloc_usable_size(data) == path[at]);
		memset(data, 'x', path[at]);
		least = at + 1 < sizeof path / sizeof *path && path[at + 1] < path[at] ? path[at + 1] : path[at];
	}
	free(data);
}

static void zeros_come_again(void)
{
	static const size_t path[] = { 100, 100, 5000, 5000, 300000, 300000, 20 << 20, 20 << 20 };
	size_t at, byte;

	for (at = 0; at < sizeof path / sizeof *path; at++) {
		char *data = (char *)calloc(path[at], 1);

		for (byte = 0; byte < path[at] && data[byte] == 0; byte++)
			;
		CHECK(byte == path[at]);
		memset(data, 1, path[at]);
		errno = 5;
		free(data);
		CHECK(errno == 5);
	}
}

static void more_than_four_gigabytes(void)
{
	char *data = (char *)malloc((size_t)5 << 30);

	/* Some machines do not have that much memory. */
	if (data == NULL)
		return;
	data[0] = 'y';
	CHECK(malloc_usable_size(data) == (size_t)5 << 30);
	data = (char *)realloc(data, (size_t)6 << 30);
	CHECK(data != NULL && data[0] == 'y');
	free(data);
}

static pthread_key_t key;

static void ends_late(void *data)
{
	static __thread int turns;

	free(data);
	if (turns++ < 2)
		pthread_setspecific(key, malloc(30));
}

static void *makes(void *none)
{
	(void)none;
	pthread_setspecific(key, malloc(33));
	return malloc(77);
}

static void *frees(void *data)
{
	free(data);
	free(malloc(10));
	return NULL;
}

static void threads_that_are_gone_and_those_who_free_for_them(void)
{
	pthread_t threads[50];
	void *made[50];
	int turn, at;

	CHECK(pthread_key_create(&key, ends_late) == 0);
	for (turn = 0; turn < 20; turn++) {
		for (at = 0; at < 50; at++)
			CHECK(pthread_create(&threads[at], NULL, makes, NULL) == 0);
		for (at = 0; at < 50; at++)
			pthread_join(threads[at], &made[at]);
		for (at = 0; at < 50; at++)
			CHECK(pthread_create(&threads[at], NULL, frees, made[at]) == 0);
		for (at = 0; at < 50; at++)
			pthread_join(threads[at], NULL);
	}
}

int main(void)
{
	char *data = (char *)malloc(100);

	/* The C library returns more. */
	CHECK(malloc_usable_size(data) == 100);
	free(data);
	sizes_that_nobody_has();
	nothing_at_all();
	every_alignment();
	what_is_in_a_buffer_stays_when_it_grows_and_shrinks();
	zeros_come_again();
	more_than_four_gigabytes();
	threads_that_are_gone_and_those_who_free_for_them();
	data = (char *)valloc(5);
	CHECK(is_aligned(data, 4096));
	free(data);
	data = (char *)pvalloc(5);
	CHECK(is_aligned(data, 4096) && malloc_usable_size(data) >= 4096);
	free(data);
	data = (char *)memalign(3, 8);
	CHECK(data == NULL && errno == EINVAL);
	CHECK(malloc_trim(0) == 1);
	return failed;
}
