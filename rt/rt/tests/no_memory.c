/* Real-time set-up without any free memory: refused, and nothing changed. Prints the line of each failure. */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); failed = 1; } } while (0)
#define REFUSED(call, number) do { errno = 0; CHECK((call) == -1 && errno == (number)); } while (0)

int main(void)
{
	struct rlimit before, limit;
	struct rt_setup setup;
	struct rt_handle *handle = NULL;
	struct rt_calm *calm;
	void **last = NULL, **block;
	size_t size;
	int slack = prctl(PR_GET_TIMERSLACK);

	memset(&setup, 0, sizeof(setup));
	setup.required = RT_SETUP_TIMER_SLACK;
	setup.timer_slack_ns = 1234;
	/* Without a buffer, stdout needs no memory. */
	setvbuf(stdout, NULL, _IONBF, 0);
	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	limit = before;
	limit.rlim_cur = 1 << 20;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	for (size = 1 << 20; size >= 1 << 10; size /= 2) {
		while ((block = (void **)malloc(size)) != NULL) {
			*block = (void *)last;
			last = block;
		}
	}
	REFUSED(rt_setup_begin(&setup, &handle), ENOMEM);
	CHECK(handle == NULL);
	REFUSED(rt_calm_open(&calm), ENOMEM);
	CHECK(prctl(PR_GET_TIMERSLACK) == slack);
	while (last != NULL) {
		block = (void **)*last;
		free(last);
		last = block;
	}
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	CHECK(rt_setup_begin(&setup, &handle) == 0);
	CHECK(prctl(PR_GET_TIMERSLACK) == 1234);
	CHECK(rt_setup_undo(handle) == 0);
	CHECK(prctl(PR_GET_TIMERSLACK) == slack);
	return failed;
}
