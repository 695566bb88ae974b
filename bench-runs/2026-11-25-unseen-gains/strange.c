#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <errno.h>
#include <unistd.h>
static double h = 1; /* factor of holds of hot */
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void nap(double us) { struct timespec t = { 0, (long)(us * 1000) }; while (nanosleep(&t, &t)); }
pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER, cold = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t hotrw = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t c1 = PTHREAD_COND_INITIALIZER, c2 = PTHREAD_COND_INITIALIZER;
static sem_t s1, s2; static int n, done, turn;
static void *fj(void *a) { for (int i = 0; i < 3; i++) { nap(1000 + 300 * (long)a); pthread_mutex_lock(&hot); nap(1000 * h); pthread_mutex_unlock(&hot); } return a; }
static void forkjoin(void) { for (int r = 0; r < 20; r++) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, fj, (void *)i); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); } }
static void *rd(void *a) { for (int i = 0; i < 60; i++) { nap(1500); pthread_rwlock_rdlock(&hotrw); nap(1000 * h); pthread_rwlock_unlock(&hotrw); } return a; }
static void *wr(void *a) { for (int i = 0; i < 50; i++) { nap(800); pthread_rwlock_wrlock(&hotrw); nap(2500 * h); pthread_rwlock_unlock(&hotrw); } return a; }
static void rw(void) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, i ? rd : wr, 0); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); }
static void *prod(void *a) { for (int i = 0; i < 100; i++) { nap(900); pthread_mutex_lock(&hot); while (n == 4) pthread_cond_wait(&c1, &hot); nap(400 * h); n++; pthread_cond_signal(&c2); pthread_mutex_unlock(&hot); } return a; }
static void *cons(void *a) { for (int i = 0; i < 100; i++) { pthread_mutex_lock(&hot); while (!n) pthread_cond_wait(&c2, &hot); nap(400 * h); n--; pthread_cond_signal(&c1); pthread_mutex_unlock(&hot); nap(900); } return a; }
static void bounded(void) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, i & 1 ? prod : cons, 0); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); }
static void *sp(void *a) { for (int i = 0; i < 150; i++) { sem_wait(&s1); pthread_mutex_lock(&hot); nap(500 * h); pthread_mutex_unlock(&hot); nap(700); sem_post(&s2); } return a; }
static void semapool(void) { sem_init(&s1, 0, 0); sem_init(&s2, 0, 0); pthread_t t[3]; for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, sp, 0);
	for (int r = 0; r < 75; r++) { for (int i = 0; i < 6; i++) sem_post(&s1); for (int i = 0; i < 6; i++) sem_wait(&s2); nap(300); } for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void *ring(void *a) { for (int i = 0; i < 60; i++) { pthread_mutex_lock(&hot); while (turn != (long)a) pthread_cond_wait(&c1, &hot); nap(600 * h); turn = (turn + 1) % 3; pthread_cond_broadcast(&c1); pthread_mutex_unlock(&hot); nap(700); } return a; }
static void tokens(void) { pthread_t t[3]; for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, ring, (void *)i); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void *nest(void *a) { for (int i = 0; i < 60; i++) { nap(500); pthread_mutex_lock(&cold); nap(300); pthread_mutex_lock(&hot); nap(800 * h); pthread_mutex_unlock(&hot); pthread_mutex_unlock(&cold); pthread_mutex_lock(&hot); nap(300 * h); pthread_mutex_unlock(&hot); } return a; }
static void nested(void) { pthread_t t[3]; for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, nest, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void *tri(void *a) { for (int i = 0; i < 50; i++) { nap(700); while (pthread_mutex_trylock(&hot)) nap(200); nap(900 * h); pthread_mutex_unlock(&hot); } return a; }
static void trylock(void) { pthread_t t[3]; for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, tri, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void *tim(void *a) { for (int i = 0; i < 50; i++) { nap(700); struct timespec t; clock_gettime(CLOCK_REALTIME, &t); t.tv_sec += 5; pthread_mutex_timedlock(&hot, &t); nap(900 * h); pthread_mutex_unlock(&hot); } return a; }
static void timed(void) { pthread_t t[3]; for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, tim, 0); for (int i = 0; i < 3; i++) pthread_join(t[i], 0); }
static void *bat(void *a) { for (;;) { pthread_mutex_lock(&hot); while (!n && !done) pthread_cond_wait(&c1, &hot); if (!n && done) { pthread_mutex_unlock(&hot); return a; } n--; nap(300 * h); pthread_mutex_unlock(&hot); nap(1500); } }
static void batch(void) { pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, bat, 0); for (int r = 0; r < 25; r++) { pthread_mutex_lock(&hot); n += 10; pthread_cond_broadcast(&c1); pthread_mutex_unlock(&hot); nap(4000); } pthread_mutex_lock(&hot); done = 1; pthread_cond_broadcast(&c1); pthread_mutex_unlock(&hot); for (int i = 0; i < 4; i++) pthread_join(t[i], 0); }
int main(int c, char **v) { struct { char *n; void (*f)(void); } all[] = { {"forkjoin", forkjoin}, {"rw", rw}, {"bounded", bounded}, {"semapool", semapool}, {"tokens", tokens}, {"nested", nested}, {"trylock", trylock}, {"timed", timed}, {"batch", batch} };
	h = c > 2 && !strcmp(v[2], "half") ? 0.5 : 1; long t = now(); for (unsigned i = 0; i < sizeof all / sizeof *all; i++) if (!strcmp(v[1], all[i].n)) all[i].f(); fprintf(stderr, "%ld\n", now() - t); return 0; }
