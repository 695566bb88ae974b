// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Video encoded by one thread a frame: a row of blocks may begin when the frame before is done a few rows further down, so
 * that motion can be searched there. Each finished row is told by a broadcast. Blocks are predicted by a diamond search
 * (Zhu and Ma, 2000), and what is left is quantised; the decoder's picture is what the next frame refers to.
 */
#include "workload.h"

#define BLOCK 16
#define WIDE 320
#define HIGH 192
#define ROWS (HIGH / BLOCK)
#define COLUMNS (WIDE / BLOCK)
#define REACH 16
#define QUANTUM 8
/* Rows of blocks of the frame before that must be done: this row's, and those that the search reaches. */
#define AHEAD (1 + (REACH + BLOCK - 1) / BLOCK)

struct frame {
	pthread_mutex_t lock;
	pthread_cond_t row_done;
	unsigned rows_done;
	uint8_t *source, *decoded;
	uint64_t cost;
	int worst;
};

struct video {
	struct workload asked;
	struct frame *frames;
	pthread_mutex_t next_lock;
	unsigned next;
};

/* A pattern that moves by a few pixels a frame, with a brighter box that moves otherwise, and noise. */
static void shoot(const struct video *video, unsigned number, uint8_t *picture)
{
	uint64_t state = mix(video->asked.seed, number);
	unsigned box = 7 * number % (WIDE - 64);

	for (unsigned y = 0; y < HIGH; y++) {
		for (unsigned x = 0; x < WIDE; x++) {
			unsigned px = x + 3 * number, py = y + 2 * number;
			uint64_t noise = rng_next(&state);
			unsigned light = ((px / 8 * 37 + py / 8 * 101) % 97) + (px * px / 64 + py) % 64;

			if (x >= box && x < box + 64 && y >= 60 && y < 110)
				light = 180 + (x - box + y) % 40;
			picture[y * WIDE + x] = (uint8_t)(light + noise % 6);
		}
	}
}

/* Sum of absolute differences of a block to one at another place; stops when it is above the best. */
static unsigned difference(const uint8_t *block, const uint8_t *other, unsigned best)
{
	unsigned sum = 0;

	for (int y = 0; y < BLOCK && sum <= best; y++) {
		for (int x = 0; x < BLOCK; x++)
			sum += (unsigned)abs(block[y * WIDE + x] - other[y * WIDE + x]);
	}
	return sum;
}

static bool is_inside(int x, int y, int left, int top)
{
	return x >= 0 && y >= 0 && x + BLOCK <= WIDE && y + BLOCK <= HIGH && abs(x - left) <= REACH && abs(y - top) <= REACH;
}

/* Where the block comes from in the frame before. */
static const uint8_t *search(const uint8_t *source, const uint8_t *before, int left, int top)
{
	static const int diamond[8][2] = { { 0, -2 }, { 1, -1 }, { 2, 0 }, { 1, 1 }, { 0, 2 }, { -1, 1 }, { -2, 0 }, { -1, -1 } };
	const uint8_t *block = source + top * WIDE + left;
	unsigned best = difference(block, before + top * WIDE + left, UINT32_MAX);
	int x = left, y = top, size = 2;

	while (size > 0) {
		int from_x = x, from_y = y;

		for (int i = 0; i < 8; i++) {
			int to_x = from_x + diamond[i][0] * size / 2, to_y = from_y + diamond[i][1] * size / 2;
			unsigned found;

			if (!is_inside(to_x, to_y, left, top))
				continue;
			found = difference(block, before + to_y * WIDE + to_x, best);
			if (found < best) {
				best = found;
				x = to_x;
				y = to_y;
			}
		}
		if (x == from_x && y == from_y)
			size--;
	}
	return before + y * WIDE + x;
}

static void encode_block(struct frame *frame, const uint8_t *before, int left, int top)
{
	const uint8_t *from = before ? search(frame->source, before, left, top) : NULL;

	for (int y = 0; y < BLOCK; y++) {
		for (int x = 0; x < BLOCK; x++) {
			int at = (top + y) * WIDE + left + x, guess = from ? from[y * WIDE + x] : 128;
			int rest = frame->source[at] - guess, level = (rest + (rest < 0 ? -QUANTUM / 2 : QUANTUM / 2)) / QUANTUM;
			int value = guess + level * QUANTUM, error;

			value = value < 0 ? 0 : value > 255 ? 255 : value;
			error = abs(value - frame->source[at]);
			frame->decoded[at] = (uint8_t)value;
			frame->worst = error > frame->worst ? error : frame->worst;
			for (unsigned size = (unsigned)abs(level); size > 0; size /= 2)
				frame->cost += 2;
		}
	}
}

static void await_rows(struct frame *frame, unsigned rows)
{
	pthread_mutex_lock(&frame->lock);
	while (frame->rows_done < rows)
		pthread_cond_wait(&frame->row_done, &frame->lock);
	pthread_mutex_unlock(&frame->lock);
}

static void encode(struct video *video, unsigned number)
{
	struct frame *frame = &video->frames[number], *before = number ? frame - 1 : NULL;

	shoot(video, number, frame->source);
	for (unsigned row = 0; row < ROWS; row++) {
		if (before)
			await_rows(before, row + AHEAD < ROWS ? row + AHEAD : ROWS);
		for (unsigned column = 0; column < COLUMNS; column++)
			encode_block(frame, before ? before->decoded : NULL, (int)column * BLOCK, (int)row * BLOCK);
		pthread_mutex_lock(&frame->lock);
		frame->rows_done++;
		pthread_cond_broadcast(&frame->row_done);
		pthread_mutex_unlock(&frame->lock);
	}
}

static void encode_frames(void *shared, unsigned me)
{
	struct video *video = shared;

	(void)me;
	for (;;) {
		unsigned number;

		pthread_mutex_lock(&video->next_lock);
		number = video->next++;
		pthread_mutex_unlock(&video->next_lock);
		if (number >= video->asked.size)
			return;
		encode(video, number);
	}
}

int main(int argc, char **argv)
{
	struct video video = { .asked = workload_of(argc, argv, "frames", 240, 2, 4096) };
	uint64_t checksum = 0, cost = 0;
	bool holds = true;

	video.frames = zeroed(video.asked.size, sizeof(*video.frames));
	must("mutex", pthread_mutex_init(&video.next_lock, NULL));
	for (unsigned i = 0; i < video.asked.size; i++) {
		struct frame *frame = &video.frames[i];

		must("mutex", pthread_mutex_init(&frame->lock, NULL));
		must("condition variable", pthread_cond_init(&frame->row_done, NULL));
		frame->source = zeroed(WIDE * HIGH, 1);
		frame->decoded = zeroed(WIDE * HIGH, 1);
	}
	run_threads(video.asked.threads, encode_frames, &video);
	for (unsigned i = 0; i < video.asked.size; i++) {
		struct frame *frame = &video.frames[i];

		for (int k = 0; k < WIDE * HIGH; k++)
			checksum = (checksum ^ frame->decoded[k]) * 0x100000001b3u;
		cost += frame->cost;
		/* Every pixel was encoded, and is as near as the quantum says. */
		holds = holds && frame->rows_done == ROWS && frame->worst <= QUANTUM / 2;
		free(frame->source);
		free(frame->decoded);
	}
	free(video.frames);
	return workload_end(&video.asked, mix(checksum, cost), holds, "decoded pixels");
}
