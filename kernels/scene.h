/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scene of balls over a chequered floor, and the colour of a pixel of it: rays are followed through shadows and mirrors
 * (Whitted, 1980). What a pixel looks like depends on the scene and the frame alone.
 */
#ifndef QUAVER_SCENE_H
#define QUAVER_SCENE_H

#include "workload.h"

#include <math.h>

#define BALLS 48
#define MIRRORS 4
#define FAR_AWAY 1e30

struct vector {
	double x, y, z;
};

struct ball {
	struct vector centre;
	double radius, shine;
	struct vector colour;
};

struct scene {
	struct ball balls[BALLS];
	struct vector light;
};

/* What a ray meets first. */
struct hit {
	double distance;
	struct vector normal, colour;
	double shine;
};

static inline struct vector v_add(struct vector a, struct vector b)
{
	return (struct vector){ a.x + b.x, a.y + b.y, a.z + b.z };
}

static inline struct vector v_scale(struct vector a, double by)
{
	return (struct vector){ a.x * by, a.y * by, a.z * by };
}

static inline struct vector v_minus(struct vector a, struct vector b)
{
	return (struct vector){ a.x - b.x, a.y - b.y, a.z - b.z };
}

static inline double v_dot(struct vector a, struct vector b)
{
	return a.x * b.x + a.y * b.y + a.z * b.z;
}

static inline struct vector v_unit(struct vector a)
{
	return v_scale(a, 1 / sqrt(v_dot(a, a)));
}

static inline void scene_fill(struct scene *scene, uint64_t seed)
{
	for (int i = 0; i < BALLS; i++) {
		struct ball *ball = &scene->balls[i];

		ball->radius = 0.2 + 0.4 * rng_unit(&seed);
		ball->centre = (struct vector){ 8 * rng_unit(&seed) - 4, ball->radius + 2 * rng_unit(&seed),
						3 + 8 * rng_unit(&seed) };
		ball->shine = 0.6 * rng_unit(&seed);
		ball->colour = (struct vector){ rng_unit(&seed), rng_unit(&seed), rng_unit(&seed) };
	}
	scene->light = (struct vector){ -4, 8, -2 };
}

static inline double ball_distance(const struct ball *ball, struct vector from, struct vector way)
{
	struct vector to = v_minus(ball->centre, from);
	double along = v_dot(to, way), square = along * along - v_dot(to, to) + ball->radius * ball->radius, root;

	if (square < 0)
		return FAR_AWAY;
	root = sqrt(square);
	if (along - root > 1e-6)
		return along - root;
	return along + root > 1e-6 ? along + root : FAR_AWAY;
}

static inline bool scene_hit(const struct scene *scene, struct vector from, struct vector way, struct hit *hit)
{
	const struct ball *nearest = NULL;
	struct vector place;

	hit->distance = FAR_AWAY;
	for (int i = 0; i < BALLS; i++) {
		double distance = ball_distance(&scene->balls[i], from, way);

		if (distance < hit->distance) {
			hit->distance = distance;
			nearest = &scene->balls[i];
		}
	}
	if (way.y < -1e-9 && -from.y / way.y < hit->distance && -from.y / way.y > 1e-6) {
		bool dark;

		hit->distance = -from.y / way.y;
		place = v_add(from, v_scale(way, hit->distance));
		dark = ((int64_t)floor(place.x) + (int64_t)floor(place.z)) % 2;
		hit->normal = (struct vector){ 0, 1, 0 };
		hit->colour = dark ? (struct vector){ 0.2, 0.2, 0.2 } : (struct vector){ 0.9, 0.9, 0.9 };
		hit->shine = 0.2;
		return true;
	}
	if (!nearest)
		return false;
	place = v_add(from, v_scale(way, hit->distance));
	hit->normal = v_scale(v_minus(place, nearest->centre), 1 / nearest->radius);
	hit->colour = nearest->colour;
	hit->shine = nearest->shine;
	return true;
}

/* The colour that comes along a ray; `rays` counts it and those that it needed. */
static inline struct vector scene_trace(const struct scene *scene, struct vector from, struct vector way, uint64_t *rays)
{
	struct vector colour = { 0, 0, 0 };
	double weight = 1;

	for (int bounce = 0; bounce <= MIRRORS; bounce++) {
		struct hit hit, blocker;
		struct vector place, to_light;
		double lit = 0.1, reach;

		++*rays;
		if (!scene_hit(scene, from, way, &hit))
			return v_add(colour, v_scale((struct vector){ 0.5, 0.7, 1 }, weight * (0.4 + 0.6 * fabs(way.y))));
		place = v_add(from, v_scale(way, hit.distance));
		to_light = v_minus(scene->light, place);
		reach = sqrt(v_dot(to_light, to_light));
		to_light = v_scale(to_light, 1 / reach);
		++*rays;
		if (!scene_hit(scene, place, to_light, &blocker) || blocker.distance > reach)
			lit += fmax(0, v_dot(hit.normal, to_light));
		colour = v_add(colour, v_scale(hit.colour, weight * lit * (1 - hit.shine)));
		weight *= hit.shine;
		if (weight < 0.01)
			return colour;
		way = v_minus(way, v_scale(hit.normal, 2 * v_dot(way, hit.normal)));
		from = place;
	}
	return colour;
}

static inline uint32_t scene_byte(double part)
{
	return (uint32_t)(255 * fmin(fmax(part, 0), 1));
}

/* A pixel of a square picture as 0xRRGGBB; the camera moves sideways from frame to frame. */
static inline uint32_t scene_pixel(const struct scene *scene, unsigned across, unsigned x, unsigned y, unsigned frame, uint64_t *rays)
{
	struct vector eye = { 0.25 * frame, 1.5, -4 }, way, colour;

	way = (struct vector){ (x + 0.5) / across - 0.5, 0.5 - (y + 0.5) / across, 1 };
	colour = scene_trace(scene, eye, v_unit(way), rays);
	return scene_byte(colour.x) << 16 | scene_byte(colour.y) << 8 | scene_byte(colour.z);
}

#endif
