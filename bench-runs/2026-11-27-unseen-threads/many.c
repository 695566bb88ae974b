#include "own.h"
/* 50,000 mutexes, freed and made again, so that their addresses are used by others; 2 threads hand items through them. */
static long n, t; static pthread_barrier_t b; static pthread_mutex_t *locks; enum { N = 50000 };
static void *work(void *a) { for (int k = 0; k < 3; k++) { if (!a) { locks = malloc(N * sizeof *locks); for (int i = 0; i < N; i++) pthread_mutex_init(&locks[i], 0); } pthread_barrier_wait(&b); for (int i = 0; i < N; i++) { pthread_mutex_t *l = &locks[a ? N - 1 - i : i]; pthread_mutex_lock(l); pthread_mutex_unlock(l); }
		for (int i = 0; i < 20; i++) { TIMED(t, n, pthread_mutex_lock(&locks[k * 1000])); nap(1000); pthread_mutex_unlock(&locks[k * 1000]); nap(100); } pthread_barrier_wait(&b); if (!a) { for (int i = 0; i < N; i++) pthread_mutex_destroy(&locks[i]); free(locks); } pthread_barrier_wait(&b); } return 0; }
int main(void) { pthread_barrier_init(&b, 0, 2); pthread_t w[2]; for (long i = 0; i < 2; i++) pthread_create(&w[i], 0, work, (void *)i); for (int i = 0; i < 2; i++) pthread_join(w[i], 0); puts("done"); own("locks", n, t); own("pairs", 6 * N + 120, 0); return 0; }
