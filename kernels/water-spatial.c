// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The water of water-nsquared, with molecules in cells as wide as the cut-off, so that only neighbouring cells are looked at.
 * Cells are lists with a lock each: molecules move between them under two locks, one at a time. The result is that of
 * water-nsquared to the last bit.
 */
#include "barrier.h"
#include "molecules.h"

#define STEPS 6

struct cell {
	pthread_mutex_t lock;
	/* The first molecule of the list, or -1. */
	int32_t first;
};

struct simulation {
	struct workload asked;
	struct barrier barrier;
	struct water water;
	struct cell *cells;
	int across;
	/* Of each molecule: the next one of its cell's list, and its cell. */
	int32_t *next, *cell_of;
	pthread_mutex_t energy_lock;
	fixed energy[STEPS + 1];
};

static void add_energy(struct simulation *simulation, int step, fixed energy)
{
	pthread_mutex_lock(&simulation->energy_lock);
	simulation->energy[step] += energy;
	pthread_mutex_unlock(&simulation->energy_lock);
}

static int32_t cell_for(const struct simulation *simulation, size_t molecule)
{
	int32_t number = 0;

	for (int axis = 2; axis >= 0; axis--) {
		double part = simulation->water.molecules[molecule].place[0][axis] / simulation->water.side;
		int seat = (int)(part * simulation->across);

		number = number * simulation->across + (seat < simulation->across ? seat : simulation->across - 1);
	}
	return number;
}

static void enter(struct simulation *simulation, int32_t molecule, int32_t number)
{
	struct cell *cell = &simulation->cells[number];

	pthread_mutex_lock(&cell->lock);
	simulation->next[molecule] = cell->first;
	cell->first = molecule;
	simulation->cell_of[molecule] = number;
	pthread_mutex_unlock(&cell->lock);
}

static void leave(struct simulation *simulation, int32_t molecule)
{
	struct cell *cell = &simulation->cells[simulation->cell_of[molecule]];
	int32_t *link = &cell->first;

	pthread_mutex_lock(&cell->lock);
	while (*link != molecule)
		link = &simulation->next[*link];
	*link = simulation->next[molecule];
	pthread_mutex_unlock(&cell->lock);
}

static void move(struct simulation *simulation, struct share mine)
{
	for (size_t i = mine.from; i < mine.to; i++) {
		int32_t to;

		drift(&simulation->water, &simulation->water.molecules[i]);
		to = cell_for(simulation, i);
		if (to == simulation->cell_of[i])
			continue;
		leave(simulation, (int32_t)i);
		enter(simulation, (int32_t)i, to);
	}
}

/* Forces on one molecule by all of a cell. Each pair is computed from both ends and counts half of its energy at each. */
static fixed from_cell(struct simulation *simulation, size_t molecule, const struct cell *cell)
{
	struct water *water = &simulation->water;
	fixed(*mine)[3] = water->molecules[molecule].force, energy = 0;

	for (int32_t i = cell->first; i >= 0; i = simulation->next[i]) {
		fixed other[SITES][3] = { { 0 } };
		size_t neighbour = (size_t)i;

		if (neighbour < molecule)
			energy += to_fixed(pair_forces(water, neighbour, molecule, other, mine));
		else if (neighbour > molecule)
			pair_forces(water, molecule, neighbour, mine, other);
	}
	return energy;
}

static fixed around(struct simulation *simulation, size_t molecule)
{
	int across = simulation->across, here = simulation->cell_of[molecule];
	int x = here % across, y = here / across % across, z = here / across / across;
	fixed energy = 0;

	for (int neighbour = 0; neighbour < 27; neighbour++) {
		int nx = (x + neighbour % 3 - 1 + across) % across, ny = (y + neighbour / 3 % 3 - 1 + across) % across;
		int nz = (z + neighbour / 9 - 1 + across) % across;

		energy += from_cell(simulation, molecule, &simulation->cells[(nz * across + ny) * across + nx]);
	}
	return energy;
}

static fixed find_forces(struct simulation *simulation, struct share mine)
{
	struct water *water = &simulation->water;
	fixed energy = 0;

	for (size_t i = mine.from; i < mine.to; i++) {
		struct molecule *molecule = &water->molecules[i];

		memset(molecule->force, 0, sizeof(molecule->force));
		energy += to_fixed(inner_forces(molecule, molecule->force));
		/* With fewer than three cells on a side a neighbour would be met twice. */
		if (simulation->across < 3)
			energy += from_cell(simulation, i, &simulation->cells[0]);
		else
			energy += around(simulation, i);
	}
	return energy;
}

static void simulate(void *shared, unsigned me)
{
	struct simulation *simulation = shared;
	struct water *water = &simulation->water;
	struct share mine = share_of(water->count, simulation->asked.threads, me);
	fixed energy;

	for (size_t i = mine.from; i < mine.to; i++)
		enter(simulation, (int32_t)i, cell_for(simulation, i));
	barrier_wait(&simulation->barrier);
	energy = find_forces(simulation, mine);
	for (size_t i = mine.from; i < mine.to; i++) {
		struct molecule still = water->molecules[i];

		memset(still.force, 0, sizeof(still.force));
		energy += to_fixed(kick(&still));
	}
	add_energy(simulation, 0, energy);
	barrier_wait(&simulation->barrier);
	for (int step = 1; step <= (int)simulation->asked.steps; step++) {
		for (size_t i = mine.from; i < mine.to; i++)
			kick(&water->molecules[i]);
		move(simulation, mine);
		barrier_wait(&simulation->barrier);
		energy = find_forces(simulation, mine);
		for (size_t i = mine.from; i < mine.to; i++)
			energy += to_fixed(kick(&water->molecules[i]));
		add_energy(simulation, step, energy);
		barrier_wait(&simulation->barrier);
	}
}

int main(int argc, char **argv)
{
	struct simulation simulation = { .asked = workload_of_steps(argc, argv, "molecules", 8000, 27, 1 << 18, STEPS) };
	struct water *water = &simulation.water;
	uint64_t checksum;
	size_t cells;
	bool holds;

	barrier_init(&simulation.barrier, &simulation.asked);
	water_fill(water, simulation.asked.size, simulation.asked.seed);
	simulation.across = (int)floor(water->side / CUT_OFF);
	if (simulation.across < 3)
		simulation.across = 1;
	cells = (size_t)simulation.across * (size_t)simulation.across * (size_t)simulation.across;
	simulation.cells = zeroed(cells, sizeof(*simulation.cells));
	for (size_t i = 0; i < cells; i++) {
		simulation.cells[i].first = -1;
		must("mutex", pthread_mutex_init(&simulation.cells[i].lock, NULL));
	}
	simulation.next = zeroed(water->count, sizeof(*simulation.next));
	simulation.cell_of = zeroed(water->count, sizeof(*simulation.cell_of));
	must("mutex", pthread_mutex_init(&simulation.energy_lock, NULL));
	run_threads(simulation.asked.threads, simulate, &simulation);
	checksum = water_checksum(water, simulation.energy[simulation.asked.steps]);
	holds = forces_balance(water) && energy_is_kept(simulation.energy[0], simulation.energy[simulation.asked.steps], water->count);
	free(simulation.cells);
	free(simulation.next);
	free(simulation.cell_of);
	free(water->molecules);
	barrier_destroy(&simulation.barrier);
	return workload_end(&simulation.asked, checksum, holds, "energy and balance of forces");
}
