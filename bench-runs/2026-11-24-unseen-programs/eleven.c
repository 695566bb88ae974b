#include "own.h"
#include <threads.h>
static mtx_t m; static cnd_t c; static int ready; static long wait_ns, wait_n, lock_ns, lock_n, timed_ns, timed_n; static once_flag once = ONCE_FLAG_INIT;
static void first(void) { usleep(30000); }
static long once_ns, once_n;
static int work(void *arg) { TIMED(once_ns, once_n, (call_once(&once, first), 0)); mtx_lock(&m); while (!ready) TIMED(wait_ns, wait_n, cnd_wait(&c, &m)); mtx_unlock(&m);
	for (int i = 0; i < 5; i++) { TIMED(lock_ns, lock_n, mtx_lock(&m)); usleep(4000); mtx_unlock(&m); usleep(100); }
	struct timespec until; clock_gettime(CLOCK_REALTIME, &until); until.tv_nsec += 20000000; if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
	mtx_lock(&m); int r = TIMED(timed_ns, timed_n, cnd_timedwait(&c, &m, &until)); mtx_unlock(&m); return r == thrd_timedout ? (int)(long)arg : -1; }
int main(void) { thrd_t t[3]; int s = 0; mtx_init(&m, mtx_timed); cnd_init(&c); for (long i = 0; i < 3; i++) thrd_create(&t[i], work, (void *)(i + 1));
	usleep(60000); mtx_lock(&m); ready = 1; cnd_broadcast(&c); mtx_unlock(&m); for (int i = 0; i < 3; i++) { int r; thrd_join(t[i], &r); s += r; }
	printf("%d\n", s); own("call_once", once_n, once_ns); own("cnd_wait", wait_n, wait_ns); own("mtx_lock", lock_n, lock_ns); own("cnd_timedwait", timed_n, timed_ns); return s; }
