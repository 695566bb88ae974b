// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stream function of an ocean basin under a turning wind: in each time step Poisson's equation is solved by multigrid
 * V-cycles (Brandt, 1977) with red-black Gauss-Seidel sweeps. Threads have strips of rows. There is a barrier after each
 * colour, restriction and prolongation on every grid, and a lock around the largest residual.
 */
#include "barrier.h"

#include <math.h>

#define STEPS 8
#define MOST_GRIDS 12
#define MOST_CYCLES 30
#define TOLERANCE 1e-7
#define COARSEST_SWEEPS 24

/* A grid of (n + 1) by (n + 1) points; those on the edge stay zero. */
struct grid {
	size_t n;
	double *stream, *curl, *residual;
};

struct ocean {
	struct workload asked;
	struct barrier barrier;
	struct grid grids[MOST_GRIDS];
	int count;
	pthread_mutex_t residual_lock;
	/* One for each cycle, so that none has to be cleared between two barriers. */
	double largest[STEPS][MOST_CYCLES + 1];
	unsigned cycles[STEPS];
};

static size_t at(const struct grid *grid, size_t row, size_t column)
{
	return row * (grid->n + 1) + column;
}

static struct share rows_of(const struct ocean *ocean, const struct grid *grid, unsigned me)
{
	struct share mine = share_of(grid->n - 1, ocean->asked.threads, me);

	return (struct share){ mine.from + 1, mine.to + 1 };
}

static void sweep(struct grid *grid, struct share rows, size_t colour)
{
	double square = 1.0 / (double)(grid->n * grid->n), *u = grid->stream;

	for (size_t i = rows.from; i < rows.to; i++) {
		for (size_t j = 1 + (i + colour) % 2; j < grid->n; j += 2) {
			size_t here = at(grid, i, j);

			u[here] = 0.25 * (u[here - 1] + u[here + 1] + u[here - grid->n - 1] + u[here + grid->n + 1] -
					  square * grid->curl[here]);
		}
	}
}

static void smooth(struct ocean *ocean, struct grid *grid, unsigned me, int sweeps)
{
	struct share rows = rows_of(ocean, grid, me);

	for (int i = 0; i < 2 * sweeps; i++) {
		sweep(grid, rows, (size_t)i % 2);
		barrier_wait(&ocean->barrier);
	}
}

static double find_residual(struct grid *grid, struct share rows)
{
	double over_square = (double)(grid->n * grid->n), largest = 0, *u = grid->stream;

	for (size_t i = rows.from; i < rows.to; i++) {
		for (size_t j = 1; j < grid->n; j++) {
			size_t here = at(grid, i, j);
			double around = u[here - 1] + u[here + 1] + u[here - grid->n - 1] + u[here + grid->n + 1];

			grid->residual[here] = grid->curl[here] - over_square * (around - 4 * u[here]);
			largest = fmax(largest, fabs(grid->residual[here]));
		}
	}
	return largest;
}

/* Full weighting onto the next coarser grid, which begins from zero. */
static void restrict_onto(const struct grid *fine, struct grid *coarse, struct share rows)
{
	const double *r = fine->residual;

	for (size_t i = rows.from; i < rows.to; i++) {
		for (size_t j = 1; j < coarse->n; j++) {
			size_t here = at(fine, 2 * i, 2 * j), below = here + fine->n + 1, above = here - fine->n - 1;

			coarse->curl[at(coarse, i, j)] = (4 * r[here] + 2 * (r[here - 1] + r[here + 1] + r[below] + r[above]) +
							  r[below - 1] + r[below + 1] + r[above - 1] + r[above + 1]) / 16;
			coarse->stream[at(coarse, i, j)] = 0;
		}
	}
}

static void add_correction(const struct grid *coarse, struct grid *fine, struct share rows)
{
	for (size_t i = rows.from; i < rows.to; i++) {
		for (size_t j = 1; j < fine->n; j++) {
			size_t top = i / 2, left = j / 2, bottom = (i + 1) / 2, right = (j + 1) / 2;

			fine->stream[at(fine, i, j)] +=
				0.25 * (coarse->stream[at(coarse, top, left)] + coarse->stream[at(coarse, top, right)] +
					coarse->stream[at(coarse, bottom, left)] + coarse->stream[at(coarse, bottom, right)]);
		}
	}
}

static void cycle(struct ocean *ocean, int level, unsigned me)
{
	struct grid *grid = &ocean->grids[level], *coarse = grid + 1;

	if (level == ocean->count - 1) {
		smooth(ocean, grid, me, COARSEST_SWEEPS);
		return;
	}
	smooth(ocean, grid, me, 2);
	find_residual(grid, rows_of(ocean, grid, me));
	barrier_wait(&ocean->barrier);
	restrict_onto(grid, coarse, rows_of(ocean, coarse, me));
	barrier_wait(&ocean->barrier);
	cycle(ocean, level + 1, me);
	add_correction(coarse, grid, rows_of(ocean, grid, me));
	barrier_wait(&ocean->barrier);
	smooth(ocean, grid, me, 1);
}

/* The wind's curl: two gyres whose strengths change from step to step, with some weather. */
static void blow(struct ocean *ocean, struct share rows, int step)
{
	struct grid *grid = &ocean->grids[0];

	for (size_t i = rows.from; i < rows.to; i++) {
		uint64_t state = mix(mix(ocean->asked.seed, (uint64_t)step), i);
		double y = (double)i / (double)grid->n;

		for (size_t j = 1; j < grid->n; j++) {
			double x = (double)j / (double)grid->n;
			double gyres = (y - 0.5) * (1 + 0.25 * step) + x * (1 - x) * y * (1 - y) * (2 - step);

			grid->curl[at(grid, i, j)] = gyres + 0.01 * (rng_unit(&state) - 0.5);
		}
	}
}

static void simulate(void *shared, unsigned me)
{
	struct ocean *ocean = shared;
	struct share rows = rows_of(ocean, &ocean->grids[0], me);

	for (int step = 0; step < (int)ocean->asked.steps; step++) {
		blow(ocean, rows, step);
		barrier_wait(&ocean->barrier);
		for (unsigned cycles = 0; cycles <= MOST_CYCLES; cycles++) {
			double *shared_largest = &ocean->largest[step][cycles];
			double largest = find_residual(&ocean->grids[0], rows);

			pthread_mutex_lock(&ocean->residual_lock);
			*shared_largest = fmax(*shared_largest, largest);
			pthread_mutex_unlock(&ocean->residual_lock);
			barrier_wait(&ocean->barrier);
			if (me == 0)
				ocean->cycles[step] = cycles;
			if (*shared_largest < TOLERANCE || cycles == MOST_CYCLES)
				break;
			cycle(ocean, 0, me);
		}
	}
}

int main(int argc, char **argv)
{
	struct ocean ocean = { .asked = workload_of_steps(argc, argv, "grid cells on a side", 512, 8, 4096, STEPS) };
	struct grid *finest = &ocean.grids[0];
	uint64_t checksum = 0;
	bool holds = true;
	size_t n = 8;

	/* The next power of two, so that each grid halves into the next. */
	while (n < ocean.asked.size)
		n *= 2;
	for (; n >= 4 && ocean.count < MOST_GRIDS; n /= 2) {
		struct grid *grid = &ocean.grids[ocean.count++];

		grid->n = n;
		grid->stream = zeroed((n + 1) * (n + 1), sizeof(double));
		grid->curl = zeroed((n + 1) * (n + 1), sizeof(double));
		grid->residual = zeroed((n + 1) * (n + 1), sizeof(double));
	}
	barrier_init(&ocean.barrier, &ocean.asked);
	must("mutex", pthread_mutex_init(&ocean.residual_lock, NULL));
	run_threads(ocean.asked.threads, simulate, &ocean);
	for (size_t i = 0; i < (finest->n + 1) * (finest->n + 1); i++)
		checksum = mix_double(checksum, finest->stream[i]);
	for (unsigned step = 0; step < ocean.asked.steps; step++)
		holds = holds && ocean.cycles[step] > 0 && ocean.cycles[step] < MOST_CYCLES;
	for (int i = 0; i < ocean.count; i++) {
		free(ocean.grids[i].stream);
		free(ocean.grids[i].curl);
		free(ocean.grids[i].residual);
	}
	barrier_destroy(&ocean.barrier);
	return workload_end(&ocean.asked, checksum, holds, "residuals");
}
