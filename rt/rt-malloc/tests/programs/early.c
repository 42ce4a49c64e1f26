/* Allocates before any library is initialised and after all have ended. Loads and unloads a plugin whose memory outlives it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *before_all, *at_the_beginning;

static void first(int count, char **words, char **environment)
{
	(void)count, (void)words, (void)environment;
	before_all = malloc(100);
	strcpy(before_all, "before all");
}

__attribute__((section(".preinit_array"), used)) static void (*const place)(int, char **, char **) = first;

__attribute__((constructor(101))) static void begin(void)
{
	at_the_beginning = malloc(200000);
	strcpy(at_the_beginning, "at the beginning");
}

__attribute__((destructor)) static void end(void)
{
	free(before_all);
	free(at_the_beginning);
	free(malloc(10));
	fputs("the end\n", stderr);
}

static void *run(void *made)
{
	void *(*make)(void);

	memcpy(&make, made, sizeof make);
	return make();
}

int main(int count, char **words)
{
	int turn;

	printf("%s, %s\n", before_all, at_the_beginning);
	for (turn = 0; turn < 100; turn++) {
		void *plugin = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
		void *make = plugin == NULL ? NULL : dlsym(plugin, "make");
		pthread_t thread;
		void *made;

		if (make == NULL || dlsym(plugin, "nothing") != NULL || dlerror() == NULL)
			return 1;
		if (pthread_create(&thread, NULL, run, &make) != 0 || pthread_join(thread, &made) != 0 || dlclose(plugin) != 0)
			return 2;
		if (strcmp(made, "made by a plugin") != 0)
			return 3;
		free(made);
	}
	puts("the plugin came and went");
	return 0;
}
