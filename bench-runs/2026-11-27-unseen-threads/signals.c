#include "own.h"
/* A storm of signals at 4 kHz, whose handler posts a semaphore; waits for a mutex, a condition and a semaphore under it; a thread in sigwait. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static sem_t ticks, s; static long mn, mt, sn, st, eintr, gn; static atomic_int over, caught;
static void tick(int x) { int e = errno; sem_post(&ticks); errno = e; }
static void *take(void *a) { for (int i = 0; i < 60; i++) { TIMED(mt, mn, pthread_mutex_lock(&m)); nap(1500); pthread_mutex_unlock(&m); nap(200); } return 0; }
static void *wait_sem(void *a) { for (int i = 0; i < 30; i++) { while (TIMED(st, sn, sem_wait(&s))) eintr += errno == EINTR; } return 0; }
static void *wait_sig(void *a) { sigset_t q; sigemptyset(&q); sigaddset(&q, SIGUSR2); for (int i = 0, x; i < 20; i++) { sigwait(&q, &x); caught++; } return 0; }
static void *storm(void *a) { pthread_t *w = a; sigset_t q; sigfillset(&q); pthread_sigmask(SIG_BLOCK, &q, 0); while (!over) { nap(250); for (int i = 0; i < 3; i++) pthread_kill(w[i], SIGUSR1); } return 0; }
int main(void) { struct sigaction act = { .sa_handler = tick }; sigaction(SIGUSR1, &act, 0); sigset_t q; sigemptyset(&q); sigaddset(&q, SIGUSR2); pthread_sigmask(SIG_BLOCK, &q, 0); sem_init(&ticks, 0, 0); sem_init(&s, 0, 0);
	pthread_t w[3], g, k; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, take, 0); pthread_create(&w[2], 0, wait_sem, 0); pthread_create(&g, 0, wait_sig, 0); pthread_create(&k, 0, storm, w);
	for (int i = 0; i < 20; i++) { nap(2000); pthread_kill(g, SIGUSR2); while (caught <= i) nap(100); } for (int i = 0; i < 30; i++) { sem_post(&s); nap(4000); }
	nap(50000); over = 1; pthread_join(k, 0); for (int i = 0; i < 3; i++) pthread_join(w[i], 0); pthread_join(g, 0); int left; sem_getvalue(&ticks, &left); printf("%d caught, storm %d\n", caught, left > 100); own("lock:m", mn, mt); own("sem:s", sn, st); own("interrupted", eintr, 0); return 0; }
