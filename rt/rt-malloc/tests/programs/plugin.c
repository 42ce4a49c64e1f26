/* Allocates when it is loaded, frees when it is unloaded, and leaves a buffer allocated. */
#include <stdlib.h>
#include <string.h>

static char *own;
static __thread char *of_thread;

__attribute__((constructor)) static void begin(void)
{
	own = malloc(500);
}

__attribute__((destructor)) static void end(void)
{
	free(own);
}

void *make(void)
{
	of_thread = malloc(50);
	return strcpy(of_thread, "made by a plugin");
}
