#include "own.h"
/* Two threads each hold what the other one wants. A third sees it after 300 ms and ends the program with status 6 (_exit). */
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER; static pthread_barrier_t both;
FAR static void want_right(void) { pthread_mutex_lock(&right); KEEP; } FAR static void want_left(void) { pthread_mutex_lock(&left); KEEP; }
static void *first(void *a) { pthread_mutex_lock(&left); pthread_barrier_wait(&both); want_right(); return 0; } static void *second(void *a) { pthread_mutex_lock(&right); pthread_barrier_wait(&both); want_left(); return 0; }
int main(void) { pthread_barrier_init(&both, 0, 3); pthread_t w[2]; pthread_create(&w[0], 0, first, 0); pthread_create(&w[1], 0, second, 0); pthread_setname_np(w[0], "first"); pthread_setname_np(w[1], "second"); pthread_barrier_wait(&both); nap(300000); puts("stuck"); fflush(stdout); own("lock:left", 1, 300000000); own("lock:right", 1, 300000000); _exit(6); }
