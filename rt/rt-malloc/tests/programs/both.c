/* Also linked with millpond-rt. Its state is that of the linked library, or of the preloaded one. Both must work. */
#include <millpond/rt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	size_t size = (size_t)64 << 10;
	char *stack = stack_alloc(size);
	char *data = malloc(10);
	int status = -1;
	pid_t child;

	if (stack == NULL || data == NULL)
		return 1;
	memset(stack, 0, size);
	child = fork();
	if (child == 0) {
		free(data);
		data = malloc(5000);
		free(data);
		_exit(data == NULL ? 1 : stack_free(stack, size));
	}
	if (waitpid(child, &status, 0) != child)
		return 2;
	free(data);
	printf("child %d, parent %d\n", status, stack_free(stack, size));
	return 0;
}
