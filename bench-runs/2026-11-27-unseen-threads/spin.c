#include "own.h"
/* Spin locks, also shared by two processes, whose holder sleeps. */
static pthread_spinlock_t *s; static long n, t;
static pthread_barrier_t begin;
FAR static void hold(void) { nap(1500); pthread_spin_unlock(s); KEEP; }
static void *work(void *a) { pthread_barrier_wait(&begin); for (int i = 0; i < 50; i++) { TIMED(t, n, pthread_spin_lock(s)); hold(); nap(200); } return 0; }
int main(void) { s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); pthread_spin_init((pthread_spinlock_t *)s, 1); pthread_barrier_init(&begin, 0, 2);
	pthread_t w[2]; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, work, 0); for (int i = 0; i < 2; i++) pthread_join(w[i], 0); own("lock:shared", n, t);
	n = t = 0; if (!fork()) { for (int i = 0; i < 30; i++) { pthread_spin_lock(s); hold(); nap(300); } _exit(0); }
	for (int i = 0; i < 30; i++) { TIMED(t, n, pthread_spin_lock(s)); pthread_spin_unlock(s); nap(1000); } wait(0); own("lock:shared", n, t); puts("done"); return 0; }
