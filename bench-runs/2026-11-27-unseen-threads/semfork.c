#include "own.h"
/* Semaphores: two in anonymous shared memory over fork, one by name, one with a value of 2 as a pool of places. */
static long n, t, pn, pt, kn, kt; static sem_t pool; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *use(void *a) { for (int i = 0; i < 30; i++) { TIMED(pt, pn, sem_wait(&pool)); nap(2000); sem_post(&pool); nap(100); } return 0; }
int main(void) { sem_t *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); sem_init(&s[0], 1, 0); sem_init(&s[1], 1, 0); char name[40]; snprintf(name, 40, "/unseen-%d", getpid()); sem_t *k = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
	if (!fork()) { for (int i = 0; i < 50; i++) { TIMED(t, n, sem_wait(&s[0])); nap(1500); sem_post(&s[1]); } own("sem:a", n, t); k = sem_open(name, 0); for (int i = 0; i < 20; i++) { nap(2000); sem_post(k); } _exit(0); }
	for (int i = 0; i < 50; i++) { nap(1000); sem_post(&s[0]); TIMED(t, n, sem_wait(&s[1])); } own("sem:b", n, t); for (int i = 0; i < 20; i++) TIMED(kt, kn, sem_wait(k)); wait(0); sem_unlink(name); own("sem:named", kn, kt);
	sem_init(&pool, 0, 2); pthread_t w[4]; for (int i = 0; i < 4; i++) pthread_create(&w[i], 0, use, 0); for (int i = 0; i < 4; i++) pthread_join(w[i], 0); own("sem:pool", pn, pt); puts("done"); return 0; }
