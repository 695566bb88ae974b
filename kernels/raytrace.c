// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A picture by ray tracing with a queue of tiles for each thread: a thread takes tiles from the front of its own queue and,
 * when that is empty, steals from the end of another's, always under the queue's lock. As in the program of the Splash
 * suites there is a lock that all threads share, around the count of rays, once for each row of a tile.
 */
#include "scene.h"

#define TILE 8

struct tiles {
	_Alignas(CACHE_LINE) pthread_mutex_t lock;
	size_t next, end;
};

struct picture {
	struct workload asked;
	struct scene scene;
	struct tiles *queues;
	pthread_mutex_t rays_lock;
	uint64_t rays, tiles_done;
	uint32_t *pixels;
	unsigned tiles_across;
};

/* A tile of one's own, from the front, or of another's, from the end. */
static bool take_tile(struct tiles *queue, bool own, size_t *tile)
{
	bool taken;

	pthread_mutex_lock(&queue->lock);
	taken = queue->next < queue->end;
	if (taken)
		*tile = own ? queue->next++ : --queue->end;
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

static void draw_tile(struct picture *picture, size_t tile)
{
	unsigned across = picture->asked.size;
	unsigned left = (unsigned)(tile % picture->tiles_across) * TILE, top = (unsigned)(tile / picture->tiles_across) * TILE;

	for (unsigned y = top; y < top + TILE && y < across; y++) {
		uint64_t rays = 0;

		for (unsigned x = left; x < left + TILE && x < across; x++)
			picture->pixels[(size_t)y * across + x] = scene_pixel(&picture->scene, across, x, y, 0, &rays);
		pthread_mutex_lock(&picture->rays_lock);
		picture->rays += rays;
		picture->tiles_done += y == top;
		pthread_mutex_unlock(&picture->rays_lock);
	}
}

static void draw(void *shared, unsigned me)
{
	struct picture *picture = shared;
	size_t tile;

	for (unsigned i = 0; i < picture->asked.threads; i++) {
		struct tiles *queue = &picture->queues[(me + i) % picture->asked.threads];

		while (take_tile(queue, i == 0, &tile))
			draw_tile(picture, tile);
	}
}

int main(int argc, char **argv)
{
	struct picture picture = { .asked = workload_of(argc, argv, "pixels on a side", 1024, 8, 8192) };
	size_t tiles, pixels;
	uint64_t checksum;
	bool holds;

	picture.tiles_across = (picture.asked.size + TILE - 1) / TILE;
	tiles = (size_t)picture.tiles_across * picture.tiles_across;
	pixels = (size_t)picture.asked.size * picture.asked.size;
	picture.pixels = zeroed(pixels, sizeof(*picture.pixels));
	picture.queues = zeroed(picture.asked.threads, sizeof(*picture.queues));
	must("mutex", pthread_mutex_init(&picture.rays_lock, NULL));
	for (unsigned i = 0; i < picture.asked.threads; i++) {
		struct share share = share_of(tiles, picture.asked.threads, i);

		must("mutex", pthread_mutex_init(&picture.queues[i].lock, NULL));
		picture.queues[i].next = share.from;
		picture.queues[i].end = share.to;
	}
	scene_fill(&picture.scene, picture.asked.seed);
	run_threads(picture.asked.threads, draw, &picture);
	checksum = picture.rays;
	for (size_t i = 0; i < pixels; i++)
		checksum = mix(checksum, picture.pixels[i]);
	holds = picture.tiles_done == tiles && picture.rays >= 2 * (pixels / 4);
	free(picture.pixels);
	free(picture.queues);
	return workload_end(&picture.asked, checksum, holds, "every tile once");
}
