/* Every call of the header, right and wrong. Says what failed, by line; C and C++ compile it. */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <stdio.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); failed = 1; } } while (0)
#define REFUSED(call, number) do { errno = 0; CHECK((call) == -1 && errno == (number)); } while (0)

int main(void)
{
	size_t sizes[16];
	size_t two[2] = { 0, 0 };
	int count = fetch_stack_sizes(NULL, 0);
	int at;
	stack_t bounds;
	struct stack_residency residency;
	char local = 0;
	char *stack;

	CHECK(count >= 1 && count <= 7);
	CHECK(fetch_stack_sizes(sizes, 16) == count);
	CHECK(sizes[count - 1] == (size_t)2 << 20);
	CHECK(fetch_stack_sizes(two, 1) == 1 && two[0] == sizes[0] && two[1] == 0);
	REFUSED(fetch_stack_sizes(NULL, 2), EINVAL);
	REFUSED(fetch_stack_sizes(sizes, 0), EINVAL);
	REFUSED(fetch_stack_sizes(sizes, -1), EINVAL);
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
	bounds.ss_flags = 0;
	CHECK(stack_setbounds(&bounds) == 0);
	return failed;
}
