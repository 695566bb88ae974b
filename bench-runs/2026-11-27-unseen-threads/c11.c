#include "own.h"
#include <threads.h>
/* C11: a recursive timed mutex, conditions with time-outs, thrd_exit, a destructor of thread storage that locks, thrd_detach. */
static mtx_t table, store; static cnd_t full; static tss_t key; static int items; static long tn, tt, sn, st, wn, wt, en, et;
static atomic_int over, destroyed;
FAR static void fill(void) { nap(3000); mtx_unlock(&table); KEEP; }
static void destroy(void *p) { TIMED(st, sn, mtx_lock(&store)); nap(2000); destroyed++; mtx_unlock(&store); }
static int work(void *p) {
	tss_set(key, p);
	for (int i = 0; i < 10; i++) { TIMED(tt, tn, mtx_lock(&table)); mtx_lock(&table); mtx_unlock(&table); fill(); nap(300); }
	struct timespec t = in(CLOCK_REALTIME, 10000);
	TIMED(st, sn, mtx_lock(&store)); int r = TIMED(et, en, cnd_timedwait(&full, &store, &t)); mtx_unlock(&store);
	TIMED(st, sn, mtx_lock(&store)); while (!items) TIMED(wt, wn, cnd_wait(&full, &store)); items--; mtx_unlock(&store);
	over++; thrd_exit(r == thrd_timedout ? 7 : 8); }
int main(void) {
	thrd_t t[3], d; mtx_init(&table, mtx_recursive | mtx_timed); mtx_init(&store, mtx_plain); cnd_init(&full); tss_create(&key, destroy); int sum = 0, r;
	for (long i = 0; i < 3; i++) thrd_create(&t[i], work, (void *)(i + 1));
	nap(300000); for (int i = 0; i < 3; i++) { mtx_lock(&store); items++; cnd_signal(&full); mtx_unlock(&store); nap(5000); }
	for (int i = 0; i < 3; i++) { thrd_join(t[i], &r); sum += r; }
	items = 1; thrd_create(&d, work, (void *)9); thrd_detach(d); while (over < 4 || destroyed < 4) nap(1000); nap(5000);
	printf("%d\n", sum); own("lock:table", tn, tt); own("lock:store", sn, st); own("cond:full", wn + en, wt + et); return 0; }
