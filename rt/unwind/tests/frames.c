/* Functions with all kinds of frames, which call a function that walks the stack. Built without frame pointers, as a library. */
#define _GNU_SOURCE 1
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

typedef void look(void *);

/* Size of the buffer of `with_buffer`. Builds with different sizes differ in nothing else. */
#ifndef BUFFER
#define BUFFER 4096
#endif

volatile long sink;

typedef void function(long, look *, void *);

void plain(long depth, look *told, void *with)
{
	/* Volatile, because compilers would inline the recursion. */
	function *volatile again = plain;
	if (depth == 0)
		told(with);
	else
		again(depth - 1, told, with);
	sink++;
}

void with_alloca(long size, look *told, void *with)
{
	char *room = alloca(size);
	memset(room, 1, size);
	told(with);
	sink += room[size / 2];
}

void with_array(long size, look *told, void *with)
{
	char room[size];
	memset(room, 1, size);
	told(with);
	sink += room[size / 2];
}

void with_buffer(long size, look *told, void *with)
{
	volatile char room[BUFFER];
	memset((char *)room, 0, sizeof(room));
	told(with);
	sink += room[size];
}

void huge(long size, look *told, void *with)
{
	volatile char room[1000000];
	room[size] = 1;
	told(with);
	sink += room[size];
}

void enormous(long size, look *told, void *with)
{
	volatile char room[3000000];
	room[size] = 1;
	told(with);
	sink += room[size];
}

void aligned(long size, look *told, void *with)
{
	_Alignas(64) volatile char room[200];
	char *more = alloca(size);
	memset((char *)room, 1, sizeof(room));
	memset(more, 1, size);
	told(with);
	sink += room[size % 200] + more[size / 2];
}

/* Uses all callee-saved registers. */
void busy(long seed, look *told, void *with)
{
	long a = sink + seed, b = sink * 3, c = sink ^ 5, d = sink - 7, e = sink | 9, f = sink & 11, g = sink + 13;
	told(with);
	sink = a + b + c + d + e + f + g;
	told(with);
	sink += a * b * c * d * e * f * g;
}

/* Saves registers on one path only. */
void late(long seed, look *told, void *with)
{
	if (seed < 0) {
		sink = 1;
		return;
	}
	busy(seed, told, with);
	plain(2, told, with);
}

static __thread look *current;
static __thread void *current_with;
static __thread int calls;

static int compare(const void *one, const void *other)
{
	if (calls++ == 0)
		current(current_with);
	return *(const int *)one - *(const int *)other;
}

void sorted(long count, look *told, void *with)
{
	int *numbers = malloc(count * sizeof(int));
	long at;
	for (at = 0; at < count; at++)
		numbers[at] = (int)(at * 7919 % 1009);
	current = told, current_with = with, calls = 0;
	qsort(numbers, count, sizeof(int), compare);
	sink += numbers[0];
	free(numbers);
}

void searched(long key, look *told, void *with)
{
	int numbers[] = { 1, 2, 3, 5, 8, 13, 21 }, wanted = (int)key;
	current = told, current_with = with, calls = 0;
	sink += bsearch(&wanted, numbers, 7, sizeof(int), compare) != NULL;
}

static jmp_buf back;

static __attribute__((noreturn, noinline)) void last(look *told, void *with)
{
	told(with);
	longjmp(back, 1);
}

/* The call is the last instruction of a function: its return address is after the function's end. */
void ends(long seed, look *told, void *with)
{
	(void)seed;
	if (setjmp(back) == 0)
		last(told, with);
	sink++;
}

static void handler(int number)
{
	sink += number;
	current(current_with);
}

static void handle(int flags)
{
	struct sigaction action;
	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(SIGUSR2, &action, NULL);
}

void signalled(long seed, look *told, void *with)
{
	current = told, current_with = with;
	handle(0);
	sink += seed;
	raise(SIGUSR2);
	sink++;
}

/* A handler on an alternate stack. */
void elsewhere(long size, look *told, void *with)
{
	stack_t stack, before;
	memset(&stack, 0, sizeof(stack));
	stack.ss_sp = malloc(size);
	stack.ss_size = size;
	sigaltstack(&stack, &before);
	current = told, current_with = with;
	handle(SA_ONSTACK);
	raise(SIGUSR2);
	sink++;
	sigaltstack(&before, NULL);
	free(stack.ss_sp);
}

/* A fault in the middle of a leaf function without a frame. */
__attribute__((noinline)) static long touch(volatile long *address) { return *address; }

static void mend(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	current(current_with);
	mprotect((void *)((long)info->si_addr & -4096), 4096, PROT_READ);
}

void faulted(long seed, look *told, void *with)
{
	struct sigaction action, before;
	char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = mend;
	action.sa_flags = SA_SIGINFO;
	current = told, current_with = with;
	sigaction(SIGSEGV, &action, &before);
	sink += touch((long *)page) + seed;
	sigaction(SIGSEGV, &before, NULL);
	munmap(page, 4096);
}

static __thread ucontext_t here, there;

static void start(void)
{
	plain(5, current, current_with);
	sink++;
}

/* On a stack of `makecontext`, with inaccessible pages around it. */
void switched(long size, look *told, void *with)
{
	char *stack = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(stack + 4096, size, PROT_READ | PROT_WRITE);
	current = told, current_with = with;
	getcontext(&there);
	there.uc_stack.ss_sp = stack + 4096;
	there.uc_stack.ss_size = size;
	there.uc_link = &here;
	makecontext(&there, start, 0);
	swapcontext(&here, &there);
	munmap(stack, size + 8192);
	sink++;
}

#ifdef __x86_64__
/* A caller without call frame information: generated code. */
void generated(long seed, look *told, void *with)
{
	/* push rbx; mov rbx, rdi; mov rdi, rsi; call rbx; pop rbx; ret */
	static const unsigned char code[] = { 0x53, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf7, 0xff, 0xd3, 0x5b, 0xc3 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*function)(look *, void *);
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	memcpy(&function, &page, sizeof(page));
	function(told, with);
	sink += seed;
	munmap(page, 4096);
}
#endif
