// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A fluid of particles by smoothed-particle hydrodynamics (Müller, Charypar and Gross, 2003) over a grid of cells that is
 * dealt out in slabs. Each pair of neighbours is looked at once, and what it does to particles of cells at the border of a
 * slab is added under that cell's lock; each thread takes the particles of its own cells along, as in Parsec's. Sums are in fixed point: any order gives the same, and all forces are zero together.
 */
#include "barrier.h"

#include <math.h>

#define STEPS 3
/* Length of a cell, and reach of a particle. */
#define REACH 1.0
#define PER_CELL 4
#define TIME_STEP 0.004
#define REST_DENSITY 3.0
#define STIFFNESS 6.0
#define VISCOSITY 1.5
#define GRAVITY (-4.0)

struct particle {
	double place[3], velocity[3];
	fixed density, force[3];
	int32_t next;
};

struct cell {
	pthread_mutex_t lock;
	/* Its particles, and those of the step before. */
	int32_t first, before;
	/* Other threads may add to its particles too. */
	bool border;
};

struct fluid {
	struct workload asked;
	struct barrier barrier;
	struct particle *particles;
	struct cell *cells;
	/* Cells along each axis; x runs fastest, and slabs are stretches of z and y. */
	int across;
	size_t count;
	double side;
};

/* What a pair does to the one with the lower number; the other gets the opposite (or, of densities, the same). */
struct effect {
	/* Which of the two it is: densities are read while forces are written. */
	bool is_force;
	fixed density, force[3];
};

static int seat_of(const struct fluid *fluid, double place)
{
	int seat = (int)(place / REACH);

	return seat < 0 ? 0 : seat >= fluid->across ? fluid->across - 1 : seat;
}

static struct cell *cell_for(struct fluid *fluid, const struct particle *particle)
{
	int across = fluid->across;

	return &fluid->cells[(seat_of(fluid, particle->place[2]) * across + seat_of(fluid, particle->place[1])) * across +
			     seat_of(fluid, particle->place[0])];
}

/* Others come only into cells at the border: nothing goes further than a cell in a step. */
static void enter(struct fluid *fluid, size_t number)
{
	struct particle *particle = &fluid->particles[number];
	struct cell *cell = cell_for(fluid, particle);

	particle->density = 0;
	memset(particle->force, 0, sizeof(particle->force));
	if (cell->border)
		pthread_mutex_lock(&cell->lock);
	particle->next = cell->first;
	cell->first = (int32_t)number;
	if (cell->border)
		pthread_mutex_unlock(&cell->lock);
}

static bool density_of(struct fluid *fluid, size_t low, size_t high, struct effect *effect)
{
	const struct particle *a = &fluid->particles[low], *b = &fluid->particles[high];
	double square = 0, near;

	for (int axis = 0; axis < 3; axis++)
		square += (a->place[axis] - b->place[axis]) * (a->place[axis] - b->place[axis]);
	near = REACH * REACH - square;
	if (near <= 0)
		return false;
	effect->density = to_fixed(near * near * near);
	return true;
}

static bool force_of(struct fluid *fluid, size_t low, size_t high, struct effect *effect)
{
	const struct particle *a = &fluid->particles[low], *b = &fluid->particles[high];
	double way[3], square = 0, length, near, push, drag, pressure;

	for (int axis = 0; axis < 3; axis++) {
		way[axis] = a->place[axis] - b->place[axis];
		square += way[axis] * way[axis];
	}
	if (square >= REACH * REACH)
		return false;
	length = sqrt(square) + 1e-9;
	near = REACH - length;
	/* Never below zero: a thin fluid does not pull itself into lumps. */
	pressure = STIFFNESS * fmax(of_fixed(a->density) + of_fixed(b->density) - 2 * REST_DENSITY, 0);
	push = pressure * near * near / length / 20;
	drag = VISCOSITY * near;
	effect->is_force = true;
	for (int axis = 0; axis < 3; axis++)
		effect->force[axis] = to_fixed(push * way[axis] + drag * (b->velocity[axis] - a->velocity[axis]));
	return true;
}

static void add_effect(struct particle *particle, const struct effect *effect, int sign)
{
	if (!effect->is_force)
		particle->density += effect->density;
	for (int axis = 0; axis < 3 && effect->is_force; axis++)
		particle->force[axis] += sign * effect->force[axis];
}

static void add_under_lock(struct cell *cell, struct particle *particle, const struct effect *effect, int sign)
{
	if (!cell->border) {
		add_effect(particle, effect, sign);
		return;
	}
	pthread_mutex_lock(&cell->lock);
	add_effect(particle, effect, sign);
	pthread_mutex_unlock(&cell->lock);
}

typedef bool pair_effect(struct fluid *, size_t low, size_t high, struct effect *);

/* All pairs of a particle with those that come after it in its cell, or with all of another cell. */
static void pairs_of(struct fluid *fluid, struct cell *home, int32_t number, struct cell *other, pair_effect *find)
{
	struct particle *particles = fluid->particles;
	int32_t from = other == home ? particles[number].next : other->first;

	for (int32_t i = from; i >= 0; i = particles[i].next) {
		struct effect effect = { 0 };
		int32_t low = i < number ? i : number, high = i < number ? number : i;

		if (!find(fluid, (size_t)low, (size_t)high, &effect))
			continue;
		add_under_lock(home, &particles[number], &effect, number == low ? 1 : -1);
		add_under_lock(other, &particles[i], &effect, i == low ? 1 : -1);
	}
}

/* Each pair of cells once: a cell with itself and with the half of its neighbours that come after it. */
static void pairs_of_cells(struct fluid *fluid, struct share mine, pair_effect *find)
{
	int across = fluid->across;

	for (size_t number = mine.from; number < mine.to; number++) {
		struct cell *home = &fluid->cells[number];
		int x = (int)number % across, y = (int)number / across % across, z = (int)number / across / across;

		for (int32_t i = home->first; i >= 0; i = fluid->particles[i].next) {
			for (int neighbour = 13; neighbour < 27; neighbour++) {
				int nx = x + neighbour % 3 - 1, ny = y + neighbour / 3 % 3 - 1, nz = z + neighbour / 9 - 1;

				if (nx < 0 || ny < 0 || nx >= across || ny >= across || nz >= across)
					continue;
				pairs_of(fluid, home, i, &fluid->cells[(nz * across + ny) * across + nx], find);
			}
		}
	}
}

/* Walls throw back with half the speed. */
static void advance(struct fluid *fluid, struct particle *particle)
{
	for (int axis = 0; axis < 3; axis++) {
		double *place = &particle->place[axis], *velocity = &particle->velocity[axis];

		*velocity += TIME_STEP * (of_fixed(particle->force[axis]) + (axis == 1 ? GRAVITY : 0));
		*place += fmin(fmax(TIME_STEP * *velocity, -REACH), REACH);
		if (*place < 0 || *place > fluid->side) {
			*place = *place < 0 ? 0 : fluid->side;
			*velocity *= -0.5;
		}
	}
}

static void simulate(void *shared, unsigned me)
{
	struct fluid *fluid = shared;
	size_t cells = (size_t)fluid->across * (size_t)fluid->across * (size_t)fluid->across;
	struct share mine = share_of(fluid->count, fluid->asked.threads, me);
	struct share slab = share_of(cells, fluid->asked.threads, me);

	for (unsigned step = 0; step < fluid->asked.steps; step++) {
		for (size_t i = slab.from; i < slab.to; i++) {
			fluid->cells[i].before = fluid->cells[i].first;
			fluid->cells[i].first = -1;
		}
		barrier_wait(&fluid->barrier);
		for (size_t i = slab.from; i < slab.to; i++) {
			for (int32_t number = fluid->cells[i].before, next; number >= 0; number = next) {
				next = fluid->particles[number].next;
				enter(fluid, (size_t)number);
			}
		}
		barrier_wait(&fluid->barrier);
		pairs_of_cells(fluid, slab, density_of);
		barrier_wait(&fluid->barrier);
		pairs_of_cells(fluid, slab, force_of);
		barrier_wait(&fluid->barrier);
		if (step == fluid->asked.steps - 1)
			return;
		for (size_t i = mine.from; i < mine.to; i++)
			advance(fluid, &fluid->particles[i]);
		barrier_wait(&fluid->barrier);
	}
}

/* A cell is at the border if one of its neighbours in the plane below or above, or beside it, has another owner. */
static void find_borders(struct fluid *fluid)
{
	size_t cells = (size_t)fluid->across * (size_t)fluid->across * (size_t)fluid->across;
	size_t reach = (size_t)(fluid->across * fluid->across + fluid->across + 1);

	for (unsigned me = 0; me < fluid->asked.threads; me++) {
		struct share slab = share_of(cells, fluid->asked.threads, me);

		for (size_t i = slab.from; i < slab.to; i++)
			fluid->cells[i].border = (i < slab.from + reach && slab.from > 0) || (i + reach >= slab.to && slab.to < cells);
	}
}

static void fill(struct fluid *fluid)
{
	uint64_t state = fluid->asked.seed;
	size_t cells;

	fluid->count = fluid->asked.size;
	fluid->across = 3;
	while ((size_t)(fluid->across * fluid->across * fluid->across) * PER_CELL < fluid->count)
		fluid->across++;
	fluid->side = fluid->across * REACH;
	cells = (size_t)fluid->across * (size_t)fluid->across * (size_t)fluid->across;
	fluid->cells = zeroed(cells, sizeof(*fluid->cells));
	fluid->particles = zeroed(fluid->count, sizeof(*fluid->particles));
	for (size_t i = 0; i < cells; i++) {
		must("mutex", pthread_mutex_init(&fluid->cells[i].lock, NULL));
		fluid->cells[i].first = -1;
	}
	find_borders(fluid);
	for (size_t i = 0; i < fluid->count; i++) {
		for (int axis = 0; axis < 3; axis++) {
			fluid->particles[i].place[axis] = fluid->side * rng_unit(&state) * (axis == 0 ? 0.7 : 1);
			fluid->particles[i].velocity[axis] = rng_unit(&state) - 0.5;
		}
		enter(fluid, i);
	}
}

/* All forces together are zero, each particle is in one cell, and none has left the box. */
static bool is_sound(struct fluid *fluid)
{
	fixed sum[3] = { 0, 0, 0 };
	size_t found = 0, inside = 0;
	size_t cells = (size_t)fluid->across * (size_t)fluid->across * (size_t)fluid->across;

	for (size_t i = 0; i < cells; i++) {
		for (int32_t k = fluid->cells[i].first; k >= 0; k = fluid->particles[k].next)
			found += cell_for(fluid, &fluid->particles[k]) == &fluid->cells[i];
	}
	for (size_t i = 0; i < fluid->count; i++) {
		bool in = true;

		for (int axis = 0; axis < 3; axis++) {
			sum[axis] += fluid->particles[i].force[axis];
			in = in && fluid->particles[i].place[axis] >= 0 && fluid->particles[i].place[axis] <= fluid->side;
		}
		inside += in;
	}
	return found == fluid->count && inside == fluid->count && sum[0] == 0 && sum[1] == 0 && sum[2] == 0;
}

int main(int argc, char **argv)
{
	struct fluid fluid = { .asked = workload_of_steps(argc, argv, "particles", 100000, 64, 1 << 22, STEPS) };
	uint64_t checksum = 0;
	bool holds;

	barrier_init(&fluid.barrier, &fluid.asked);
	fill(&fluid);
	run_threads(fluid.asked.threads, simulate, &fluid);
	for (size_t i = 0; i < fluid.count; i++) {
		checksum = mix(checksum, (uint64_t)fluid.particles[i].density);
		for (int axis = 0; axis < 3; axis++)
			checksum = mix_double(checksum, fluid.particles[i].place[axis]);
	}
	holds = is_sound(&fluid);
	free(fluid.particles);
	free(fluid.cells);
	barrier_destroy(&fluid.barrier);
	return workload_end(&fluid.asked, checksum, holds, "balance of forces");
}
