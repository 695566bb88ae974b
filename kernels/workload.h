/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What every kernel of this folder needs: its options, random numbers that depend on the seed alone, threads, sums that
 * do not depend on the order of their terms, and the one line that it prints.
 *
 * Status of a kernel: 0 done and checked, 1 the check failed, 2 wrong options, 3 no memory or no threads.
 */
#ifndef QUAVER_WORKLOAD_H
#define QUAVER_WORKLOAD_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 256
#define CACHE_LINE 64

/* What was asked for. */
struct workload {
	const char *name;
	unsigned threads;
	unsigned size;
	/* Time steps or frames, of programs that have them. */
	unsigned steps;
	uint64_t seed;
	bool posix_barrier;
};

static inline _Noreturn void give_up(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(3);
}

static inline void must(const char *what, int error)
{
	if (error)
		give_up(what, error);
}

/* Zeroed memory that begins on a cache line. */
static inline void *zeroed(size_t count, size_t size)
{
	void *memory = NULL;
	size_t bytes = count * size;

	if (size && bytes / size != count)
		give_up("memory", ENOMEM);
	must("memory", posix_memalign(&memory, CACHE_LINE, bytes ? bytes : 1));
	memset(memory, 0, bytes);
	return memory;
}

static inline uint64_t number_of(const char *name, char option, const char *text, uint64_t least, uint64_t most)
{
	char *end = NULL;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < least || value > most) {
		fprintf(stderr, "%s: -%c takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'\n", name, option, least, most,
			text);
		exit(2);
	}
	return value;
}

/* Reads -pTHREADS -nSIZE -rSEED -bcond|posix. The sizes are the default, the least and the most; `unit` is what is counted.
 * Of a program that does something several times, -s does it less often; 0 where there is nothing of the kind. */
static inline struct workload workload_of_steps(int argc, char **argv, const char *unit, unsigned size, unsigned least,
						unsigned most, unsigned steps)
{
	const char *slash = strrchr(argv[0], '/');
	struct workload asked = { .name = slash ? slash + 1 : argv[0], .threads = 1, .size = size, .steps = steps, .seed = 1 };
	int option;

	while ((option = getopt(argc, argv, "p:n:s:r:b:h")) != -1) {
		switch (option) {
		case 'p':
			asked.threads = (unsigned)number_of(asked.name, 'p', optarg, 1, MOST_THREADS);
			continue;
		case 'n':
			asked.size = (unsigned)number_of(asked.name, 'n', optarg, least, most);
			continue;
		case 's':
			if (steps) {
				asked.steps = (unsigned)number_of(asked.name, 's', optarg, 1, steps);
				continue;
			}
			break;
		case 'r':
			asked.seed = number_of(asked.name, 'r', optarg, 0, UINT64_MAX);
			continue;
		case 'b':
			if (!strcmp(optarg, "cond") || !strcmp(optarg, "posix")) {
				asked.posix_barrier = *optarg == 'p';
				continue;
			}
			break;
		default:
			break;
		}
		optind = argc + 1;
		break;
	}
	if (optind != argc) {
		fprintf(stderr,
			"usage: %s [-pTHREADS] [-nSIZE]%s [-rSEED] [-bcond|posix]\n"
			"  -n  number of %s, %u to %u [%u]\n",
			asked.name, steps ? " [-sSTEPS]" : "", unit, least, most, size);
		if (steps)
			fprintf(stderr, "  -s  time steps, or frames, 1 to %u [%u]\n", steps, steps);
		fprintf(stderr, "  -b  barriers by mutex and condition variable, or pthread_barrier_t [cond]\n");
		exit(option == 'h' ? 0 : 2);
	}
	return asked;
}

static inline struct workload workload_of(int argc, char **argv, const char *unit, unsigned size, unsigned least, unsigned most)
{
	return workload_of_steps(argc, argv, unit, size, least, most, 0);
}

/* The next number of a sequence (SplitMix64, by Steele, Lea and Flood, 2014). */
static inline uint64_t rng_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* At least 0, below 1. */
static inline double rng_unit(uint64_t *state)
{
	return (double)(rng_next(state) >> 11) * 0x1p-53;
}

/* A hash of what was hashed before and one more value: order matters. */
static inline uint64_t mix(uint64_t hash, uint64_t value)
{
	uint64_t state = hash ^ (value * 0xff51afd7ed558ccdu);

	return rng_next(&state);
}

static inline uint64_t mix_double(uint64_t hash, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return mix(hash, bits);
}

/* Sums of these do not depend on the order of their terms, so that they are the same for any number of threads. */
typedef int64_t fixed;
#define FIXED_ONE 0x1p32

static inline fixed to_fixed(double value)
{
	return (fixed)(value * FIXED_ONE);
}

static inline double of_fixed(fixed value)
{
	return (double)value * (1 / FIXED_ONE);
}

/* What one thread has of `count` items: from the first to before the last. */
struct share {
	size_t from, to;
};

static inline struct share share_of(size_t count, unsigned threads, unsigned me)
{
	return (struct share){ count * me / threads, count * (me + 1) / threads };
}

/* One of a kernel's threads. */
struct hand {
	void (*body)(void *shared, unsigned me);
	void *shared;
	unsigned me;
	pthread_t thread;
};

static inline void *hand_start(void *argument)
{
	struct hand *hand = argument;

	hand->body(hand->shared, hand->me);
	return NULL;
}

static inline void hands_create(struct hand *hands, unsigned count, void (*body)(void *, unsigned), void *shared)
{
	for (unsigned i = 0; i < count; i++) {
		hands[i] = (struct hand){ .body = body, .shared = shared, .me = i };
		must("pthread_create", pthread_create(&hands[i].thread, NULL, hand_start, &hands[i]));
	}
}

static inline void hands_join(struct hand *hands, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		must("pthread_join", pthread_join(hands[i].thread, NULL));
}

/* Runs `body` in so many threads, of which the caller is the last, and waits for all. */
static inline void run_threads(unsigned threads, void (*body)(void *shared, unsigned me), void *shared)
{
	struct hand *hands = zeroed(threads, sizeof(*hands));

	hands_create(hands, threads - 1, body, shared);
	body(shared, threads - 1);
	hands_join(hands, threads - 1);
	free(hands);
}

/* Prints what came out, which is the same for any number of threads; answers the kernel's status. */
static inline int workload_end(const struct workload *done, uint64_t checksum, bool holds, const char *check)
{
	printf("%s size=%u seed=%" PRIu64 " checksum=%016" PRIx64 " %s: %s\n", done->name, done->size, done->seed, checksum,
	       check, holds ? "ok" : "FAILED");
	return holds ? 0 : 1;
}

#endif
