#include "own.h"
#include <spawn.h>
#include <sys/resource.h>
/* Threads hold locks while another one forks, vforks, spawns; at last a thread that is not the first one execs the program again. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n, t; static atomic_int over; extern char **environ;
static void *work(void *a) { while (!over) { TIMED(t, n, pthread_mutex_lock(&m)); nap(900); pthread_mutex_unlock(&m); nap(100); } return 0; }
static void *again(void *a) { own("lock:m", n, t); char **v = a; execl("/proc/self/exe", v[0], "second", (char *)0); return 0; }
int main(int c, char **v) { if (c > 1 && !strcmp(v[1], "child")) return 3; pthread_t w[2], x; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, work, 0); int sum = 0, s;
	for (int i = 0; i < 10; i++) { pid_t p; char *args[] = { v[0], "child", 0 };
		if (i % 3 == 0) { if (!(p = vfork())) { execv("/proc/self/exe", args); _exit(9); } } else if (i % 3 == 1) posix_spawn(&p, "/proc/self/exe", 0, 0, args, environ); else if (!(p = fork())) { pthread_mutex_t own_m = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&own_m); pthread_mutex_unlock(&own_m); _exit(3); }
		waitpid(p, &s, 0); sum += WEXITSTATUS(s); nap(3000); }
	printf("%d\n", sum); fflush(stdout); if (c > 1) { over = 1; for (int i = 0; i < 2; i++) pthread_join(w[i], 0); own("lock:m", n, t); return 5; }
	over = 1; for (int i = 0; i < 2; i++) pthread_join(w[i], 0); pthread_create(&x, 0, again, v); pthread_join(x, 0); return 1; }
