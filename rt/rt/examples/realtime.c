/*
 * A thread becomes a real-time thread, works, and checks whether it was disturbed.
 *
 *     cc realtime.c $(pkg-config --cflags --libs millpond-rt)
 *     ./a.out [CPUS]
 */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 7

/* In the order of their bits. */
static const char *const names[ITEMS] = {
	"CPUs", "memory", "heap", "stack", "idle latency", "timer slack", "class"
};

static const char *name(unsigned int item)
{
	int at;

	for (at = 0; at < ITEMS && item != 1u << at; at++)
		;
	return at < ITEMS ? names[at] : "?";
}

static void show(const struct rt_handle *realtime)
{
	struct rt_outcome outcomes[ITEMS];
	int count = rt_setup_report(realtime, outcomes, ITEMS);
	int at;

	for (at = 0; at < count; at++) {
		const struct rt_outcome *told = &outcomes[at];

		printf("%-12s  %s\n", name(told->item), told->had);
		if (told->reason != NULL)
			printf("%-12s  %s\n", "", told->reason);
	}
}

/* The time-critical work: it allocates, and uses stack. */
static __attribute__((noinline)) void work(void)
{
	volatile char local[64 * 1024];
	char *block = (char *)malloc(1 << 20);
	size_t at;

	for (at = 0; at < sizeof(local); at += 1024)
		local[at] = 1;
	if (block != NULL)
		memset(block, 1, 1 << 20);
	free(block);
}

static void show_section(const char *when, struct rt_calm *calm)
{
	struct rt_disturbances found;

	rt_calm_begin(calm);
	work();
	if (rt_calm_end(calm, &found) >= 0)
		printf("%s: %llu faults, %llu switches, %llu migrations\n", when,
		    (unsigned long long)(found.minor_faults + found.major_faults),
		    (unsigned long long)(found.voluntary_switches + found.involuntary_switches),
		    (unsigned long long)found.migrations);
}

int main(int argc, char **argv)
{
	struct rt_setup setup;
	struct rt_handle *realtime;
	struct rt_calm *calm;

	memset(&setup, 0, sizeof(setup));
	setup.required = RT_SETUP_HEAP;
	setup.heap_bytes = (size_t)4 << 20;
	setup.wished = RT_SETUP_MEMORY | RT_SETUP_STACK | RT_SETUP_IDLE_LATENCY | RT_SETUP_TIMER_SLACK | RT_SETUP_CLASS;
	setup.timer_slack_ns = 1;
	setup.policy = SCHED_FIFO;
	setup.priority = 10;
	if (argc > 1) {
		setup.required |= RT_SETUP_CPUS;
		setup.cpu_list = argv[1];
	}
	if (rt_calm_open(&calm) != 0) {
		perror("cannot count disturbances");
		return 1;
	}
	show_section("before", calm);
	if (rt_setup_begin(&setup, &realtime) != 0) {
		perror("cannot set up real time");
		show(realtime);
		rt_setup_undo(realtime);
		return 1;
	}
	show(realtime);
	show_section("after", calm);
	if (rt_setup_undo(realtime) != 0)
		perror("cannot put back how it was");
	rt_calm_close(calm);
	return 0;
}
