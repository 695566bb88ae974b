#include "own.h"
/* A mutex of priority inheritance, and one that protects by a ceiling; held 5 ms at a time. */
static pthread_mutex_t pi, pp; static long ns, n, ns2, n2;
static void *work(void *arg) { for (int i = 0; i < 10; i++) { TIMED(ns, n, pthread_mutex_lock(&pi)); usleep(5000); pthread_mutex_unlock(&pi); usleep(200); TIMED(ns2, n2, pthread_mutex_lock(&pp)); usleep(2000); pthread_mutex_unlock(&pp); } return arg; }
int main(void) { pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT); pthread_mutex_init(&pi, &a);
	pthread_mutex_init(&pp, 0); pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); puts("inherited"); own("lock pi", n, ns); own("lock plain", n2, ns2); return 0; }
