// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Parallel radix sort of 32-bit keys (Blelloch and others, 1991): each thread counts the digits of its keys, the counts are
 * summed up a tree of threads and prefixes come down it (each edge a flag with a mutex and a condition variable), and each
 * thread moves its keys to where they belong.
 */
#include "barrier.h"

#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
#define PASSES (32 / DIGIT_BITS)
#define LEVELS 8

/* A flag that one thread raises and one waits for; it is lowered by being seen. */
struct flag {
	pthread_mutex_t lock;
	pthread_cond_t raised_now;
	bool raised;
};

/* What a thread has of the tree: its sums at each level, and the prefixes that came down. */
struct branch {
	struct flag up, down;
	uint32_t sum[LEVELS + 1][DIGITS];
	uint32_t prefix[DIGITS];
};

struct sorting {
	struct workload asked;
	struct barrier barrier;
	uint32_t *keys, *moved;
	struct branch *branches;
};

static void flag_init(struct flag *flag)
{
	must("mutex", pthread_mutex_init(&flag->lock, NULL));
	must("condition variable", pthread_cond_init(&flag->raised_now, NULL));
}

static void flag_raise(struct flag *flag)
{
	pthread_mutex_lock(&flag->lock);
	flag->raised = true;
	/* One waits, but the flags of the suite are broadcast, and a recorder tells the two apart. */
	pthread_cond_broadcast(&flag->raised_now);
	pthread_mutex_unlock(&flag->lock);
}

static void flag_await(struct flag *flag)
{
	pthread_mutex_lock(&flag->lock);
	while (!flag->raised)
		pthread_cond_wait(&flag->raised_now, &flag->lock);
	flag->raised = false;
	pthread_mutex_unlock(&flag->lock);
}

static void root_prefixes(struct branch *root, int level)
{
	uint32_t before = 0;

	for (int digit = 0; digit < DIGITS; digit++) {
		root->prefix[digit] = before;
		before += root->sum[level][digit];
	}
}

/*
 * At level l, threads whose number has l zeros at its end are nodes; a node takes the sum of the thread 2^l above it into
 * its own for level l + 1. A thread with a one at bit l hands its sum to the node 2^l below it and waits for its prefixes.
 */
static void prefixes(struct sorting *sorting, unsigned me)
{
	struct branch *mine = &sorting->branches[me];
	unsigned threads = sorting->asked.threads;
	int level = 0;

	for (; 1u << level < threads && !(me >> level & 1); level++) {
		unsigned other = me + (1u << level);

		memcpy(mine->sum[level + 1], mine->sum[level], sizeof(mine->sum[0]));
		if (other >= threads)
			continue;
		flag_await(&sorting->branches[other].up);
		for (int digit = 0; digit < DIGITS; digit++)
			mine->sum[level + 1][digit] += sorting->branches[other].sum[level][digit];
	}
	if (me == 0) {
		root_prefixes(mine, level);
	} else {
		flag_raise(&mine->up);
		flag_await(&mine->down);
	}
	while (--level >= 0) {
		unsigned other = me + (1u << level);
		struct branch *theirs = &sorting->branches[other < threads ? other : me];

		if (other >= threads)
			continue;
		for (int digit = 0; digit < DIGITS; digit++)
			theirs->prefix[digit] = mine->prefix[digit] + mine->sum[level][digit];
		flag_raise(&theirs->down);
	}
}

static void sort_keys(void *shared, unsigned me)
{
	struct sorting *sorting = shared;
	struct branch *mine = &sorting->branches[me];
	struct share share = share_of(sorting->asked.size, sorting->asked.threads, me);
	uint32_t *from = sorting->keys, *to = sorting->moved;

	for (size_t i = share.from; i < share.to; i++) {
		uint64_t state = mix(sorting->asked.seed, i);

		from[i] = (uint32_t)rng_next(&state);
	}
	for (int pass = 0; pass < PASSES; pass++) {
		int shift = pass * DIGIT_BITS;
		uint32_t *other = to;

		memset(mine->sum[0], 0, sizeof(mine->sum[0]));
		for (size_t i = share.from; i < share.to; i++)
			mine->sum[0][from[i] >> shift & (DIGITS - 1)]++;
		prefixes(sorting, me);
		for (size_t i = share.from; i < share.to; i++)
			to[mine->prefix[from[i] >> shift & (DIGITS - 1)]++] = from[i];
		barrier_wait(&sorting->barrier);
		to = from;
		from = other;
	}
}

/* Sorted, and the same keys as were put in. */
static bool is_sorted(const struct sorting *sorting, const uint32_t *keys, uint64_t *checksum)
{
	uint64_t put_in = 0, came_out = 0;
	bool sorted = true;

	for (size_t i = 0; i < sorting->asked.size; i++) {
		uint64_t state = mix(sorting->asked.seed, i);

		put_in += mix(0, (uint32_t)rng_next(&state));
		came_out += mix(0, keys[i]);
		sorted = sorted && (i == 0 || keys[i - 1] <= keys[i]);
		*checksum = mix(*checksum, keys[i]);
	}
	return sorted && put_in == came_out;
}

int main(int argc, char **argv)
{
	struct sorting sorting = { .asked = workload_of(argc, argv, "keys", 1 << 23, 16, 1 << 28) };
	uint64_t checksum = 0;
	bool holds;

	_Static_assert(1 << LEVELS >= MOST_THREADS, "a level for each bit of a thread's number");
	_Static_assert(PASSES % 2 == 0, "the keys end where they began");
	barrier_init(&sorting.barrier, &sorting.asked);
	sorting.keys = zeroed(sorting.asked.size, sizeof(uint32_t));
	sorting.moved = zeroed(sorting.asked.size, sizeof(uint32_t));
	sorting.branches = zeroed(sorting.asked.threads, sizeof(struct branch));
	for (unsigned i = 0; i < sorting.asked.threads; i++) {
		flag_init(&sorting.branches[i].up);
		flag_init(&sorting.branches[i].down);
	}
	run_threads(sorting.asked.threads, sort_keys, &sorting);
	holds = is_sorted(&sorting, sorting.keys, &checksum);
	free(sorting.keys);
	free(sorting.moved);
	free(sorting.branches);
	barrier_destroy(&sorting.barrier);
	return workload_end(&sorting.asked, checksum, holds, "order and keys");
}
