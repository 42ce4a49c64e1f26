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
 * Link with the output of pkg-config --libs millpond-rt: -lmillpond_rt. Sizes and alignments are in bytes. Names and values are those of libumem.
 * UMEM_DEBUG in the environment enables checks: umem_debug(3).
 *
 * All calls are thread-safe. None may be made in a signal handler, and none is a cancellation point. After fork(2) the child can use all of them.
 */
#ifndef MILLPOND_UMEM_H
#define MILLPOND_UMEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Behaviour when out of memory: NULL is returned; or the callback is called, and NULL is never returned. */
#define UMEM_DEFAULT 0x0000
#define UMEM_NOFAIL 0x0100

/* Results of the callback: try again, or end the program by exit(status), of which the lower eight bits count. */
#define UMEM_CALLBACK_RETRY 0
#define UMEM_CALLBACK_EXIT(status) (0x0100 | ((status) & 0xff))

/* Flags of a cache. Its free buffers are not written to, and so not checked. */
#define UMC_NOTOUCH 0x00010000
/* It has no checks, whatever UMEM_DEBUG says. */
#define UMC_NODEBUG 0x00020000
/* It has no magazines: each call uses the slabs. */
#define UMC_NOMAGAZINE 0x00040000
/* It keeps no records of single buffers, except tags after them. Not with UMC_NOTOUCH. */
#define UMC_NOHASH 0x00080000

/* A cache. */
typedef struct umem_cache umem_cache_t;

/* An arena. They are not supported: the type exists for the parameter of umem_cache_create. */
typedef struct vmem vmem_t;

/*
 * Constructs an object in a buffer: buffer, private, UMEM_DEFAULT. 0: done. Any other result: it failed, and has cleaned up. These three functions
 * must return (no longjmp or exception), and must not contain cancellation points.
 */
typedef int umem_constructor_t(void *buffer, void *priv, int flags);

/* Destroys an object: buffer, private. */
typedef void umem_destructor_t(void *buffer, void *priv);

/* Called when memory is short: private. It may free objects of its cache. It must not allocate from it or destroy it. */
typedef void umem_reclaim_t(void *priv);

/* Called when out of memory for a request with UMEM_NOFAIL. It may leave by longjmp or pthread_exit. It must not make such a request itself. */
typedef int umem_nofail_callback_t(void);

/*
 * Creates a cache of buffers of bufsize bytes. NULL and errno: umem_cache_create(3).
 *
 * name: for tools; the first 31 bytes are kept. align: a power of two up to the page size; 0 is 8, or 16 for more than 8 bytes. constructor,
 * destructor, reclaim: each may be NULL; their private argument is priv. source: NULL, because arenas are not supported. cflags: UMC_ or 0.
 *
 * A buffer is constructed when it enters the cache, is freed in constructed state, and is destructed when it leaves the cache for the system. With
 * checks (UMEM_DEBUG), each allocation constructs and each free destructs.
 */
umem_cache_t *umem_cache_create(const char *name, size_t bufsize, size_t align, umem_constructor_t *constructor,
    umem_destructor_t *destructor, umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags);

/*
 * Destroys a cache that no thread uses. One with allocated buffers is reported (umem_debug(3)) and stays: they can be used, but not freed. NULL: no
 * effect.
 */
void umem_cache_destroy(umem_cache_t *cache);

/* Allocates a constructed buffer. NULL and ENOMEM: out of memory, or the constructor failed. With UMEM_NOFAIL never NULL. */
void *umem_cache_alloc(umem_cache_t *cache, int flags);

/* Returns a buffer in constructed state. NULL has no effect. errno is preserved. */
void umem_cache_free(umem_cache_t *cache, void *buffer);

/*
 * Allocates size bytes. The alignment is 8, from sixteen bytes on 16, 64 for multiples of 64, and a page above 131072. NULL and ENOMEM: out of
 * memory. NULL and errno unchanged: size is 0. With UMEM_NOFAIL NULL for size 0 only.
 */
void *umem_alloc(size_t size, int flags);

/* The same, zeroed. */
void *umem_zalloc(size_t size, int flags);

/* Frees memory of umem_alloc or umem_zalloc, with the requested size. NULL and size 0 have no effect. errno is preserved. */
void umem_free(void *buffer, size_t size);

/* Sets the callback for requests with UMEM_NOFAIL when out of memory. NULL: none, and the program ends with status 255. */
void umem_nofail_callback(umem_nofail_callback_t *callback);

/* Returns free memory to the system. The reclaim functions of all caches are called first. */
void umem_reap(void);

#ifdef __cplusplus
}
#endif

#endif
