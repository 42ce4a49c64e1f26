/* Every call of the header, valid and invalid. Prints the line of each failure. Compiles as C and C++. */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); failed = 1; } } while (0)
#define REFUSED(call, number) do { errno = 0; CHECK((call) == -1 && errno == (number)); } while (0)

/* Sets up one item. Returns the result of the call, and its outcome. */
static int ask(struct rt_setup *setup, struct rt_outcome *told)
{
	static struct rt_handle *handle;
	int answer, number;

	/* The strings live as long as the handle, until the next call of this function. */
	CHECK(rt_setup_undo(handle) == 0);
	answer = rt_setup_begin(setup, &handle);
	number = errno;
	CHECK(handle != NULL);
	CHECK(rt_setup_report(handle, NULL, 0) == 1);
	CHECK(rt_setup_report(handle, told, 1) == 1);
	CHECK(told->item == (setup->required | setup->wished));
	CHECK(told->required == (setup->required != 0));
	CHECK(told->wanted != NULL && told->had != NULL && (told->error == 0 || told->reason != NULL));
	CHECK(answer == (told->error != 0 && told->required ? -1 : 0));
	CHECK(answer == 0 || number == told->error);
	return answer;
}

static void *from_elsewhere(void *realtime)
{
	REFUSED(rt_setup_undo((struct rt_handle *)realtime), ESRCH);
	return NULL;
}

static void *count_elsewhere(void *calm)
{
	REFUSED(rt_calm_begin((struct rt_calm *)calm), ESRCH);
	REFUSED(rt_calm_end((struct rt_calm *)calm, NULL), ESRCH);
	return NULL;
}

/* A thread is cancelled only after the calls: none is left half done. */
static void *cancelled(void *done)
{
	struct rt_setup setup;
	struct rt_handle *handle;
	struct rt_calm *calm;

	memset(&setup, 0, sizeof(setup));
	setup.wished = RT_SETUP_MEMORY | RT_SETUP_STACK | RT_SETUP_IDLE_LATENCY | RT_SETUP_TIMER_SLACK;
	setup.timer_slack_ns = 1;
	CHECK(rt_calm_open(&calm) == 0);
	CHECK(pthread_cancel(pthread_self()) == 0);
	CHECK(rt_setup_begin(&setup, &handle) == 0);
	CHECK(rt_calm_begin(calm) == 0 && rt_calm_end(calm, NULL) >= 0);
	CHECK(rt_setup_undo(handle) == 0);
	*(int *)done = 1;
	pthread_testcancel();
	*(int *)done = 2;
	return NULL;
}

static void run(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, body, argument) == 0 && pthread_join(thread, NULL) == 0);
}

static void set_up(void)
{
	struct rt_setup setup;
	struct rt_outcome told;
	struct rt_handle *handle;
	cpu_set_t before, now, last;
	unsigned char none[16];
	char list[32];
	int cpu = 0, at;

	memset(&setup, 0, sizeof(setup));
	REFUSED(rt_setup_begin(&setup, NULL), EINVAL);
	REFUSED(rt_setup_begin(NULL, &handle), EINVAL);
	CHECK(handle == NULL);
	setup.required = 0x80;
	REFUSED(rt_setup_begin(&setup, &handle), EINVAL);
	setup.required = setup.wished = RT_SETUP_MEMORY;
	REFUSED(rt_setup_begin(&setup, &handle), EINVAL);
	CHECK(handle == NULL);
	REFUSED(rt_setup_report(NULL, &told, 1), EINVAL);
	CHECK(rt_setup_undo(NULL) == 0);

	/* An empty set-up succeeds. */
	memset(&setup, 0, sizeof(setup));
	CHECK(rt_setup_begin(&setup, &handle) == 0 && handle != NULL);
	CHECK(rt_setup_report(handle, NULL, 0) == 0 && rt_setup_report(handle, &told, 1) == 0);
	REFUSED(rt_setup_report(handle, NULL, 1), EINVAL);
	REFUSED(rt_setup_report(handle, &told, 0), EINVAL);
	REFUSED(rt_setup_report(handle, &told, -1), EINVAL);
	run(from_elsewhere, handle);
	CHECK(rt_setup_undo(handle) == 0);

	setup.required = RT_SETUP_TIMER_SLACK;
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL);
	setup.timer_slack_ns = 1234;
	CHECK(ask(&setup, &told) == 0 && strcmp(told.wanted, "1.234\302\265s") == 0 && strcmp(told.had, told.wanted) == 0);
	CHECK(told.reason == NULL);

	setup.required = RT_SETUP_CLASS;
	setup.policy = 1000;
	REFUSED(rt_setup_begin(&setup, &handle), EINVAL);
	CHECK(handle == NULL);
	setup.policy = SCHED_FIFO;
	setup.priority = -1;
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL);
	CHECK(strstr(told.reason, "priorities are 1 to 99") != NULL);
	setup.policy = 6;
	setup.runtime_ns = 2;
	CHECK(ask(&setup, &told) == -1 && strcmp(told.wanted, "DEADLINE, 2ns within 0ns of each 0ns") == 0);
	setup.policy = SCHED_OTHER;
	/* The current value, which every thread may set and restore. */
	setup.nice = getpriority(PRIO_PROCESS, 0);
	snprintf(list, sizeof(list), "OTHER, nice %d", setup.nice);
	CHECK(ask(&setup, &told) == 0 && strcmp(told.had, list) == 0);
	setup.required = 0;
	setup.wished = RT_SETUP_CLASS;
	setup.nice = 20;
	CHECK(ask(&setup, &told) == 0 && told.error == EINVAL);

	CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
	for (at = 0; at < CPU_SETSIZE; at++)
		cpu = CPU_ISSET(at, &before) ? at : cpu;
	CPU_ZERO(&last);
	CPU_SET(cpu, &last);
	setup.wished = 0;
	setup.required = RT_SETUP_CPUS;
	setup.cpu_mask = &last;
	setup.cpu_bytes = sizeof(last);
	CHECK(ask(&setup, &told) == 0);
	CHECK(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &last));
	snprintf(list, sizeof(list), "%d", cpu);
	CHECK(strcmp(told.had, list) == 0);
	setup.cpu_mask = NULL;
	setup.cpu_list = list;
	CHECK(ask(&setup, &told) == 0 && strcmp(told.had, list) == 0);
	setup.cpu_list = "3-2";
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL && strcmp(told.wanted, "none") == 0);
	CHECK(sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &before));
	setup.cpu_list = NULL;
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL);
	memset(none, 1, sizeof(none));
	setup.cpu_mask = none;
	setup.cpu_bytes = 7;
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL);

	memset(&setup, 0, sizeof(setup));
	setup.required = RT_SETUP_HEAP;
	CHECK(ask(&setup, &told) == -1 && told.error == EINVAL);
	setup.heap_bytes = 1 << 20;
	/* The allocator of a sanitizer, or of valgrind, keeps nothing, which is detected. */
	CHECK(ask(&setup, &told) == 0 ? strcmp(told.had, "1048576 bytes kept") == 0 : told.error == ENOTSUP);
	/* Whether these succeed depends on the machine, but each must be reported. */
	for (at = 0; at < 7; at++) {
		setup.required = 0;
		setup.wished = 1u << at;
		setup.cpu_list = list;
		setup.policy = SCHED_RR;
		setup.priority = 1;
		setup.timer_slack_ns = 1;
		CHECK(ask(&setup, &told) == 0);
	}
	setup.wished = RT_SETUP_TIMER_SLACK;
	ask(&setup, &told);
	at = 0;
	run(cancelled, &at);
	CHECK(at == 1);
}

static void count_disturbances(void)
{
	struct rt_disturbances found;
	struct rt_calm *calm;
	static char fresh[1 << 20];
	int at;

	REFUSED(rt_calm_open(NULL), EINVAL);
	REFUSED(rt_calm_begin(NULL), EINVAL);
	REFUSED(rt_calm_end(NULL, &found), EINVAL);
	rt_calm_close(NULL);
	CHECK(rt_calm_open(&calm) == 0);
	REFUSED(rt_calm_end(calm, &found), EINVAL);
	CHECK(rt_calm_begin(calm) == 0);
	for (at = 0; at < (int)sizeof(fresh); at += 1024)
		((volatile char *)fresh)[at] = 1;
	CHECK(rt_calm_end(calm, &found) == 1 && found.minor_faults > 0);
	CHECK(found.migrations_by == RT_MIGRATIONS_COUNTED || found.migrations_by == RT_MIGRATIONS_COMPARED);
	REFUSED(rt_calm_end(calm, &found), EINVAL);
	CHECK(rt_calm_begin(calm) == 0);
	for (at = 0; at < (int)sizeof(fresh); at += 1024)
		((volatile char *)fresh)[at] = 2;
	CHECK(rt_calm_end(calm, &found) >= 0 && found.minor_faults + found.major_faults == 0);
	CHECK(rt_calm_begin(calm) == 0 && rt_calm_end(calm, NULL) >= 0);
	run(count_elsewhere, calm);
	rt_calm_close(calm);
}

int main(void)
{
	uint_t *sizes = fetch_stack_sizes();
	int count = 0;
	int at;
	stack_t bounds;
	struct stack_residency residency;
	struct stack_mapping mappings[8];
	char local = 0;
	char *stack;

	while (sizes[count] != 0)
		count++;
	CHECK(count >= 1 && count <= 7);
	CHECK(sizes[count - 1] == 2u << 20);
	for (at = 1; at < count; at++)
		CHECK(sizes[at] == 2 * sizes[at - 1]);
	for (at = 0; at < count; at++) {
		stack = (char *)stack_alloc(sizes[at]);
		CHECK(stack != NULL);
		stack[0] = stack[sizes[at] - 1] = 1;
		REFUSED(stack_free(stack, sizes[at] + 1), EINVAL);
		REFUSED(stack_free(stack + 16, sizes[at]), EFAULT);
		CHECK(stack_free(stack, sizes[at]) == 0);
		REFUSED(stack_free(stack, sizes[at]), EALREADY);
	}
	REFUSED(stack_free(NULL, sizes[0]), EFAULT);
	free(sizes);
	errno = 0;
	CHECK(stack_alloc(1) == NULL && errno == EINVAL);

	CHECK(stack_getbounds(&bounds) == 0 && bounds.ss_flags == 0);
	CHECK((char *)bounds.ss_sp <= &local && &local < (char *)bounds.ss_sp + bounds.ss_size);
	CHECK(stack_inbounds(&local) == 1 && stack_inbounds(NULL) == 0);
	REFUSED(stack_getbounds(NULL), EINVAL);
	REFUSED(stack_setbounds(NULL), EINVAL);
	bounds.ss_flags = SS_DISABLE;
	REFUSED(stack_setbounds(&bounds), EINVAL);
	CHECK(stack_violation(SIGSEGV, NULL, NULL) == 0);
	REFUSED(stack_residency(NULL), EINVAL);
	CHECK(stack_residency(&residency) == 0);
	CHECK(residency.resident >= 1 && residency.mapped >= residency.resident && residency.pages >= residency.mapped);
	REFUSED(stack_mappings(NULL, 1), EINVAL);
	REFUSED(stack_mappings(mappings, 0), EINVAL);
	REFUSED(stack_mappings(mappings, -1), EINVAL);
	count = stack_mappings(mappings, 8);
	CHECK(count >= 1 && count == stack_mappings(NULL, 0));
	for (at = 0; at < count; at++) {
		CHECK((char *)mappings[at].end - (char *)mappings[at].address == (ptrdiff_t)mappings[at].ss_size);
		if ((char *)mappings[at].address <= &local && &local < (char *)mappings[at].end)
			CHECK((mappings[at].flags & 3) == (STACK_MAPPING_READ | STACK_MAPPING_WRITE));
	}
	CHECK(stack_mappings(mappings, 1) == 1);
	bounds.ss_flags = 0;
	CHECK(stack_setbounds(&bounds) == 0);
	count_disturbances();
	set_up();
	return failed;
}
