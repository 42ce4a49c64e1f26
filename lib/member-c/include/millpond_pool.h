/*
 * millpond_pool.h - for programs in a pool: how large it is, and being told when that changes.
 *
 *     struct mp_pool *pool;
 *     int error = mp_pool_open(NULL, &pool);          // the pool that this process is in
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
 * No rights are needed. A change is told when it is done: a program that is told of more processors has them, one that is told of fewer has
 * lost them already and runs on those that are left. Changes that follow each other fast may be told as one, the latest; the last one is never
 * missed.
 *
 * A handle is used by one thread at a time. A child that is forked opens one of its own; across an exec it is closed.
 *
 * Calls give an error as a negative errno:
 *
 *     -ENODEV          pools are disabled, or MILLPOND_STATE names another directory
 *     -ENOENT          there are pools, and none of that name
 *     -EIDRM           the pool is gone, was renamed, or pools were disabled meanwhile: the handle is good for mp_pool_close only. A process
 *                      whose pool is gone is in the default pool; who wants to follow that one opens it
 *     -EBADMSG         what is told of the pool makes no sense; the next call tries again
 *     -EINVAL          a pointer is null that must not be, or the name is not UTF-8
 *     -ERANGE          a processor has no place in a mask
 *     -ENOTRECOVERABLE a defect of the library
 *     and what the system says: -EMFILE (too many inotify instances), -EACCES, -ENOMEM, ...
 */
#ifndef MILLPOND_POOL_H
#define MILLPOND_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pool that is followed. */
struct mp_pool;

/* The size of a pool at a moment. */
struct mp_pool_info {
	/* How many processors it has; those that are off-line do not count. 0 is possible. */
	uint32_t size;
	/* Always 0. */
	uint32_t reserved;
	/* How often the processors were others since the pool was made, from 1. */
	uint64_t serial;
};

/*
 * Follows the pool of that name. NULL: the one that MILLPOND_POOL names (poolbind -e sets it), else the one that the process is in by its
 * cgroup, else the default pool. Gives 0 and a handle in *pool, or an error and NULL there.
 */
int mp_pool_open(const char *name, struct mp_pool **pool);

/*
 * What can be read from when the size may have changed: for poll, select and epoll. Call mp_pool_size then; do not read from it, and do not
 * close it.
 */
int mp_pool_fd(const struct mp_pool *pool);

/* The name of the pool; lives as long as the handle. NULL for a null handle. */
const char *mp_pool_name(const struct mp_pool *pool);

/* The size now, 0 or more, which the caller knows then: mp_pool_wait waits for another one. info may be NULL. */
int mp_pool_size(struct mp_pool *pool, struct mp_pool_info *info);

/*
 * The processors that mp_pool_size or mp_pool_wait told last, as a mask: in the form of a cpu_set_t, of so many bytes (a multiple of
 * sizeof(unsigned long)). Gives their number.
 */
int mp_pool_cpus(const struct mp_pool *pool, unsigned long *mask, size_t bytes);

/*
 * Waits until the pool has another size than the one that the caller knows, for at most so many milliseconds; for ever if that is negative.
 * 1: it has, and it is in *info (which may be NULL); 0: the time is up. A signal does not end it.
 */
int mp_pool_wait(struct mp_pool *pool, int timeout_ms, struct mp_pool_info *info);

/* Ends it. NULL is fine. */
void mp_pool_close(struct mp_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
