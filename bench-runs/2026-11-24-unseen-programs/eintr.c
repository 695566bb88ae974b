#include "own.h"
/* A signal every 2 ms whose handler posts; sem_wait ends by EINTR, nanosleep too; a thread signalled by pthread_kill within a condition's wait. */
static sem_t s, h; static long ns, n, cns, cn; static volatile int hits; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static int go;
static void hit(int x) { (void)x; hits++; sem_post(&h); }
static void *waiter(void *arg) { pthread_mutex_lock(&m); while (!go) TIMED(cns, cn, pthread_cond_wait(&c, &m)); pthread_mutex_unlock(&m); return arg; }
int main(void) { sem_init(&s, 0, 0); sem_init(&h, 0, 0); struct sigaction a = { .sa_handler = hit }; sigaction(SIGUSR1, &a, 0); pthread_t self = pthread_self(), t; pthread_create(&t, 0, waiter, 0);
	pid_t child = fork(); if (!child) { for (int i = 0; i < 100; i++) { usleep(2000); kill(getppid(), SIGUSR1); } _exit(0); }
	int eintr = 0; (void)self; for (int i = 0; i < 100; ) { int r = TIMED(ns, n, sem_wait(&s)); if (r && errno == EINTR) eintr++, i++; }
	int st; while (waitpid(child, &st, 0) < 0); int posts; sem_getvalue(&h, &posts); pthread_mutex_lock(&m); go = 1; pthread_cond_signal(&c); pthread_mutex_unlock(&m); pthread_join(t, 0);
	printf("%d\n", eintr >= 100 && posts == hits); own("sem_wait EINTR", n, ns); own("cond wait", cn, cns); return 0; }
