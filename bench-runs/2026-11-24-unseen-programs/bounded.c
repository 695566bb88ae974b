#include "own.h"
/* Three producers, two consumers, one buffer of eight places, three conditions of one mutex. */
static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static int buffer[8], used, producers = 3; static long sum, put_ns, puts_n, take_ns, takes_n, lock_ns, lock_n, drain_ns, drain_n;
static void *produce(void *arg) { for (int i = 1; i <= 2000; i++) {
	spin_ns(20000);
	TIMED(lock_ns, lock_n, pthread_mutex_lock(&buffer_lock));
	while (used == 8) TIMED(put_ns, puts_n, pthread_cond_wait(&not_full, &buffer_lock));
	buffer[used++] = i; pthread_cond_signal(&not_empty); pthread_mutex_unlock(&buffer_lock); }
	pthread_mutex_lock(&buffer_lock); producers--; pthread_cond_broadcast(&not_empty); pthread_mutex_unlock(&buffer_lock); return arg; }
static void *consume(void *arg) { for (;;) {
	TIMED(lock_ns, lock_n, pthread_mutex_lock(&buffer_lock));
	while (!used && producers) TIMED(take_ns, takes_n, pthread_cond_wait(&not_empty, &buffer_lock));
	if (!used) { pthread_cond_broadcast(&drained); pthread_mutex_unlock(&buffer_lock); return arg; }
	int it = buffer[--used]; pthread_cond_signal(&not_full); pthread_mutex_unlock(&buffer_lock);
	spin_ns(40000); __atomic_fetch_add(&sum, it, __ATOMIC_RELAXED); } }
int main(void) { pthread_t t[5]; for (int i = 0; i < 5; i++) pthread_create(&t[i], 0, i < 3 ? produce : consume, 0);
	pthread_mutex_lock(&buffer_lock); while (producers || used) TIMED(drain_ns, drain_n, pthread_cond_wait(&drained, &buffer_lock)); pthread_mutex_unlock(&buffer_lock);
	for (int i = 0; i < 5; i++) pthread_join(t[i], 0);
	printf("%ld\n", sum); own("lock", lock_n, lock_ns); own("wait not_full", puts_n, put_ns); own("wait not_empty", takes_n, take_ns); own("wait drained", drain_n, drain_ns); return 3; }
