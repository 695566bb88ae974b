#include "own.h"
/* A queue in shm_open memory, of which the consumer is another program image (exec) that maps it elsewhere. */
struct queue { pthread_mutex_t m; pthread_cond_t some, room; int filled, taken; }; static long ln, lt, wn, wt;
static struct queue *map(const char *name) { int f = shm_open(name, O_RDWR | O_CREAT, 0600); if (ftruncate(f, 4096)) exit(2); return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0); }
FAR static void slow_take(struct queue *q) { nap(1500); q->filled--; q->taken++; pthread_cond_signal(&q->room); pthread_mutex_unlock(&q->m); KEEP; }
int main(int c, char **v) { char name[40];
	if (c > 1) { struct queue *q = map(v[1]); for (int i = 0; i < 60; i++) { TIMED(lt, ln, pthread_mutex_lock(&q->m)); while (!q->filled) TIMED(wt, wn, pthread_cond_wait(&q->some, &q->m)); slow_take(q); } own("lock:queue", ln, lt); own("cond:some", wn, wt); return 0; }
	snprintf(name, 40, "/unseen-%d", getpid()); struct queue *q = map(name); pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setpshared(&a, 1); pthread_mutex_init(&q->m, &a); pthread_condattr_t b; pthread_condattr_init(&b); pthread_condattr_setpshared(&b, 1); pthread_cond_init(&q->some, &b); pthread_cond_init(&q->room, &b);
	if (!fork()) { execl("/proc/self/exe", v[0], name, (char *)0); _exit(1); }
	for (int i = 0; i < 60; i++) { if (i % 10 == 0) nap(20000); TIMED(lt, ln, pthread_mutex_lock(&q->m)); while (q->filled == 3) TIMED(wt, wn, pthread_cond_wait(&q->room, &q->m)); q->filled++; pthread_cond_signal(&q->some); pthread_mutex_unlock(&q->m); }
	int s; wait(&s); printf("%d taken, %d\n", q->taken, s); shm_unlink(name); own("lock:queue", ln, lt); own("cond:room", wn, wt); return 0; }
