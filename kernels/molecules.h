/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Water of three-site molecules in a periodic box: springs within a molecule; between molecules a Lennard-Jones force of
 * the oxygens and a charge-charge force of all sites, which ends smoothly at a cut-off between oxygens. Units are reduced.
 *
 * Forces are summed in fixed point: the sums are the same in any order, and all forces together are exactly zero.
 */
#ifndef QUAVER_MOLECULES_H
#define QUAVER_MOLECULES_H

#include "workload.h"

#include <math.h>

#define SITES 3
#define CUT_OFF 2.5
/* Mean distance of molecules, on the lattice where they begin. */
#define SPACING 1.25
#define TIME_STEP 2e-4
#define SPRING 400.0
#define BOND 0.32
#define SPREAD 0.52

struct molecule {
	double place[SITES][3], velocity[SITES][3];
	fixed force[SITES][3];
};

struct water {
	struct molecule *molecules;
	size_t count;
	/* Length of the box, which is periodic. */
	double side;
};

static const double site_mass[SITES] = { 1, 0.2, 0.2 };
static const double site_charge[SITES] = { -0.6, 0.3, 0.3 };

static inline void water_fill(struct water *water, size_t count, uint64_t seed)
{
	static const double form[SITES][3] = { { 0, 0, 0 }, { BOND, 0, 0 }, { -0.1, 0.304, 0 } };
	size_t across = 1;
	double drift[3] = { 0, 0, 0 };

	while (across * across * across < count)
		across++;
	water->count = count;
	water->side = fmax((double)across * SPACING, 2 * CUT_OFF);
	water->molecules = zeroed(count, sizeof(*water->molecules));
	for (size_t i = 0; i < count; i++) {
		size_t seat[3] = { i % across, i / across % across, i / across / across };
		int turn = (int)(rng_next(&seed) % 3);

		for (int axis = 0; axis < 3; axis++) {
			double velocity = rng_unit(&seed) - 0.5;

			drift[axis] += velocity / (double)count;
			for (int site = 0; site < SITES; site++) {
				water->molecules[i].place[site][axis] =
					((double)seat[axis] + 0.5) * SPACING + form[site][(axis + turn) % 3];
				water->molecules[i].velocity[site][axis] = velocity;
			}
		}
	}
	for (size_t i = 0; i < count; i++) {
		for (int site = 0; site < SITES; site++) {
			for (int axis = 0; axis < 3; axis++)
				water->molecules[i].velocity[site][axis] -= drift[axis];
		}
	}
}

static inline void push(fixed (*one)[3], fixed (*other)[3], int site, int other_site, const double *way, double strength)
{
	for (int axis = 0; axis < 3; axis++) {
		fixed force = to_fixed(strength * way[axis]);

		one[site][axis] += force;
		other[other_site][axis] -= force;
	}
}

/* Springs of a molecule; answers their energy. */
static inline double inner_forces(const struct molecule *molecule, fixed (*force)[3])
{
	static const double rest[SITES] = { BOND, SPREAD, BOND };
	double energy = 0;

	for (int site = 0; site < SITES; site++) {
		int other = (site + 1) % SITES;
		double way[3], square = 0, length, stretch;

		for (int axis = 0; axis < 3; axis++) {
			way[axis] = molecule->place[site][axis] - molecule->place[other][axis];
			square += way[axis] * way[axis];
		}
		length = sqrt(square);
		stretch = length - rest[site];
		energy += SPRING / 2 * stretch * stretch;
		push(force, force, site, other, way, -SPRING * stretch / length);
	}
	return energy;
}

/* The shortest way between two oxygens, and the shift of the box that it takes. */
static inline double oxygen_way(const struct water *water, const struct molecule *a, const struct molecule *b, double *shift)
{
	double square = 0;

	for (int axis = 0; axis < 3; axis++) {
		double way = a->place[0][axis] - b->place[0][axis];

		shift[axis] = -water->side * floor(way / water->side + 0.5);
		square += (way + shift[axis]) * (way + shift[axis]);
	}
	return square;
}

/* Forces between two molecules, the one with the lower number first; answers their energy. */
static inline double pair_forces(const struct water *water, size_t low, size_t high, fixed (*on_low)[3], fixed (*on_high)[3])
{
	const struct molecule *a = &water->molecules[low], *b = &water->molecules[high];
	double shift[3], square = oxygen_way(water, a, b, shift), fade, fade_slope, sixth, energy = 0, bare = 0, way[3];

	if (square >= CUT_OFF * CUT_OFF)
		return 0;
	/* (1 - r^2 / c^2)^2 takes energy and force to zero at the cut-off; its slope by r is fade_slope times r. */
	fade = 1 - square / (CUT_OFF * CUT_OFF);
	fade_slope = -4 * fade / (CUT_OFF * CUT_OFF);
	fade *= fade;
	for (int i = 0; i < SITES; i++) {
		for (int j = 0; j < SITES; j++) {
			double length, part;

			square = 0;
			for (int axis = 0; axis < 3; axis++) {
				way[axis] = a->place[i][axis] - b->place[j][axis] + shift[axis];
				square += way[axis] * way[axis];
			}
			/* Softened, for hydrogens have no size of their own. */
			square += 0.1;
			length = sqrt(square);
			part = site_charge[i] * site_charge[j] / length;
			bare += part;
			push(on_low, on_high, i, j, way, fade * part / square);
		}
	}
	square = 0;
	for (int axis = 0; axis < 3; axis++) {
		way[axis] = a->place[0][axis] - b->place[0][axis] + shift[axis];
		square += way[axis] * way[axis];
	}
	sixth = 1 / (square * square * square);
	bare += 4 * (sixth * sixth - sixth);
	push(on_low, on_high, 0, 0, way, fade * 24 * (2 * sixth * sixth - sixth) / square - fade_slope * bare);
	energy = fade * bare;
	return energy;
}

/* Half a step of velocities, by the forces; answers the kinetic energy afterwards. */
static inline double kick(struct molecule *molecule)
{
	double energy = 0;

	for (int site = 0; site < SITES; site++) {
		for (int axis = 0; axis < 3; axis++) {
			double *velocity = &molecule->velocity[site][axis];

			*velocity += TIME_STEP / 2 * of_fixed(molecule->force[site][axis]) / site_mass[site];
			energy += site_mass[site] / 2 * *velocity * *velocity;
		}
	}
	return energy;
}

/* A whole step of places. A molecule that leaves the box comes in on the other side. */
static inline void drift(const struct water *water, struct molecule *molecule)
{
	for (int axis = 0; axis < 3; axis++) {
		double home;

		for (int site = 0; site < SITES; site++)
			molecule->place[site][axis] += TIME_STEP * molecule->velocity[site][axis];
		home = -water->side * floor(molecule->place[0][axis] / water->side);
		for (int site = 0; site < SITES; site++)
			molecule->place[site][axis] += home;
	}
}

/* Whether all forces together are exactly zero. */
static inline bool forces_balance(const struct water *water)
{
	fixed sum[3] = { 0, 0, 0 };

	for (size_t i = 0; i < water->count; i++) {
		for (int site = 0; site < SITES; site++) {
			for (int axis = 0; axis < 3; axis++)
				sum[axis] += water->molecules[i].force[site][axis];
		}
	}
	return sum[0] == 0 && sum[1] == 0 && sum[2] == 0;
}

/* The same for both programs when they did the same steps. */
static inline uint64_t water_checksum(const struct water *water, fixed energy)
{
	uint64_t checksum = (uint64_t)energy;

	for (size_t i = 0; i < water->count; i++) {
		for (int site = 0; site < SITES; site++) {
			for (int axis = 0; axis < 3; axis++)
				checksum = mix_double(checksum, water->molecules[i].place[site][axis]);
		}
	}
	return checksum;
}

/* Energy is kept, within what the step of time does to it. */
static inline bool energy_is_kept(fixed first, fixed last, size_t count)
{
	return fabs(of_fixed(last - first)) < 0.01 * (double)count;
}

#endif
