#include "own.h"
/* pthread_once with a slow first call, eight times over: the others wait inside the C library. */
static pthread_once_t once[8] = { [0 ... 7] = PTHREAD_ONCE_INIT }; static long n, t; static pthread_barrier_t begin; static atomic_int firsts;
FAR static void first(void) { nap(6000); firsts++; KEEP; }
static void *work(void *a) { for (int i = 0; i < 8; i++) { pthread_barrier_wait(&begin); if (a) { nap(1000); TIMED(t, n, pthread_once(&once[i], first)); } else pthread_once(&once[i], first); } return 0; }
int main(void) { pthread_barrier_init(&begin, 0, 3); pthread_t w[3]; for (long i = 0; i < 3; i++) pthread_create(&w[i], 0, work, (void *)i); for (int i = 0; i < 3; i++) pthread_join(w[i], 0); printf("%d\n", firsts); own("word:once", n, t); return 0; }
