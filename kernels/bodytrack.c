// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A figure of linked limbs followed through pictures by an annealed particle filter (Deutscher and Reid, 2005). For each frame
 * a pool of workers smooths the picture by rows, and for each layer weighs the particles; resampling is done by the owner.
 * Weights are whole numbers and each particle has random numbers of its own, so that results do not depend on the workers.
 */
#include "pool.h"

#include <math.h>

#define ACROSS 160
#define LIMBS 5
#define FRAMES 4
#define LAYERS 4
#define LOT 8
#define PROBES 24

/* Where the figure is: its root, and the slope of each limb as a direction that need not be of length one. */
struct pose {
	double x, y, way[LIMBS][2];
};

struct particle {
	struct pose pose;
	uint64_t weight;
};

struct tracking {
	struct workload asked;
	struct pool pool;
	uint8_t *picture, *smooth;
	struct particle *particles, *resampled;
	double spread;
	int frame, layer;
};

static const double limb_length[LIMBS] = { 30, 22, 22, 26, 26 };
/* Where a limb begins: at the root, or at the end of the limb before. */
static const int limb_from[LIMBS] = { -1, 0, 0, -1, -1 };

static void limb_ends(const struct pose *pose, double ends[LIMBS][4])
{
	for (int limb = 0; limb < LIMBS; limb++) {
		const double *way = pose->way[limb];
		double length = sqrt(way[0] * way[0] + way[1] * way[1]) + 1e-9;

		ends[limb][0] = limb_from[limb] < 0 ? pose->x : ends[limb_from[limb]][2];
		ends[limb][1] = limb_from[limb] < 0 ? pose->y : ends[limb_from[limb]][3];
		ends[limb][2] = ends[limb][0] + limb_length[limb] * way[0] / length;
		ends[limb][3] = ends[limb][1] + limb_length[limb] * way[1] / length;
	}
}

/* How the figure really moves. */
static struct pose truth_of(int frame)
{
	double swing = 0.12 * frame;

	return (struct pose){ .x = 70 + 4 * frame, .y = 80 + frame,
			      .way = { { 0.1, -1 }, { 1, 0.4 - swing }, { -1, 0.2 + swing }, { 0.5 - swing, 1 }, { -0.4 + swing, 1 } } };
}

static void draw_picture(struct tracking *tracking)
{
	struct pose truth = truth_of(tracking->frame);
	double ends[LIMBS][4];
	uint64_t state = mix(tracking->asked.seed, (uint64_t)tracking->frame);

	for (size_t i = 0; i < ACROSS * ACROSS; i++)
		tracking->picture[i] = (uint8_t)(rng_next(&state) % 60);
	limb_ends(&truth, ends);
	for (int limb = 0; limb < LIMBS; limb++) {
		for (int i = 0; i <= 64; i++) {
			int x = (int)(ends[limb][0] + (ends[limb][2] - ends[limb][0]) * i / 64);
			int y = (int)(ends[limb][1] + (ends[limb][3] - ends[limb][1]) * i / 64);

			for (int dy = -2; dy <= 2; dy++) {
				for (int dx = -2; dx <= 2; dx++)
					tracking->picture[(y + dy) * ACROSS + x + dx] = 250;
			}
		}
	}
}

static void smooth_row(void *shared, size_t row)
{
	struct tracking *tracking = shared;

	for (int x = 0; x < ACROSS; x++) {
		unsigned sum = 0;

		for (int y = (int)row - 2; y <= (int)row + 2; y++) {
			for (int dx = x - 2; dx <= x + 2; dx++) {
				if (y >= 0 && y < ACROSS && dx >= 0 && dx < ACROSS)
					sum += tracking->picture[y * ACROSS + dx];
			}
		}
		tracking->smooth[row * ACROSS + (size_t)x] = (uint8_t)(sum / 25);
	}
}

/* How bright the picture is along the limbs of a pose, and dark beside them. */
static uint64_t weigh(const struct tracking *tracking, const struct pose *pose)
{
	double ends[LIMBS][4];
	int64_t match = 0;

	limb_ends(pose, ends);
	for (int limb = 0; limb < LIMBS; limb++) {
		double dx = (ends[limb][2] - ends[limb][0]) / PROBES, dy = (ends[limb][3] - ends[limb][1]) / PROBES;

		for (int i = 0; i < PROBES; i++) {
			for (int side = -1; side <= 1; side++) {
				double away = side * 7.0 * PROBES / limb_length[limb];
				int x = (int)(ends[limb][0] + dx * i - dy * away), y = (int)(ends[limb][1] + dy * i + dx * away);
				int light = x >= 0 && x < ACROSS && y >= 0 && y < ACROSS ? tracking->smooth[y * ACROSS + x] : 0;

				match += side ? -light : 3 * light;
			}
		}
	}
	match = match > 0 ? match / (3 * PROBES * LIMBS) : 0;
	/* The fourth power parts the better from the good; later layers do so more. */
	for (int i = 0; i < 2; i++)
		match *= match;
	return (uint64_t)match + 1;
}

static double sway(uint64_t *state, double spread)
{
	return spread * (rng_unit(state) + rng_unit(state) + rng_unit(state) - 1.5);
}

static void weigh_lot(void *shared, size_t lot)
{
	struct tracking *tracking = shared;
	uint64_t layer = mix(mix(tracking->asked.seed, (uint64_t)tracking->frame), (uint64_t)tracking->layer);

	for (size_t i = lot * LOT; i < (lot + 1) * LOT && i < tracking->asked.size; i++) {
		struct particle *particle = &tracking->particles[i];
		uint64_t state = mix(layer, i);

		particle->pose.x += sway(&state, 8 * tracking->spread);
		particle->pose.y += sway(&state, 8 * tracking->spread);
		for (int limb = 0; limb < LIMBS; limb++) {
			particle->pose.way[limb][0] += sway(&state, 0.5 * tracking->spread);
			particle->pose.way[limb][1] += sway(&state, 0.5 * tracking->spread);
		}
		particle->weight = weigh(tracking, &particle->pose);
	}
}

/* Systematic resampling: as many of each particle as its share of all weight. */
static void resample(struct tracking *tracking)
{
	uint64_t whole = 0, before = 0;
	size_t taken = 0;
	struct particle *swap = tracking->particles;

	for (size_t i = 0; i < tracking->asked.size; i++)
		whole += tracking->particles[i].weight;
	for (size_t i = 0; i < tracking->asked.size; i++) {
		before += tracking->particles[i].weight;
		while (taken < tracking->asked.size && ((double)taken + 0.5) / tracking->asked.size * (double)whole < (double)before)
			tracking->resampled[taken++] = tracking->particles[i];
	}
	while (taken < tracking->asked.size)
		tracking->resampled[taken++] = tracking->particles[tracking->asked.size - 1];
	tracking->particles = tracking->resampled;
	tracking->resampled = swap;
}

static double distance_to_truth(const struct tracking *tracking)
{
	struct pose truth = truth_of(tracking->frame);
	double x = 0, y = 0;

	for (size_t i = 0; i < tracking->asked.size; i++) {
		x += tracking->particles[i].pose.x / tracking->asked.size;
		y += tracking->particles[i].pose.y / tracking->asked.size;
	}
	return sqrt((x - truth.x) * (x - truth.x) + (y - truth.y) * (y - truth.y));
}

int main(int argc, char **argv)
{
	struct tracking tracking = { .asked = workload_of_steps(argc, argv, "particles", 16384, 256, 1 << 20, FRAMES) };
	uint64_t checksum = 0;
	bool holds = true;

	tracking.picture = zeroed(ACROSS * ACROSS, 1);
	tracking.smooth = zeroed(ACROSS * ACROSS, 1);
	tracking.particles = zeroed(tracking.asked.size, sizeof(struct particle));
	tracking.resampled = zeroed(tracking.asked.size, sizeof(struct particle));
	for (size_t i = 0; i < tracking.asked.size; i++)
		tracking.particles[i].pose = truth_of(0);
	pool_open(&tracking.pool, tracking.asked.threads);
	for (tracking.frame = 0; tracking.frame < (int)tracking.asked.steps; tracking.frame++) {
		draw_picture(&tracking);
		pool_run(&tracking.pool, ACROSS, smooth_row, &tracking);
		tracking.spread = 1;
		for (tracking.layer = 0; tracking.layer < LAYERS; tracking.layer++) {
			pool_run(&tracking.pool, (tracking.asked.size + LOT - 1) / LOT, weigh_lot, &tracking);
			resample(&tracking);
			tracking.spread *= 0.6;
		}
		holds = holds && distance_to_truth(&tracking) < 8;
		for (size_t i = 0; i < tracking.asked.size; i++)
			checksum = mix_double(mix_double(checksum, tracking.particles[i].pose.x), tracking.particles[i].pose.y);
	}
	pool_close(&tracking.pool);
	free(tracking.picture);
	free(tracking.smooth);
	free(tracking.particles);
	free(tracking.resampled);
	return workload_end(&tracking.asked, checksum, holds, "figure found");
}
