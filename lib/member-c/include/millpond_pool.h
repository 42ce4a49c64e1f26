/*
 * millpond_pool.h - for programs in a pool: its size, and notification of changes.
 *
 *     struct mp_pool *pool;
 *     int error = mp_pool_open(NULL, &pool);          // the pool of this process
 *     if (error < 0)
 *             return fail(strerror(-error));
 *     for (;;) {
 *             int size = mp_pool_size(pool, NULL);    // cheap when nothing has changed
 *             if (size > 0)
 *                     omp_set_num_threads(size);
 *             work();
 *     }
 *
 * Link with -lmillpond_pool, or with libmillpond_pool.a -lgcc_s -lpthread -ldl -lm.
 *
 * No rights are needed. A change is reported after it is made: a program that sees more CPUs has them, one that sees fewer has lost them already and
 * runs on the remaining ones. Changes in quick succession may be reported as one, the latest. The last one is never missed.
 *
 * A handle is used by one thread at a time. The child of a fork opens one of its own. An exec closes it.
 *
 * Calls return an error as a negative errno:
 *
 *     -ENODEV          pools are disabled, or MILLPOND_STATE names another directory
 *     -ENOENT          there are pools, but none of that name
 *     -EIDRM           the pool was destroyed or renamed, or pools were disabled meanwhile: only mp_pool_close is valid for the handle. A process
 *                      whose pool was destroyed is in the default pool; to follow that one, open it
 *     -EBADMSG         the notice of the pool is invalid; the next call tries again
 *     -EINVAL          a pointer is null that must not be, or the name is not UTF-8
 *     -ERANGE          a CPU number exceeds the mask
 *     -ENOTRECOVERABLE a defect of the library
 *     and errors of the system: -EMFILE (too many inotify instances), -EACCES, -ENOMEM, ...
 */
#ifndef MILLPOND_POOL_H
#define MILLPOND_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A subscription to a pool. */
struct mp_pool;

/* The size of a pool at one time. */
struct mp_pool_info {
	/* Number of on-line CPUs. It can be 0. */
	uint32_t size;
	/* Always 0. */
	uint32_t reserved;
	/* Number of changes of the CPUs since the pool was created, from 1. */
	uint64_t serial;
};

/*
 * Follows the pool of that name. NULL: the pool that MILLPOND_POOL names (poolbind -e sets it), else the one of the process's cgroup, else the
 * default pool. Returns 0 and a handle in *pool, or an error and NULL there.
 */
int mp_pool_open(const char *name, struct mp_pool **pool);

/*
 * A descriptor that is readable when the size may have changed: for poll, select and epoll. Then call mp_pool_size. Do not read from it, and do not
 * close it.
 */
int mp_pool_fd(const struct mp_pool *pool);

/* The name of the pool; lives as long as the handle. NULL for a null handle. */
const char *mp_pool_name(const struct mp_pool *pool);

/* The current size, 0 or more. mp_pool_wait then waits for another one. info may be NULL. */
int mp_pool_size(struct mp_pool *pool, struct mp_pool_info *info);

/*
 * The CPUs that mp_pool_size or mp_pool_wait returned last, as a mask: in the form of a cpu_set_t, of this many bytes (a multiple of
 * sizeof(unsigned long)). Returns their number.
 */
int mp_pool_cpus(const struct mp_pool *pool, unsigned long *mask, size_t bytes);

/*
 * Waits until the pool has another size than the one that the caller knows, for at most timeout_ms milliseconds; for ever if that is negative.
 * 1: the size changed, and is in *info (which may be NULL). 0: timeout. A signal does not end the wait.
 */
int mp_pool_wait(struct mp_pool *pool, int timeout_ms, struct mp_pool_info *info);

/* Closes it. NULL has no effect. */
void mp_pool_close(struct mp_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
