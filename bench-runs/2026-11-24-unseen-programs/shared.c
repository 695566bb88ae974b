#include "own.h"
#include <fcntl.h>
/* Process-shared semaphores: unnamed over fork in anonymous memory, and in a file of shm_open which the child maps anew elsewhere. A named one, too. */
int main(void) { sem_t *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); sem_init(s, 1, 0); sem_init(s + 1, 1, 0);
	char name[64]; sprintf(name, "/own-%d", getpid()); int f = shm_open(name, O_RDWR | O_CREAT, 0600); ftruncate(f, 8192);
	sem_t *m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0); sem_init(m, 1, 0); sem_t *n = sem_open(name, O_CREAT, 0600, 0);
	long a = 0, an = 0, b = 0, bn = 0, c = 0, cn = 0; fflush(0);
	if (!fork()) { char *filler = mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); (void)filler; int g = shm_open(name, O_RDWR, 0); sem_t *m2 = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, g, 0);
		for (int i = 0; i < 20; i++) { TIMED(a, an, sem_wait(s)); usleep(4000); sem_post(m2); } for (int i = 0; i < 10; i++) { TIMED(c, cn, sem_wait(n)); usleep(1000); sem_post(s + 1); }
		own("child sem_wait anon", an, a); own("child sem_wait named", cn, c); exit(0); }
	for (int i = 0; i < 20; i++) { usleep(2000); sem_post(s); TIMED(b, bn, sem_wait(m)); }
	for (int i = 0; i < 10; i++) { usleep(3000); sem_post(n); TIMED(b, bn, sem_wait(s + 1)); }
	int st; wait(&st); shm_unlink(name); sem_unlink(name); puts("met"); own("parent sem_wait shm, anon", bn, b); return 5; }
