#include "own.h"
/* Barriers: the serial thread works alone between two of them; then a barrier that three processes share, at another address each. */
static pthread_barrier_t a, *b; static long n, t; static atomic_int serial;
static void *work(void *p) { for (int i = 0; i < 60; i++) { if ((long)p == i % 3) nap(2000); int r = TIMED(t, n, pthread_barrier_wait(&a)); if (r == PTHREAD_BARRIER_SERIAL_THREAD) { serial++; nap(1000); } TIMED(t, n, pthread_barrier_wait(&a)); } return 0; }
int main(void) { pthread_barrier_init(&a, 0, 3); pthread_t w[3]; for (long i = 0; i < 3; i++) pthread_create(&w[i], 0, work, (void *)i); for (int i = 0; i < 3; i++) pthread_join(w[i], 0); own("barrier:a", n, t); n = t = 0;
	int f = memfd_create("x", 0); if (ftruncate(f, 4096)) return 1; b = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0); pthread_barrierattr_t at; pthread_barrierattr_init(&at); pthread_barrierattr_setpshared(&at, 1); pthread_barrier_init(b, &at, 3);
	int k = 0; for (; k < 2; k++) if (!fork()) break; if (k < 2) b = mmap(0, 4096 << k, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	for (int i = 0; i < 40; i++) { if (i % 3 == k) nap(3000); TIMED(t, n, pthread_barrier_wait(b)); } own("barrier:shared", n, t); if (k < 2) _exit(0); while (wait(0) > 0) ; printf("%d serial\n", serial); return 0; }
