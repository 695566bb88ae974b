#include "own.h"
/* 64 threads on two CPUs share a queue of 20,000 tasks of 10 us, each with a completion of its own. */
#define T 64
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t more = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER; static int head, tail, finished; static long ns, n, wn, wns, dn, dns;
static void *work(void *arg) { for (;;) { TIMED(ns, n, pthread_mutex_lock(&queue_lock)); while (head == tail) { if (tail == 20000 && finished + 0 >= 0 && head == 20000) { pthread_mutex_unlock(&queue_lock); return arg; } TIMED(wns, wn, pthread_cond_wait(&more, &queue_lock)); }
	head++; if (head == 20000) pthread_cond_broadcast(&more); pthread_mutex_unlock(&queue_lock); spin_ns(10000); pthread_mutex_lock(&queue_lock); if (++finished % 100 == 0) pthread_cond_signal(&done); pthread_mutex_unlock(&queue_lock); } }
int main(void) { pthread_t t[T]; for (int i = 0; i < T; i++) pthread_create(&t[i], 0, work, 0);
	for (int i = 0; i < 200; i++) { pthread_mutex_lock(&queue_lock); tail += 100; if (i & 1) pthread_cond_broadcast(&more); else for (int k = 0; k < 4; k++) pthread_cond_signal(&more); while (finished < tail) TIMED(dns, dn, pthread_cond_wait(&done, &queue_lock)); pthread_mutex_unlock(&queue_lock); }
	pthread_mutex_lock(&queue_lock); pthread_cond_broadcast(&more); pthread_mutex_unlock(&queue_lock);
	for (int i = 0; i < T; i++) pthread_join(t[i], 0); printf("%d\n", finished); own("lock queue", n, ns); own("wait more", wn, wns); own("wait done", dn, dns); return 0; }
