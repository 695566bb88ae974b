#include "own.h"
/* Waits that expire, in each kind, and one in three that does not. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c; static sem_t s; static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER; static long ns[6], n[6];
static struct timespec in(clockid_t clock, long ms) { struct timespec t; clock_gettime(clock, &t); long x = t.tv_nsec + ms * 1000000; t.tv_sec += x / 1000000000; t.tv_nsec = x % 1000000000; return t; }
static void *work(void *arg) { int late = 0; for (int i = 0; i < 10; i++) { struct timespec t = in(CLOCK_MONOTONIC, 5);
	pthread_mutex_lock(&m); late += TIMED(ns[0], n[0], pthread_cond_timedwait(&c, &m, &t)) == ETIMEDOUT; pthread_mutex_unlock(&m);
	t = in(CLOCK_REALTIME, 5); late += TIMED(ns[1], n[1], sem_timedwait(&s, &t)) != 0; t = in(CLOCK_REALTIME, 5); late += TIMED(ns[2], n[2], pthread_mutex_timedlock(&held, &t)) != 0;
	t = in(CLOCK_REALTIME, 5); late += TIMED(ns[3], n[3], pthread_rwlock_timedwrlock(&rw, &t)) != 0; t = in(CLOCK_MONOTONIC, 5); late += TIMED(ns[4], n[4], pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &t)) != 0;
	t = in(CLOCK_MONOTONIC, 5); late += TIMED(ns[5], n[5], sem_clockwait(&s, CLOCK_MONOTONIC, &t)) != 0; } return (void *)(long)late; }
int main(void) { pthread_condattr_t a; pthread_condattr_init(&a); pthread_condattr_setclock(&a, CLOCK_MONOTONIC); pthread_cond_init(&c, &a); sem_init(&s, 0, 0); pthread_mutex_lock(&held); pthread_rwlock_rdlock(&rw);
	pthread_t t[2]; long late = 0; void *r; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0); for (int i = 0; i < 2; i++) { pthread_join(t[i], &r); late += (long)r; } printf("%ld expired\n", late);
	char *what[] = { "cond_timedwait", "sem_timedwait", "mutex_timedlock", "rwlock_timedwrlock", "mutex_clocklock", "sem_clockwait" }; for (int i = 0; i < 6; i++) own(what[i], n[i], ns[i]); return 0; }
