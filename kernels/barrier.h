/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A barrier, by default as programs of the Splash suites have it: a mutex, a count and a condition variable that the last
 * thread broadcasts. A recorder of pthread calls sees it as a broadcast with its waits.
 */
#ifndef QUAVER_BARRIER_H
#define QUAVER_BARRIER_H

#include "workload.h"

struct barrier {
	pthread_mutex_t lock;
	pthread_cond_t all_here;
	pthread_barrier_t posix;
	bool use_posix;
	unsigned threads, arrived;
	uint64_t generation;
};

static inline void barrier_init(struct barrier *barrier, const struct workload *asked)
{
	*barrier = (struct barrier){ .threads = asked->threads, .use_posix = asked->posix_barrier };
	must("mutex", pthread_mutex_init(&barrier->lock, NULL));
	must("condition variable", pthread_cond_init(&barrier->all_here, NULL));
	must("barrier", pthread_barrier_init(&barrier->posix, NULL, asked->threads));
}

static inline void barrier_destroy(struct barrier *barrier)
{
	pthread_barrier_destroy(&barrier->posix);
	pthread_cond_destroy(&barrier->all_here);
	pthread_mutex_destroy(&barrier->lock);
}

static inline void barrier_wait(struct barrier *barrier)
{
	uint64_t generation;

	if (barrier->use_posix) {
		pthread_barrier_wait(&barrier->posix);
		return;
	}
	pthread_mutex_lock(&barrier->lock);
	generation = barrier->generation;
	if (++barrier->arrived == barrier->threads) {
		barrier->arrived = 0;
		barrier->generation++;
		pthread_cond_broadcast(&barrier->all_here);
	} else {
		while (generation == barrier->generation)
			pthread_cond_wait(&barrier->all_here, &barrier->lock);
	}
	pthread_mutex_unlock(&barrier->lock);
}

#endif
