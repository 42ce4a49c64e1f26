/*
 * Counts words in a growing hash table, with a list entry and a string for each word, half of which are freed again: typical of programs with
 * many small objects.
 *
 *     words ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
	struct word *next;
	unsigned long count;
	char *text;
};

static struct word **table;
static size_t lists = 16, words;

static size_t hash(const char *text)
{
	size_t sum = 5381;
	while (*text)
		sum = sum * 33 + (unsigned char)*text++;
	return sum;
}

static void grow(void)
{
	struct word **larger = calloc(lists * 2, sizeof *larger);
	for (size_t i = 0; i < lists; i++)
		for (struct word *one = table[i], *next; one; one = next) {
			next = one->next;
			struct word **list = &larger[hash(one->text) % (lists * 2)];
			one->next = *list;
			*list = one;
		}
	free(table);
	table = larger;
	lists *= 2;
}

static void add(const char *text)
{
	struct word **list = &table[hash(text) % lists];
	for (struct word *one = *list; one; one = one->next)
		if (strcmp(one->text, text) == 0) {
			one->count++;
			return;
		}
	struct word *new = malloc(sizeof *new);
	new->text = malloc(strlen(text) + 1);
	strcpy(new->text, text);
	new->count = 1;
	new->next = *list;
	*list = new;
	if (++words > lists)
		grow();
}

static void prune(void)
{
	for (size_t i = 0; i < lists; i++)
		for (struct word **at = &table[i]; *at;) {
			struct word *one = *at;
			if (one->count % 2) {
				*at = one->next;
				free(one->text);
				free(one);
				words--;
			} else {
				at = &one->next;
			}
		}
}

int main(int count, char **arguments)
{
	unsigned long rounds = count > 1 ? strtoul(arguments[1], NULL, 10) : 10, total = 0;
	unsigned state = 1;
	table = calloc(lists, sizeof *table);
	for (unsigned long round = 0; round < rounds; round++) {
		for (int i = 0; i < 20000; i++) {
			char text[64];
			state = state * 1664525 + 1013904223;
			int length = snprintf(text, sizeof text, "word-%u-", (state >> 8) % 30000);
			memset(text + length, 'a' + length % 26, (state >> 8) % 30);
			text[length + (state >> 8) % 30] = 0;
			add(text);
		}
		prune();
		total += words;
	}
	printf("%lu\n", total);
	return 0;
}
