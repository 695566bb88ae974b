// SPDX-License-Identifier: GPL-2.0
/*
 * What a CPU spends in interrupts and softirqs, what threads wait for it, what leaving idle takes, and what the host takes: counts
 * by length, on the watched CPUs. Layouts have their twins in `cpus/times.rs`.
 */
#include "types.h"

enum {
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define BUCKETS 32 /* 20 are in use: a power of two */
#define LAST_BUCKET 19
#define FIRST_BOUND 9 /* log2 of nanoseconds, right above the first bound */
#define FIRST_SHIFT 21 /* the first bound is a second shifted so far */
#define KINDS 16
#define SOFTIRQS 10
enum { DEVICE = SOFTIRQS, TIMER, OTHER, RUN_QUEUE, IDLE_EXIT, STEAL };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_info {
	unsigned long long last_queued;
};

struct rq {
	int cpu;
	__u64 clock;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	struct sched_entity se;
	struct sched_info sched_info;
	int pid;
};

/* Written by a KVM host while the CPU is off (arch/x86/include/uapi/asm/kvm_para.h). */
struct kvm_steal_time {
	__u64 steal;
	__u32 version;
};

#pragma clang attribute pop

extern void *bpf_rdonly_cast(const void *, __u32) __weak __ksym;

/* Fixed before loading. */
const volatile struct {
	__u64 steal_counted; /* the host counts stolen time, at this distance from a CPU's run queue */
	__s64 steal_offset;
} config SEC(".rodata.config") = {};

/* What a CPU is in. 0: in none. */
struct state {
	__u64 watched;
	__u64 interrupt_since_ns;
	__u64 interrupts_ns; /* all so far */
	__u64 softirq_since_ns;
	__u64 softirq_interrupts_ns; /* `interrupts_ns` when it began */
	__u64 idle_until_ns;
	__u64 steal_page;
	__u64 steal_ns;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} states SEC(".maps");

struct times {
	__u64 sum_ns;
	__u64 counts[BUCKETS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KINDS);
	__type(key, __u32);
	__type(value, struct times);
} times SEC(".maps");

static __always_inline struct state *watched(void)
{
	__u32 zero = 0;
	struct state *here = bpf_map_lookup_elem(&states, &zero);

	return here && here->watched ? here : 0;
}

/*
 * Bounds are powers of two of a second in whole nanoseconds. The logarithm of nanoseconds is the bucket or the one before. Without
 * branches.
 */
static __always_inline __u32 bucket_of(__u64 ns)
{
	__u64 value = (ns - !!ns) >> FIRST_BOUND, shift;
	__u32 bucket;

	if (value >> 32)
		return LAST_BUCKET;
	bucket = (value > 0xffff) << 4;
	value >>= bucket;
	shift = (value > 0xff) << 3;
	value >>= shift;
	bucket |= shift;
	shift = (value > 0xf) << 2;
	value >>= shift;
	bucket |= shift;
	shift = (value > 0x3) << 1;
	value >>= shift;
	bucket |= shift;
	bucket = (bucket | (value >> 1)) + (value > 0);
	bucket = bucket < LAST_BUCKET ? bucket : LAST_BUCKET;
	bucket += ns > (1000000000ULL >> (FIRST_SHIFT - bucket));
	return bucket < LAST_BUCKET ? bucket : LAST_BUCKET;
}

static __always_inline void add(__u32 kind, __u64 ns)
{
	struct times *own = bpf_map_lookup_elem(&times, &kind);

	if (!own)
		return;
	own->sum_ns += ns;
	own->counts[bucket_of(ns) & (BUCKETS - 1)] += 1;
}

/* The host's count of what it took, beside the run queue that the running thread leads to. */
static __always_inline void look_for_steal(struct state *here)
{
	const struct kvm_steal_time *page;
	struct task_struct *task;
	__u64 count, known;
	__u32 version;
	struct rq *rq;

	if (!config.steal_counted)
		return;
	if (!here->steal_page) {
		task = (void *)bpf_get_current_task_btf();
		rq = task->se.cfs_rq->rq;
		if (rq->cpu != (int)bpf_get_smp_processor_id())
			return;
		here->steal_page = (__u64)rq;
		*(volatile __u64 *)&here->steal_page += config.steal_offset;
	}
	page = bpf_rdonly_cast((void *)here->steal_page, bpf_core_type_id_kernel(struct kvm_steal_time));
	version = *(volatile __u32 *)&page->version;
	count = *(volatile __u64 *)&page->steal;
	known = here->steal_ns;
	if (version & 1 || version != *(volatile __u32 *)&page->version || count == known)
		return;
	/* A program that interrupts this one may count it instead. */
	if (__sync_val_compare_and_swap(&here->steal_ns, known, count) == known && known && count > known)
		add(STEAL, count - known);
}

static __always_inline int interrupt_begins(void)
{
	struct state *here = watched();

	if (!here)
		return 0;
	look_for_steal(here);
	here->interrupt_since_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int interrupt_ends(__u32 kind)
{
	struct state *here = watched();
	__u64 ns;

	if (!here || !here->interrupt_since_ns)
		return 0;
	ns = bpf_ktime_get_ns() - here->interrupt_since_ns;
	here->interrupt_since_ns = 0;
	here->interrupts_ns += ns;
	add(kind, ns);
	return 0;
}

#define INTERRUPT(name, kind)                 \
	SEC("tp_btf/" #name "_entry")         \
	int BPF_PROG(name##_begins)           \
	{                                     \
		return interrupt_begins();    \
	}                                     \
	SEC("tp_btf/" #name "_exit")          \
	int BPF_PROG(name##_ends)             \
	{                                     \
		return interrupt_ends(kind);  \
	}
INTERRUPT(irq_handler, DEVICE)
INTERRUPT(local_timer, TIMER)
INTERRUPT(reschedule, OTHER)
INTERRUPT(call_function, OTHER)
INTERRUPT(call_function_single, OTHER)
INTERRUPT(irq_work, OTHER)

/* What interrupts have taken so far. One may come at any instruction. */
static __always_inline __u64 in_interrupts_ns(const struct state *here)
{
	return *(const volatile __u64 *)&here->interrupts_ns;
}

/* The clock comes first: an interrupt that comes between both is then not taken off a time that it is no part of. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_begins)
{
	struct state *here = watched();

	if (!here)
		return 0;
	here->softirq_since_ns = bpf_ktime_get_ns();
	here->softirq_interrupts_ns = in_interrupts_ns(here);
	return 0;
}

/* Without the interrupts in it. The clock comes last here, again after one that came between both. */
SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_ends, unsigned int vector)
{
	struct state *here = watched();
	__u64 interrupts_ns, now;

	if (!here || !here->softirq_since_ns || vector >= SOFTIRQS)
		return 0;
	interrupts_ns = in_interrupts_ns(here);
	now = bpf_ktime_get_ns();
	if (interrupts_ns != in_interrupts_ns(here)) {
		interrupts_ns = in_interrupts_ns(here);
		now = bpf_ktime_get_ns();
	}
	add(vector, now - here->softirq_since_ns - (interrupts_ns - here->softirq_interrupts_ns));
	here->softirq_since_ns = 0;
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_idle, unsigned int idle)
{
	struct state *here = watched();

	if (here)
		here->idle_until_ns = idle == ~0U ? bpf_ktime_get_ns() : 0;
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 queued_ns = next->sched_info.last_queued, wait_ns;
	struct state *here = watched();
	struct rq *rq;

	if (!here)
		return 0;
	look_for_steal(here);
	if (here->idle_until_ns && !prev->pid)
		add(IDLE_EXIT, bpf_ktime_get_ns() - here->idle_until_ns);
	here->idle_until_ns = 0;
	if (!queued_ns)
		return 0;
	rq = next->se.cfs_rq->rq;
	wait_ns = rq->clock - queued_ns;
	if (rq->cpu == (int)bpf_get_smp_processor_id() && (__s64)wait_ns >= 0)
		add(RUN_QUEUE, wait_ns);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
