// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Deduplicating compression as a pipeline: the input is cut into parts, the parts into pieces where a rolling hash says so,
 * pieces are looked up in a table with a lock for each bucket, new ones are compressed (LZ77, Ziv and Lempel, 1977), and the
 * last stage puts all in order again. Pieces go from stage to stage in batches of twenty, as in Parsec's. A third of the threads (at least one) is at each of the three stages in the middle.
 * The output is the same for any number of threads and is unpacked again in the end.
 */
#include "queue.h"

#define PART_BYTES 16384
#define LEAST_BYTES 256
#define MOST_BYTES 4096
#define CUT_MASK 0x3ff
#define BUCKETS 256
#define QUEUE_ROOM 128
#define BATCH 20
#define MATCH_BYTES 4
#define MATCH_TABLE 1024

/* Content that was met at least once. */
struct content {
	const uint8_t *data;
	uint32_t bytes, packed_bytes, number;
	uint64_t hash;
	uint8_t *packed;
	/* What the last stage knows: that it is packed, and written. */
	bool ready, written;
	struct content *next;
};

struct piece {
	const uint8_t *data;
	uint32_t bytes, part, place;
	bool last_of_part, first_met;
	struct content *content;
};

/* Pieces on their way into a queue. */
struct batch {
	struct queue *queue;
	size_t count;
	void *pieces[BATCH];
};

struct bucket {
	pthread_mutex_t lock;
	struct content *first;
};

struct pipeline {
	struct workload asked;
	uint8_t *input, *output;
	size_t input_bytes, output_bytes;
	/* Of each part: its pieces, of which the last says so. */
	struct piece *pieces;
	/* Of each piece, for the last stage alone: whether it came. */
	bool *arrived;
	uint32_t parts, pieces_a_part;
	struct queue to_refine, to_look_up, to_pack, to_order;
	struct bucket buckets[BUCKETS];
	unsigned each;
	uint64_t gear[256];
	uint32_t contents;
};

/* Text of a few hundred words, half of it from a small library of texts, so that there is something to find. */
static void make_input(struct pipeline *pipeline)
{
	uint64_t state = pipeline->asked.seed;
	size_t at = 0;

	for (int i = 0; i < 256; i++)
		pipeline->gear[i] = rng_next(&state);
	while (at < pipeline->input_bytes) {
		uint64_t choice = rng_next(&state), text = choice % 2 ? mix(pipeline->asked.seed, choice >> 8 & 63) : rng_next(&state);
		size_t end = at + 6000 + text % 6000;

		while (at < end && at < pipeline->input_bytes) {
			uint64_t word = mix(pipeline->asked.seed, rng_next(&text) % 300);

			for (size_t letters = 4 + word % 6; letters > 0 && at < pipeline->input_bytes; letters--)
				pipeline->input[at++] = (uint8_t)('a' + (word = rng_next(&word)) % 26);
			if (at < pipeline->input_bytes)
				pipeline->input[at++] = ' ';
		}
	}
}

static struct piece *piece_at(struct pipeline *pipeline, uint32_t part, uint32_t place)
{
	return &pipeline->pieces[(size_t)part * pipeline->pieces_a_part + place];
}

static void hand_on(struct batch *batch)
{
	queue_put_batch(batch->queue, batch->pieces, batch->count);
	batch->count = 0;
}

static void add(struct batch *batch, struct piece *piece)
{
	batch->pieces[batch->count++] = piece;
	if (batch->count == BATCH)
		hand_on(batch);
}

/* This stage will put no more. */
static void finish(struct batch *batch)
{
	hand_on(batch);
	queue_done(batch->queue);
}

static void *refine(void *argument)
{
	struct pipeline *pipeline = argument;
	struct batch found = { .queue = &pipeline->to_look_up };
	struct piece *part;

	while ((part = queue_take(&pipeline->to_refine))) {
		const uint8_t *from = part->data, *end = part->data + part->bytes;
		uint32_t number = part->part, place = 0;

		while (from < end) {
			size_t left = (size_t)(end - from), bytes = 0;
			struct piece *piece = piece_at(pipeline, number, place);
			uint64_t hash = 0;

			while (bytes < left && bytes < MOST_BYTES) {
				hash = (hash << 1) + pipeline->gear[from[bytes++]];
				if (bytes >= LEAST_BYTES && !(hash >> 40 & CUT_MASK))
					break;
			}
			*piece = (struct piece){ .data = from, .bytes = (uint32_t)bytes, .part = number, .place = place++,
						 .last_of_part = bytes == left };
			from += bytes;
			add(&found, piece);
		}
	}
	finish(&found);
	return NULL;
}

/* What was met before is known by its content. */
static void look_up_one(struct pipeline *pipeline, struct piece *piece)
{
	uint64_t hash = piece->bytes;
	struct bucket *bucket;
	struct content *content;

	for (uint32_t i = 0; i < piece->bytes; i++)
		hash = (hash ^ piece->data[i]) * 0x100000001b3u;
	bucket = &pipeline->buckets[(hash ^ hash >> 32) % BUCKETS];
	pthread_mutex_lock(&bucket->lock);
	content = bucket->first;
	while (content && (content->hash != hash || content->bytes != piece->bytes ||
			   memcmp(content->data, piece->data, piece->bytes) != 0))
		content = content->next;
	if (!content) {
		content = zeroed(1, sizeof(*content));
		*content = (struct content){ .data = piece->data, .bytes = piece->bytes, .hash = hash, .next = bucket->first };
		bucket->first = content;
		piece->first_met = true;
	}
	pthread_mutex_unlock(&bucket->lock);
	piece->content = content;
}

static void *look_up(void *argument)
{
	struct pipeline *pipeline = argument;
	struct batch first_met = { .queue = &pipeline->to_pack }, met_before = { .queue = &pipeline->to_order };
	void *pieces[BATCH];
	size_t count;

	while ((count = queue_take_batch(&pipeline->to_look_up, pieces, BATCH)) > 0) {
		for (size_t i = 0; i < count; i++) {
			struct piece *piece = pieces[i];

			look_up_one(pipeline, piece);
			add(piece->first_met ? &first_met : &met_before, piece);
		}
	}
	finish(&first_met);
	finish(&met_before);
	return NULL;
}

/* Literals as 0 LENGTH BYTES, matches as LENGTH OFFSET(2), LENGTH from 4 to 255. Answers the packed size. */
static uint32_t pack(const uint8_t *data, uint32_t bytes, uint8_t *packed)
{
	uint16_t seen[MATCH_TABLE] = { 0 };
	uint32_t at = 0, out = 0, literals = 0;

	while (at <= bytes) {
		uint32_t length = 0, from = 0, key = 0;

		if (at + MATCH_BYTES <= bytes) {
			memcpy(&key, data + at, MATCH_BYTES);
			key = (key * 2654435761u) >> 22;
			from = seen[key];
			/* Places are kept from 1 on: 0 is none. After a full run of literals this place comes twice. */
			if (from == at + 1)
				from = 0;
			seen[key] = (uint16_t)(at + 1);
			while (from && length < 255 && at + length < bytes && data[from - 1 + length] == data[at + length])
				length++;
		}
		if (length < MATCH_BYTES && at < bytes && literals < 255) {
			at++;
			literals++;
			continue;
		}
		if (literals) {
			packed[out++] = 0;
			packed[out++] = (uint8_t)literals;
			memcpy(packed + out, data + at - literals, literals);
			out += literals;
			literals = 0;
		}
		if (length >= MATCH_BYTES) {
			packed[out++] = (uint8_t)length;
			packed[out++] = (uint8_t)(at + 1 - from);
			packed[out++] = (uint8_t)((at + 1 - from) >> 8);
			at += length;
		} else if (at == bytes) {
			break;
		}
	}
	return out;
}

static void *pack_all(void *argument)
{
	struct pipeline *pipeline = argument;
	struct batch packed = { .queue = &pipeline->to_order };
	void *pieces[BATCH];
	size_t count;

	while ((count = queue_take_batch(&pipeline->to_pack, pieces, BATCH)) > 0) {
		for (size_t i = 0; i < count; i++) {
			struct piece *piece = pieces[i];
			struct content *content = piece->content;

			content->packed = zeroed(2 * (size_t)content->bytes + 8, 1);
			content->packed_bytes = pack(content->data, content->bytes, content->packed);
			add(&packed, piece);
		}
	}
	finish(&packed);
	return NULL;
}

static void put_number(struct pipeline *pipeline, uint32_t value)
{
	memcpy(pipeline->output + pipeline->output_bytes, &value, sizeof(value));
	pipeline->output_bytes += sizeof(value);
}

/* A content for the first time as 1 BYTES PACKED-BYTES ..., afterwards as 0 NUMBER. */
static void write_piece(struct pipeline *pipeline, const struct piece *piece)
{
	struct content *content = piece->content;

	put_number(pipeline, !content->written);
	if (content->written) {
		put_number(pipeline, content->number);
		return;
	}
	content->written = true;
	content->number = pipeline->contents++;
	put_number(pipeline, content->bytes);
	put_number(pipeline, content->packed_bytes);
	memcpy(pipeline->output + pipeline->output_bytes, content->packed, content->packed_bytes);
	pipeline->output_bytes += content->packed_bytes;
}

/* The last stage: whatever is next in order is written as soon as it and its content are there. */
static void order(struct pipeline *pipeline)
{
	uint32_t part = 0, place = 0;
	void *pieces[BATCH];
	size_t count;

	while ((count = queue_take_batch(&pipeline->to_order, pieces, BATCH)) > 0) {
		for (size_t i = 0; i < count; i++) {
			struct piece *piece = pieces[i];

			pipeline->arrived[piece - pipeline->pieces] = true;
			piece->content->ready = piece->content->ready || piece->first_met;
		}
		while (part < pipeline->parts) {
			struct piece *next = piece_at(pipeline, part, place);

			if (!pipeline->arrived[next - pipeline->pieces] || !next->content->ready)
				break;
			write_piece(pipeline, next);
			place = next->last_of_part ? 0 : place + 1;
			part += next->last_of_part;
		}
	}
}

static bool unpacks(const struct pipeline *pipeline)
{
	const uint8_t *from = pipeline->output, *end = from + pipeline->output_bytes;
	const uint8_t **known = zeroed(pipeline->contents + 1, sizeof(*known));
	uint32_t *known_bytes = zeroed(pipeline->contents + 1, sizeof(*known_bytes)), contents = 0, head[3];
	size_t at = 0;
	bool same = true;

	while (from < end && same) {
		uint8_t piece[MOST_BYTES];
		uint32_t bytes = 0;
		const uint8_t *data = piece;

		memcpy(head, from, 8);
		from += 8;
		if (head[0]) {
			const uint8_t *stop;

			memcpy(&head[2], from, 4);
			from += 4;
			for (stop = from + head[2]; from < stop;) {
				uint32_t length = *from++, back;

				if (length == 0) {
					length = *from++;
					memcpy(piece + bytes, from, length);
					from += length;
					bytes += length;
					continue;
				}
				back = from[0] | (uint32_t)from[1] << 8;
				from += 2;
				for (; length > 0; length--, bytes++)
					piece[bytes] = piece[bytes - back];
			}
			known[contents] = pipeline->input + at;
			known_bytes[contents++] = bytes;
			same = bytes == head[1];
		} else {
			data = known[head[1]];
			bytes = known_bytes[head[1]];
		}
		same = same && at + bytes <= pipeline->input_bytes && !memcmp(data, pipeline->input + at, bytes);
		at += bytes;
	}
	free(known);
	free(known_bytes);
	return same && at == pipeline->input_bytes;
}

static void run(struct pipeline *pipeline)
{
	void *(*const stages[])(void *) = { refine, look_up, pack_all };
	pthread_t *threads = zeroed(3 * (size_t)pipeline->each, sizeof(*threads));
	struct piece *parts = zeroed(pipeline->parts, sizeof(*parts));

	for (unsigned i = 0; i < 3 * pipeline->each; i++)
		must("pthread_create", pthread_create(&threads[i], NULL, stages[i / pipeline->each], pipeline));
	/* The queue to the first stage has room for all, so that the caller can go on to be the last. */
	for (uint32_t i = 0; i < pipeline->parts; i++) {
		size_t from = (size_t)i * PART_BYTES, left = pipeline->input_bytes - from;

		parts[i] = (struct piece){ .data = pipeline->input + from, .part = i,
					   .bytes = left < PART_BYTES ? (uint32_t)left : PART_BYTES };
		queue_put(&pipeline->to_refine, &parts[i]);
	}
	queue_done(&pipeline->to_refine);
	order(pipeline);
	for (unsigned i = 0; i < 3 * pipeline->each; i++)
		must("pthread_join", pthread_join(threads[i], NULL));
	free(parts);
	free(threads);
}

int main(int argc, char **argv)
{
	struct pipeline pipeline = { .asked = workload_of(argc, argv, "KiB of input", 16384, 32, 1 << 20) };
	uint64_t checksum = 0;
	size_t pieces;
	bool holds;

	pipeline.input_bytes = (size_t)pipeline.asked.size * 1024;
	pipeline.parts = (uint32_t)((pipeline.input_bytes + PART_BYTES - 1) / PART_BYTES);
	pipeline.pieces_a_part = PART_BYTES / LEAST_BYTES + 1;
	pieces = (size_t)pipeline.parts * pipeline.pieces_a_part;
	pipeline.each = (pipeline.asked.threads + 2) / 3;
	pipeline.input = zeroed(pipeline.input_bytes, 1);
	pipeline.output = zeroed(2 * pipeline.input_bytes + 20 * pieces, 1);
	pipeline.pieces = zeroed(pieces, sizeof(*pipeline.pieces));
	pipeline.arrived = zeroed(pieces, sizeof(*pipeline.arrived));
	for (int i = 0; i < BUCKETS; i++)
		must("mutex", pthread_mutex_init(&pipeline.buckets[i].lock, NULL));
	queue_init(&pipeline.to_refine, pipeline.parts, 1);
	queue_init(&pipeline.to_look_up, QUEUE_ROOM, pipeline.each);
	queue_init(&pipeline.to_pack, QUEUE_ROOM, pipeline.each);
	/* Whoever looks up puts into this queue, and whoever packs. */
	queue_init(&pipeline.to_order, QUEUE_ROOM, 2 * pipeline.each);
	make_input(&pipeline);
	run(&pipeline);
	for (size_t i = 0; i < pipeline.output_bytes; i++)
		checksum = (checksum ^ pipeline.output[i]) * 0x100000001b3u;
	holds = pipeline.output_bytes < pipeline.input_bytes && unpacks(&pipeline);
	for (int i = 0; i < BUCKETS; i++) {
		struct content *content = pipeline.buckets[i].first, *next;

		for (; content; content = next) {
			next = content->next;
			free(content->packed);
			free(content);
		}
	}
	queue_destroy(&pipeline.to_refine);
	queue_destroy(&pipeline.to_look_up);
	queue_destroy(&pipeline.to_pack);
	queue_destroy(&pipeline.to_order);
	free(pipeline.input);
	free(pipeline.output);
	free(pipeline.pieces);
	free(pipeline.arrived);
	return workload_end(&pipeline.asked, mix(checksum, pipeline.output_bytes), holds, "unpacked again");
}
