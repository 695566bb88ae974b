#include "own.h"
/* The last user of a lock unmaps the page that it lies in, at once. Who gave the lock back before must not touch it again. 4,000 pages, all kinds. */
struct page { pthread_mutex_t m; pthread_rwlock_t rw; sem_t s; pthread_spinlock_t spin; atomic_int users; }; static struct page *_Atomic shared; static atomic_int turn, errors; static long n, t;
static void *work(void *a) { long me = (long)a; for (int i = 0; i < 4000; i++) { struct page *p;
		if (!me) { p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); pthread_mutex_init(&p->m, 0); pthread_rwlock_init(&p->rw, 0); sem_init(&p->s, 0, 1); pthread_spin_init(&p->spin, 0); p->users = 2; shared = p; }
		else { while (!(p = shared)) sched_yield(); shared = 0; }
		int last; switch (i & 3) { case 0: TIMED(t, n, pthread_mutex_lock(&p->m)); last = --p->users == 0; pthread_mutex_unlock(&p->m); break; case 1: pthread_rwlock_wrlock(&p->rw); last = --p->users == 0; pthread_rwlock_unlock(&p->rw); break;
			case 2: sem_wait(&p->s); last = --p->users == 0; sem_post(&p->s); break; default: pthread_spin_lock(&p->spin); last = --p->users == 0; pthread_spin_unlock(&p->spin); }
		if (last) munmap(p, 4096); turn++; while (turn < 2 * i + 2) sched_yield(); } return 0; }
int main(void) { pthread_t w[2]; for (long i = 0; i < 2; i++) pthread_create(&w[i], 0, work, (void *)i); for (int i = 0; i < 2; i++) pthread_join(w[i], 0); puts("done"); return 0; }
