/* Programs whose lock `hot` can be held for half as long: DESIGN whole|half sleep|compute. Prints its own length in ns. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER, decoy = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int computes;
static double part = 1;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long cpu_now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Works for so long: asleep, or on a CPU. */
static void work(double us)
{
	long until = cpu_now() + (long)(us * 1000);
	if (!computes)
		usleep(us);
	else
		while (cpu_now() < until)
			;
}

static void hold(pthread_mutex_t *lock, double us)
{
	pthread_mutex_lock(lock);
	work(lock == &hot ? us * part : us);
	pthread_mutex_unlock(lock);
}

struct task {
	int turns;
	double outside_us, hold_us;
	pthread_mutex_t *lock;
};

static void *run(void *argument)
{
	struct task *task = argument;
	for (int i = 0; i < task->turns; i++) {
		work(task->outside_us);
		hold(task->lock, task->hold_us);
	}
	return 0;
}

static void team(struct task *tasks, int count)
{
	pthread_t threads[16];
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], 0, run, &tasks[i]);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], 0);
}

/* The same for all of a team. */
static void equals(int count, struct task task)
{
	struct task tasks[16];
	for (int i = 0; i < count; i++)
		tasks[i] = task;
	team(tasks, count);
}

/* A queue between two stages of a pipeline. */
struct queue {
	pthread_mutex_t mutex;
	pthread_cond_t filled, emptied;
	int items, put, taken;
};

static void put(struct queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	while (queue->items == 4)
		pthread_cond_wait(&queue->emptied, &queue->mutex);
	queue->items++;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->mutex);
}

static void take(struct queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	while (queue->items == 0)
		pthread_cond_wait(&queue->filled, &queue->mutex);
	queue->items--;
	pthread_cond_signal(&queue->emptied);
	pthread_mutex_unlock(&queue->mutex);
}

#define ITEMS 120
static struct queue queues[2] = {
	{ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 },
	{ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 },
};

static void *first_stage(void *unused)
{
	for (int i = 0; i < ITEMS; i++) {
		work(1500);
		put(&queues[0]);
	}
	return unused;
}

static void *second_stage(void *unused)
{
	for (int i = 0; i < ITEMS; i++) {
		take(&queues[0]);
		work(200);
		hold(&hot, 2200);
		put(&queues[1]);
	}
	return unused;
}

static void *third_stage(void *unused)
{
	for (int i = 0; i < ITEMS; i++) {
		take(&queues[1]);
		hold(&hot, 100);
		work(500);
	}
	return unused;
}

static void pipeline(void)
{
	pthread_t threads[3];
	void *(*stages[])(void *) = { first_stage, second_stage, third_stage };
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, stages[i], 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
}

static void *phase(void *argument)
{
	for (int i = 0; i < 60; i++) {
		work(argument ? 4000 : 1000);
		if (!argument)
			hold(&hot, 2500);
		pthread_barrier_wait(&barrier);
	}
	return 0;
}

/* Two threads with the lock, and one without it that is nearly as slow. */
static void phases(void)
{
	pthread_t threads[3];
	pthread_barrier_init(&barrier, 0, 3);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, phase, i == 2 ? &barrier : 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
}

/* Waits by trying. */
static void *tries(void *unused)
{
	for (int i = 0; i < 20; i++) {
		while (pthread_mutex_trylock(&hot))
			usleep(200);
		work(1000);
		pthread_mutex_unlock(&hot);
	}
	return unused;
}

int main(int count, char **words)
{
	long from = now();
	if (count != 4)
		return 2;
	part = strcmp(words[2], "half") ? 1 : 0.5;
	computes = !strcmp(words[3], "compute");
	if (!strcmp(words[1], "hot"))
		equals(2, (struct task){ 80, 1000, 3000, &hot });
	else if (!strcmp(words[1], "free"))
		equals(2, (struct task){ 100, 3000, 1000, &hot });
	else if (!strcmp(words[1], "alternate"))
		equals(2, (struct task){ 100, 2000, 2000, &hot });
	else if (!strcmp(words[1], "convoy"))
		equals(5, (struct task){ 40, 500, 1500, &hot });
	else if (!strcmp(words[1], "many"))
		equals(4, (struct task){ 40, 2000, 1000, &hot });
	else if (!strcmp(words[1], "decoy"))
		team((struct task[]){ { 60, 100, 1500, &decoy }, { 60, 100, 1500, &decoy }, { 60, 100, 1500, &decoy },
				      { 100, 1500, 2000, &hot }, { 100, 1500, 2000, &hot } }, 5);
	else if (!strcmp(words[1], "innocent"))
		team((struct task[]){ { 60, 100, 1000, &hot }, { 60, 100, 1000, &hot }, { 60, 100, 1000, &hot },
				      { 100, 1500, 2000, &decoy }, { 100, 1500, 2000, &decoy } }, 5);
	else if (!strcmp(words[1], "pipeline"))
		pipeline();
	else if (!strcmp(words[1], "phases"))
		phases();
	else if (!strcmp(words[1], "tries")) {
		pthread_t other;
		pthread_create(&other, 0, tries, 0);
		tries(0);
		pthread_join(other, 0);
	} else if (!strcmp(words[1], "teams"))
		for (int i = 0; i < 15; i++)
			equals(3, (struct task){ 3, 1000, 1500, &hot });
	else
		return 2;
	printf("%ld\n", now() - from);
	return 0;
}
