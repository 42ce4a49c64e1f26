/* Every call of millpond_pool.h, and its result. The test that starts it writes notices of the pool "web" meanwhile. */
#include <errno.h>
#include <millpond_pool.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(int error)
{
	switch (error) {
	case -ENOENT:
		return "ENOENT";
	case -EIDRM:
		return "EIDRM";
	case -ERANGE:
		return "ERANGE";
	default:
		return strerror(-error);
	}
}

int main(void)
{
	struct mp_pool *pool = (struct mp_pool *)1;
	struct mp_pool_info info;
	unsigned long wide[16], narrow[1];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("none: %s\n", name_of(mp_pool_open("none", &pool)));
	if (pool != NULL || mp_pool_open("web", &pool) != 0)
		return 1;
	printf("%s: size %d, ", mp_pool_name(pool), mp_pool_size(pool, &info));
	printf("serial %llu, processors", (unsigned long long)info.serial);
	if (mp_pool_cpus(pool, wide, sizeof wide) != 2 || info.size != 2)
		return 2;
	for (int cpu = 0; cpu < 1024; cpu++)
		if (wide[cpu / (8 * sizeof wide[0])] >> cpu % (8 * sizeof wide[0]) & 1)
			printf(" %d", cpu);
	struct pollfd fd = { .fd = mp_pool_fd(pool), .events = POLLIN };
	printf(", %s\n", poll(&fd, 1, 0) == 0 ? "quiet" : "loud");
	if (mp_pool_wait(pool, 0, &info) != 0)
		return 3;
	puts("time is up");
	if (mp_pool_wait(pool, -1, &info) != 1 || poll(&fd, 1, 0) != 0)
		return 4;
	printf("web: size %d, serial %llu, too narrow: %s\n", (int)info.size, (unsigned long long)info.serial,
	       name_of(mp_pool_cpus(pool, narrow, sizeof narrow)));
	if (mp_pool_cpus(pool, narrow, 3) != -EINVAL || mp_pool_size(NULL, NULL) != -EINVAL)
		return 5;
	int waited = mp_pool_wait(pool, -1, NULL);
	printf("web: %s %s\n", name_of(waited), name_of(mp_pool_size(pool, NULL)));
	mp_pool_close(pool);
	mp_pool_close(NULL);
	return 0;
}
