/*
 * Writes after the end of buffers of many sizes under UMEM_DEBUG=firewall=1, each in a child. A write after the alignment gap faults at once
 * (SIGSEGV). A write into the gap is found at the free (SIGABRT). A write to the last byte of the buffer is valid.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*umem_alloc)(size_t, int);
static void (*umem_free)(void *, size_t);

static const size_t sizes[] = { 1, 7, 8, 9, 12, 15, 16, 17, 20, 24, 32, 40, 64, 100, 128, 256, 1000, 4000, 4096, 10000, 32768, 100000,
	131064, 131072, 140000, 1000000, 20000000 };

/* Ways to allocate a buffer. */
enum way { MALLOC, CALLOC, REALLOC, ALIGNED, UMEM, WAYS };
static const char *const names[] = { "malloc", "calloc", "realloc", "aligned_alloc(64)", "umem_alloc" };

static char *get(enum way way, size_t size)
{
	void *data = NULL;

	switch (way) {
	case MALLOC: data = malloc(size); break;
	case CALLOC: data = calloc(1, size); break;
	case REALLOC: data = realloc(malloc(size / 2 + 1), size); break;
	case ALIGNED: data = aligned_alloc(64, size); break;
	default: data = umem_alloc(size, 0); break;
	}
	if (data == NULL)
		_exit(1);
	return data;
}

static void put(enum way way, char *data, size_t size)
{
	if (way == UMEM)
		umem_free(data, size);
	else
		free(data);
}

/* The signal that ends a child which writes at that distance after the last byte; 0: it exits with 0; -1: any other end. */
static int ended(enum way way, size_t size, size_t behind)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		char *data = get(way, size);
		size_t align = way == ALIGNED ? 64 : size < 16 ? 8 : 16;
		volatile char *at = data + size - 1 + behind;

		if ((uintptr_t)data % align != 0)
			_exit(2);
		if (way == CALLOC && (data[0] != 0 || data[size - 1] != 0))
			_exit(3);
		*at = 'w';
		put(way, data, size);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) ? -1 : 0;
}

static int wrong;

static void expect(enum way way, size_t size, size_t behind, int signal)
{
	int found = ended(way, size, behind);

	if (found != signal) {
		fprintf(stderr, "%s of %zu, %zu behind: %d, not %d\n", names[way], size, behind, found, signal);
		wrong = 1;
	}
}

int main(void)
{
	size_t at, size, gap;
	int way;

	*(void **)&umem_alloc = dlsym(RTLD_DEFAULT, "umem_alloc");
	*(void **)&umem_free = dlsym(RTLD_DEFAULT, "umem_free");
	if (umem_alloc == NULL || umem_free == NULL)
		return 1;
	for (at = 0; at < sizeof sizes / sizeof *sizes; at++) {
		size = sizes[at];
		for (way = 0; way < WAYS; way++) {
			size_t align = way == ALIGNED ? 64 : size < 16 ? 8 : 16;

			gap = (align - size % align) % align;
			expect(way, size, 0, 0);
			expect(way, size, gap + 1, SIGSEGV);
			expect(way, size, gap + 8, SIGSEGV);
			if (gap > 0) {
				expect(way, size, 1, SIGABRT);
				expect(way, size, gap, SIGABRT);
			}
		}
	}
	return wrong;
}
