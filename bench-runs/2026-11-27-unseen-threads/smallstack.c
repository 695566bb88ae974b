#include "own.h"
#include <ucontext.h>
#include <sys/resource.h>
/* Threads with the least stack there is, and coroutines on stacks of 8 KiB between guard pages, that wait in every kind of call; a handler on a stack of its own. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static sem_t s; static long n, t; static ucontext_t back, there; static atomic_int sum, rung; static int items;
static void deeds(void) { for (int i = 0; i < 10; i++) { TIMED(t, n, pthread_mutex_lock(&m)); nap(1000); items++; pthread_cond_signal(&c); pthread_mutex_unlock(&m); nap(200); sem_wait(&s); sum++; } }
static void coroutine(void) { deeds(); swapcontext(&there, &back); }
static void *small(void *a) { deeds(); return 0; }
static void *host(void *a) { char *p = mmap(0, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); mprotect(p + 4096, 8192, PROT_READ | PROT_WRITE); getcontext(&there); there.uc_stack.ss_sp = p + 4096; there.uc_stack.ss_size = 8192; there.uc_link = &back; makecontext(&there, coroutine, 0); swapcontext(&back, &there); munmap(p, 16384); return 0; }
static void on_signal(int x) { rung++; sem_post(&s); }
int main(void) { sem_init(&s, 0, 0); pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN); pthread_t w[4]; static char alt[16384]; stack_t st = { alt, 0, sizeof alt }; sigaltstack(&st, 0); struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK }; sigaction(SIGUSR1, &act, 0);
	for (int i = 0; i < 3; i++) if (pthread_create(&w[i], &a, small, 0)) return 9; pthread_create(&w[3], 0, host, 0); for (int i = 0; i < 40; i++) { pthread_mutex_lock(&m); while (!items) pthread_cond_wait(&c, &m); items--; pthread_mutex_unlock(&m); if (i & 1) raise(SIGUSR1); else sem_post(&s); }
	for (int i = 0; i < 4; i++) pthread_join(w[i], 0); printf("%d %d\n", sum, rung); own("lock:m", n, t); return 0; }
