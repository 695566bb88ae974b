// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Dense LU factorisation without pivoting, in blocks that are contiguous in memory and scattered over a grid of threads
 * (Woo, Singh and Hennessy, 1994). Two barriers for each diagonal block; no locks.
 */
#include "barrier.h"

#include <math.h>

#define BLOCK 16

struct matrix {
	struct workload asked;
	struct barrier barrier;
	/* Blocks in rows of blocks, each BLOCK by BLOCK in rows. */
	double *blocks;
	size_t across;
	unsigned rows_of_threads, columns_of_threads;
};

static double *block_at(struct matrix *matrix, size_t row, size_t column)
{
	return matrix->blocks + (row * matrix->across + column) * BLOCK * BLOCK;
}

static unsigned owner_of(const struct matrix *matrix, size_t row, size_t column)
{
	size_t of_row = row % matrix->rows_of_threads, of_column = column % matrix->columns_of_threads;

	return (unsigned)(of_row * matrix->columns_of_threads + of_column);
}

/* An element of the matrix before it is factorised: random, with a diagonal that outweighs its row. */
static double element(const struct matrix *matrix, size_t row, size_t column)
{
	uint64_t state = mix(mix(matrix->asked.seed, row), column);
	double random = 2 * rng_unit(&state) - 1;

	return row == column ? random + (double)(matrix->across * BLOCK) : random;
}

static void factor_diagonal(double *a)
{
	for (int k = 0; k < BLOCK; k++) {
		for (int i = k + 1; i < BLOCK; i++) {
			a[i * BLOCK + k] /= a[k * BLOCK + k];
			for (int j = k + 1; j < BLOCK; j++)
				a[i * BLOCK + j] -= a[i * BLOCK + k] * a[k * BLOCK + j];
		}
	}
}

/* A block below the diagonal one: x U = a. */
static void solve_below(double *a, const double *diagonal)
{
	for (int k = 0; k < BLOCK; k++) {
		for (int i = 0; i < BLOCK; i++) {
			a[i * BLOCK + k] /= diagonal[k * BLOCK + k];
			for (int j = k + 1; j < BLOCK; j++)
				a[i * BLOCK + j] -= a[i * BLOCK + k] * diagonal[k * BLOCK + j];
		}
	}
}

/* A block beside the diagonal one: L x = a. */
static void solve_beside(double *a, const double *diagonal)
{
	for (int k = 0; k < BLOCK; k++) {
		for (int i = k + 1; i < BLOCK; i++) {
			for (int j = 0; j < BLOCK; j++)
				a[i * BLOCK + j] -= diagonal[i * BLOCK + k] * a[k * BLOCK + j];
		}
	}
}

static void update_inner(double *a, const double *left, const double *above)
{
	for (int i = 0; i < BLOCK; i++) {
		for (int k = 0; k < BLOCK; k++) {
			double factor = left[i * BLOCK + k];

			for (int j = 0; j < BLOCK; j++)
				a[i * BLOCK + j] -= factor * above[k * BLOCK + j];
		}
	}
}

/* Each thread writes the blocks that it owns, so that they are near it. */
static void fill(struct matrix *matrix, unsigned me)
{
	for (size_t row = 0; row < matrix->across; row++) {
		for (size_t column = 0; column < matrix->across; column++) {
			double *a = block_at(matrix, row, column);

			if (owner_of(matrix, row, column) != me)
				continue;
			for (size_t i = 0; i < BLOCK; i++) {
				for (size_t j = 0; j < BLOCK; j++)
					a[i * BLOCK + j] = element(matrix, row * BLOCK + i, column * BLOCK + j);
			}
		}
	}
}

static void factorise(void *shared, unsigned me)
{
	struct matrix *matrix = shared;
	size_t across = matrix->across;

	fill(matrix, me);
	for (size_t k = 0; k < across; k++) {
		double *diagonal = block_at(matrix, k, k);

		if (owner_of(matrix, k, k) == me)
			factor_diagonal(diagonal);
		barrier_wait(&matrix->barrier);
		for (size_t i = k + 1; i < across; i++) {
			if (owner_of(matrix, i, k) == me)
				solve_below(block_at(matrix, i, k), diagonal);
			if (owner_of(matrix, k, i) == me)
				solve_beside(block_at(matrix, k, i), diagonal);
		}
		barrier_wait(&matrix->barrier);
		/* No third barrier: whoever factors the next diagonal block has updated it himself. */
		for (size_t i = k + 1; i < across; i++) {
			for (size_t j = k + 1; j < across; j++) {
				if (owner_of(matrix, i, j) == me)
					update_inner(block_at(matrix, i, j), block_at(matrix, i, k), block_at(matrix, k, j));
			}
		}
	}
}

static double factor_at(struct matrix *matrix, size_t row, size_t column)
{
	return block_at(matrix, row / BLOCK, column / BLOCK)[row % BLOCK * BLOCK + column % BLOCK];
}

/* The largest difference between A x and L (U x), in parts of the largest element of A x. */
static double residual_of(struct matrix *matrix)
{
	size_t n = matrix->across * BLOCK;
	double *x = zeroed(n, sizeof(*x)), *ux = zeroed(n, sizeof(*ux)), worst = 0, largest = 0;
	uint64_t state = matrix->asked.seed ^ 0x5eed;

	for (size_t i = 0; i < n; i++)
		x[i] = 2 * rng_unit(&state) - 1;
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i; j < n; j++)
			ux[i] += factor_at(matrix, i, j) * x[j];
	}
	for (size_t i = 0; i < n; i++) {
		double want = 0, have = ux[i];

		for (size_t j = 0; j < n; j++)
			want += element(matrix, i, j) * x[j];
		for (size_t j = 0; j < i; j++)
			have += factor_at(matrix, i, j) * ux[j];
		worst = fmax(worst, fabs(want - have));
		largest = fmax(largest, fabs(want));
	}
	free(x);
	free(ux);
	return worst / largest;
}

int main(int argc, char **argv)
{
	struct matrix matrix = { .asked = workload_of(argc, argv, "rows", 1024, 16, 8192) };
	uint64_t checksum = 0;
	size_t elements;
	bool holds;

	barrier_init(&matrix.barrier, &matrix.asked);
	matrix.across = (matrix.asked.size + BLOCK - 1) / BLOCK;
	for (unsigned rows = 1; rows * rows <= matrix.asked.threads; rows++) {
		if (matrix.asked.threads % rows == 0)
			matrix.rows_of_threads = rows;
	}
	matrix.columns_of_threads = matrix.asked.threads / matrix.rows_of_threads;
	elements = matrix.across * matrix.across * BLOCK * BLOCK;
	matrix.blocks = zeroed(elements, sizeof(*matrix.blocks));
	run_threads(matrix.asked.threads, factorise, &matrix);
	for (size_t i = 0; i < elements; i++)
		checksum = mix_double(checksum, matrix.blocks[i]);
	holds = residual_of(&matrix) < 1e-12 * (double)(matrix.across * BLOCK);
	free(matrix.blocks);
	barrier_destroy(&matrix.barrier);
	return workload_end(&matrix.asked, checksum, holds, "product of the factors");
}
