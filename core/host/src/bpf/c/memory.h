/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The maps, and the writing of records into them. All are arrays that user space maps: a record costs no
 * lock, no wake-up and, on the reading side, no system call.
 */
#ifndef QUAVER_MEMORY_H
#define QUAVER_MEMORY_H

#include "kernel.h"
#include "shared.h"

const volatile struct config config SEC(".rodata.config") = {};

#define MAPPED_ARRAY(NAME, COUNT, VALUE)                                                                     \
	struct {                                                                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                            \
		__uint(map_flags, BPF_F_MMAPABLE);                                                           \
		__uint(max_entries, COUNT);                                                                  \
		__type(key, __u32);                                                                          \
		__type(value, VALUE);                                                                        \
	} NAME SEC(".maps")

MAPPED_ARRAY(control, 1, struct control);
MAPPED_ARRAY(cpus, 1, struct cpu_state);
MAPPED_ARRAY(events, 1, struct event);
MAPPED_ARRAY(stamps, 1, struct stamp);
MAPPED_ARRAY(drops, DROP_REASONS * DROP_SUBSYSTEMS, __u64);

/* Threads whose wake-ups, migrations and page faults are recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} threads SEC(".maps");

/* x86 keeps stores in order; elsewhere an exchange orders the record before its mark. */
static __always_inline void publish(__u64 *mark, __u64 value)
{
#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory");
	*(volatile __u64 *)mark = value;
#else
	__sync_lock_test_and_set(mark, value);
#endif
}

static __always_inline struct cpu_state *state_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline struct control *shared_control(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&control, &zero);
}

/*
 * One event. The place is claimed with an atomic add because a program in an interrupt may come between;
 * `ring_limit` stays below the ring's size by more than such programs can nest.
 */
static __always_inline bool emit(struct cpu_state *state, __u32 cpu, __u64 start_ns, __u64 end_ns, __u64 aux,
				 __u32 id, __u64 kind, __u64 detail)
{
	struct event *event;
	__u64 position;
	__u32 index;

	if (*(volatile __u64 *)&state->produced - *(volatile __u64 *)&state->consumed >= state->ring_limit) {
		__sync_fetch_and_add(&state->lost, 1);
		return 0;
	}
	position = __sync_fetch_and_add(&state->produced, 1);
	index = state->ring_base + (position & state->ring_mask);
	event = bpf_map_lookup_elem(&events, &index);
	if (!event)
		return 0;
	event->start_ns = start_ns;
	event->end_ns = end_ns;
	event->aux = aux;
	publish(&event->tail, id | (__u64)(cpu & 0xffff) << 32 | kind << 48 | detail << 56);
	return 1;
}

static __always_inline struct stamp *stamp_of(__u64 arrival)
{
	__u32 index = (arrival - 1) & config.stamp_mask;
	return bpf_map_lookup_elem(&stamps, &index);
}

/* A fresh slot for a packet first seen now; its arrival number becomes visible last. */
static __always_inline struct stamp *new_stamp(struct cpu_state *state, __u32 cpu, __u64 skb, __u64 *arrival)
{
	struct control *all = shared_control();
	struct stamp *stamp;

	if (!all)
		return 0;
	*arrival = __sync_fetch_and_add(&all->arrivals, 1) + 1;
	stamp = stamp_of(*arrival);
	if (!stamp)
		return 0;
	publish(&stamp->arrival, 0);
	stamp->key = KEY_UNKNOWN;
	stamp->skb = skb;
	stamp->irq_ns = 0;
	stamp->softirq_ns = 0;
	stamp->receive_ns = 0;
	stamp->enqueued_ns = 0;
	stamp->ready_ns = 0;
	stamp->user_ns = 0;
	stamp->media_timestamp = 0;
	stamp->payload_bytes = 0;
	stamp->cpu = cpu;
	stamp->user_cpu = 0;
	stamp->flags = 0;
	stamp->drop_reason = 0;
	stamp->poll = state->poll;
	if (state->in_net_rx) {
		stamp->softirq_ns = state->batch_ns;
		stamp->irq_ns = state->batch_irq_ns;
	}
	return stamp;
}

#endif
