/* The header with strict standards, before and after all other headers, with and without POSIX types; and the published declaration. */
#ifdef LAST
#include <stdio.h>
#include <stdlib.h>
#endif
#include <millpond/rt.h>
#include <stdio.h>
#include <stdlib.h>

/* As published. */
uint_t *fetch_stack_sizes(void);

int main(void)
{
	uint_t *sizes = fetch_stack_sizes();
	int at;
#ifdef SS_ONSTACK
	stack_t bounds;
#else
	/* Larger than any stack_t. */
	long bounds[16];
#endif

	if (sizes == NULL || stack_getbounds(&bounds) != 0 || stack_violation(0, NULL, NULL) != 0)
		return 1;
	for (at = 0; sizes[at] != 0; at++)
		printf("%u ", sizes[at] >> 10);
	free(sizes);
	return 0;
}
