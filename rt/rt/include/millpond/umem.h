/*
 * millpond/umem.h - object caches: memory for objects of one size, which stay constructed while they are free.
 *
 *     umem_cache_t *points = umem_cache_create("points", sizeof (struct point), 0, make_point, end_point, NULL, NULL, NULL, 0);
 *     if (points == NULL)
 *             return fail("umem_cache_create", errno);
 *     struct point *one = umem_cache_alloc(points, UMEM_DEFAULT);
 *     ...
 *     umem_cache_free(points, one);
 *     umem_cache_destroy(points);
 *
 * Link with what pkg-config --libs millpond-rt says: -lmillpond_rt. Sizes and alignments are in bytes. Names and values are those of libumem.
 * UMEM_DEBUG in the environment finds mistakes: umem_debug(3).
 *
 * All calls may be made by many threads at once, and none in a signal handler. None is a point of cancellation. After fork(2) the child can
 * use all of them.
 */
#ifndef MILLPOND_UMEM_H
#define MILLPOND_UMEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What shall happen when there is no memory: NULL is given; or the callback is asked, and NULL is never given. */
#define UMEM_DEFAULT 0x0000
#define UMEM_NOFAIL 0x0100

/* What the callback answers: try again, or end the program by exit(status), of which the lower eight bits count. */
#define UMEM_CALLBACK_RETRY 0
#define UMEM_CALLBACK_EXIT(status) (0x0100 | ((status) & 0xff))

/* Of a cache: its free buffers are not written to, and so not checked. */
#define UMC_NOTOUCH 0x00010000
/* It is not checked, whatever UMEM_DEBUG says. */
#define UMC_NODEBUG 0x00020000
/* It has no magazines: each call goes to the slabs. */
#define UMC_NOMAGAZINE 0x00040000
/* It keeps nothing about single buffers but what fits behind them. Not with UMC_NOTOUCH. */
#define UMC_NOHASH 0x00080000

/* A cache. */
typedef struct umem_cache umem_cache_t;

/* An arena. There are none here: the type is for the parameter that has it. */
typedef struct vmem vmem_t;

/*
 * Makes an object of a buffer: buffer, private, UMEM_DEFAULT. 0: done. Anything else: it cannot, and has left nothing behind. These three return, never
 * leave otherwise, and are no points of cancellation.
 */
typedef int umem_constructor_t(void *buffer, void *priv, int flags);

/* Ends an object: buffer, private. */
typedef void umem_destructor_t(void *buffer, void *priv);

/* Is told that memory is short: private. It may free objects of its cache. It allocates nothing of it, and does not destroy it. */
typedef void umem_reclaim_t(void *priv);

/* Is asked when there is no memory for a request with UMEM_NOFAIL. It may leave by longjmp or pthread_exit. It makes no such request itself. */
typedef int umem_nofail_callback_t(void);

/*
 * Makes a cache of buffers of bufsize bytes. NULL and errno: umem_cache_create(3).
 *
 * name: for tools; the first 31 bytes are kept. align: a power of two up to the system's page; 0 is 8, or 16 from sixteen bytes on. constructor,
 * destructor, reclaim: each may be NULL; they are given priv. source: NULL, for there are no arenas. cflags: UMC_ or 0.
 *
 * A buffer is constructed when it enters the cache, is freed as constructed, and is destructed when it leaves the cache for the system. Where buffers
 * are checked (UMEM_DEBUG), each allocation constructs and each free destructs.
 */
umem_cache_t *umem_cache_create(const char *name, size_t bufsize, size_t align, umem_constructor_t *constructor,
    umem_destructor_t *destructor, umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags);

/* Destroys a cache that no thread uses. One with allocated buffers is reported (umem_debug(3)) and stays: they can be used, but not freed. NULL is nothing. */
void umem_cache_destroy(umem_cache_t *cache);

/* A buffer, constructed. NULL and ENOMEM: there is no memory, or the constructor could not. With UMEM_NOFAIL never NULL. */
void *umem_cache_alloc(umem_cache_t *cache, int flags);

/* Gives a buffer back, constructed as it was. NULL is nothing. errno stays as it is. */
void umem_cache_free(umem_cache_t *cache, void *buffer);

/*
 * So many bytes, aligned to 8, to 16 from sixteen bytes on, to 64 where size is a multiple of that, and to a page above 131072. NULL and ENOMEM: there is
 * no memory. NULL and errno as it was: size is 0. With UMEM_NOFAIL NULL for size 0 only.
 */
void *umem_alloc(size_t size, int flags);

/* The same, all zeros. */
void *umem_zalloc(size_t size, int flags);

/* Gives memory of umem_alloc or umem_zalloc back, with the size that was asked for. NULL, and size 0, are nothing. errno stays as it is. */
void umem_free(void *buffer, size_t size);

/* Sets the callback for requests with UMEM_NOFAIL when there is no memory; NULL: none, and the program ends with status 255. */
void umem_nofail_callback(umem_nofail_callback_t *callback);

/* Gives free memory back to the system. The reclaim functions of all caches are called first. */
void umem_reap(void);

#ifdef __cplusplus
}
#endif

#endif
