#include "own.h"
/* The owner of a robust mutex dies while others wait: once a thread, once a process. */
static long ns, n;
static void *die(void *arg) { pthread_mutex_lock(arg); usleep(30000); return 0; }
static void *take(void *arg) { int r = TIMED(ns, n, pthread_mutex_lock(arg)); if (r == EOWNERDEAD) pthread_mutex_consistent(arg); usleep(1000); pthread_mutex_unlock(arg); return (void *)(long)r; }
int main(void) { pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST); pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_t *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); pthread_mutex_init(m, &a); pthread_t d, t[2]; void *r; long died = 0;
	for (int round = 0; round < 10; round++) {
		if (round & 1) { pthread_create(&d, 0, die, m); } else if (!fork()) { pthread_mutex_lock(m); usleep(30000); _exit(0); }
		usleep(5000); for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, take, m); for (int i = 0; i < 2; i++) { pthread_join(t[i], &r); died += (long)r == EOWNERDEAD; }
		if (round & 1) pthread_join(d, 0); else wait(0); }
	printf("%ld owners died\n", died); own("lock", n, ns); return 0; }
