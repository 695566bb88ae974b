#include "own.h"
/* Robust mutexes with priority inheritance whose owner dies: a thread that returns, a process that is killed, one that execs. */
static long n, t; static pthread_mutex_t *m;
static void *die(void *a) { pthread_mutex_lock(m); nap(20000); return 0; }
static void *take(void *a) { int r = TIMED(t, n, pthread_mutex_lock(m)); if (r == EOWNERDEAD) pthread_mutex_consistent(m); nap(2000); pthread_mutex_unlock(m); return (void *)(long)r; }
int main(int c, char **v) { if (c > 1) return 0; pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST); pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT); pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); pthread_mutex_init(m, &a); int died = 0; atomic_int *held = (atomic_int *)m + 200;
	for (int i = 0; i < 12; i++) { pthread_t d, w[2]; pid_t p = 0;
		if (i % 3 == 0) { pthread_create(&d, 0, die, 0); nap(4000); }
		else { *held = 0; if (!(p = fork())) { pthread_mutex_lock(m); *held = 1; if (i % 3 == 1) pause(); nap(20000); execl("/proc/self/exe", v[0], "x", (char *)0); _exit(1); } while (!*held) nap(200); }
		for (int k = 0; k < 2; k++) pthread_create(&w[k], 0, take, 0);
		if (i % 3 == 1) { nap(15000); kill(p, SIGKILL); }
		for (int k = 0; k < 2; k++) { void *r; pthread_join(w[k], &r); died += (long)r == EOWNERDEAD; }
		if (p) waitpid(p, 0, 0); else pthread_join(d, 0); }
	printf("%d died\n", died); own("lock:shared", n, t); own("died", died, 0); return 0; }
