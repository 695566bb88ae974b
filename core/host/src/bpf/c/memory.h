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

/*
 * The host's count of the time that it took from this CPU, and when it was read. The host writes while the CPU is off, so
 * an even version that is the same before and after means that all three belong together.
 */
#define STEAL_LOOKS 3

/* The count grew: what was taken lies between the look before and this one. A nested program may have said so already. */
static __noinline int steal_grew(struct cpu_state *state, __u64 before_ns, __u64 now, __u64 count)
{
	__u64 known;

	if (!state)
		return 0;
	known = *(volatile __u64 *)&state->steal_ns;
	if (count > known && __sync_val_compare_and_swap(&state->steal_ns, known, count) == known && before_ns)
		emit(state, bpf_get_smp_processor_id(), before_ns, now, count - known, 0, EVENT_STEAL, 0);
	return 0;
}

/* The time now. Where the host counts what it takes, looks at that count too. */
static __always_inline __u64 seen(struct cpu_state *state)
{
	const struct kvm_steal_time *page;
	__u64 before_ns, now = 0, count;
	__u32 version;

	if (!config.steal_counted || !state->steal_page)
		return bpf_ktime_get_ns();
	page = bpf_rdonly_cast((void *)state->steal_page, bpf_core_type_id_kernel(struct kvm_steal_time));
	before_ns = *(volatile __u64 *)&state->seen_ns;
#pragma unroll
	for (int look = 0; look < STEAL_LOOKS; look++) {
		version = *(volatile __u32 *)&page->version;
		now = bpf_ktime_get_ns();
		count = *(volatile __u64 *)&page->steal;
		if (version == *(volatile __u32 *)&page->version && !(version & 1)) {
			if (count != *(volatile __u64 *)&state->steal_ns)
				steal_grew(state, before_ns, now, count);
			*(volatile __u64 *)&state->seen_ns = now;
			return now;
		}
	}
	return now;
}

/* Finds the count beside the CPU's run queue, which the running thread leads to. */
static __always_inline void find_steal(struct cpu_state *state, __u32 cpu)
{
	struct task_struct *task;
	struct rq *rq;

	if (!config.steal_counted || state->steal_page)
		return;
	task = bpf_get_current_task_btf();
	rq = task->se.cfs_rq->rq;
	if ((__u32)rq->cpu == cpu) {
		*(volatile __u64 *)&state->steal_page = (__u64)rq;
		*(volatile __u64 *)&state->steal_page += config.steal_offset;
	}
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
