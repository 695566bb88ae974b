#include "own.h"
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_t t; static int n; static atomic_int stop;
static void *in(void *a) { while (!stop) { pthread_mutex_lock(&m); n++; usleep(500); pthread_mutex_unlock(&m); usleep(50); } return a; }
__attribute__((constructor)) static void up(void) { pthread_create(&t, 0, in, 0); }
__attribute__((destructor)) static void down(void) { stop = 1; pthread_join(t, 0); if (n < 5) write(2, "few\n", 4); }
void use(void) { for (int i = 0; i < 20; i++) { pthread_mutex_lock(&m); usleep(200); pthread_mutex_unlock(&m); usleep(100); } }
