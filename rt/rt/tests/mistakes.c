/*
 * Memory errors of programs, one for each argument. With UMEM by the calls of umem.h, else by malloc. A detected error ends the program; otherwise
 * it prints that it went on.
 *
 * Function names are those that the reported stacks must contain.
 */
#define _GNU_SOURCE 1
#ifdef UMEM
#include <millpond/umem.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MANY(array) (sizeof (array) / sizeof *(array))

/* Compilers know malloc and free, and would reject or remove the errors. */
static void *forget(void *pointer)
{
	void *volatile forgotten = pointer;
	return forgotten;
}

void *get(size_t size)
{
#ifdef UMEM
	return forget(umem_alloc(size, UMEM_DEFAULT));
#else
	return forget(malloc(size));
#endif
}

void give_back(void *buffer, size_t size)
{
#ifdef UMEM
	umem_free(forget(buffer), size);
#else
	(void)size;
	free(forget(buffer));
#endif
}

struct record {
	char name[24];
	struct record *next;
};

struct record *make_record(const char *name)
{
	/* The published error: the size is that of the pointer. */
	struct record *record = (struct record *)get(sizeof (record));
	memcpy(record->name, name, sizeof record->name);
	record->next = NULL;
	return record;
}

void end_record(struct record *record)
{
	give_back(record, sizeof (record));
}

static void size_of_pointer(void)
{
	static const char name[24] = "of a record";
	end_record(make_record(name));
}

/* A string without room for its terminator. */
static void one_byte(void)
{
	volatile char *text = (volatile char *)get(20);
	text[20] = 0;
	give_back((void *)text, 20);
}

void free_first(void *buffer)
{
	give_back(buffer, 64);
}

void free_again(void *buffer)
{
	give_back(buffer, 64);
}

static void twice(void)
{
	void *buffer = get(64);
	free_first(buffer);
	free_again(buffer);
}

static void of_stack(void)
{
	uint64_t local[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	give_back(&local[4], 16);
}

static void of_middle(void)
{
	char *buffer = (char *)get(100);
	memset(buffer, 0x5a, 100);
	give_back(buffer + 16, 100);
}

static void of_other(void)
{
	char *page = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	give_back(page + 64, 32);
}

void write_late(uint64_t *buffer)
{
	buffer[1] = UINT64_C(0x1122334455667788);
}

static void after_free(void)
{
	uint64_t *buffer = (uint64_t *)get(64);
	int round;
	free_first(buffer);
	write_late(buffer);
	/* Freed buffers are reused late. */
	for (round = 0; round < 100000; round++)
		give_back(get(64), 64);
}

static void read_past(void)
{
	volatile char *buffer = (volatile char *)get(4096);
	size_t at;
	for (at = 0; at < 4096; at++)
		buffer[at] = 1;
	printf("%d\n", buffer[8000]);
	give_back((void *)buffer, 4096);
}

static void nothing_wrong(void)
{
	void *all[500];
	size_t at;
	for (at = 0; at < MANY(all); at++)
		memset(all[at] = get(at * 300 + 1), 1, at * 300 + 1);
	for (at = 0; at < MANY(all); at++)
		give_back(all[at], at * 300 + 1);
	give_back(NULL, 0);
}

#ifdef UMEM
static void wrong_size(void)
{
	give_back(get(100), 108);
}

static void wrong_size_of_other_cache(void)
{
	give_back(get(100), 200);
}

static void wrong_size_of_large(void)
{
	give_back(get(200000), 200001);
}

static void middle_of_large(void)
{
	give_back((char *)get(200000) + 4096, 200000);
}

static void null_with_size(void)
{
	give_back(NULL, 16);
}

static void wrong_cache(void)
{
	umem_cache_t *apples = umem_cache_create("apples", 40, 0, NULL, NULL, NULL, NULL, NULL, 0);
	umem_cache_t *pears = umem_cache_create("pears", 40, 0, NULL, NULL, NULL, NULL, NULL, 0);
	umem_cache_free(pears, umem_cache_alloc(apples, UMEM_DEFAULT));
}
#endif

static const struct {
	const char *name;
	void (*make)(void);
} mistakes[] = {
	{ "size-of-pointer", size_of_pointer },
	{ "one-byte", one_byte },
	{ "twice", twice },
	{ "of-stack", of_stack },
	{ "of-middle", of_middle },
	{ "of-other", of_other },
	{ "after-free", after_free },
	{ "read-past", read_past },
	{ "nothing-wrong", nothing_wrong },
#ifdef UMEM
	{ "wrong-size", wrong_size },
	{ "wrong-size-of-other-cache", wrong_size_of_other_cache },
	{ "wrong-size-of-large", wrong_size_of_large },
	{ "middle-of-large", middle_of_large },
	{ "null-with-size", null_with_size },
	{ "wrong-cache", wrong_cache },
#endif
};

int main(int argc, char **argv)
{
	size_t at;
	for (at = 0; argc == 2 && at < MANY(mistakes); at++)
		if (strcmp(argv[1], mistakes[at].name) == 0) {
			mistakes[at].make();
			puts("went on");
			return 0;
		}
	return 2;
}
