#include "own.h"
/* A thread has a lock when another one forks: in the child the lock never comes free, and no thread there has it. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_barrier_t b; static long n, t;
FAR static void hold(void) { pthread_barrier_wait(&b); nap(60000); pthread_mutex_unlock(&m); KEEP; }
static void *owner(void *a) { pthread_mutex_lock(&m); hold(); return 0; }
int main(void) { pthread_barrier_init(&b, 0, 2); pthread_t w; pthread_create(&w, 0, owner, 0); pthread_barrier_wait(&b); int s;
	if (!fork()) { struct timespec u = in(CLOCK_MONOTONIC, 30000); int r = TIMED(t, n, pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &u)); own("lock:m", n, t); _exit(r == ETIMEDOUT ? 3 : 4); }
	TIMED(t, n, pthread_mutex_lock(&m)); pthread_mutex_unlock(&m); own("lock:m", n, t); pthread_join(w, 0); wait(&s); printf("%d\n", WEXITSTATUS(s)); return 0; }
