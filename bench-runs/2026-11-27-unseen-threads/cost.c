#include "own.h"
/* cost KIND: CPU nanoseconds of one operation, as the median of 21 blocks. handover is for two threads on one CPU: both threads' time for one hand-over. */
static long cpu(clockid_t c) { struct timespec t; clock_gettime(c, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static int order(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
enum { BLOCKS = 21 }; static double block[BLOCKS]; static sem_t a, b; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static int turn, rounds = 2000;
static void tell(void) { qsort(block, BLOCKS, sizeof *block, order); printf("%.3f\n", block[BLOCKS / 2]); }
#define MEASURE(n, body) for (int k = 0; k < BLOCKS; k++) { long f = cpu(CLOCK_THREAD_CPUTIME_ID); for (int i = 0; i < (n); i++) { body; } block[k] = (double)(cpu(CLOCK_THREAD_CPUTIME_ID) - f) / (n); }
static void *by_sem(void *x) { for (int i = 0; i < rounds * BLOCKS; i++) { sem_wait(&a); sem_post(&b); } return 0; }
static void *by_cond(void *x) { for (int i = 0; i < rounds * BLOCKS; i++) { pthread_mutex_lock(&m); while (turn != 1) pthread_cond_wait(&c, &m); turn = 0; pthread_cond_signal(&c); pthread_mutex_unlock(&m); } return 0; }
int main(int n, char **v) {
	const char *kind = v[1]; pthread_t w; pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER; pthread_spinlock_t s; pthread_spin_init(&s, 0); cpu_set_t one; CPU_ZERO(&one); CPU_SET(n > 2 ? atoi(v[2]) : 1, &one); sched_setaffinity(0, sizeof one, &one);
	pthread_mutex_t recursive; pthread_mutexattr_t at; pthread_mutexattr_init(&at); pthread_mutexattr_settype(&at, PTHREAD_MUTEX_RECURSIVE); pthread_mutex_init(&recursive, &at);
	pthread_create(&w, 0, (void *(*)(void *))usleep, (void *)1); pthread_join(w, 0); /* so that the C library knows of threads */
	if (!strcmp(kind, "mutex")) MEASURE(200000, pthread_mutex_lock(&m); pthread_mutex_unlock(&m))
	else if (!strcmp(kind, "recursive")) MEASURE(200000, pthread_mutex_lock(&recursive); pthread_mutex_unlock(&recursive))
	else if (!strcmp(kind, "try")) MEASURE(200000, pthread_mutex_trylock(&m); pthread_mutex_unlock(&m))
	else if (!strcmp(kind, "read")) MEASURE(200000, pthread_rwlock_rdlock(&rw); pthread_rwlock_unlock(&rw))
	else if (!strcmp(kind, "write")) MEASURE(200000, pthread_rwlock_wrlock(&rw); pthread_rwlock_unlock(&rw))
	else if (!strcmp(kind, "spin")) MEASURE(200000, pthread_spin_lock(&s); pthread_spin_unlock(&s))
	else if (!strcmp(kind, "sem")) MEASURE(200000, sem_post(&a); sem_wait(&a))
	else if (!strcmp(kind, "signal")) MEASURE(100000, pthread_cond_signal(&c))
	else { int sem = !strcmp(kind, "handover-sem"); if (!sem && strcmp(kind, "handover-cond")) return 2; pthread_create(&w, 0, sem ? by_sem : by_cond, 0);
		for (int k = 0; k < BLOCKS; k++) { long f = cpu(CLOCK_PROCESS_CPUTIME_ID); for (int i = 0; i < rounds; i++) if (sem) { sem_post(&a); sem_wait(&b); } else { pthread_mutex_lock(&m); turn = 1; pthread_cond_signal(&c); while (turn != 0) pthread_cond_wait(&c, &m); pthread_mutex_unlock(&m); } block[k] = (double)(cpu(CLOCK_PROCESS_CPUTIME_ID) - f) / rounds / 2; } pthread_join(w, 0); }
	tell(); return 0; }
