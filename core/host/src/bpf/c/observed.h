/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The last layers: the receiver is told, and (for a process that we only observe) its receive call returns.
 *
 * Nothing at the return of a receive call says which packet it brought. A UDP socket hands its packets out in the
 * order in which they entered its queue, so that order joins them: the n-th packet and the n-th call meet at one place.
 * Either may be first there, since a receiver that is awake can take a packet before the kernel gets to tell of it.
 */
#ifndef QUAVER_OBSERVED_H
#define QUAVER_OBSERVED_H

#include "packets.h"

/*
 * The receive queue of one socket, as a ring of places in `queued`. A place holds a packet's arrival number from when it is
 * told of; or TAKEN and a time, where a call took its packet before that. Processes may share a socket: whoever takes a
 * packet, its place is past, and BY_ANOTHER says that it was not the observed process.
 */
struct queue {
	__u64 recording;
	__u64 produced; /* packets told of */
	__u64 consumed; /* packets taken, which may be ahead */
	__u32 unknown;  /* packets that were queued before recording began */
	__u32 reader_cpu;
	__u32 looks; /* at what is told of, not taken, and not there; and the least of it */
	__s32 least;
	__u64 came; /* packets that entered the queue in this recording, packets taken, and how many were in it last */
	__u64 taken;
	__u64 length;
};
#define TAKEN (1ULL << 63)
#define BY_ANOTHER (1ULL << 62)
/* Calls that took packets of which no program was told, at most, that one packet's place is looked for behind. */
#define UNSEEN 8
#define LOOKS 64

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SOCKETS);
	__type(key, __u64);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SOCKETS);
	__type(key, __u32);
	__type(value, struct queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} queued SEC(".maps");

/* Packets of the receive call that a thread is in. */
struct reader {
	__u64 thread;
	__u64 count;
	__u64 arrivals[BATCH];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, READERS);
	__type(key, __u32);
	__type(value, struct reader);
} readers SEC(".maps");

static __always_inline bool followed_socket(struct sock *sk)
{
	return sk->sk_protocol == PROTOCOL_UDP && followed_port(sk->__sk_common.skc_num);
}

static __always_inline __u64 *queued_at(__u32 number, __u64 position)
{
	__u32 index = number * QUEUE + (position & (QUEUE - 1));

	return bpf_map_lookup_elem(&queued, &index);
}

/* Packets in the socket's queue: those not yet taken over by the reader and those that were. */
static __always_inline __u64 queue_length(struct sock *sk)
{
	return (__u64)sk->sk_receive_queue.qlen + BPF_CORE_READ((struct udp_sock *)sk, reader_queue.qlen);
}

/* At its first packet or call in a recording all that is known of a queue is how many are in it: what was told of before may
 * have been taken meanwhile. */
static __always_inline void begin_recording(struct queue *queue, struct control *all, __u64 unknown)
{
	__u64 before = queue->recording;

	if (before == all->recordings ||
	    __sync_val_compare_and_swap(&queue->recording, before, all->recordings) != before)
		return;
	if (queue->produced < queue->consumed)
		queue->produced = queue->consumed;
	queue->consumed = queue->produced;
	queue->unknown = unknown;
	queue->looks = 0;
	queue->came = 0;
	queue->taken = 0;
}

/* The queue of a socket, which is new or begins anew with a recording. Of `length` packets it does not know all but one: the
 * latest that came, or the one that was taken. */
static __always_inline struct queue *queue_of(__u64 sk, struct control *all, __u64 length, __u32 *number)
{
	__u32 *known = bpf_map_lookup_elem(&sockets, &sk);
	struct queue *queue;

	if (known) {
		*number = *known;
	} else {
		if (all->sockets >= SOCKETS)
			return 0;
		*number = __sync_fetch_and_add(&all->sockets, 1);
		if (*number >= SOCKETS || bpf_map_update_elem(&sockets, &sk, number, BPF_ANY))
			return 0;
	}
	queue = bpf_map_lookup_elem(&queues, number);
	if (queue)
		begin_recording(queue, all, length ? length - 1 : 0);
	return queue;
}

/* Puts a packet that came in at `since` into its place. Where it is taken already, the stamp says since when. */
static __always_inline void tell(struct queue *queue, __u32 number, struct stamp *stamp, __u64 arrival, __u64 since)
{
	bool another;

	for (int i = 0; i < UNSEEN; i++) {
		__u64 position = __sync_fetch_and_add(&queue->produced, 1), *place = queued_at(number, position), taken;

		if (!place)
			return;
		taken = __sync_lock_test_and_set(place, arrival);
		/* Not taken yet; what stands there is of the lap before. */
		if (!(taken & TAKEN) || *(volatile __u64 *)&queue->consumed <= position)
			return;
		another = taken & BY_ANOTHER;
		taken &= ~(TAKEN | BY_ANOTHER);
		if (taken >= since && another) {
			stamp->flags |= STAMP_ELSEWHERE;
			return;
		}
		if (taken >= since) {
			stamp->ready_ns = taken;
			stamp->user_ns = taken;
			stamp->user_cpu = queue->reader_cpu;
			return;
		}
		/* That call took a packet before this one came, of which no program was told. */
	}
}

/* The oldest packet that this CPU took in during its present NET_RX run and has not delivered. */
static __always_inline struct stamp *next_pending(struct cpu_state *state, __u64 *arrival)
{
	struct stamp *stamp;

	for (int i = 0; i < PENDING; i++) {
		if (state->pending_head >= state->pending_tail)
			return 0;
		*arrival = state->pending[state->pending_head % PENDING];
		state->pending_head++;
		stamp = stamp_of(*arrival);
		if (stamp && stamp->arrival == *arrival && !stamp->ready_ns && !(stamp->flags & STAMP_DROPPED))
			return stamp;
	}
	return 0;
}

/*
 * Packets can leave a queue unread (a bad checksum), or were taken as recording began: what is told of, not taken, and in
 * none of `LOOKS` looks in the queue is skipped. At a single look it may be a call that has its packet and has not returned.
 */
static __always_inline void skip_unread(struct queue *queue, __u64 length)
{
	__s32 gone = (__s32)(queue->produced - queue->consumed - length);

	if (!queue->looks || gone < queue->least)
		queue->least = gone;
	queue->looks++;
	if (queue->looks < LOOKS)
		return;
	queue->looks = 0;
	if (queue->least > 0)
		__sync_fetch_and_add(&queue->consumed, queue->least);
}

static __always_inline void deliver(struct cpu_state *state, __u32 cpu, struct sock *sk, __u64 now)
{
	__u64 arrival = 0, length = queue_length(sk);
	struct control *all = shared_control();
	struct stamp *stamp = next_pending(state, &arrival);
	struct queue *queue;
	__u32 number = 0;

	if (!stamp) {
		/* No program saw it come in. Its place in the order still counts. */
		stamp = new_stamp(state, cpu, 0, &arrival);
		if (!stamp)
			return;
		stamp->ready_ns = now;
		publish(&stamp->arrival, arrival);
	}
	stamp->ready_ns = now;
	if (!all)
		return;
	queue = queue_of(number_of(state, SCRATCH_READY, sk), all, length, &number);
	if (!queue)
		return;
	__sync_fetch_and_add(&queue->came, 1);
	queue->length = length;
	tell(queue, number, stamp, arrival, stamp->receive_ns ? stamp->receive_ns : state->batch_ns);
	if (!queue->unknown)
		skip_unread(queue, length);
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, struct sock *sk)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state;
	__u64 now;

	state = state_of(cpu);
	if (!state)
		return 0;
	state->stream_enters = followed_socket(sk);
	if (!state->stream_enters)
		return 0;
	now = seen(state);
	if (config.observed_process)
		deliver(state, cpu, sk, now);
	else
		ready(state, now);
	return 0;
}

/* The stamp of a packet that nobody has taken; none for what else stands in a place. */
static __always_inline struct stamp *waiting(__u64 arrival)
{
	struct stamp *stamp = arrival && !(arrival & TAKEN) ? stamp_of(arrival) : 0;

	return stamp && stamp->arrival == arrival && !stamp->user_ns ? stamp : 0;
}

/* The packet that is taken next was looked at. */
static __always_inline void peek(struct queue *queue, __u32 number)
{
	__u64 *place = queue->consumed < queue->produced ? queued_at(number, queue->consumed) : 0;
	struct stamp *stamp = place ? waiting(*place) : 0;

	if (stamp)
		stamp->flags |= STAMP_PEEKED;
}

/* A receive call took a packet off a socket's queue: one of the observed process, or of another with the same port. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk, int length, int flags)
{
	__u64 who = bpf_get_current_pid_tgid(), now, arrival;
	__u32 cpu = bpf_get_smp_processor_id(), thread = who, index = thread % READERS, number = 0;
	struct cpu_state *state;
	struct control *all;
	struct reader *reader;
	struct queue *queue;
	struct stamp *stamp;
	__u64 *place;
	bool another = who >> 32 != config.observed_process;

	if (!config.observed_process || length < 0 || (flags & MESSAGE_ERROR_QUEUE) || !followed_socket(sk))
		return 0;
	state = state_of(cpu);
	if (!state)
		return 0;
	now = seen(state);
	all = shared_control();
	if (!all)
		return 0;
	/* This packet may be told of yet: whose place it has, the times say. */
	queue = queue_of(number_of(state, SCRATCH_RETURN, sk), all, queue_length(sk) + 1, &number);
	if (!queue)
		return 0;
	if (!(flags & MESSAGE_PEEK))
		__sync_fetch_and_add(&queue->taken, 1);
	if (queue->unknown) {
		if (!(flags & MESSAGE_PEEK))
			__sync_fetch_and_add(&queue->unknown, -1);
		return 0;
	}
	if (flags & MESSAGE_PEEK) {
		if (!another)
			peek(queue, number);
		return 0;
	}
	if (!another)
		queue->reader_cpu = cpu;
	place = queued_at(number, __sync_fetch_and_add(&queue->consumed, 1));
	if (!place)
		return 0;
	arrival = __sync_lock_test_and_set(place, TAKEN | (another ? BY_ANOTHER : 0) | now);
	stamp = waiting(arrival);
	/* Its packet is not told of yet, and will find that it was taken. */
	if (!stamp)
		return 0;
	*(volatile __u64 *)place = 0;
	if (another) {
		stamp->flags |= STAMP_ELSEWHERE;
		return 0;
	}
	/* Stands where the call's return is not seen (io_uring, a kernel thread). */
	stamp->user_ns = now;
	stamp->user_cpu = cpu;
	reader = bpf_map_lookup_elem(&readers, &index);
	if (!reader || (reader->thread != thread && reader->count))
		return 0;
	reader->thread = thread;
	if (reader->count < BATCH) {
		reader->arrivals[reader->count & (BATCH - 1)] = arrival;
		reader->count++;
	}
	return 0;
}

/*
 * A system call of the process begins. What was received before and outside of one is the process's since then: io_uring completes
 * requests on a thread's way back to the program, and the call that the thread begins next may last.
 */
static __always_inline void begins(__u32 thread)
{
	__u32 index = thread % READERS;
	struct reader *reader = bpf_map_lookup_elem(&readers, &index);

	if (reader && reader->thread == thread)
		reader->count = 0;
}

/* A system call of the process returns: for a receive call, the instant at which the process has its packets. */
static __always_inline void returned(__u32 cpu, __u32 thread, __u64 now)
{
	__u32 index = thread % READERS;
	struct reader *reader = bpf_map_lookup_elem(&readers, &index);
	__u64 count;

	if (!reader || reader->thread != thread || !reader->count)
		return;
	count = reader->count;
	for (__u32 i = 0; i < BATCH && i < count; i++) {
		struct stamp *stamp = stamp_of(reader->arrivals[i]);

		if (!stamp || stamp->arrival != reader->arrivals[i])
			continue;
		stamp->user_ns = now;
		stamp->user_cpu = cpu;
		if (count > 1)
			stamp->flags |= STAMP_BATCHED;
	}
	reader->count = 0;
}

#endif
