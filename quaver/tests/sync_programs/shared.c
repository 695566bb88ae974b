/* Two processes that share a mutex, a condition and two semaphores in memory without a name, mapped at different addresses. The
 * first one says how long it waited, by its own clock. Status 5 is that of the second. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 60, BYTES = 8192 };

struct shared {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	sem_t go, done;
	int turn;
};

static long waited;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

#define TIMED(call) do { long from = now(); call; waited += now() - from; } while (0)

static void make(struct shared *shared)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_condattr_init(&condition);
	pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &mutex);
	pthread_cond_init(&shared->changed, &condition);
	sem_init(&shared->go, 1, 0);
	sem_init(&shared->done, 1, 0);
}

static void first(struct shared *shared)
{
	for (int turn = 0; turn < TURNS; turn++) {
		usleep(1000);
		sem_post(&shared->go);
		TIMED(sem_wait(&shared->done));
		pthread_mutex_lock(&shared->lock);
		shared->turn = 1;
		pthread_cond_signal(&shared->changed);
		while (shared->turn != 0)
			TIMED(pthread_cond_wait(&shared->changed, &shared->lock));
		pthread_mutex_unlock(&shared->lock);
		/* The second one comes to the lock while it is held. */
		pthread_mutex_lock(&shared->lock);
		sem_post(&shared->go);
		usleep(2000);
		pthread_mutex_unlock(&shared->lock);
		TIMED(sem_wait(&shared->done));
	}
}

static void second(struct shared *shared)
{
	for (int turn = 0; turn < TURNS; turn++) {
		sem_wait(&shared->go);
		usleep(5000);
		sem_post(&shared->done);
		pthread_mutex_lock(&shared->lock);
		while (shared->turn != 1)
			pthread_cond_wait(&shared->changed, &shared->lock);
		usleep(3000);
		shared->turn = 0;
		pthread_cond_signal(&shared->changed);
		pthread_mutex_unlock(&shared->lock);
		sem_wait(&shared->go);
		pthread_mutex_lock(&shared->lock);
		pthread_mutex_unlock(&shared->lock);
		sem_post(&shared->done);
	}
}

int main(int count, char **words)
{
	int access = PROT_READ | PROT_WRITE;
	if (count > 1) {
		void *place = (void *)0x100000000000;
		second(mmap(place, BYTES, access, MAP_SHARED, atoi(words[1]), 0));
		return 5;
	}
	int file = memfd_create("queue", 0), status;
	if (file < 0 || ftruncate(file, BYTES))
		return 1;
	struct shared *shared = mmap(0, BYTES, access, MAP_SHARED, file, 0);
	make(shared);
	if (!fork()) {
		char number[12];
		snprintf(number, sizeof(number), "%d", file);
		execl("/proc/self/exe", words[0], number, (char *)0);
		_exit(1);
	}
	first(shared);
	wait(&status);
	printf("%ld\n", waited);
	return WEXITSTATUS(status);
}
