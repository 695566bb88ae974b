// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A sheet of masses and springs (skin over muscles that pull), moved by implicit Euler steps: in each, conjugate gradients
 * (Hestenes and Stiefel, 1952) solve for the displacements, and every product and sum of them is a job of a pool of workers.
 * Sums are made of partial sums of fixed stretches, so that they are the same for any number of workers.
 */
#include "pool.h"

#include <math.h>

#define STEPS 4
#define MOST_TURNS 200
#define TOLERANCE 1e-10
#define STRETCH 64
#define TIME_STEP 0.1
#define STIFFNESS 40.0

struct face {
	struct workload asked;
	struct pool pool;
	/* Points on a side; those on the edge do not move. */
	size_t across, stretches;
	double *place, *velocity, *pull;
	double *answer, *residual, *search, *product;
	double *partial;
	double step_length, mixture;
	int step;
};

/* Mass plus the springs to the four neighbours, times a displacement. */
static double matrix_row(const struct face *face, const double *x, size_t i)
{
	size_t row = i / face->across, column = i % face->across;
	double spring = TIME_STEP * TIME_STEP * STIFFNESS;

	if (row == 0 || column == 0 || row + 1 == face->across || column + 1 == face->across)
		return x[i];
	return x[i] + spring * (4 * x[i] - x[i - 1] - x[i + 1] - x[i - face->across] - x[i + face->across]);
}

static bool is_edge(const struct face *face, size_t i)
{
	size_t row = i / face->across, column = i % face->across;

	return row == 0 || column == 0 || row + 1 == face->across || column + 1 == face->across;
}

static struct share stretch_of(const struct face *face, size_t lot)
{
	return share_of(face->across * face->across, (unsigned)face->stretches, (unsigned)lot);
}

/* Right-hand side of a step: where muscles pull, and where the sheet moves by itself. */
static void begin_step(void *shared, size_t lot)
{
	struct face *face = shared;
	struct share points = stretch_of(face, lot);
	double square = 0;

	for (size_t i = points.from; i < points.to; i++) {
		uint64_t state = mix(mix(face->asked.seed, (uint64_t)face->step), i);
		double force = is_edge(face, i) ? 0 : face->pull[i] + 0.1 * (rng_unit(&state) - 0.5);

		face->residual[i] = is_edge(face, i) ? 0 : face->place[i] + TIME_STEP * (face->velocity[i] + TIME_STEP * force);
		face->search[i] = face->residual[i];
		face->answer[i] = 0;
		square += face->residual[i] * face->residual[i];
	}
	face->partial[lot] = square;
}

static void multiply(void *shared, size_t lot)
{
	struct face *face = shared;
	struct share points = stretch_of(face, lot);
	double dot = 0;

	for (size_t i = points.from; i < points.to; i++) {
		face->product[i] = matrix_row(face, face->search, i);
		dot += face->search[i] * face->product[i];
	}
	face->partial[lot] = dot;
}

static void advance(void *shared, size_t lot)
{
	struct face *face = shared;
	struct share points = stretch_of(face, lot);
	double square = 0;

	for (size_t i = points.from; i < points.to; i++) {
		face->answer[i] += face->step_length * face->search[i];
		face->residual[i] -= face->step_length * face->product[i];
		square += face->residual[i] * face->residual[i];
	}
	face->partial[lot] = square;
}

static void turn(void *shared, size_t lot)
{
	struct face *face = shared;
	struct share points = stretch_of(face, lot);

	for (size_t i = points.from; i < points.to; i++)
		face->search[i] = face->residual[i] + face->mixture * face->search[i];
}

static void end_step(void *shared, size_t lot)
{
	struct face *face = shared;
	struct share points = stretch_of(face, lot);

	for (size_t i = points.from; i < points.to; i++) {
		face->velocity[i] = 0.95 * (face->answer[i] - face->place[i]) / TIME_STEP;
		face->place[i] = face->answer[i];
	}
}

static double sum_of(struct face *face, void (*work)(void *, size_t))
{
	double sum = 0;

	pool_run(&face->pool, face->stretches, work, face);
	for (size_t i = 0; i < face->stretches; i++)
		sum += face->partial[i];
	return sum;
}

/* Whether the answer solves the system, by the system itself rather than by what the iteration believes. */
static bool is_solved(struct face *face, const double *right)
{
	double worst = 0, largest = 0;

	for (size_t i = 0; i < face->across * face->across; i++) {
		worst = fmax(worst, fabs(matrix_row(face, face->answer, i) - right[i]));
		largest = fmax(largest, fabs(right[i]));
	}
	return worst <= 1e-8 * largest;
}

static bool solve(struct face *face)
{
	size_t bytes = face->across * face->across * sizeof(double);
	double square = sum_of(face, begin_step), start = square, *right = zeroed(1, bytes);
	bool solved;

	memcpy(right, face->residual, bytes);
	for (int i = 0; i < MOST_TURNS && square > TOLERANCE * TOLERANCE * start; i++) {
		double next;

		face->step_length = square / sum_of(face, multiply);
		next = sum_of(face, advance);
		face->mixture = next / square;
		square = next;
		pool_run(&face->pool, face->stretches, turn, face);
	}
	solved = is_solved(face, right);
	pool_run(&face->pool, face->stretches, end_step, face);
	free(right);
	return solved;
}

int main(int argc, char **argv)
{
	struct face face = { .asked = workload_of_steps(argc, argv, "points on a side", 512, 8, 4096, STEPS) };
	size_t points = (size_t)face.asked.size * face.asked.size;
	double **vectors[] = { &face.place, &face.velocity, &face.pull, &face.answer, &face.residual, &face.search, &face.product };
	uint64_t state = face.asked.seed, checksum = 0;
	bool holds = true;

	face.across = face.asked.size;
	face.stretches = points < STRETCH ? points : STRETCH;
	face.partial = zeroed(face.stretches, sizeof(double));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		*vectors[i] = zeroed(points, sizeof(double));
	/* A dozen muscles. */
	for (int muscle = 0; muscle < 12; muscle++)
		face.pull[rng_next(&state) % points] = 100 * (rng_unit(&state) - 0.5);
	pool_open(&face.pool, face.asked.threads);
	for (face.step = 0; face.step < (int)face.asked.steps; face.step++)
		holds = solve(&face) && holds;
	pool_close(&face.pool);
	for (size_t i = 0; i < points; i++)
		checksum = mix_double(checksum, face.place[i]);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		free(*vectors[i]);
	free(face.partial);
	return workload_end(&face.asked, checksum, holds, "residuals");
}
