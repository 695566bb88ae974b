// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A picture shrunk, sharpened and given more contrast in strips, as a demand-driven image library does it: workers draw tiles
 * of a strip, there are two strip buffers, and a writer takes a full one while the other is filled. Everybody waits for
 * somebody at a semaphore made of a mutex and a condition variable that is signalled.
 */
#include "workload.h"

#define TILE 32
#define STRIP 32
#define BUFFERS 2

struct semaphore {
	pthread_mutex_t lock;
	pthread_cond_t above_zero;
	unsigned value;
};

struct buffer {
	pthread_mutex_t lock;
	struct semaphore full, written;
	/* Which strip it holds, and how many of its tiles are not done yet. */
	size_t strip, tiles_left;
	uint8_t *rows;
};

struct picture {
	struct workload asked;
	/* The source has twice the side of what comes out. */
	size_t across, strips, tiles_a_strip;
	uint8_t *source, contrast[256];
	pthread_mutex_t draw_lock;
	size_t next_tile;
	struct buffer buffers[BUFFERS];
	uint64_t checksum;
	size_t rows_written;
	bool holds;
};

static void semaphore_init(struct semaphore *semaphore, unsigned value)
{
	semaphore->value = value;
	must("mutex", pthread_mutex_init(&semaphore->lock, NULL));
	must("condition variable", pthread_cond_init(&semaphore->above_zero, NULL));
}

static void semaphore_up(struct semaphore *semaphore)
{
	pthread_mutex_lock(&semaphore->lock);
	semaphore->value++;
	pthread_cond_signal(&semaphore->above_zero);
	pthread_mutex_unlock(&semaphore->lock);
}

static void semaphore_down(struct semaphore *semaphore)
{
	pthread_mutex_lock(&semaphore->lock);
	while (semaphore->value == 0)
		pthread_cond_wait(&semaphore->above_zero, &semaphore->lock);
	semaphore->value--;
	pthread_mutex_unlock(&semaphore->lock);
}

/* A pixel at half the size: the mean of four. Beyond the edge is the edge. */
static int shrunk(const struct picture *picture, int x, int y)
{
	int last = (int)picture->across - 1;
	const uint8_t *row;

	x = x < 0 ? 0 : x > last ? last : x;
	y = y < 0 ? 0 : y > last ? last : y;
	row = picture->source + (size_t)y * 2 * picture->across * 2;
	return (row[2 * x] + row[2 * x + 1] + row[2 * picture->across + 2 * (size_t)x] + row[2 * picture->across + 2 * (size_t)x + 1]) / 4;
}

/* Sharpened by the difference to the mean of five by five, then by the table of contrast. */
static uint8_t finished(const struct picture *picture, int x, int y)
{
	int sum = 0, here = shrunk(picture, x, y), sharp;

	for (int dy = -2; dy <= 2; dy++) {
		for (int dx = -2; dx <= 2; dx++)
			sum += shrunk(picture, x + dx, y + dy);
	}
	sharp = here + (25 * here - sum) / 25;
	return picture->contrast[sharp < 0 ? 0 : sharp > 255 ? 255 : sharp];
}

/* The next tile and its buffer. Who is first at a strip waits for its buffer to be written out, and all wait behind. */
static struct buffer *draw_tile(struct picture *picture, size_t *column)
{
	struct buffer *buffer = NULL;
	size_t strip, tile;

	pthread_mutex_lock(&picture->draw_lock);
	tile = picture->next_tile;
	strip = tile / picture->tiles_a_strip;
	if (strip < picture->strips) {
		picture->next_tile++;
		buffer = &picture->buffers[strip % BUFFERS];
		*column = tile % picture->tiles_a_strip;
		if (*column == 0) {
			semaphore_down(&buffer->written);
			buffer->strip = strip;
			buffer->tiles_left = picture->tiles_a_strip;
		}
	}
	pthread_mutex_unlock(&picture->draw_lock);
	return buffer;
}

static void work(void *shared, unsigned me)
{
	struct picture *picture = shared;
	struct buffer *buffer;
	size_t column;

	(void)me;
	while ((buffer = draw_tile(picture, &column))) {
		bool last;

		for (size_t y = 0; y < STRIP; y++) {
			for (size_t x = column * TILE; x < (column + 1) * TILE && x < picture->across; x++)
				buffer->rows[y * picture->across + x] = finished(picture, (int)x, (int)(buffer->strip * STRIP + y));
		}
		pthread_mutex_lock(&buffer->lock);
		last = --buffer->tiles_left == 0;
		pthread_mutex_unlock(&buffer->lock);
		if (last)
			semaphore_up(&buffer->full);
	}
}

/* The writer: strips in order. */
static void *write_strips(void *argument)
{
	struct picture *picture = argument;

	for (size_t strip = 0; strip < picture->strips; strip++) {
		struct buffer *buffer = &picture->buffers[strip % BUFFERS];

		semaphore_down(&buffer->full);
		picture->holds = picture->holds && buffer->strip == strip;
		for (size_t y = 0; y < STRIP && strip * STRIP + y < picture->across; y++) {
			const uint8_t *row = buffer->rows + y * picture->across;
			size_t x = strip % picture->across;

			for (size_t i = 0; i < picture->across; i++)
				picture->checksum = mix(picture->checksum, row[i]);
			picture->holds = picture->holds && row[x] == finished(picture, (int)x, (int)(strip * STRIP + y));
			picture->rows_written++;
		}
		semaphore_up(&buffer->written);
	}
	return NULL;
}

static void make_source(struct picture *picture)
{
	uint64_t state = picture->asked.seed;

	for (size_t y = 0; y < 2 * picture->across; y++) {
		for (size_t x = 0; x < 2 * picture->across; x++)
			picture->source[y * 2 * picture->across + x] = (uint8_t)((x * y / 64 + x) / 4 % 160 + rng_next(&state) % 48);
	}
	for (int i = 0; i < 256; i++)
		picture->contrast[i] = (uint8_t)(i < 128 ? i * i / 128 : 255 - (255 - i) * (255 - i) / 128);
}

int main(int argc, char **argv)
{
	struct picture picture = { .asked = workload_of(argc, argv, "pixels on a side", 2048, 32, 16384), .holds = true };
	struct hand *hands;
	pthread_t writer;

	picture.across = picture.asked.size;
	picture.strips = (picture.across + STRIP - 1) / STRIP;
	picture.tiles_a_strip = (picture.across + TILE - 1) / TILE;
	picture.source = zeroed(4 * picture.across * picture.across, 1);
	must("mutex", pthread_mutex_init(&picture.draw_lock, NULL));
	for (int i = 0; i < BUFFERS; i++) {
		struct buffer *buffer = &picture.buffers[i];

		must("mutex", pthread_mutex_init(&buffer->lock, NULL));
		semaphore_init(&buffer->full, 0);
		semaphore_init(&buffer->written, 1);
		buffer->rows = zeroed(STRIP * picture.across, 1);
	}
	make_source(&picture);
	hands = zeroed(picture.asked.threads, sizeof(*hands));
	hands_create(hands, picture.asked.threads, work, &picture);
	must("pthread_create", pthread_create(&writer, NULL, write_strips, &picture));
	hands_join(hands, picture.asked.threads);
	must("pthread_join", pthread_join(writer, NULL));
	free(hands);
	free(picture.source);
	for (int i = 0; i < BUFFERS; i++)
		free(picture.buffers[i].rows);
	return workload_end(&picture.asked, picture.checksum, picture.holds && picture.rows_written == picture.across,
			    "rows in order");
}
