#include "own.h"
/* A signal comes before its wait, so the wait never ends; after 250 ms the program is ended by SIGTERM. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t ready = PTHREAD_COND_INITIALIZER; static sem_t never; static pthread_barrier_t b;
FAR static void wait_ready(void) { pthread_mutex_lock(&m); pthread_cond_wait(&ready, &m); KEEP; }
static void *waiter(void *a) { pthread_barrier_wait(&b); nap(2000); wait_ready(); return 0; } static void *other(void *a) { pthread_barrier_wait(&b); sem_wait(&never); return 0; }
int main(void) { pthread_barrier_init(&b, 0, 3); sem_init(&never, 0, 0); pthread_t w[2]; pthread_create(&w[0], 0, waiter, 0); pthread_create(&w[1], 0, other, 0); pthread_barrier_wait(&b); pthread_cond_signal(&ready); nap(250000); own("cond:ready", 1, 248000000); own("sem:never", 1, 250000000); kill(getpid(), SIGTERM); pause(); return 0; }
