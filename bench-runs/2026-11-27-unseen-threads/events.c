#include "own.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <linux/io_uring.h>
/* Hand-over by eventfd and epoll, and a lock that is held while its owner waits in epoll_wait and in io_uring_enter. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static int e, ep, ring; static long n, t; static pthread_barrier_t begin; static atomic_int handed;
FAR static void in_epoll(void) { struct epoll_event v; epoll_wait(ep, &v, 1, 3000); uint64_t x; if (read(e, &x, 8) == 8) handed++; pthread_mutex_unlock(&m); KEEP; }
static unsigned *sq_tail, *sq_array, sq_mask, *cq_head; static struct io_uring_sqe *sqes; static struct __kernel_timespec half = { 0, 2500000 };
static int setup(void) { struct io_uring_params p = { 0 }; ring = syscall(SYS_io_uring_setup, 8, &p); if (ring < 0) return 0;
	char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING); sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES); char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	sq_tail = (unsigned *)(sq + p.sq_off.tail); sq_array = (unsigned *)(sq + p.sq_off.array); sq_mask = *(unsigned *)(sq + p.sq_off.ring_mask); cq_head = (unsigned *)(cq + p.cq_off.head); return 1; }
FAR static void in_uring(void) { unsigned i = *sq_tail & sq_mask; memset(&sqes[i], 0, sizeof *sqes); sqes[i].opcode = IORING_OP_TIMEOUT; sqes[i].addr = (unsigned long)&half; sqes[i].len = 1; sq_array[i] = i; __atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0); __atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE); pthread_mutex_unlock(&m); KEEP; }
static void *server(void *a) { for (int i = 0; i < 40; i++) { pthread_mutex_lock(&m); pthread_barrier_wait(&begin); if (ring > 0 && i & 1) in_uring(); else in_epoll(); pthread_barrier_wait(&begin); } return 0; }
static void *client(void *a) { for (int i = 0; i < 40; i++) { pthread_barrier_wait(&begin); TIMED(t, n, pthread_mutex_lock(&m)); pthread_mutex_unlock(&m); pthread_barrier_wait(&begin); } return 0; }
static void *teller(void *a) { for (int i = 0; i < 40; i++) { pthread_barrier_wait(&begin); nap(2000); if (!(ring > 0 && i & 1)) { uint64_t one = 1; if (write(e, &one, 8)) {} } pthread_barrier_wait(&begin); } return 0; }
int main(void) { int u = setup(); e = eventfd(0, 0); ep = epoll_create1(0); struct epoll_event v = { EPOLLIN }; epoll_ctl(ep, EPOLL_CTL_ADD, e, &v); pthread_barrier_init(&begin, 0, 3); pthread_t w[3]; pthread_create(&w[0], 0, server, 0); pthread_create(&w[1], 0, client, 0); pthread_create(&w[2], 0, teller, 0); for (int i = 0; i < 3; i++) pthread_join(w[i], 0); printf("%d handed, uring %d\n", handed, u); own("lock:m", n, t); return 0; }
