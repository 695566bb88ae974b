#include "own.h"
/* Timed locks of which half time out, against a holder that is known: mutex, read-write lock for reading and writing, by both clocks. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER; static long mn, mt, rn, rt; static atomic_int late, over; static pthread_barrier_t begin;
FAR static void hold(long us) { nap(us); KEEP; }
static void *owner(void *a) { for (int i = 0; i < 40; i++) { pthread_mutex_lock(&m); pthread_rwlock_wrlock(&rw); pthread_barrier_wait(&begin); hold(i & 1 ? 3000 : 12000); pthread_rwlock_unlock(&rw); pthread_mutex_unlock(&m); pthread_barrier_wait(&begin); } return 0; }
static void *on_mutex(void *a) { for (int i = 0; i < 40; i++) { pthread_barrier_wait(&begin); struct timespec r = in(CLOCK_REALTIME, 7000), k = in(CLOCK_MONOTONIC, 7000);
	int e = i & 2 ? TIMED(mt, mn, pthread_mutex_timedlock(&m, &r)) : TIMED(mt, mn, pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &k)); if (e == ETIMEDOUT) late++; else pthread_mutex_unlock(&m); pthread_barrier_wait(&begin); } return 0; }
static void *on_rw(void *a) { for (int i = 0; i < 40; i++) { pthread_barrier_wait(&begin); struct timespec r = in(CLOCK_REALTIME, 7000), k = in(CLOCK_MONOTONIC, 7000);
	int e = i & 2 ? TIMED(rt, rn, pthread_rwlock_timedrdlock(&rw, &r)) : TIMED(rt, rn, pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &k)); if (e == ETIMEDOUT) late++; else pthread_rwlock_unlock(&rw); pthread_barrier_wait(&begin); } return 0; }
int main(void) { pthread_barrier_init(&begin, 0, 3); pthread_t t[3]; pthread_create(&t[0], 0, owner, 0); pthread_create(&t[1], 0, on_mutex, 0); pthread_create(&t[2], 0, on_rw, 0); pthread_setname_np(t[0], "owner");
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0); printf("%d timed out\n", late); own("lock:m", mn, mt); own("lock:rw", rn, rt); own("timeouts", late, 0); return 0; }
