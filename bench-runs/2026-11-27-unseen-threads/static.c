#include "own.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n, t; static void *work(void *a) { for (int i = 0; i < 40; i++) { TIMED(t, n, pthread_mutex_lock(&m)); nap(900); pthread_mutex_unlock(&m); nap(100); } return 0; }
int main(void) { pthread_t w[2]; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, work, 0); for (int i = 0; i < 2; i++) pthread_join(w[i], 0); puts("done"); own("word:m", n, t); return 4; }
