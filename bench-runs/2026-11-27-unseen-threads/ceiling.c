#include "own.h"
/* Error-checking, adaptive and ceiling mutexes: what they refuse, they refuse recorded as well. */
static pthread_mutex_t check, adaptive, ceiling; static long n, t;
static void *work(void *a) { for (int i = 0; i < 40; i++) { TIMED(t, n, pthread_mutex_lock(&adaptive)); if (i % 4 == 0) nap(1500); pthread_mutex_unlock(&adaptive); nap(100); } return (void *)(long)pthread_mutex_unlock(&check); }
int main(void) { pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK); pthread_mutex_init(&check, &a); pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP); pthread_mutex_init(&adaptive, &a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_NORMAL); pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT); pthread_mutexattr_setprioceiling(&a, 5); int e = pthread_mutex_init(&ceiling, &a);
	pthread_mutex_lock(&check); printf("%d %d %d", e, pthread_mutex_lock(&check), pthread_mutex_trylock(&check)); struct timespec s = in(CLOCK_REALTIME, 1000), bad = { 0, 2000000000 };
	printf(" %d %d", pthread_mutex_timedlock(&check, &s), pthread_mutex_timedlock(&adaptive, &bad)); pthread_mutex_unlock(&adaptive); pthread_t w[3]; void *r; for (int i = 0; i < 3; i++) pthread_create(&w[i], 0, work, 0); for (int i = 0; i < 3; i++) { pthread_join(w[i], &r); printf(" %ld", (long)r); }
	printf(" %d", pthread_mutex_unlock(&check)); printf(" %d", pthread_mutex_unlock(&check)); int c, l = pthread_mutex_lock(&ceiling); printf(" %d %d %d\n", l, pthread_mutex_getprioceiling(&ceiling, &c), pthread_mutex_unlock(&ceiling)); own("lock:adaptive", n, t); return 0; }
