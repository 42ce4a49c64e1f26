/* More buffers than the kernel allows mappings, each with a wall if possible; then a thread, which needs a mapping, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 40000

static void *run(void *none)
{
	return none;
}

int main(void)
{
	static char *data[COUNT];
	pthread_t thread;
	int at, turn;

	for (turn = 0; turn < 2; turn++) {
		for (at = 0; at < COUNT; at++) {
			data[at] = malloc(600);
			if (data[at] == NULL)
				return 1;
			data[at][599] = 'w';
		}
		if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0)
			return 2;
		for (at = 0; at < COUNT; at++)
			free(data[at]);
	}
	puts("all were there");
	return 0;
}
