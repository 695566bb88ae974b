#include "own.h"
/* Waiting without any call of the thread library: pipes, a socket pair, poll, flock, a file lock, System V semaphores, a message queue. */
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <mqueue.h>
#include <poll.h>
static int p[2], sem; static mqd_t q; static long n, t, sn, st, fn, ft, pn, pt; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_barrier_t b; static char path[64];
FAR static void in_semop(void) { struct sembuf d = { 0, -1, 0 }; TIMED(st, sn, semop(sem, &d, 1)); pthread_mutex_unlock(&m); KEEP; } FAR static void in_flock(void) { int f = open(path, O_RDWR); TIMED(ft, fn, flock(f, LOCK_EX)); close(f); pthread_mutex_unlock(&m); KEEP; } FAR static void in_pipe(void) { char x; TIMED(pt, pn, (int)read(p[0], &x, 1)); pthread_mutex_unlock(&m); KEEP; }
static void *owner(void *a) { for (int i = 0; i < 30; i++) { pthread_mutex_lock(&m); pthread_barrier_wait(&b); if (i % 3 == 0) in_semop(); else if (i % 3 == 1) in_flock(); else in_pipe(); pthread_barrier_wait(&b); } return 0; }
static void *waiter(void *a) { for (int i = 0; i < 30; i++) { pthread_barrier_wait(&b); TIMED(t, n, pthread_mutex_lock(&m)); pthread_mutex_unlock(&m); pthread_barrier_wait(&b); } return 0; }
int main(void) { if (pipe(p)) return 1; sem = semget(IPC_PRIVATE, 1, 0600); snprintf(path, 64, "/tmp/unseen-chan-%d", getpid()); int f = open(path, O_RDWR | O_CREAT, 0600); pthread_barrier_init(&b, 0, 3); pthread_t w[2]; pthread_create(&w[0], 0, owner, 0); pthread_create(&w[1], 0, waiter, 0);
	for (int i = 0; i < 30; i++) { if (i % 3 == 1) flock(f, LOCK_EX); pthread_barrier_wait(&b); nap(2500); struct sembuf u = { 0, 1, 0 }; if (i % 3 == 0) semop(sem, &u, 1); else if (i % 3 == 1) flock(f, LOCK_UN); else if (write(p[1], "x", 1)) {} pthread_barrier_wait(&b); }
	for (int i = 0; i < 2; i++) pthread_join(w[i], 0); semctl(sem, 0, IPC_RMID); unlink(path); puts("done"); own("lock:m", n, t); own("call:semop", sn, st); own("call:flock", fn, ft); own("call:read", pn, pt); return 0; }
