/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A bounded queue between the stages of a pipeline: a mutex and two condition variables that are signalled. A producer that
 * is done says so; when all have, those who wait for more are woken.
 */
#ifndef QUAVER_QUEUE_H
#define QUAVER_QUEUE_H

#include "workload.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	void **items;
	size_t room, first, count;
	unsigned producers;
};

static inline void queue_init(struct queue *queue, size_t room, unsigned producers)
{
	*queue = (struct queue){ .room = room, .producers = producers, .items = zeroed(room, sizeof(void *)) };
	must("mutex", pthread_mutex_init(&queue->lock, NULL));
	must("condition variable", pthread_cond_init(&queue->not_empty, NULL));
	must("condition variable", pthread_cond_init(&queue->not_full, NULL));
}

static inline void queue_destroy(struct queue *queue)
{
	pthread_cond_destroy(&queue->not_full);
	pthread_cond_destroy(&queue->not_empty);
	pthread_mutex_destroy(&queue->lock);
	free(queue->items);
}

static inline void queue_put(struct queue *queue, void *item)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count == queue->room)
		pthread_cond_wait(&queue->not_full, &queue->lock);
	queue->items[(queue->first + queue->count++) % queue->room] = item;
	pthread_cond_signal(&queue->not_empty);
	pthread_mutex_unlock(&queue->lock);
}

/* The next item; NULL when there will be none. */
static inline void *queue_take(struct queue *queue)
{
	void *item = NULL;

	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0 && queue->producers > 0)
		pthread_cond_wait(&queue->not_empty, &queue->lock);
	if (queue->count > 0) {
		item = queue->items[queue->first];
		queue->first = (queue->first + 1) % queue->room;
		queue->count--;
		pthread_cond_signal(&queue->not_full);
	}
	pthread_mutex_unlock(&queue->lock);
	return item;
}

/* Several items in one go; waits for room where there is too little. */
static inline void queue_put_batch(struct queue *queue, void *const *items, size_t count)
{
	pthread_mutex_lock(&queue->lock);
	for (size_t i = 0; i < count; i++) {
		while (queue->count == queue->room) {
			pthread_cond_signal(&queue->not_empty);
			pthread_cond_wait(&queue->not_full, &queue->lock);
		}
		queue->items[(queue->first + queue->count++) % queue->room] = items[i];
	}
	if (count > 0)
		pthread_cond_signal(&queue->not_empty);
	pthread_mutex_unlock(&queue->lock);
}

/* Up to so many of the next items, and their count; 0 when there will be none. Who leaves some behind wakes another for them. */
static inline size_t queue_take_batch(struct queue *queue, void **items, size_t most)
{
	size_t taken = 0;

	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0 && queue->producers > 0)
		pthread_cond_wait(&queue->not_empty, &queue->lock);
	for (; taken < most && queue->count > 0; queue->count--) {
		items[taken++] = queue->items[queue->first];
		queue->first = (queue->first + 1) % queue->room;
	}
	if (queue->count > 0)
		pthread_cond_signal(&queue->not_empty);
	if (taken > 0)
		pthread_cond_broadcast(&queue->not_full);
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

/* One producer will put no more. */
static inline void queue_done(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	if (--queue->producers == 0)
		pthread_cond_broadcast(&queue->not_empty);
	pthread_mutex_unlock(&queue->lock);
}

#endif
