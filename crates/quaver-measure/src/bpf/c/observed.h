/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The last layers: the receiver is told, and (for a process that we only observe) its receive call returns.
 *
 * Nothing at the return of a receive call says which packet it brought. A UDP socket hands its packets out in the
 * order in which they entered its queue, so that order joins them.
 */
#ifndef QUAVER_OBSERVED_H
#define QUAVER_OBSERVED_H

#include "packets.h"

/* The receive queue of one socket, as a ring of arrival numbers in `queued`. */
struct queue {
	__u64 recording;
	__u64 produced;
	__u64 consumed;
	__u64 unknown; /* packets that were queued before recording began */
};

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

/* The queue of a socket; a new one if there is none yet and `length` packets are in it, the latest included. */
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
	if (queue && queue->recording != all->recordings) {
		queue->recording = all->recordings;
		queue->consumed = queue->produced;
		queue->unknown = length ? length - 1 : 0;
	}
	return queue;
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

static __always_inline void deliver(struct cpu_state *state, __u32 cpu, struct sock *sk, __u64 now)
{
	__u64 arrival = 0, length = queue_length(sk), backlog;
	struct control *all = shared_control();
	struct stamp *stamp = next_pending(state, &arrival);
	struct queue *queue;
	__u64 *place;
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
	place = queued_at(number, __sync_fetch_and_add(&queue->produced, 1));
	if (place)
		*place = arrival;
	/* Packets can leave a queue unread (a bad checksum): what is no longer there is skipped. */
	backlog = queue->produced - queue->consumed;
	if (!queue->unknown && backlog > length + PENDING)
		queue->consumed = queue->produced - length;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, struct sock *sk)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state;
	__u64 now;

	if (!followed_socket(sk))
		return 0;
	now = bpf_ktime_get_ns();
	state = state_of(cpu);
	if (!state)
		return 0;
	if (config.observed_process)
		deliver(state, cpu, sk, now);
	else
		ready(state, now);
	return 0;
}

/* A receive call of the observed process took a packet off a socket's queue. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk, int length, int flags)
{
	__u64 who = bpf_get_current_pid_tgid(), now, address, arrival;
	__u32 cpu = bpf_get_smp_processor_id(), thread = who, index = thread % READERS, number, *known;
	struct cpu_state *state;
	struct reader *reader;
	struct queue *queue;
	struct stamp *stamp;
	__u64 *place;

	if (who >> 32 != config.observed_process || length < 0 || (flags & MESSAGE_ERROR_QUEUE))
		return 0;
	state = state_of(cpu);
	if (!state || !followed_socket(sk))
		return 0;
	now = bpf_ktime_get_ns();
	address = number_of(state, SCRATCH_RETURN, sk);
	known = bpf_map_lookup_elem(&sockets, &address);
	if (!known)
		return 0;
	number = *known;
	queue = bpf_map_lookup_elem(&queues, &number);
	if (!queue)
		return 0;
	if (queue->unknown) {
		if (!(flags & MESSAGE_PEEK))
			__sync_fetch_and_add(&queue->unknown, -1);
		return 0;
	}
	if (queue->consumed >= queue->produced)
		return 0;
	place = queued_at(number, flags & MESSAGE_PEEK ? queue->consumed : __sync_fetch_and_add(&queue->consumed, 1));
	if (!place)
		return 0;
	arrival = *place;
	stamp = stamp_of(arrival);
	if (!stamp || stamp->arrival != arrival)
		return 0;
	if (flags & MESSAGE_PEEK) {
		stamp->flags |= STAMP_PEEKED;
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

/* The receive call returns: this is the instant at which the process has its packets. */
SEC("raw_tp/sys_exit")
int on_sys_exit(void *context)
{
	__u64 who = bpf_get_current_pid_tgid(), now, count;
	__u32 cpu = bpf_get_smp_processor_id(), thread = who, index = thread % READERS;
	struct reader *reader;

	if (who >> 32 != config.observed_process)
		return 0;
	reader = bpf_map_lookup_elem(&readers, &index);
	if (!reader || reader->thread != thread || !reader->count)
		return 0;
	now = bpf_ktime_get_ns();
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
	return 0;
}

#endif
