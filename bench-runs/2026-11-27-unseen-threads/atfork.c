#include "own.h"
/* Handlers of fork take all locks; children have threads of their own and use the same locks; grandchildren, too. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n, t; static atomic_int over; static void before(void) { pthread_mutex_lock(&m); } static void after(void) { pthread_mutex_unlock(&m); }
static void *work(void *a) { for (int i = 0; i < 30; i++) { TIMED(t, n, pthread_mutex_lock(&m)); nap(700); pthread_mutex_unlock(&m); nap(100); } return 0; }
static void crowd(void) { pthread_t w[2]; n = t = 0; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, work, 0); for (int i = 0; i < 2; i++) pthread_join(w[i], 0); own("lock:m", n, t); }
int main(void) { pthread_atfork(before, after, after); int depth = 0, s = 0; pthread_t x; pthread_create(&x, 0, work, 0); while (depth < 3) { pid_t p = fork(); if (p) { if (!depth) pthread_join(x, 0); waitpid(p, &s, 0); break; } depth++; if (depth == 3) { crowd(); exit(1); } } if (depth) crowd(); else { own("lock:m", n, t); printf("%d\n", WEXITSTATUS(s)); } exit(depth ? WEXITSTATUS(s) + 1 : 0); }
