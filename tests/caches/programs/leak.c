/* Leaks and keeps the buffers that it prints as lost and kept, and on request corrupts memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct node *next;
    char text[40];
};

static struct node *kept;
static char *volatile middle;

#define APART __attribute__((noinline))

static APART void wipe(void)
{
    volatile char stack[65536];
    size_t at;

    for (at = 0; at < sizeof stack; at++)
        stack[at] = 0;
}

static APART void *take(size_t bytes)
{
    void *buffer = malloc(bytes);

    memset(buffer, 1, bytes);
    return buffer;
}

/* Afterwards registers and the stack have the address of a freed buffer. */
static APART void lose(int count, size_t bytes)
{
    int at;

    for (at = 0; at < count; at++)
        printf("lost %zu %p\n", bytes, take(bytes));
    free(take(bytes));
}

static APART void lose_circle(void)
{
    struct node *one = take(sizeof *one), *other = take(sizeof *other);

    one->next = other;
    other->next = one;
    printf("lost %zu %p\nlost %zu %p\n", sizeof *one, (void *)one, sizeof *one, (void *)other);
    one = other = NULL;
    free(take(sizeof *one));
}

static APART void keep(int count)
{
    while (count-- > 0) {
        struct node *node = take(sizeof *node);

        node->next = kept;
        kept = node;
    }
    middle = (char *)take(5000) + 2500;
}

static void *thread(void *unused)
{
    char *volatile mine = take(200);

    lose(3, 24);
    wipe();
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
    free(mine);
    return unused;
}

static APART void harm(const char *how)
{
    char *buffer = take(24);

    if (strcmp(how, "past") == 0) {
        buffer[24] = 0;
    } else if (strcmp(how, "late") == 0) {
        free(buffer);
        /* Malloc's tag of eight bytes is before the buffer. */
        ((volatile char *)buffer)[8] = 0;
    }
    printf("harm %p\n", (void *)buffer);
    kept->next = (struct node *)(void *)buffer;
}

int main(int count, char **words)
{
    pthread_t other;

    setvbuf(stdout, NULL, _IOLBF, 4096);
    keep(100);
    lose(5, 24);
    lose(2, 100);
    lose(1, 300000);
    lose_circle();
    if (count > 1)
        harm(words[1]);
    wipe();
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    return 0;
}
