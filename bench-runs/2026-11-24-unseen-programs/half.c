#include "own.h"
/* 30 s (or SECONDS) of two threads that share one lock, to be ended from outside. Says what it heard. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n; static volatile sig_atomic_t heard;
static void hear(int s) { heard = s; }
static void *w(void *a) { while (!heard) { pthread_mutex_lock(&m); n++; usleep(1000); pthread_mutex_unlock(&m); usleep(10); } return a; }
int main(int c, char **v) { if (c > 2) { signal(SIGINT, hear); signal(SIGTERM, hear); } pthread_t t[2]; for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, w, 0); long until = now() + atol(v[1]) * 1000000000L; while (now() < until && !heard) usleep(10000); int h = heard; heard = 99; for (int i = 0; i < 2; i++) pthread_join(t[i], 0); printf("heard %d\n", h); return 21; }
