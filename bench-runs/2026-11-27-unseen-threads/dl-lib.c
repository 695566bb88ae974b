#include "own.h"
pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER; int visits, started; long lock_n[2]; static pthread_t own_thread; static sem_t stop;
static void *serve(void *a) { sem_wait(&stop); return 0; }
__attribute__((constructor)) static void load(void) { sem_init(&stop, 0, 0); pthread_create(&own_thread, 0, serve, 0); }
__attribute__((destructor)) static void unload(void) { sem_post(&stop); pthread_join(own_thread, 0); }
FAR static void library_hold(void) { nap(1200); visits++; pthread_mutex_unlock(&library); KEEP; }
void visit(void) { TIMED(lock_n[1], lock_n[0], pthread_mutex_lock(&library)); library_hold(); }
