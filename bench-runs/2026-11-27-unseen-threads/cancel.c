#include "own.h"
/* Threads are cancelled in a condition, a semaphore, a join, a barrier-free sleep, and asynchronously; handlers give the lock back. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static sem_t s; static atomic_int undone, ready; static long n, t, cancelled;
static void give(void *a) { pthread_mutex_unlock(&m); undone++; } static void undo(void *a) { undone++; }
static void *in_cond(void *a) { pthread_mutex_lock(&m); pthread_cleanup_push(give, 0); ready++; for (;;) pthread_cond_wait(&c, &m); pthread_cleanup_pop(1); return 0; }
static void *in_sem(void *a) { pthread_cleanup_push(undo, 0); ready++; sem_wait(&s); pthread_cleanup_pop(1); return 0; }
static void *sleeper(void *a) { for (;;) pause(); return 0; }
static void *in_join(void *a) { pthread_t p; pthread_create(&p, 0, sleeper, 0); pthread_cleanup_push(undo, 0); ready++; pthread_detach(pthread_self()); *(pthread_t *)a = p; pthread_join(p, 0); pthread_cleanup_pop(1); return 0; }
static void *asynchronous(void *a) { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); pthread_cleanup_push(undo, 0); ready++; for (;;) ; pthread_cleanup_pop(1); return 0; }
static void *in_lock(void *a) { ready++; int r = TIMED(t, n, pthread_mutex_lock(&m)); busy(500); undone += r == 0; pthread_mutex_unlock(&m); pthread_testcancel(); return (void *)1; }
int main(void) { sem_init(&s, 0, 0); for (int i = 0; i < 20; i++) { pthread_t w[5], inner; void *r; undone = ready = 0; pthread_create(&w[0], 0, in_cond, 0); pthread_create(&w[1], 0, in_sem, 0); pthread_create(&w[2], 0, in_join, &inner); pthread_create(&w[3], 0, asynchronous, 0);
		while (ready < 4) nap(100); nap(1000); pthread_mutex_lock(&m); pthread_create(&w[4], 0, in_lock, 0); while (ready < 5) nap(100); nap(3000); pthread_cancel(w[4]); nap(2000); pthread_mutex_unlock(&m);
		for (int k = 0; k < 4; k++) pthread_cancel(w[k]); for (int k = 0; k < 5; k++) if (k != 2) { pthread_join(w[k], &r); cancelled += r == PTHREAD_CANCELED; } while (undone < 5) nap(100); pthread_cancel(inner); pthread_join(inner, 0); }
	printf("%ld cancelled, %d\n", cancelled, undone); own("lock:m", n, t); own("cancelled", 60, 0); return 0; }
