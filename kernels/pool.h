/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A pool of workers. Whoever owns it hands over a job of many lots; the workers are woken by a broadcast, draw lots from a
 * counter under a mutex, and the one that finishes last signals the owner.
 */
#ifndef QUAVER_POOL_H
#define QUAVER_POOL_H

#include "workload.h"

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t job_here, job_done;
	struct hand *hands;
	unsigned workers;
	/* The job: its number, what to do for each lot, and how far it is. */
	uint64_t job;
	void (*work)(void *shared, size_t lot);
	void *shared;
	size_t lots, next, finished;
	bool closing;
};

static inline void pool_worker(void *shared, unsigned me)
{
	struct pool *pool = shared;
	uint64_t seen = 0;

	(void)me;
	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (pool->job == seen && !pool->closing)
			pthread_cond_wait(&pool->job_here, &pool->lock);
		if (pool->closing)
			break;
		seen = pool->job;
		while (pool->job == seen && pool->next < pool->lots) {
			size_t lot = pool->next++;

			pthread_mutex_unlock(&pool->lock);
			pool->work(pool->shared, lot);
			pthread_mutex_lock(&pool->lock);
			if (++pool->finished == pool->lots)
				pthread_cond_signal(&pool->job_done);
		}
	}
	pthread_mutex_unlock(&pool->lock);
}

static inline void pool_open(struct pool *pool, unsigned workers)
{
	*pool = (struct pool){ .workers = workers, .hands = zeroed(workers, sizeof(struct hand)) };
	must("mutex", pthread_mutex_init(&pool->lock, NULL));
	must("condition variable", pthread_cond_init(&pool->job_here, NULL));
	must("condition variable", pthread_cond_init(&pool->job_done, NULL));
	hands_create(pool->hands, workers, pool_worker, pool);
}

/* Does `work` once for each lot, and waits until all is done. */
static inline void pool_run(struct pool *pool, size_t lots, void (*work)(void *shared, size_t lot), void *shared)
{
	pthread_mutex_lock(&pool->lock);
	pool->work = work;
	pool->shared = shared;
	pool->lots = lots;
	pool->next = pool->finished = 0;
	pool->job++;
	pthread_cond_broadcast(&pool->job_here);
	while (pool->finished < pool->lots)
		pthread_cond_wait(&pool->job_done, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}

static inline void pool_close(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->closing = true;
	pthread_cond_broadcast(&pool->job_here);
	pthread_mutex_unlock(&pool->lock);
	hands_join(pool->hands, pool->workers);
	free(pool->hands);
	pthread_cond_destroy(&pool->job_done);
	pthread_cond_destroy(&pool->job_here);
	pthread_mutex_destroy(&pool->lock);
}

#endif
