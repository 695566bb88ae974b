#include "own.h"
#include <dlfcn.h>
/* A library with a lock of its own, loaded late, closed and loaded again (elsewhere), with threads that its constructor starts. */
static pthread_barrier_t begin; static void (*visit)(void); static long n, t; static void *work(void *a) { pthread_barrier_wait(&begin); for (int i = 0; i < 25; i++) { TIMED(t, n, (visit(), 0)); nap(150); } return 0; }
int main(int c, char **v) { char path[4096]; int l = readlink("/proc/self/exe", path, 4000); path[l] = 0; strcpy(strrchr(path, '/'), "/dl-lib.so"); pthread_barrier_init(&begin, 0, 2);
	for (int k = 0; k < 3; k++) { void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); if (!lib) return puts(dlerror()), 1; visit = dlsym(lib, "visit"); pthread_t w[2]; for (int i = 0; i < 2; i++) pthread_create(&w[i], 0, work, 0); for (int i = 0; i < 2; i++) pthread_join(w[i], 0);
		printf("%d\n", *(int *)dlsym(lib, "visits")); long *lock = dlsym(lib, "lock_n"); own("lock:library", lock[0], lock[1]); dlclose(lib); mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); } return 0; }
