#include "own.h"
/* 300 threads at once, and 1,000 one after the other, each with one wait. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n, t, jn, jt; static void *work(void *a) { TIMED(t, n, pthread_mutex_lock(&m)); nap(100); pthread_mutex_unlock(&m); return a; }
static void *alone(void *a) { nap(50); return a; }
int main(void) { static pthread_t w[300]; long sum = 0; void *r; for (long i = 0; i < 300; i++) if (pthread_create(&w[i], 0, work, (void *)i)) return 9; for (int i = 0; i < 300; i++) { TIMED(jt, jn, pthread_join(w[i], &r)); sum += (long)r; }
	for (long i = 0; i < 1000; i++) { pthread_create(&w[0], 0, alone, (void *)i); TIMED(jt, jn, pthread_join(w[0], &r)); sum += (long)r; } printf("%ld\n", sum); own("lock:m", n, t); own("join", jn, jt); return 0; }
