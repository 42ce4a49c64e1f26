/*
 * Jacobi's iteration on as many threads as the pool has CPUs. It reads the size of the pool between sweeps.
 *
 *     cc -fopenmp jacobi.c -lmillpond_pool -o jacobi
 *     poolbind -p web -e ./jacobi
 *
 * Prints the number of threads at each change. Ends with its pool, after a number of sweeps (./jacobi 100000), or when it is stopped.
 */
#include <errno.h>
#include <millpond_pool.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 256

static double from[ROWS][ROWS], to[ROWS][ROWS];

/* Makes one sweep. Returns the number of threads that made it. */
static int sweep(void)
{
	int threads = 1;

#pragma omp parallel
	{
#pragma omp single
		threads = omp_get_num_threads();
#pragma omp for
		for (int i = 1; i < ROWS - 1; i++)
			for (int j = 1; j < ROWS - 1; j++)
				to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
	}
	memcpy(from, to, sizeof from);
	return threads;
}

int main(int argc, char **argv)
{
	long sweeps_max = argc > 1 ? atol(argv[1]) : -1;
	int said = 0;
	struct mp_pool *pool;
	int error = mp_pool_open(NULL, &pool);

	if (error < 0) {
		fprintf(stderr, "jacobi: cannot follow the pool: %s\n", strerror(-error));
		return 1;
	}
	for (int j = 0; j < ROWS; j++)
		from[0][j] = to[0][j] = 1.0;
	/* Use the size of the pool, not OpenMP's own choice. */
	omp_set_dynamic(0);
	for (long sweeps = 0; sweeps_max < 0 || sweeps < sweeps_max; sweeps++) {
		int size = mp_pool_size(pool, NULL);

		if (size == -EIDRM) {
			printf("pool %s is gone\n", mp_pool_name(pool));
			break;
		}
		/* If the pool is empty for a moment, keep the number of threads. */
		if (size > 0)
			omp_set_num_threads(size);
		int threads = sweep();
		if (threads != said) {
			printf("threads %d\n", threads);
			fflush(stdout);
			said = threads;
		}
	}
	mp_pool_close(pool);
	return 0;
}
