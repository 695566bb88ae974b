// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Frames of a moving camera, each drawn by a pool of workers that draw rows of tiles from a counter: the workers wait for the
 * next frame at a condition variable, and the owner for the last of them.
 */
#include "pool.h"
#include "scene.h"

#define TILE 16
#define FRAMES 12

struct film {
	struct workload asked;
	struct scene scene;
	uint32_t *pixels;
	uint64_t *rays_of_tile;
	unsigned tiles_across, frame;
};

static void draw_tile(void *shared, size_t tile)
{
	struct film *film = shared;
	unsigned across = film->asked.size;
	unsigned left = (unsigned)(tile % film->tiles_across) * TILE, top = (unsigned)(tile / film->tiles_across) * TILE;

	film->rays_of_tile[tile] = 0;
	for (unsigned y = top; y < top + TILE && y < across; y++) {
		for (unsigned x = left; x < left + TILE && x < across; x++)
			film->pixels[(size_t)y * across + x] =
				scene_pixel(&film->scene, across, x, y, film->frame, &film->rays_of_tile[tile]);
	}
}

int main(int argc, char **argv)
{
	struct film film = { .asked = workload_of_steps(argc, argv, "pixels on a side", 256, 16, 4096, FRAMES) };
	size_t pixels = (size_t)film.asked.size * film.asked.size, tiles;
	struct pool pool;
	uint64_t checksum = 0, rays = 0;
	bool holds = true;

	film.tiles_across = (film.asked.size + TILE - 1) / TILE;
	tiles = (size_t)film.tiles_across * film.tiles_across;
	film.pixels = zeroed(pixels, sizeof(*film.pixels));
	film.rays_of_tile = zeroed(tiles, sizeof(*film.rays_of_tile));
	scene_fill(&film.scene, film.asked.seed);
	pool_open(&pool, film.asked.threads);
	for (film.frame = 0; film.frame < film.asked.steps; film.frame++) {
		pool_run(&pool, tiles, draw_tile, &film);
		for (size_t i = 0; i < tiles; i++) {
			holds = holds && film.rays_of_tile[i] > 0;
			rays += film.rays_of_tile[i];
		}
		for (size_t i = 0; i < pixels; i++)
			checksum = mix(checksum, film.pixels[i]);
	}
	pool_close(&pool);
	free(film.pixels);
	free(film.rays_of_tile);
	return workload_end(&film.asked, mix(checksum, rays), holds, "every tile of every frame");
}
