/*
 * Waits that are ended late by known amounts. A line for each:
 *     HOW THREAD BEFORE AFTER LET_GO RETURNED
 * with instants of CLOCK_MONOTONIC in nanoseconds: before and after the call of signal, when what held the waiter let it
 * go, and after its wait had returned. The waiter is SCHED_FIFO, so that no other program comes between.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 3
#define HELD_NS 100000000L
#define HOG_NS 4000000L
#define MOVED_NS 3000000L

enum how { HELD, HOG, MOVED, HOWS };
static const char *const names[HOWS] = { "held", "hog", "moved" };

pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static sem_t hog_begins, waiter_done;
static int first_cpu, second_cpu;
static int value, over;
static atomic_int waiter_tid, hog_runs;
static atomic_long returned_ns, hog_until_ns;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "%s: %s\n", what, strerror(error));
		exit(99);
	}
}

static void run_on(int thread, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must(sched_setaffinity(thread, sizeof(set), &set) ? 98 : 0, "sched_setaffinity");
}

static void be_realtime(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	must(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param), "SCHED_FIFO");
}

static void *wait(void *unused)
{
	be_realtime(30);
	run_on(0, second_cpu);
	pthread_mutex_lock(&told_lock);
	atomic_store(&waiter_tid, syscall(SYS_gettid));
	for (int round = 0; round < ROUNDS * HOWS; round++) {
		while (value <= round)
			pthread_cond_wait(&told, &told_lock);
		atomic_store(&returned_ns, now_ns());
		run_on(0, second_cpu);
		sem_post(&waiter_done);
	}
	pthread_mutex_unlock(&told_lock);
	return unused;
}

/* Takes the waiter's CPU for a moment, well below what the kernel grants to real-time threads. */
static void *hog(void *unused)
{
	be_realtime(50);
	run_on(0, second_cpu);
	for (;;) {
		while (sem_wait(&hog_begins))
			;
		if (over)
			return unused;
		long until_ns = now_ns() + HOG_NS;
		atomic_store(&hog_runs, 1);
		while (now_ns() < until_ns)
			;
		atomic_store(&hog_until_ns, now_ns());
	}
}

/* Called with the lock held, so that a waiter that sleeps does so in its wait. */
static int sleeps(int thread)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	FILE *file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}

/* Takes the lock when the waiter sleeps in its wait. */
static void lock_when_it_waits(void)
{
	for (;;) {
		pthread_mutex_lock(&told_lock);
		if (atomic_load(&waiter_tid) && sleeps(atomic_load(&waiter_tid)))
			return;
		pthread_mutex_unlock(&told_lock);
		usleep(1000);
	}
}

static void until(long instant_ns)
{
	while (now_ns() < instant_ns)
		;
}

static void round_of(enum how how)
{
	long signalled_ns, after_ns, let_go_ns = 0;
	int thread;

	lock_when_it_waits();
	thread = atomic_load(&waiter_tid);
	if (how != HELD) {
		atomic_store(&hog_runs, 0);
		sem_post(&hog_begins);
		while (!atomic_load(&hog_runs))
			;
	}
	value++;
	if (how == HELD) {
		struct timespec length = { .tv_nsec = HELD_NS };

		signalled_ns = now_ns();
		pthread_cond_signal(&told);
		after_ns = now_ns();
		nanosleep(&length, 0);
		let_go_ns = now_ns();
		pthread_mutex_unlock(&told_lock);
	} else {
		pthread_mutex_unlock(&told_lock);
		signalled_ns = now_ns();
		pthread_cond_signal(&told);
		after_ns = now_ns();
		if (how == MOVED) {
			until(signalled_ns + MOVED_NS);
			let_go_ns = now_ns();
			run_on(thread, first_cpu);
		}
	}
	while (sem_wait(&waiter_done))
		;
	/* The hog had ended before the waiter could run beside it. */
	if (how == HOG)
		let_go_ns = atomic_load(&hog_until_ns);
	printf("%s %d %ld %ld %ld %ld\n", names[how], thread, signalled_ns, after_ns, let_go_ns, atomic_load(&returned_ns));
	usleep(50000);
}

int main(void)
{
	pthread_t waiter, taker;
	cpu_set_t allowed;

	must(sched_getaffinity(0, sizeof(allowed), &allowed) ? 98 : 0, "sched_getaffinity");
	first_cpu = second_cpu = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && second_cpu < 0; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			*(first_cpu < 0 ? &first_cpu : &second_cpu) = cpu;
	must(second_cpu < 0 ? 97 : 0, "two CPUs");
	run_on(0, first_cpu);
	be_realtime(20);
	sem_init(&hog_begins, 0, 0);
	sem_init(&waiter_done, 0, 0);
	must(pthread_create(&waiter, 0, wait, 0), "pthread_create");
	must(pthread_create(&taker, 0, hog, 0), "pthread_create");
	for (int how = 0; how < HOWS; how++)
		for (int round = 0; round < ROUNDS; round++)
			round_of(how);
	over = 1;
	sem_post(&hog_begins);
	pthread_join(waiter, 0);
	pthread_join(taker, 0);
	return 0;
}
