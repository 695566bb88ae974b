#include "own.h"
#include <sys/resource.h>
/* Descriptors closed, no file sizes, no memory to be had, and clone() without the thread library. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n, t; static atomic_int done; static void *work(void *a) { for (int i = 0; i < 30; i++) { TIMED(t, n, pthread_mutex_lock(&m)); nap(800); pthread_mutex_unlock(&m); nap(100); } return 0; }
static char stack[65536]; static int raw(void *a) { done++; syscall(SYS_exit, 0); return 0; }
int main(void) { int keep = open(getenv("OWN") ?: "/dev/null", O_WRONLY | O_APPEND | O_CREAT, 0666); (void)keep; syscall(SYS_close_range, 4, ~0U, 0); struct rlimit none = { 0, 0 }, few = { 4, 4 }; setrlimit(RLIMIT_NOFILE, &few); setrlimit(RLIMIT_FSIZE, &none); setrlimit(RLIMIT_CORE, &none); struct rlimit data; getrlimit(RLIMIT_DATA, &data); data.rlim_cur = 256 << 20; setrlimit(RLIMIT_DATA, &data);
	pthread_t w[3]; for (int i = 0; i < 3; i++) if (pthread_create(&w[i], 0, work, 0)) return 8; clone(raw, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, 0); for (int i = 0; i < 3; i++) pthread_join(w[i], 0); while (!done) nap(100); printf("done %d\n", done); return 0; }
