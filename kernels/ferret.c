// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Search by similarity as a pipeline: load, segment, extract, look up, rank, out, with a bounded queue before each stage. A
 * quarter of the threads (at least one) is at each of the four stages in the middle. Candidates are found by
 * locality-sensitive hashing (Charikar, 2002) and ranked by the distance of their features.
 */
#include "queue.h"

#define SIDE 32
#define CELLS 8
#define LEVELS 4
#define FEATURES (CELLS * CELLS + LEVELS)
#define KNOWN 512
#define TABLES 10
#define KEY_BITS 7
#define QUEUE_ROOM 20
#define MIDDLE_STAGES 4

/* A picture that is looked for, as the stages fill it in. */
struct query {
	uint32_t number, truth, best, second;
	uint8_t pixels[SIDE * SIDE], labels[SIDE * SIDE];
	int32_t features[FEATURES];
	bool candidate[KNOWN];
	int64_t distance;
};

struct search {
	struct workload asked;
	struct queue queues[MIDDLE_STAGES + 1];
	unsigned hands_at_stage;
	struct query *queries;
	int32_t known[KNOWN][FEATURES];
	int32_t planes[TABLES][KEY_BITS][FEATURES];
	uint16_t keys[KNOWN][TABLES];
};

/* What a thread of a middle stage does. */
struct seat {
	struct search *search;
	void (*work)(struct search *, struct query *);
	unsigned stage;
	pthread_t thread;
};

/* Picture `number` of those that are known: patches of light. */
static void paint(uint64_t seed, uint32_t number, uint8_t *pixels)
{
	uint64_t state = mix(seed, number);

	memset(pixels, 40, SIDE * SIDE);
	for (int patch = 0; patch < 12; patch++) {
		unsigned left = (unsigned)(rng_next(&state) % SIDE), top = (unsigned)(rng_next(&state) % SIDE);
		unsigned wide = (unsigned)(rng_next(&state) % 12) + 3, high = (unsigned)(rng_next(&state) % 12) + 3;
		uint8_t light = (uint8_t)(rng_next(&state) % 200 + 20);

		for (unsigned y = top; y < top + high && y < SIDE; y++) {
			for (unsigned x = left; x < left + wide && x < SIDE; x++)
				pixels[y * SIDE + x] = light;
		}
	}
}

static void load(struct search *search, struct query *query)
{
	uint64_t state = mix(~search->asked.seed, query->number);

	query->truth = (uint32_t)(rng_next(&state) % KNOWN);
	paint(search->asked.seed, query->truth, query->pixels);
	for (int i = 0; i < SIDE * SIDE; i++)
		query->pixels[i] = (uint8_t)(query->pixels[i] + rng_next(&state) % 24);
}

/* Pixels by their quarter of the range that the picture has, after two passes of a median of three. */
static void segment(struct search *search, struct query *query)
{
	uint8_t low = 255, high = 0;

	(void)search;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 1; i < SIDE * SIDE - 1; i++) {
			uint8_t a = query->pixels[i - 1], b = query->pixels[i], c = query->pixels[i + 1];
			uint8_t least = a < b ? a : b, most = a < b ? b : a;

			query->pixels[i] = c < least ? least : c > most ? most : c;
		}
	}
	for (int i = 0; i < SIDE * SIDE; i++) {
		low = query->pixels[i] < low ? query->pixels[i] : low;
		high = query->pixels[i] > high ? query->pixels[i] : high;
	}
	for (int i = 0; i < SIDE * SIDE; i++)
		query->labels[i] = (uint8_t)((query->pixels[i] - low) * LEVELS / (high - low + 1));
}

/* Mean light of each of 64 cells, and how much of the picture each label has. */
static void extract(struct search *search, struct query *query)
{
	const int wide = SIDE / CELLS;

	(void)search;
	memset(query->features, 0, sizeof(query->features));
	for (int i = 0; i < SIDE * SIDE; i++) {
		int x = i % SIDE, y = i / SIDE;

		query->features[y / wide * CELLS + x / wide] += query->pixels[i];
		query->features[CELLS * CELLS + query->labels[i]]++;
	}
	for (int i = 0; i < CELLS * CELLS; i++)
		query->features[i] /= wide * wide;
}

static uint16_t key_of(const struct search *search, int table, const int32_t *features)
{
	uint16_t key = 0;

	for (int bit = 0; bit < KEY_BITS; bit++) {
		int64_t side = 0;

		for (int i = 0; i < FEATURES; i++)
			side += (int64_t)search->planes[table][bit][i] * (features[i] - 100);
		key = (uint16_t)(key << 1 | (side > 0));
	}
	return key;
}

static void look_up(struct search *search, struct query *query)
{
	memset(query->candidate, 0, sizeof(query->candidate));
	for (int table = 0; table < TABLES; table++) {
		uint16_t key = key_of(search, table, query->features);

		for (int i = 0; i < KNOWN; i++)
			query->candidate[i] = query->candidate[i] || search->keys[i][table] == key;
	}
}

static void rank(struct search *search, struct query *query)
{
	int64_t best = INT64_MAX, second = INT64_MAX;

	query->best = query->second = KNOWN;
	for (uint32_t i = 0; i < KNOWN; i++) {
		int64_t distance = 0;

		if (!query->candidate[i])
			continue;
		for (int k = 0; k < FEATURES; k++)
			distance += (int64_t)abs(search->known[i][k] - query->features[k]);
		if (distance < best) {
			second = best;
			query->second = query->best;
			best = distance;
			query->best = i;
		} else if (distance < second) {
			second = distance;
			query->second = i;
		}
	}
	query->distance = best;
}

static void *attend(void *argument)
{
	struct seat *seat = argument;
	struct query *query;

	while ((query = queue_take(&seat->search->queues[seat->stage]))) {
		seat->work(seat->search, query);
		queue_put(&seat->search->queues[seat->stage + 1], query);
	}
	queue_done(&seat->search->queues[seat->stage + 1]);
	return NULL;
}

static void *load_all(void *argument)
{
	struct search *search = argument;

	for (uint32_t i = 0; i < search->asked.size; i++) {
		search->queries[i].number = i;
		load(search, &search->queries[i]);
		queue_put(&search->queues[0], &search->queries[i]);
	}
	queue_done(&search->queues[0]);
	return NULL;
}

static void learn(struct search *search)
{
	uint64_t state = search->asked.seed ^ 0x1457;
	struct query *known = zeroed(1, sizeof(*known));

	for (int table = 0; table < TABLES; table++) {
		for (int bit = 0; bit < KEY_BITS; bit++) {
			for (int i = 0; i < FEATURES; i++)
				search->planes[table][bit][i] = (int32_t)(rng_next(&state) % 3) - 1;
		}
	}
	for (uint32_t i = 0; i < KNOWN; i++) {
		paint(search->asked.seed, i, known->pixels);
		segment(search, known);
		extract(search, known);
		memcpy(search->known[i], known->features, sizeof(known->features));
		for (int table = 0; table < TABLES; table++)
			search->keys[i][table] = key_of(search, table, known->features);
	}
	free(known);
}

int main(int argc, char **argv)
{
	static void (*const work[MIDDLE_STAGES])(struct search *, struct query *) = { segment, extract, look_up, rank };
	struct search *search = zeroed(1, sizeof(*search));
	uint64_t checksum = 0, found = 0, arrived = 0;
	struct seat *seats;
	struct query *query;
	pthread_t loader;
	unsigned each;
	int status;

	search->asked = workload_of(argc, argv, "pictures looked for", 6000, 16, 1 << 18);
	each = search->hands_at_stage = (search->asked.threads + MIDDLE_STAGES - 1) / MIDDLE_STAGES;
	search->queries = zeroed(search->asked.size, sizeof(*search->queries));
	learn(search);
	for (unsigned i = 0; i <= MIDDLE_STAGES; i++)
		queue_init(&search->queues[i], QUEUE_ROOM, i == 0 ? 1 : each);
	seats = zeroed((size_t)MIDDLE_STAGES * each, sizeof(*seats));
	for (unsigned i = 0; i < MIDDLE_STAGES * each; i++) {
		seats[i] = (struct seat){ .search = search, .work = work[i / each], .stage = i / each };
		must("pthread_create", pthread_create(&seats[i].thread, NULL, attend, &seats[i]));
	}
	must("pthread_create", pthread_create(&loader, NULL, load_all, search));
	while ((query = queue_take(&search->queues[MIDDLE_STAGES]))) {
		checksum += mix(mix(query->number, query->best), mix(query->second, (uint64_t)query->distance));
		found += query->best == query->truth;
		arrived++;
	}
	must("pthread_join", pthread_join(loader, NULL));
	for (unsigned i = 0; i < MIDDLE_STAGES * each; i++)
		must("pthread_join", pthread_join(seats[i].thread, NULL));
	status = workload_end(&search->asked, checksum, arrived == search->asked.size && found * 10 >= arrived * 8,
			      "pictures found again");
	for (unsigned i = 0; i <= MIDDLE_STAGES; i++)
		queue_destroy(&search->queues[i]);
	free(seats);
	free(search->queries);
	free(search);
	return status;
}
