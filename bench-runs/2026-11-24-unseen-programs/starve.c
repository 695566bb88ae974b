#include "own.h"
/* Four readers overlap until each has read 400 times; one writer starves until then. */
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER; static long w_ns, w_n;
static void *read_table(void *arg) { for (int i = 0; i < 400; i++) { pthread_rwlock_rdlock(&table); usleep(3000); pthread_rwlock_unlock(&table); } return arg; }
int main(void) { pthread_t t[4]; for (long i = 0; i < 4; i++) { pthread_create(&t[i], 0, read_table, 0); usleep(700); }
	usleep(20000); TIMED(w_ns, w_n, pthread_rwlock_wrlock(&table)); usleep(2000); pthread_rwlock_unlock(&table);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0); puts("read"); own("wrlock", w_n, w_ns); return 0; }
