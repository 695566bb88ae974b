// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Point vortices in the plane by the fast multipole method (Greengard and Rokhlin, 1987). Vortices are put into the leaves of
 * a quadtree under the leaves' locks; whoever is last of four children to reach their parent, by the parent's lock, shifts
 * the expansions upwards; interaction lists and downward shifts go level by level between barriers.
 *
 * The field of charges q at z is the sum of q / (z - z'), so that expansions need no logarithm.
 */
#include "barrier.h"

#include <math.h>

#define TERMS 14
#define MOST_LEVELS 9
#define STEPS 3
#define TIME_STEP 1e-4
#define PER_LEAF 16
#define SAMPLES 32

typedef struct {
	double re, im;
} complex_t;

struct vortex {
	complex_t place, field;
	double strength;
	int32_t next;
};

struct cell {
	pthread_mutex_t lock;
	/* The first vortex of a leaf, or -1; they hang together in the order of their numbers. */
	int32_t first;
	unsigned children_done;
	complex_t outward[TERMS], inward[TERMS];
};

struct plane {
	struct workload asked;
	struct barrier barrier;
	struct vortex *vortices;
	struct cell *levels[MOST_LEVELS];
	int deepest;
	double choose[2 * TERMS][2 * TERMS];
};

static complex_t plus(complex_t a, complex_t b)
{
	return (complex_t){ a.re + b.re, a.im + b.im };
}

static complex_t minus(complex_t a, complex_t b)
{
	return (complex_t){ a.re - b.re, a.im - b.im };
}

static complex_t times(complex_t a, complex_t b)
{
	return (complex_t){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

static complex_t scaled(complex_t a, double by)
{
	return (complex_t){ a.re * by, a.im * by };
}

static complex_t inverse(complex_t a)
{
	double square = a.re * a.re + a.im * a.im;

	return (complex_t){ a.re / square, -a.im / square };
}

static complex_t centre_of(int level, unsigned x, unsigned y)
{
	double side = 1.0 / (1u << level);

	return (complex_t){ (x + 0.5) * side, (y + 0.5) * side };
}

static struct cell *cell_at(struct plane *plane, int level, unsigned x, unsigned y)
{
	return &plane->levels[level][((size_t)y << level) + x];
}

static void powers(complex_t base, complex_t *power, int count)
{
	power[0] = (complex_t){ 1, 0 };
	for (int i = 1; i < count; i++)
		power[i] = times(power[i - 1], base);
}

static void put(struct plane *plane, int32_t number)
{
	struct vortex *vortex = &plane->vortices[number];
	unsigned across = 1u << plane->deepest;
	struct cell *leaf = cell_at(plane, plane->deepest, (unsigned)(vortex->place.re * across),
				    (unsigned)(vortex->place.im * across));
	int32_t *link = &leaf->first;

	pthread_mutex_lock(&leaf->lock);
	while (*link >= 0 && *link < number)
		link = &plane->vortices[*link].next;
	vortex->next = *link;
	*link = number;
	pthread_mutex_unlock(&leaf->lock);
}

/* A child's outward expansion, seen from its parent's centre. */
static void shift_up(struct plane *plane, const struct cell *child, complex_t from, complex_t to, struct cell *parent)
{
	complex_t power[TERMS];

	powers(minus(from, to), power, TERMS);
	for (int l = 0; l < TERMS; l++) {
		for (int k = 0; k <= l; k++)
			parent->outward[l] = plus(parent->outward[l],
						  scaled(times(child->outward[k], power[l - k]), plane->choose[l][k]));
	}
}

/* From a leaf upwards, as far as this thread was the last of four children to come. */
static void rise(struct plane *plane, unsigned x, unsigned y)
{
	for (int level = plane->deepest - 1; level >= 2; level--) {
		struct cell *parent;
		bool last;

		x /= 2;
		y /= 2;
		parent = cell_at(plane, level, x, y);
		pthread_mutex_lock(&parent->lock);
		last = ++parent->children_done == 4;
		pthread_mutex_unlock(&parent->lock);
		if (!last)
			return;
		for (unsigned child = 0; child < 4; child++) {
			unsigned cx = 2 * x + child % 2, cy = 2 * y + child / 2;

			shift_up(plane, cell_at(plane, level + 1, cx, cy), centre_of(level + 1, cx, cy),
				 centre_of(level, x, y), parent);
		}
	}
}

static void expand_leaf(struct plane *plane, unsigned x, unsigned y)
{
	struct cell *leaf = cell_at(plane, plane->deepest, x, y);
	complex_t centre = centre_of(plane->deepest, x, y), power[TERMS];

	for (int32_t i = leaf->first; i >= 0; i = plane->vortices[i].next) {
		powers(minus(plane->vortices[i].place, centre), power, TERMS);
		for (int k = 0; k < TERMS; k++)
			leaf->outward[k] = plus(leaf->outward[k], scaled(power[k], plane->vortices[i].strength));
	}
	rise(plane, x, y);
}

/* What a far cell does here: 1 / (z - c)^(k+1) expanded about another centre. */
static void translate(struct plane *plane, const struct cell *far, complex_t from, complex_t to, struct cell *here)
{
	complex_t power[2 * TERMS + 1];

	powers(inverse(minus(from, to)), power, 2 * TERMS + 1);
	for (int l = 0; l < TERMS; l++) {
		for (int k = 0; k < TERMS; k++) {
			complex_t term = scaled(times(far->outward[k], power[k + l + 1]), plane->choose[k + l][k]);

			here->inward[l] = k % 2 ? plus(here->inward[l], term) : minus(here->inward[l], term);
		}
	}
}

static void shift_down(struct plane *plane, const struct cell *parent, complex_t from, complex_t to, struct cell *child)
{
	complex_t power[TERMS];

	powers(minus(to, from), power, TERMS);
	for (int l = 0; l < TERMS; l++) {
		for (int k = l; k < TERMS; k++)
			child->inward[l] = plus(child->inward[l],
						scaled(times(parent->inward[k], power[k - l]), plane->choose[k][l]));
	}
}

static bool are_near(unsigned a, unsigned b)
{
	return a + 1 >= b && b + 1 >= a;
}

/* The parent's neighbours' children that are no neighbours of this cell, and what the parent has. */
static void descend(struct plane *plane, int level, unsigned x, unsigned y)
{
	struct cell *here = cell_at(plane, level, x, y);
	complex_t centre = centre_of(level, x, y);
	unsigned parents = 1u << (level - 1), px = x / 2, py = y / 2;

	if (level > 2)
		shift_down(plane, cell_at(plane, level - 1, px, py), centre_of(level - 1, px, py), centre, here);
	for (unsigned fy = py ? 2 * py - 2 : 0; fy < 2 * (py + 2) && fy < 2 * parents; fy++) {
		for (unsigned fx = px ? 2 * px - 2 : 0; fx < 2 * (px + 2) && fx < 2 * parents; fx++) {
			if (!are_near(fx, x) || !are_near(fy, y))
				translate(plane, cell_at(plane, level, fx, fy), centre_of(level, fx, fy), centre, here);
		}
	}
}

static complex_t direct(const struct vortex *on, const struct vortex *from)
{
	return scaled(inverse(minus(on->place, from->place)), from->strength);
}

static void evaluate_leaf(struct plane *plane, unsigned x, unsigned y)
{
	struct cell *leaf = cell_at(plane, plane->deepest, x, y);
	complex_t centre = centre_of(plane->deepest, x, y);
	unsigned across = 1u << plane->deepest;

	for (int32_t i = leaf->first; i >= 0; i = plane->vortices[i].next) {
		struct vortex *vortex = &plane->vortices[i];
		complex_t away = minus(vortex->place, centre), field = { 0, 0 };

		for (int k = TERMS - 1; k >= 0; k--)
			field = plus(times(field, away), leaf->inward[k]);
		for (unsigned ny = y ? y - 1 : 0; ny <= y + 1 && ny < across; ny++) {
			for (unsigned nx = x ? x - 1 : 0; nx <= x + 1 && nx < across; nx++) {
				int32_t j = cell_at(plane, plane->deepest, nx, ny)->first;

				for (; j >= 0; j = plane->vortices[j].next) {
					if (j != i)
						field = plus(field, direct(vortex, &plane->vortices[j]));
				}
			}
		}
		vortex->field = field;
	}
}

static void clear(struct plane *plane, unsigned me)
{
	for (int level = 2; level <= plane->deepest; level++) {
		struct share mine = share_of((size_t)1 << 2 * level, plane->asked.threads, me);

		for (size_t i = mine.from; i < mine.to; i++) {
			struct cell *cell = &plane->levels[level][i];

			cell->first = -1;
			cell->children_done = 0;
			memset(cell->outward, 0, sizeof(cell->outward));
			memset(cell->inward, 0, sizeof(cell->inward));
		}
	}
}

static double inside(double value)
{
	return fmin(fmax(value, 0), 0x1.fffffp-1);
}

static void simulate(void *shared, unsigned me)
{
	struct plane *plane = shared;
	int deepest = plane->deepest;
	unsigned mask = (1u << deepest) - 1;
	struct share mine = share_of(plane->asked.size, plane->asked.threads, me);
	struct share leaves = share_of((size_t)1 << 2 * deepest, plane->asked.threads, me);

	for (unsigned step = 0; step < plane->asked.steps; step++) {
		clear(plane, me);
		barrier_wait(&plane->barrier);
		for (size_t i = mine.from; i < mine.to; i++)
			put(plane, (int32_t)i);
		barrier_wait(&plane->barrier);
		for (size_t i = leaves.from; i < leaves.to; i++)
			expand_leaf(plane, (unsigned)i & mask, (unsigned)(i >> deepest));
		barrier_wait(&plane->barrier);
		for (int level = 2; level <= deepest; level++) {
			struct share cells = share_of((size_t)1 << 2 * level, plane->asked.threads, me);

			for (size_t i = cells.from; i < cells.to; i++)
				descend(plane, level, (unsigned)i & ((1u << level) - 1), (unsigned)(i >> level));
			barrier_wait(&plane->barrier);
		}
		for (size_t i = leaves.from; i < leaves.to; i++)
			evaluate_leaf(plane, (unsigned)i & mask, (unsigned)(i >> deepest));
		barrier_wait(&plane->barrier);
		if (step == plane->asked.steps - 1)
			return;
		/* A vortex moves across the field of the others. */
		for (size_t i = mine.from; i < mine.to; i++) {
			struct vortex *vortex = &plane->vortices[i];

			vortex->place.re = inside(vortex->place.re + TIME_STEP * vortex->field.im);
			vortex->place.im = inside(vortex->place.im + TIME_STEP * vortex->field.re);
		}
	}
}

static void fill(struct plane *plane)
{
	uint64_t state = plane->asked.seed;

	for (size_t i = 0; i < plane->asked.size; i++) {
		struct vortex *vortex = &plane->vortices[i];

		vortex->place = (complex_t){ rng_unit(&state), rng_unit(&state) };
		vortex->strength = (rng_unit(&state) - 0.5) / plane->asked.size;
	}
	for (int n = 0; n < 2 * TERMS; n++) {
		plane->choose[n][0] = 1;
		for (int k = 1; k <= n; k++)
			plane->choose[n][k] = plane->choose[n - 1][k - 1] + (k < n ? plane->choose[n - 1][k] : 0);
	}
	for (int level = 2; level <= plane->deepest; level++) {
		plane->levels[level] = zeroed((size_t)1 << 2 * level, sizeof(struct cell));
		for (size_t i = 0; i < (size_t)1 << 2 * level; i++)
			must("mutex", pthread_mutex_init(&plane->levels[level][i].lock, NULL));
	}
}

/* Root mean square error of some fields against the sum over all vortices, in parts of the field. */
static double error_of(struct plane *plane)
{
	double wrong = 0, whole = 0;

	for (size_t sample = 0; sample < SAMPLES; sample++) {
		size_t i = sample * plane->asked.size / SAMPLES;
		complex_t field = { 0, 0 }, off;

		for (size_t j = 0; j < plane->asked.size; j++) {
			if (j != i)
				field = plus(field, direct(&plane->vortices[i], &plane->vortices[j]));
		}
		off = minus(field, plane->vortices[i].field);
		wrong += off.re * off.re + off.im * off.im;
		whole += field.re * field.re + field.im * field.im;
	}
	return sqrt(wrong / whole);
}

int main(int argc, char **argv)
{
	struct plane plane = { .asked = workload_of_steps(argc, argv, "vortices", 65536, 64, 1 << 20, STEPS), .deepest = 2 };
	uint64_t checksum = 0;
	bool holds;

	barrier_init(&plane.barrier, &plane.asked);
	while (plane.deepest < MOST_LEVELS - 1 && plane.asked.size >> 2 * plane.deepest > PER_LEAF)
		plane.deepest++;
	plane.vortices = zeroed(plane.asked.size, sizeof(*plane.vortices));
	fill(&plane);
	run_threads(plane.asked.threads, simulate, &plane);
	for (size_t i = 0; i < plane.asked.size; i++)
		checksum = mix_double(mix_double(checksum, plane.vortices[i].field.re), plane.vortices[i].field.im);
	holds = error_of(&plane) < 1e-3;
	for (int level = 2; level <= plane.deepest; level++)
		free(plane.levels[level]);
	free(plane.vortices);
	barrier_destroy(&plane.barrier);
	return workload_end(&plane.asked, checksum, holds, "fields against direct sums");
}
