#include "own.h"
/* A read-write lock that prefers writers: a reader waits behind a writer that itself waits for a slow reader. The slow reader is to blame. */
static pthread_rwlock_t table; static long rn, rt, wn, wt; static pthread_barrier_t begin;
FAR static void slow_read(void) { nap(10000); pthread_rwlock_unlock(&table); KEEP; }
FAR static void write_it(void) { nap(500); pthread_rwlock_unlock(&table); KEEP; }
FAR static void quick_read(void) { nap(100); pthread_rwlock_unlock(&table); KEEP; }
static void *slow(void *a) { for (int i = 0; i < 30; i++) { pthread_barrier_wait(&begin); pthread_rwlock_rdlock(&table); slow_read(); pthread_barrier_wait(&begin); } return 0; }
static void *writer(void *a) { for (int i = 0; i < 30; i++) { pthread_barrier_wait(&begin); nap(2000); TIMED(wt, wn, pthread_rwlock_wrlock(&table)); write_it(); pthread_barrier_wait(&begin); } return 0; }
static void *reader(void *a) { for (int i = 0; i < 30; i++) { pthread_barrier_wait(&begin); nap(4000); TIMED(rt, rn, pthread_rwlock_rdlock(&table)); quick_read(); pthread_barrier_wait(&begin); } return 0; }
int main(void) { pthread_rwlockattr_t a; pthread_rwlockattr_init(&a); pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP); pthread_rwlock_init(&table, &a);
	pthread_barrier_init(&begin, 0, 3); pthread_t t[3]; pthread_create(&t[0], 0, slow, 0); pthread_create(&t[1], 0, writer, 0); pthread_create(&t[2], 0, reader, 0);
	pthread_setname_np(t[0], "slow"); pthread_setname_np(t[1], "writer"); pthread_setname_np(t[2], "reader");
	for (int i = 0; i < 3; i++) pthread_join(t[i], 0); puts("done"); own("lock:table", rn + wn, rt + wt); own("part:reader", rn, rt); own("part:writer", wn, wt); return 0; }
