// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Molecular dynamics of water over all pairs of molecules. A thread has some molecules and for each of them the half of all
 * others that follow it; it gathers forces of its own and adds them to the molecules under their locks. Barriers part the
 * phases of a step, and a lock guards the sums of energy.
 */
#include "barrier.h"
#include "molecules.h"

#define STEPS 6

struct simulation {
	struct workload asked;
	struct barrier barrier;
	struct water water;
	pthread_mutex_t *molecule_locks;
	pthread_mutex_t energy_lock;
	fixed energy[STEPS + 1];
};

static void add_energy(struct simulation *simulation, int step, fixed energy)
{
	pthread_mutex_lock(&simulation->energy_lock);
	simulation->energy[step] += energy;
	pthread_mutex_unlock(&simulation->energy_lock);
}

/* Forces on all molecules by the pairs of this thread's, into `own`; answers the energy. */
static fixed gather(const struct water *water, struct share mine, fixed (*own)[SITES][3])
{
	size_t count = water->count;
	fixed energy = 0;

	for (size_t i = mine.from; i < mine.to; i++) {
		energy += to_fixed(inner_forces(&water->molecules[i], own[i]));
		for (size_t ahead = 1; ahead <= count / 2; ahead++) {
			size_t j = (i + ahead) % count, low = i < j ? i : j, high = i < j ? j : i;

			/* With an even count a pair of opposites belongs to the first of them. */
			if (2 * ahead == count && i >= count / 2)
				continue;
			energy += to_fixed(pair_forces(water, low, high, own[low], own[high]));
		}
	}
	return energy;
}

static void find_forces(struct simulation *simulation, struct share mine, int step, fixed (*own)[SITES][3])
{
	struct water *water = &simulation->water;

	for (size_t i = mine.from; i < mine.to; i++)
		memset(water->molecules[i].force, 0, sizeof(water->molecules[i].force));
	memset(own, 0, water->count * sizeof(*own));
	barrier_wait(&simulation->barrier);
	add_energy(simulation, step, gather(water, mine, own));
	/* From one's own molecules on, so that threads do not meet at the same locks. */
	for (size_t ahead = 0; ahead < water->count; ahead++) {
		size_t i = (mine.from + ahead) % water->count;
		fixed *sum = &water->molecules[i].force[0][0], *part = &own[i][0][0];
		bool any = false;

		for (int k = 0; k < SITES * 3; k++)
			any = any || part[k];
		if (!any)
			continue;
		pthread_mutex_lock(&simulation->molecule_locks[i]);
		for (int k = 0; k < SITES * 3; k++)
			sum[k] += part[k];
		pthread_mutex_unlock(&simulation->molecule_locks[i]);
	}
	barrier_wait(&simulation->barrier);
}

static void simulate(void *shared, unsigned me)
{
	struct simulation *simulation = shared;
	struct water *water = &simulation->water;
	struct share mine = share_of(water->count, simulation->asked.threads, me);
	fixed(*own)[SITES][3] = zeroed(water->count, sizeof(*own)), kinetic = 0;

	find_forces(simulation, mine, 0, own);
	for (size_t i = mine.from; i < mine.to; i++) {
		struct molecule still = water->molecules[i];

		memset(still.force, 0, sizeof(still.force));
		kinetic += to_fixed(kick(&still));
	}
	add_energy(simulation, 0, kinetic);
	for (int step = 1; step <= (int)simulation->asked.steps; step++) {
		for (size_t i = mine.from; i < mine.to; i++) {
			kick(&water->molecules[i]);
			drift(water, &water->molecules[i]);
		}
		barrier_wait(&simulation->barrier);
		find_forces(simulation, mine, step, own);
		kinetic = 0;
		for (size_t i = mine.from; i < mine.to; i++)
			kinetic += to_fixed(kick(&water->molecules[i]));
		add_energy(simulation, step, kinetic);
	}
	free(own);
}

int main(int argc, char **argv)
{
	struct simulation simulation = { .asked = workload_of_steps(argc, argv, "molecules", 2197, 27, 1 << 16, STEPS) };
	struct water *water = &simulation.water;
	uint64_t checksum;
	bool holds;

	barrier_init(&simulation.barrier, &simulation.asked);
	water_fill(water, simulation.asked.size, simulation.asked.seed);
	simulation.molecule_locks = zeroed(water->count, sizeof(*simulation.molecule_locks));
	for (size_t i = 0; i < water->count; i++)
		must("mutex", pthread_mutex_init(&simulation.molecule_locks[i], NULL));
	must("mutex", pthread_mutex_init(&simulation.energy_lock, NULL));
	run_threads(simulation.asked.threads, simulate, &simulation);
	checksum = water_checksum(water, simulation.energy[simulation.asked.steps]);
	holds = forces_balance(water) && energy_is_kept(simulation.energy[0], simulation.energy[simulation.asked.steps], water->count);
	free(simulation.molecule_locks);
	free(water->molecules);
	barrier_destroy(&simulation.barrier);
	return workload_end(&simulation.asked, checksum, holds, "energy and balance of forces");
}
