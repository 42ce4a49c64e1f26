/* Every call about locks, valid and invalid, in threads and in processes. Prints the line of each failure. Compiles as C and C++. */
#define _GNU_SOURCE 1
#include <millpond/rt.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); failed = 1; } } while (0)
#define REFUSED(call, number) do { errno = 0; CHECK((call) == -1 && errno == (number)); } while (0)

static rt_mutex_t mutex;
static rt_cond_t cond;
static int items;

static struct timespec moment(long seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now.tv_sec += seconds;
	return now;
}

static void in_thread(void *(*body)(void *))
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void *strange(void *unused)
{
	struct timespec past = moment(-1);

	(void)unused;
	REFUSED(rt_mutex_unlock(&mutex), EPERM);
	REFUSED(rt_mutex_trylock(&mutex), EBUSY);
	REFUSED(rt_mutex_timedlock(&mutex, &past), ETIMEDOUT);
	REFUSED(rt_mutex_destroy(&mutex), EBUSY);
	REFUSED(rt_cond_wait(&cond, &mutex), EPERM);
	return NULL;
}

static void *end_with_it(void *unused)
{
	(void)unused;
	CHECK(rt_mutex_lock(&mutex) == 0);
	return NULL;
}

static void *be_cancelled_with_it(void *unused)
{
	(void)unused;
	CHECK(rt_mutex_lock(&mutex) == 0);
	pthread_cancel(pthread_self());
	pthread_testcancel();
	CHECK(!"still there");
	return NULL;
}

static void *consume(void *unused)
{
	struct timespec late = moment(60);
	int taken;

	(void)unused;
	for (taken = 0; taken < 100; taken++) {
		CHECK(rt_mutex_lock(&mutex) == 0);
		while (items == 0)
			CHECK((taken % 2 ? rt_cond_wait(&cond, &mutex) : rt_cond_timedwait(&cond, &mutex, &late)) == 0);
		items--;
		CHECK(rt_mutex_unlock(&mutex) == 0);
	}
	return NULL;
}

static void basic(int flags)
{
	struct timespec none = { 0, 1000000000 };
	struct timespec past = moment(-1), late = moment(60);

	CHECK(rt_mutex_init(&mutex, flags) == 0);
	CHECK(rt_mutex_lock(&mutex) == 0);
	REFUSED(rt_mutex_lock(&mutex), EDEADLK);
	REFUSED(rt_mutex_timedlock(&mutex, &late), EDEADLK);
	REFUSED(rt_mutex_trylock(&mutex), EBUSY);
	REFUSED(rt_mutex_consistent(&mutex), EINVAL);
	REFUSED(rt_mutex_destroy(&mutex), EBUSY);
	in_thread(strange);
	REFUSED(rt_cond_timedwait(&cond, &mutex, &past), ETIMEDOUT);
	REFUSED(rt_cond_timedwait(&cond, &mutex, &none), EINVAL);
	CHECK(rt_mutex_unlock(&mutex) == 0);
	REFUSED(rt_mutex_unlock(&mutex), EPERM);
	CHECK(rt_mutex_trylock(&mutex) == 0 && rt_mutex_unlock(&mutex) == 0);
	CHECK(rt_mutex_timedlock(&mutex, &late) == 0 && rt_mutex_unlock(&mutex) == 0);
	REFUSED(rt_mutex_timedlock(&mutex, &none), EINVAL);
	REFUSED(rt_mutex_timedlock(&mutex, NULL), EINVAL);
	CHECK(rt_mutex_destroy(&mutex) == 0);
	REFUSED(rt_mutex_lock(&mutex), EINVAL);
	REFUSED(rt_mutex_destroy(&mutex), EINVAL);
}

static void died(void *(*how)(void *))
{
	CHECK(rt_mutex_init(&mutex, 0) == 0);
	in_thread(how);
	REFUSED(rt_mutex_lock(&mutex), EOWNERDEAD);
	CHECK(rt_mutex_consistent(&mutex) == 0 && rt_mutex_unlock(&mutex) == 0);
	CHECK(rt_mutex_lock(&mutex) == 0 && rt_mutex_unlock(&mutex) == 0);
	in_thread(how);
	REFUSED(rt_mutex_trylock(&mutex), EOWNERDEAD);
	CHECK(rt_mutex_unlock(&mutex) == 0);
	REFUSED(rt_mutex_lock(&mutex), ENOTRECOVERABLE);
	REFUSED(rt_mutex_trylock(&mutex), ENOTRECOVERABLE);
	CHECK(rt_mutex_destroy(&mutex) == 0);
}

static void exchange(int flags)
{
	pthread_t threads[3];
	int at, given;

	CHECK(rt_mutex_init(&mutex, flags) == 0 && rt_cond_init(&cond, 0) == 0);
	for (at = 0; at < 3; at++)
		CHECK(pthread_create(&threads[at], NULL, consume, NULL) == 0);
	for (given = 0; given < 300; given++) {
		CHECK(rt_mutex_lock(&mutex) == 0);
		items++;
		CHECK((given % 10 ? rt_cond_signal(&cond) : rt_cond_broadcast(&cond)) == 0);
		CHECK(rt_mutex_unlock(&mutex) == 0);
	}
	for (at = 0; at < 3; at++)
		CHECK(pthread_join(threads[at], NULL) == 0);
	CHECK(items == 0);
	CHECK(rt_cond_destroy(&cond) == 0 && rt_mutex_destroy(&mutex) == 0);
	REFUSED(rt_cond_signal(&cond), EINVAL);
}

struct shared {
	rt_mutex_t mutex;
	rt_cond_t cond;
	int value;
};

static void processes(void)
{
	struct shared *shared = (struct shared *)mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int status;

	CHECK(shared != MAP_FAILED);
	CHECK(rt_mutex_init(&shared->mutex, RT_LOCK_SHARED) == 0 && rt_cond_init(&shared->cond, RT_LOCK_SHARED) == 0);
	child = fork();
	if (child == 0) {
		rt_mutex_lock(&shared->mutex);
		while (shared->value == 0)
			rt_cond_wait(&shared->cond, &shared->mutex);
		shared->value = 2;
		/* It is killed while it holds the mutex. */
		kill(getpid(), SIGKILL);
	}
	CHECK(child > 0 && rt_mutex_lock(&shared->mutex) == 0);
	shared->value = 1;
	CHECK(rt_cond_signal(&shared->cond) == 0 && rt_mutex_unlock(&shared->mutex) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	REFUSED(rt_mutex_lock(&shared->mutex), EOWNERDEAD);
	CHECK(shared->value == 2);
	CHECK(rt_mutex_consistent(&shared->mutex) == 0 && rt_mutex_unlock(&shared->mutex) == 0);
	CHECK(rt_mutex_destroy(&shared->mutex) == 0 && rt_cond_destroy(&shared->cond) == 0);
	CHECK(munmap(shared, sizeof(struct shared)) == 0);
}

int main(void)
{
	struct timespec past = moment(-1);

	CHECK(sizeof(rt_mutex_t) == sizeof(pthread_mutex_t) + 8 && sizeof(rt_cond_t) == 16);
	CHECK(rt_cond_init(&cond, 0) == 0);
	REFUSED(rt_mutex_init(NULL, 0), EINVAL);
	REFUSED(rt_mutex_init(&mutex, 4), EINVAL);
	REFUSED(rt_cond_init(NULL, 0), EINVAL);
	REFUSED(rt_cond_init(&cond, RT_LOCK_PLAIN), EINVAL);
	REFUSED(rt_mutex_lock(NULL), EINVAL);
	REFUSED(rt_mutex_unlock(NULL), EINVAL);
	REFUSED(rt_mutex_consistent(NULL), EINVAL);
	REFUSED(rt_mutex_timedlock(NULL, &past), EINVAL);
	memset(&mutex, 0, sizeof(mutex));
	REFUSED(rt_mutex_lock(&mutex), EINVAL);
	REFUSED(rt_cond_wait(&cond, &mutex), EINVAL);
	REFUSED(rt_cond_wait(NULL, &mutex), EINVAL);
	REFUSED(rt_cond_broadcast(NULL), EINVAL);
	basic(0);
	basic(RT_LOCK_PLAIN);
	basic(RT_LOCK_SHARED);
	died(end_with_it);
	died(be_cancelled_with_it);
	exchange(0);
	exchange(RT_LOCK_PLAIN);
	processes();
	return failed;
}
