// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Clustering of points by local search for the facility location problem (Guha and others, 2003): random points are tried as
 * new centres, every thread finds what that would gain over its points, sums are put together, and the change is made if it
 * pays. Threads come to the barriers by trylock, a few times, before they block, and add to the sums by trylock while they
 * have something else to do. All distances are whole numbers.
 */
#include "barrier.h"

#define AXES 24
#define MOST_CENTRES 64
#define TRIALS 200
#define SPINS 64

struct point {
	uint8_t at[AXES];
	/* Number of its centre among those that are open, and the distance to it. */
	uint32_t centre;
	int64_t distance;
};

struct clustering {
	struct workload asked;
	struct barrier barrier;
	struct point *points;
	uint32_t centres[MOST_CENTRES];
	unsigned open;
	int64_t price;
	/* Of the trial under way: the point, what opening it saves, and what closing each centre would cost besides. */
	uint32_t candidate;
	int64_t saved, closing[MOST_CENTRES], cost;
	bool close[MOST_CENTRES], accepted;
	pthread_mutex_t sums_lock;
};

/* What a thread knows of the trial under way. */
struct partial {
	int64_t saved, closing[MOST_CENTRES];
	/* Of each of its points: the distance to the candidate. */
	int64_t *distances;
};

/* Comes to the barrier without blocking at its lock, if that can be had. */
static void meet(struct clustering *clustering)
{
	struct barrier *barrier = &clustering->barrier;
	uint64_t generation;
	int spins = 0;

	if (barrier->use_posix) {
		pthread_barrier_wait(&barrier->posix);
		return;
	}
	while (pthread_mutex_trylock(&barrier->lock)) {
		if (++spins == SPINS) {
			pthread_mutex_lock(&barrier->lock);
			break;
		}
	}
	generation = barrier->generation;
	if (++barrier->arrived == barrier->threads) {
		barrier->arrived = 0;
		barrier->generation++;
		pthread_cond_broadcast(&barrier->all_here);
	}
	while (generation == barrier->generation)
		pthread_cond_wait(&barrier->all_here, &barrier->lock);
	pthread_mutex_unlock(&barrier->lock);
}

static int64_t distance_of(const struct point *a, const struct point *b)
{
	int32_t sum = 0;

	for (int i = 0; i < AXES; i++)
		sum += (a->at[i] - b->at[i]) * (a->at[i] - b->at[i]);
	return sum;
}

/* Points that would change over save; the others would have to go over if their centre were closed. */
static void try_candidate(struct clustering *clustering, struct share mine, struct partial *partial)
{
	const struct point *candidate = &clustering->points[clustering->candidate];

	memset(partial->closing, 0, sizeof(partial->closing));
	partial->saved = 0;
	for (size_t i = mine.from; i < mine.to; i++) {
		struct point *point = &clustering->points[i];
		int64_t distance = distance_of(point, candidate);

		partial->distances[i - mine.from] = distance;
		if (distance < point->distance)
			partial->saved += point->distance - distance;
		else
			partial->closing[point->centre] += distance - point->distance;
	}
}

static void add_partial(struct clustering *clustering, const struct partial *partial)
{
	int spins = 0;

	while (pthread_mutex_trylock(&clustering->sums_lock)) {
		if (++spins == SPINS) {
			pthread_mutex_lock(&clustering->sums_lock);
			break;
		}
	}
	clustering->saved += partial->saved;
	for (unsigned i = 0; i < clustering->open; i++)
		clustering->closing[i] += partial->closing[i];
	pthread_mutex_unlock(&clustering->sums_lock);
}

/* Opens the candidate if that, with closing all centres that then cost more than they are worth, lowers the cost. */
static void decide(struct clustering *clustering)
{
	int64_t gain = clustering->saved - clustering->price;
	unsigned closed = 0;

	for (unsigned i = 0; i < clustering->open; i++) {
		clustering->close[i] = clustering->closing[i] < clustering->price;
		if (clustering->close[i]) {
			gain += clustering->price - clustering->closing[i];
			closed++;
		}
	}
	clustering->accepted = gain > 0 && clustering->open - closed < MOST_CENTRES;
	if (clustering->accepted)
		clustering->cost -= gain;
}

static void change_over(struct clustering *clustering, struct share mine, const struct partial *partial)
{
	uint32_t renumbered[MOST_CENTRES], left = 0;

	for (unsigned i = 0; i < clustering->open; i++)
		renumbered[i] = clustering->close[i] ? UINT32_MAX : left++;
	for (size_t i = mine.from; i < mine.to; i++) {
		struct point *point = &clustering->points[i];
		int64_t distance = partial->distances[i - mine.from];

		if (distance < point->distance || renumbered[point->centre] == UINT32_MAX) {
			point->centre = left;
			point->distance = distance;
		} else {
			point->centre = renumbered[point->centre];
		}
	}
}

static void renumber(struct clustering *clustering)
{
	unsigned left = 0;

	for (unsigned i = 0; i < clustering->open; i++) {
		if (!clustering->close[i])
			clustering->centres[left++] = clustering->centres[i];
	}
	clustering->centres[left] = clustering->candidate;
	clustering->open = left + 1;
}

static void next_trial(struct clustering *clustering, int trial)
{
	clustering->candidate = (uint32_t)(mix(clustering->asked.seed, (uint64_t)trial) % clustering->asked.size);
	clustering->saved = 0;
	memset(clustering->closing, 0, sizeof(clustering->closing));
}

static void cluster(void *shared, unsigned me)
{
	struct clustering *clustering = shared;
	struct share mine = share_of(clustering->asked.size, clustering->asked.threads, me);
	struct partial partial = { .distances = zeroed(mine.to - mine.from, sizeof(int64_t)) };

	for (int trial = 0; trial < TRIALS; trial++) {
		if (me == 0)
			next_trial(clustering, trial);
		meet(clustering);
		try_candidate(clustering, mine, &partial);
		add_partial(clustering, &partial);
		meet(clustering);
		if (me == 0)
			decide(clustering);
		meet(clustering);
		if (!clustering->accepted)
			continue;
		change_over(clustering, mine, &partial);
		meet(clustering);
		if (me == 0)
			renumber(clustering);
	}
	free(partial.distances);
}

static int64_t cost_of(const struct clustering *clustering, bool *holds)
{
	int64_t cost = clustering->price * clustering->open;

	for (size_t i = 0; i < clustering->asked.size; i++) {
		const struct point *point = &clustering->points[i];

		*holds = *holds && point->centre < clustering->open &&
			 distance_of(point, &clustering->points[clustering->centres[point->centre]]) == point->distance;
		cost += point->distance;
	}
	return cost;
}

int main(int argc, char **argv)
{
	struct clustering clustering = { .asked = workload_of(argc, argv, "points", 131072, 64, 1 << 24), .open = 1 };
	uint64_t state = clustering.asked.seed, checksum = 0;
	uint8_t middles[12][AXES];
	int64_t at_first;
	bool holds = true;

	barrier_init(&clustering.barrier, &clustering.asked);
	must("mutex", pthread_mutex_init(&clustering.sums_lock, NULL));
	clustering.points = zeroed(clustering.asked.size, sizeof(*clustering.points));
	for (int i = 0; i < 12 * AXES; i++)
		middles[i / AXES][i % AXES] = (uint8_t)(rng_next(&state) % 200);
	for (size_t i = 0; i < clustering.asked.size; i++) {
		const uint8_t *middle = middles[rng_next(&state) % 12];

		for (int axis = 0; axis < AXES; axis++)
			clustering.points[i].at[axis] = (uint8_t)(middle[axis] + rng_next(&state) % 56);
	}
	/* The first centre is the first point. */
	for (size_t i = 0; i < clustering.asked.size; i++)
		clustering.points[i].distance = distance_of(&clustering.points[i], &clustering.points[0]);
	clustering.price = 1000 * (int64_t)(clustering.asked.size / 16);
	clustering.cost = at_first = cost_of(&clustering, &holds);
	run_threads(clustering.asked.threads, cluster, &clustering);
	holds = cost_of(&clustering, &holds) == clustering.cost && holds && clustering.cost < at_first;
	for (size_t i = 0; i < clustering.asked.size; i++)
		checksum = mix(checksum, clustering.points[i].centre);
	free(clustering.points);
	barrier_destroy(&clustering.barrier);
	return workload_end(&clustering.asked, mix(checksum, (uint64_t)clustering.cost), holds, "cost counted again");
}
