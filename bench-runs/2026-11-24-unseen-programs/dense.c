#include "own.h"
static pthread_mutex_t m[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER }; static long s[32];
static void *w(void *a) { int k = (long)a; for (int i = 0; i < 5000000; i++) { pthread_mutex_lock(&m[k]); s[k * 16]++; pthread_mutex_unlock(&m[k]); } return 0; }
int main(void) { pthread_t t[2]; long f = now(); for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, w, (void *)i); for (int i = 0; i < 2; i++) pthread_join(t[i], 0); printf("%ld\n", s[0] + s[16]); own("whole", 1, now() - f); return 0; }
