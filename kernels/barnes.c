// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Gravity among n bodies by the hierarchical method of Barnes and Hut (1986). In each step the threads put their bodies into
 * one octree, locking the cell whose child they change, sum masses upwards, and take bodies in small lots from a counter to
 * compute forces. A tree of one body a leaf is the same whatever the order of insertion, so results are too.
 */
#include "barrier.h"

#include <math.h>
#include <stdatomic.h>

#define STEPS 3
#define LOCKS 128
#define DEEPEST 60
#define LOT 16
#define OPENING 0.8
#define SOFTENING 1e-4
#define TIME_STEP 1e-3
#define SAMPLES 32

struct body {
	double position[3], velocity[3], pull[3], mass;
};

/* A child is 0 for none, the number of a cell, or minus the number of a body less one. */
struct cell {
	_Atomic int32_t child[8];
	double centre[3], half;
	double mass_at[3], mass;
};

struct world {
	struct workload asked;
	struct barrier barrier;
	struct body *bodies;
	struct cell *cells;
	int32_t most_cells;
	_Atomic int32_t used_cells;
	pthread_mutex_t cell_locks[LOCKS];
	pthread_mutex_t box_lock, lot_lock;
	double low, high;
	size_t next_body;
};

static int octant_of(const struct cell *cell, const double *position)
{
	return (position[0] >= cell->centre[0]) | (position[1] >= cell->centre[1]) << 1 | (position[2] >= cell->centre[2]) << 2;
}

static int32_t new_cell(struct world *world, const struct cell *parent, int octant)
{
	int32_t number = atomic_fetch_add_explicit(&world->used_cells, 1, memory_order_relaxed);
	struct cell *cell;

	if (number >= world->most_cells)
		give_up("barnes: more cells than there is room for", ENOMEM);
	cell = &world->cells[number];
	memset(cell, 0, sizeof(*cell));
	cell->half = parent->half / 2;
	for (int axis = 0; axis < 3; axis++)
		cell->centre[axis] = parent->centre[axis] + (octant >> axis & 1 ? cell->half : -cell->half);
	return number;
}

static void insert(struct world *world, int32_t body)
{
	const double *position = world->bodies[body].position;
	int32_t at = 0;

	for (int depth = 0; depth < DEEPEST;) {
		struct cell *cell = &world->cells[at];
		int octant = octant_of(cell, position);
		int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_acquire);
		pthread_mutex_t *lock = &world->cell_locks[at % LOCKS];

		if (child > 0) {
			at = child;
			depth++;
			continue;
		}
		pthread_mutex_lock(lock);
		child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);
		if (child == 0) {
			atomic_store_explicit(&cell->child[octant], -body - 1, memory_order_release);
			pthread_mutex_unlock(lock);
			return;
		}
		if (child < 0) {
			int32_t fresh = new_cell(world, cell, octant);
			struct cell *inner = &world->cells[fresh];
			int seat = octant_of(inner, world->bodies[-child - 1].position);

			atomic_store_explicit(&inner->child[seat], child, memory_order_relaxed);
			atomic_store_explicit(&cell->child[octant], fresh, memory_order_release);
		}
		pthread_mutex_unlock(lock);
	}
	give_up("barnes: two bodies at one place", EINVAL);
}

/* Mass and its centre, of children whose own are known, always in the same order. */
static void gather(struct world *world, struct cell *cell)
{
	double sum[3] = { 0, 0, 0 }, mass = 0;

	for (int octant = 0; octant < 8; octant++) {
		int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);
		const double *place;
		double weight;

		if (child == 0)
			continue;
		place = child > 0 ? world->cells[child].mass_at : world->bodies[-child - 1].position;
		weight = child > 0 ? world->cells[child].mass : world->bodies[-child - 1].mass;
		mass += weight;
		for (int axis = 0; axis < 3; axis++)
			sum[axis] += weight * place[axis];
	}
	cell->mass = mass;
	for (int axis = 0; axis < 3; axis++)
		cell->mass_at[axis] = mass > 0 ? sum[axis] / mass : cell->centre[axis];
}

static void gather_below(struct world *world, int32_t number)
{
	struct cell *cell = &world->cells[number];

	for (int octant = 0; octant < 8; octant++) {
		int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);

		if (child > 0)
			gather_below(world, child);
	}
	gather(world, cell);
}

static void add_pull(double *pull, const double *from, const double *to, double mass)
{
	double way[3] = { to[0] - from[0], to[1] - from[1], to[2] - from[2] };
	double square = way[0] * way[0] + way[1] * way[1] + way[2] * way[2] + SOFTENING;
	double strength = mass / (square * sqrt(square));

	for (int axis = 0; axis < 3; axis++)
		pull[axis] += strength * way[axis];
}

static void pull_on(struct world *world, int32_t body, double *pull)
{
	const double *position = world->bodies[body].position;
	int32_t stack[8 * DEEPEST];
	int top = 0;

	pull[0] = pull[1] = pull[2] = 0;
	stack[top++] = 0;
	while (top > 0) {
		struct cell *cell = &world->cells[stack[--top]];

		for (int octant = 0; octant < 8; octant++) {
			int32_t child = atomic_load_explicit(&cell->child[octant], memory_order_relaxed);
			struct cell *inner = &world->cells[child > 0 ? child : 0];
			double square = 0;

			if (child < 0 && -child - 1 != body)
				add_pull(pull, position, world->bodies[-child - 1].position, world->bodies[-child - 1].mass);
			if (child <= 0)
				continue;
			for (int axis = 0; axis < 3; axis++)
				square += (inner->mass_at[axis] - position[axis]) * (inner->mass_at[axis] - position[axis]);
			if (4 * inner->half * inner->half < OPENING * OPENING * square)
				add_pull(pull, position, inner->mass_at, inner->mass);
			else
				stack[top++] = child;
		}
	}
}

static void enclose(struct world *world, struct share mine)
{
	double low = 0, high = 0;

	for (size_t i = mine.from; i < mine.to; i++) {
		for (int axis = 0; axis < 3; axis++) {
			low = fmin(low, world->bodies[i].position[axis]);
			high = fmax(high, world->bodies[i].position[axis]);
		}
	}
	pthread_mutex_lock(&world->box_lock);
	world->low = fmin(world->low, low);
	world->high = fmax(world->high, high);
	pthread_mutex_unlock(&world->box_lock);
}

static void plant(struct world *world)
{
	struct cell *root = &world->cells[0];
	double middle = (world->low + world->high) / 2;

	memset(root, 0, sizeof(*root));
	root->half = (world->high - world->low) / 2 * 1.001;
	root->centre[0] = root->centre[1] = root->centre[2] = middle;
	atomic_store(&world->used_cells, 1);
	world->next_body = 0;
	world->low = world->high = 0;
}

static void gather_mine(struct world *world, unsigned me)
{
	for (unsigned part = me; part < 64; part += world->asked.threads) {
		int32_t outer = atomic_load(&world->cells[0].child[part / 8]);
		int32_t inner = outer > 0 ? atomic_load(&world->cells[outer].child[part % 8]) : 0;

		if (inner > 0)
			gather_below(world, inner);
	}
	barrier_wait(&world->barrier);
	if (me == 0) {
		for (int octant = 0; octant < 8; octant++) {
			int32_t outer = atomic_load(&world->cells[0].child[octant]);

			if (outer > 0)
				gather(world, &world->cells[outer]);
		}
		gather(world, &world->cells[0]);
	}
	barrier_wait(&world->barrier);
}

static void pull_lots(struct world *world)
{
	for (;;) {
		size_t from, to;

		pthread_mutex_lock(&world->lot_lock);
		from = world->next_body;
		world->next_body += LOT;
		pthread_mutex_unlock(&world->lot_lock);
		to = from + LOT < world->asked.size ? from + LOT : world->asked.size;
		if (from >= to)
			return;
		for (size_t i = from; i < to; i++)
			pull_on(world, (int32_t)i, world->bodies[i].pull);
	}
}

static void simulate(void *shared, unsigned me)
{
	struct world *world = shared;
	struct share mine = share_of(world->asked.size, world->asked.threads, me);

	for (unsigned step = 0; step < world->asked.steps; step++) {
		enclose(world, mine);
		barrier_wait(&world->barrier);
		if (me == 0)
			plant(world);
		barrier_wait(&world->barrier);
		for (size_t i = mine.from; i < mine.to; i++)
			insert(world, (int32_t)i);
		barrier_wait(&world->barrier);
		gather_mine(world, me);
		pull_lots(world);
		barrier_wait(&world->barrier);
		if (step == world->asked.steps - 1)
			return;
		for (size_t i = mine.from; i < mine.to; i++) {
			for (int axis = 0; axis < 3; axis++) {
				struct body *body = &world->bodies[i];

				body->velocity[axis] += TIME_STEP * body->pull[axis];
				body->position[axis] += TIME_STEP * body->velocity[axis];
			}
		}
		barrier_wait(&world->barrier);
	}
}

/* A ball of bodies that is denser in the middle. */
static void fill(struct world *world)
{
	uint64_t state = world->asked.seed;

	for (size_t i = 0; i < world->asked.size; i++) {
		struct body *body = &world->bodies[i];
		double square, radius = rng_unit(&state);

		do {
			square = 0;
			for (int axis = 0; axis < 3; axis++) {
				body->position[axis] = 2 * rng_unit(&state) - 1;
				square += body->position[axis] * body->position[axis];
			}
		} while (square > 1 || square < 0.01);
		for (int axis = 0; axis < 3; axis++) {
			body->position[axis] *= radius / sqrt(square);
			body->velocity[axis] = 0.2 * (rng_unit(&state) - 0.5);
		}
		body->mass = 1.0 / world->asked.size;
	}
}

/* Root mean square error of some pulls against the sum over all bodies, in parts of the pull. */
static double error_of(struct world *world)
{
	double wrong = 0, whole = 0;

	for (size_t sample = 0; sample < SAMPLES; sample++) {
		size_t i = sample * world->asked.size / SAMPLES;
		double pull[3] = { 0, 0, 0 };

		for (size_t j = 0; j < world->asked.size; j++) {
			if (j != i)
				add_pull(pull, world->bodies[i].position, world->bodies[j].position, world->bodies[j].mass);
		}
		for (int axis = 0; axis < 3; axis++) {
			wrong += (pull[axis] - world->bodies[i].pull[axis]) * (pull[axis] - world->bodies[i].pull[axis]);
			whole += pull[axis] * pull[axis];
		}
	}
	return sqrt(wrong / whole);
}

int main(int argc, char **argv)
{
	struct world world = { .asked = workload_of_steps(argc, argv, "bodies", 32768, 64, 1 << 20, STEPS) };
	uint64_t checksum = 0;
	bool holds;

	barrier_init(&world.barrier, &world.asked);
	world.bodies = zeroed(world.asked.size, sizeof(*world.bodies));
	world.most_cells = (int32_t)(4 * world.asked.size + 1024);
	world.cells = zeroed((size_t)world.most_cells, sizeof(*world.cells));
	for (int i = 0; i < LOCKS; i++)
		must("mutex", pthread_mutex_init(&world.cell_locks[i], NULL));
	must("mutex", pthread_mutex_init(&world.box_lock, NULL));
	must("mutex", pthread_mutex_init(&world.lot_lock, NULL));
	fill(&world);
	run_threads(world.asked.threads, simulate, &world);
	for (size_t i = 0; i < world.asked.size; i++) {
		for (int axis = 0; axis < 3; axis++)
			checksum = mix_double(mix_double(checksum, world.bodies[i].position[axis]), world.bodies[i].pull[axis]);
	}
	holds = error_of(&world) < 0.03;
	free(world.cells);
	free(world.bodies);
	barrier_destroy(&world.barrier);
	return workload_end(&world.asked, checksum, holds, "forces against direct sums");
}
