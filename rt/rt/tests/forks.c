/* Forks at difficult moments for an allocator: while other threads are inside it, while a thread that waits for the allocator only
 * holds a lock that fork() needs, and in a signal handler that interrupted the allocator.
 *
 *     forks CASE
 *
 * With -DUMEM it uses umem, else malloc. Exits with 0, or prints the error. SIGALRM ends a deadlock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef UMEM
#include <millpond/umem.h>
#define get(size) umem_alloc(size, UMEM_DEFAULT)
#define put(data, size) umem_free(data, size)
#else
#define get(size) malloc(size)
#define put(data, size) ((void)(size), free(data))
#endif

#define SIZES 10
#define EACH 24

static const size_t sizes[SIZES] = {8, 40, 72, 200, 520, 1100, 3000, 9000, 40000, 140000};
/* Allocated by the forking thread before; children free them. */
static unsigned char *inherited[SIZES][EACH];

static void end(const char *what) {
    ssize_t written = write(2, what, strlen(what)) + write(2, "\n", 1);
    _exit(written > 0 ? 1 : 2);
}

static void expect(int is_so, const char *what) {
    if (!is_so) end(what);
}

/* Number of buffers of a size: few of the large ones. */
static int some(int size) { return sizes[size] > 5000 ? 2 : EACH; }

static unsigned char mark_of(size_t size, int which) { return (unsigned char)(size * 31 + (size_t)which * 7 + 1); }

static unsigned char *fresh(size_t size, int which) {
    unsigned char *data = get(size);
    expect(data != NULL, "no memory");
    memset(data, mark_of(size, which), size);
    return data;
}

static void give_back(unsigned char *data, size_t size, int which) {
    for (size_t at = 0; at < size; at += size / 8) expect(data[at] == mark_of(size, which), "another thread wrote here");
    expect(data[size - 1] == mark_of(size, which), "another thread wrote at the end");
    put(data, size);
}

/* More of each size than magazines have, so that depots, slabs and pages are used; all at the same time, so that overlaps are found. */
static void work(void) {
    unsigned char *have[SIZES][EACH];
    for (int size = 0; size < SIZES; size++)
        for (int which = 0; which < some(size); which++) have[size][which] = fresh(sizes[size], which);
    for (int size = 0; size < SIZES; size++)
        for (int which = 0; which < some(size); which++) give_back(have[size][which], sizes[size], which);
}

static void inherit(void) {
    for (int size = 0; size < SIZES; size++)
        for (int which = 0; which < some(size); which++) inherited[size][which] = fresh(sizes[size], which + 100);
}

static void child(void) {
    alarm(60);
    work();
    for (int size = 0; size < SIZES; size++)
        for (int which = 0; which < some(size); which++) give_back(inherited[size][which], sizes[size], which + 100);
    work();
    _exit(0);
}

static void ends_well(pid_t pid) {
    int status = 0;
    expect(pid > 0, "no child");
    while (waitpid(pid, &status, 0) < 0) expect(errno == EINTR, "no child to wait for");
    if (WIFSIGNALED(status)) end(WTERMSIG(status) == SIGALRM ? "a child hangs" : "a child was ended by a signal");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child failed");
}

static void fork_once(void) {
    pid_t pid = fork();
    if (pid == 0) child();
    ends_well(pid);
}

static void start(pthread_t *thread, void *(*body)(void *), void *with) {
    expect(pthread_create(thread, NULL, body, with) == 0, "no thread");
}

/* Waits until a thread has stored its ID and sleeps in the kernel. Nothing here allocates or uses streams. */
static void await_sleep(volatile pid_t *number) {
    for (int seen = 0; seen < 3;) {
        char path[64], text[256] = "";
        usleep(1000);
        if (!*number) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)*number);
        int file = open(path, O_RDONLY);
        ssize_t length = read(file, text, sizeof text - 1);
        close(file);
        expect(length > 0, "no such thread");
        seen = strstr(text, ") S ") ? seen + 1 : 0;
    }
}

/* --- streams: fork() needs the lock of the stream list; its holder needs a stream; the holder of that allocates. --- */

static volatile pid_t flusher_number, forker_number;

static void *flusher(void *with) {
    flusher_number = (pid_t)syscall(SYS_gettid);
    fflush(NULL);
    return with;
}

static void *forker(void *with) {
    forker_number = (pid_t)syscall(SYS_gettid);
    fork_once();
    return with;
}

static void streams(void) {
    pthread_t threads[2];
    FILE *stream = fopen("/dev/null", "w");
    expect(stream != NULL, "no stream");
    fputs("something to flush", stream);
    flockfile(stream);
    start(&threads[0], flusher, NULL);
    await_sleep(&flusher_number);
    start(&threads[1], forker, NULL);
    await_sleep(&forker_number);
    work();
    funlockfile(stream);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    fclose(stream);
}

/* --- handlers: those of the program wait for a thread that allocates, and allocate. --- */

static sem_t asked, answered;

static void before_fork(void) {
    work();
    sem_post(&asked);
    while (sem_wait(&answered) != 0) continue;
    work();
}

static void *answers(void *with) {
    for (int round = 0; round < 20; round++) {
        while (sem_wait(&asked) != 0) continue;
        work();
        sem_post(&answered);
    }
    return with;
}

static void handlers(void) {
    pthread_t thread;
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    /* Handlers that are registered first are called last before a fork, and first after it. */
    expect(pthread_atfork(before_fork, work, work) == 0, "no handlers");
    inherit();
    start(&thread, answers, NULL);
    for (int round = 0; round < 20; round++) fork_once();
    pthread_join(thread, NULL);
}

/* --- stopped: a signal stops threads at any place, also inside the allocator, while another one forks. --- */

#define STOPPED 3
static int stops[2], goes[2];
static volatile sig_atomic_t is_over;

static void stand_still(int signal) {
    int before = errno;
    char byte = 0;
    (void)signal;
    expect(write(stops[1], &byte, 1) == 1, "cannot tell");
    while (read(goes[0], &byte, 1) != 1) continue;
    expect(write(stops[1], &byte, 1) == 1, "cannot tell");
    errno = before;
}

static void *works(void *with) {
    while (!is_over) work();
    return with;
}

/* Waits until each thread has stopped, or continues. */
static void all_told(void) {
    char byte = 0;
    for (int which = 0; which < STOPPED; which++) while (read(stops[0], &byte, 1) != 1) continue;
}

static void stopped(int rounds) {
    pthread_t threads[STOPPED];
    struct sigaction action = {.sa_handler = stand_still, .sa_flags = SA_RESTART};
    const char byte = 0;
    expect(pipe(stops) == 0 && pipe(goes) == 0, "no pipes");
    sigaction(SIGUSR1, &action, NULL);
    for (int which = 0; which < STOPPED; which++) start(&threads[which], works, NULL);
    for (int round = 0; round < rounds; round++) {
        /* From here on this thread must not allocate: stopped threads may hold locks that it needs. */
        for (int which = 0; which < STOPPED; which++) pthread_kill(threads[which], SIGUSR1);
        all_told();
        fork_once();
        for (int which = 0; which < STOPPED; which++) expect(write(goes[1], &byte, 1) == 1, "cannot tell");
        all_told();
        for (volatile int wait = 0; wait < 1000 * (round % 50); wait++) continue;
    }
    is_over = 1;
    for (int which = 0; which < STOPPED; which++) pthread_join(threads[which], NULL);
}

/* --- signal: a handler forks; the child continues the interrupted code. --- */

static volatile sig_atomic_t forks, is_child;

static void forks_here(int signal) {
    int before = errno;
    (void)signal;
    pid_t pid = fork();
    if (pid == 0) {
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_PROF, &never, NULL);
        alarm(60);
        is_child = 1;
    } else {
        ends_well(pid);
        forks++;
    }
    errno = before;
}

static void in_signal(int others, int rounds) {
    pthread_t threads[2];
    sigset_t only;
    struct sigaction action = {.sa_handler = forks_here, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    sigaction(SIGPROF, &action, NULL);
    sigemptyset(&only);
    sigaddset(&only, SIGPROF);
    /* The other threads block the signal. */
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    for (int which = 0; which < others; which++) start(&threads[which], works, NULL);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    while (forks < rounds && !is_child) work();
    if (is_child) child();
    is_over = 1;
    for (int which = 0; which < others; which++) pthread_join(threads[which], NULL);
}

/* --- steps: single-steps the CPU through an allocation and its free; after each instruction a handler may fork. --- */

#if defined(__x86_64__)
#define TRAP 0x100L /* The trap flag: the CPU stops after each instruction. */
static volatile sig_atomic_t steps, fork_at;

static void after_an_instruction(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (steps++ != fork_at) return;
    pid_t pid = fork();
    if (pid == 0) {
        is_child = 1;
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
    } else {
        ends_well(pid);
        forks++;
    }
}

/* The number of instructions of a round. It forks in the one numbered `at`, counted from 0. `flag` 0: without single steps. */
static int step_through(size_t size, int at, long flag) {
    steps = 0;
    fork_at = at;
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" : : "r"(flag) : "memory", "cc");
    unsigned char *data = get(size);
    put(data, size);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    return steps;
}

/* At most this many rounds, and fewer if they would take more instructions in total: each instruction costs a signal. */
static void in_steps(int rounds, int instructions) {
    struct sigaction action = {.sa_sigaction = after_an_instruction, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    /* Without the largest size: filling it takes as many instructions as it has words. */
    for (int which = 0; which < SIZES - 1; which += 3) {
        /* Values that are computed once, such as the rows of stack frames, are computed here. */
        step_through(sizes[which], -1, 0);
        int all = step_through(sizes[which], -1, TRAP);
        expect(all > 20, "the CPU did not stop");
        int most = instructions / all;
        int stride = all / (most < rounds ? most + 1 : rounds) + 1;
        forks = 0;
        for (int at = 0; at < all; at += stride) {
            step_through(sizes[which], at, TRAP);
            if (is_child) child();
        }
        expect(forks > all / stride / 4, "hardly a round forked");
    }
}
#else
static void in_steps(int rounds, int instructions) { (void)rounds, (void)instructions; }
#endif

/* --- registered: a child handler that was registered before the first request allocates, while other threads allocate. --- */

static const char *asked_for = "";

static void registered(int rounds) {
    pthread_t threads[STOPPED];
    if (strcmp(asked_for, "registered") == 0) expect(pthread_atfork(NULL, NULL, work) == 0, "no handlers");
    inherit();
    for (int which = 0; which < STOPPED; which++) start(&threads[which], works, NULL);
    for (int round = 0; round < rounds; round++) fork_once();
    is_over = 1;
    for (int which = 0; which < STOPPED; which++) pthread_join(threads[which], NULL);
}

/* Before all constructors, also those of libraries. */
static void before_all(int count, char **words, char **environment) {
    (void)environment;
    asked_for = count > 1 ? words[1] : "";
    if (strcmp(asked_for, "registered-early") == 0) expect(pthread_atfork(NULL, NULL, work) == 0, "no handlers");
}

__attribute__((section(".preinit_array"), used)) static void (*const place)(int, char **, char **) = before_all;

/* --- without: children for which no fork handlers run. --- */

static void without(int rounds) {
    pthread_t threads[STOPPED];
    for (int which = 0; which < STOPPED; which++) start(&threads[which], works, NULL);
    for (int round = 0; round < rounds; round++) {
        pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) child();
        ends_well(pid);
    }
    is_over = 1;
    for (int which = 0; which < STOPPED; which++) pthread_join(threads[which], NULL);
}

/* --- loops: streams are opened, closed and flushed all the time, while another thread forks. --- */

static void *opens(void *with) {
    while (!is_over) {
        FILE *stream = fopen("/dev/null", "w");
        expect(stream != NULL, "no stream");
        fputs("a buffer is allocated here", stream);
        void *more = get(140000);
        fclose(stream);
        put(more, 140000);
    }
    return with;
}

static void *flushes(void *with) {
    while (!is_over) fflush(NULL);
    return with;
}

static void loops(int rounds) {
    pthread_t threads[4];
    for (int which = 0; which < 4; which++) start(&threads[which], which % 2 ? flushes : opens, NULL);
    for (int round = 0; round < rounds; round++) fork_once();
    is_over = 1;
    for (int which = 0; which < 4; which++) pthread_join(threads[which], NULL);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    alarm(240);
    if (strcmp(what, "handlers") == 0) {
        handlers();
        return 0;
    }
    if (strncmp(what, "registered", 10) == 0) {
        registered(300);
        return 0;
    }
    inherit();
    if (strcmp(what, "streams") == 0) streams();
    else if (strcmp(what, "stopped") == 0) stopped(150);
    else if (strcmp(what, "signal") == 0) in_signal(0, 60);
    else if (strcmp(what, "signal-threads") == 0) in_signal(2, 60);
    else if (strcmp(what, "steps") == 0) in_steps(100, 100000);
    else if (strcmp(what, "loops") == 0) loops(100);
    else if (strcmp(what, "without") == 0) without(300);
    else end("usage: forks handlers|registered|registered-early|without|streams|stopped|signal|signal-threads|steps|loops");
    return 0;
}
