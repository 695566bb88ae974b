/* The program's own clock. What it measures goes to the file OWN as "name calls ns", so that its output stays the same from run to run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static inline long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static inline void own(const char *what, long n, long ns)
{
	char line[200], *path = getenv("OWN");
	int length = snprintf(line, sizeof line, "%s %ld %ld\n", what, n, ns);
	int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0666) : -1;
	if (file >= 0) { if (write(file, line, length)) {} close(file); }
}
static inline void nap(long us) { struct timespec t = { us / 1000000, us % 1000000 * 1000 }; while (nanosleep(&t, &t) && errno == EINTR) ; }
static inline void busy(long us) { long until = now() + us * 1000; while (now() < until) ; }
static inline struct timespec in(clockid_t clock, long us) { struct timespec t; clock_gettime(clock, &t); long x = t.tv_nsec + us * 1000; t.tv_sec += x / 1000000000; t.tv_nsec = x % 1000000000; return t; }
#define TIMED(sum, n, call) ({ long f_ = now(); __typeof__(call) r_ = (call); __atomic_fetch_add(&sum, now() - f_, __ATOMIC_RELAXED); __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED); r_; })
#define FAR __attribute__((noinline))
#define KEEP asm volatile("")
