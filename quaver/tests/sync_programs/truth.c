/*
 * Waits that are ended late by known amounts. A line for each:
 *     HOW CLASS THREAD BEFORE AFTER LET_GO RETURNED
 * with instants of CLOCK_MONOTONIC in nanoseconds: before and after the call that ends the wait, when what held the waiter let it
 * go, and after its wait had returned. The waiter is SCHED_FIFO, so that no other program comes between.
 */
#define _GNU_SOURCE
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
#include <time.h>
#include <unistd.h>

#define ROUNDS 3
#define HELD_NS 100000000L
#define LATE_NS 20000000L
#define HOG_NS 4000000L
#define MOVED_NS 3000000L

/* By the mutex that the wait has to take again, by who ends it, by another thread on its CPU, by that and another CPU. */
enum how { HELD, LATE, HOG, MOVED, HOWS };
static const char *const hows[HOWS] = { "held", "late", "hog", "moved" };
enum class { SIGNAL, BROADCAST, UNLOCK, CLASSES };
static const char *const classes[CLASSES] = { "signal-wait", "broadcast-wait", "lock-unlock" };

pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
/* Each alone on a page, which can be taken away: who touches it then is late by as long as it takes to come back. */
union {
	pthread_cond_t condition;
	char page[4096];
} told __attribute__((aligned(4096))) = { PTHREAD_COND_INITIALIZER };
union {
	pthread_mutex_t lock;
	char page[4096];
} gate __attribute__((aligned(4096))) = { PTHREAD_MUTEX_INITIALIZER };
static sem_t hog_begins, waiter_done, waiter_goes;
static int first_cpu, second_cpu;
static int value, over;
static atomic_int waiter_tid, hog_runs, hog_stays, at_gate;
static atomic_long returned_ns, hog_until_ns;
static void *volatile away;

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

/* The page comes back when the time is over, and not before. */
static void bring_back(int unused)
{
	struct timespec length = { .tv_nsec = LATE_NS };

	(void)unused;
	if (!away)
		_exit(96);
	nanosleep(&length, 0);
	atomic_store(&hog_until_ns, now_ns());
	if (mprotect(away, 4096, PROT_READ | PROT_WRITE))
		_exit(95);
	away = 0;
}

static void take_away(void *page)
{
	away = page;
	must(mprotect(page, 4096, PROT_NONE) ? 94 : 0, "mprotect");
}

static void *wait(void *unused)
{
	be_realtime(30);
	run_on(0, second_cpu);
	pthread_mutex_lock(&told_lock);
	atomic_store(&waiter_tid, syscall(SYS_gettid));
	for (int round = 0; round < ROUNDS * HOWS * UNLOCK; round++) {
		while (value <= round)
			pthread_cond_wait(&told.condition, &told_lock);
		atomic_store(&returned_ns, now_ns());
		run_on(0, second_cpu);
		sem_post(&waiter_done);
	}
	pthread_mutex_unlock(&told_lock);
	for (int round = 0; round < ROUNDS * (HOWS - 1); round++) {
		while (sem_wait(&waiter_goes))
			;
		atomic_store(&at_gate, 1);
		pthread_mutex_lock(&gate.lock);
		atomic_store(&returned_ns, now_ns());
		pthread_mutex_unlock(&gate.lock);
		run_on(0, second_cpu);
		sem_post(&waiter_done);
	}
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
		atomic_store(&hog_runs, 1);
		while (atomic_load(&hog_stays))
			;
		atomic_store(&hog_until_ns, now_ns());
	}
}

/* Called where a waiter that sleeps does so in the wait that is meant. */
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

/* Takes the lock when the waiter sleeps in its wait; or has it sleep for the gate, which is ours. */
static void lock_when_it_waits(enum class class)
{
	if (class == UNLOCK) {
		atomic_store(&at_gate, 0);
		pthread_mutex_lock(&gate.lock);
		sem_post(&waiter_goes);
		while (!atomic_load(&at_gate) || !sleeps(atomic_load(&waiter_tid)))
			usleep(1000);
		return;
	}
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

static void end_wait(enum class class)
{
	if (class == SIGNAL)
		pthread_cond_signal(&told.condition);
	else if (class == BROADCAST)
		pthread_cond_broadcast(&told.condition);
	else
		pthread_mutex_unlock(&gate.lock);
}

static void round_of(enum class class, enum how how)
{
	long signalled_ns, after_ns, let_go_ns = 0;
	int thread;

	lock_when_it_waits(class);
	thread = atomic_load(&waiter_tid);
	if (how == HOG || how == MOVED) {
		atomic_store(&hog_runs, 0);
		/* However late signal and move come, the waiter cannot run before. */
		atomic_store(&hog_stays, 1);
		sem_post(&hog_begins);
		while (!atomic_load(&hog_runs))
			;
	}
	value++;
	if (how == HELD) {
		struct timespec length = { .tv_nsec = HELD_NS };

		signalled_ns = now_ns();
		end_wait(class);
		after_ns = now_ns();
		nanosleep(&length, 0);
		let_go_ns = now_ns();
		pthread_mutex_unlock(&told_lock);
	} else {
		if (class != UNLOCK)
			pthread_mutex_unlock(&told_lock);
		if (how == LATE)
			take_away(class == UNLOCK ? (void *)&gate : (void *)&told);
		signalled_ns = now_ns();
		end_wait(class);
		after_ns = now_ns();
		if (how == MOVED) {
			until(signalled_ns + MOVED_NS);
			let_go_ns = now_ns();
			run_on(thread, first_cpu);
		} else if (how == HOG) {
			until(signalled_ns + HOG_NS);
		}
		atomic_store(&hog_stays, 0);
	}
	while (sem_wait(&waiter_done))
		;
	/* The hog had ended before the waiter could run beside it; the page was back before the call could go on. */
	if (how == HOG || how == LATE)
		let_go_ns = atomic_load(&hog_until_ns);
	if (how == LATE)
		after_ns = signalled_ns;
	printf("%s %s %d %ld %ld %ld %ld\n", hows[how], classes[class], thread, signalled_ns, after_ns, let_go_ns,
	       atomic_load(&returned_ns));
	usleep(50000);
}

int main(void)
{
	struct sigaction action = { .sa_handler = bring_back };
	pthread_t waiter, taker;
	cpu_set_t allowed;

	must(sched_getaffinity(0, sizeof(allowed), &allowed) ? 98 : 0, "sched_getaffinity");
	first_cpu = second_cpu = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && second_cpu < 0; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			*(first_cpu < 0 ? &first_cpu : &second_cpu) = cpu;
	must(second_cpu < 0 ? 97 : 0, "two CPUs");
	must(sigaction(SIGSEGV, &action, 0) ? 93 : 0, "sigaction");
	run_on(0, first_cpu);
	be_realtime(20);
	sem_init(&hog_begins, 0, 0);
	sem_init(&waiter_done, 0, 0);
	sem_init(&waiter_goes, 0, 0);
	must(pthread_create(&waiter, 0, wait, 0), "pthread_create");
	must(pthread_create(&taker, 0, hog, 0), "pthread_create");
	for (int class = 0; class < CLASSES; class++)
		for (int how = class == UNLOCK ? LATE : HELD; how < HOWS; how++)
			for (int round = 0; round < ROUNDS; round++)
				round_of(class, how);
	over = 1;
	sem_post(&hog_begins);
	pthread_join(waiter, 0);
	pthread_join(taker, 0);
	return 0;
}
