// SPDX-License-Identifier: GPL-2.0
/*
 * Waits for a CPU, of the threads of control groups and of all threads on some CPUs. One program, at each switch: the kernel
 * itself notes when a thread entered a run queue (`sched_info.last_queued`) and sums the waits (`run_delay`), so that
 * wake-ups need no program and threads no hash. Layouts have their twins in `threads/waits.rs`.
 */
#include "types.h"

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "arrival.h"

#define TABLES 16
#define BUCKETS 32 /* a power of two: one more than there are bounds */
#define HOLDERS 4
#define HIDDEN 3 /* a holder */
#define IS_KERNEL_THREAD 0x00200000 /* PF_KTHREAD */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};

struct task_group {
	struct cgroup_subsys_state css;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
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

#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
};
#else
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	int syscallno;
};
#endif

struct task_struct {
	unsigned int flags;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	int prio;
	int pid;
	int tgid;
	char comm[16];
};

#pragma clang attribute pop

/* Fixed before loading. */
const volatile struct {
	__u32 tables;
	__u32 futex_tables; /* a bit each */
	__u64 bounds_ns[BUCKETS]; /* the last one is above all */
	__u64 limit_ns[TABLES]; /* 0: none */
	__u64 futex_limit_ns[TABLES];
} config SEC(".rodata.config") = {};

/* Of each table its control group, or its process; an id of 0 is none at present. */
struct group {
	__u64 id;
	__u32 level;
	__u32 unified;
	__u32 process;
	__u32 fill;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TABLES);
	__type(key, __u32);
	__type(value, struct group);
} groups SEC(".maps");

/* Tables that watch this CPU, one bit each: all its threads, or those of a control group. */
struct watched {
	__u32 all;
	__u32 group;
	__u32 thread; /* to which the CPU was given last; 0: not known */
	__u32 fill;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct watched);
} watched SEC(".maps");

/* Waits that ended on a CPU, by who had it last: nobody, the kernel's own threads, a program, a hidden thread. */
struct counts {
	__u64 sum_ns[HOLDERS];
	__u64 counts[HOLDERS][BUCKETS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TABLES);
	__type(key, __u32);
	__type(value, struct counts);
} waits SEC(".maps");

/* What a thread of a group had waited, and how often it had run, when it last came to a CPU. */
struct seen {
	__u64 run_delay;
	__u64 runs;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct seen);
} threads SEC(".maps");

/* A wait above its table's limit. */
struct long_wait {
	__u64 at_ns;
	__u64 wait_ns;
	__u32 table;
	__u32 thread;
	__u32 process;
	__u16 cpu;
	__s16 priority;
	char comm[16];
	/* Of a wait for a lock; of one for a CPU 0. */
	__u64 address;
	__u32 waker;
	__u32 waker_process;
	char waker_comm[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 14);
} long_waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline bool is_member(struct task_struct *task, const struct group *group)
{
	struct cgroup *own = 0, *above = 0;
	struct task_group *tasks;
	struct css_set *set;

	if (group->process)
		return task->tgid == (int)group->process;
	if (group->unified) {
		set = task->cgroups;
		if (set)
			own = set->dfl_cgrp;
	} else {
		tasks = task->sched_task_group;
		if (tasks)
			own = tasks->css.cgroup;
	}
	if (!own || !own->kn || own->level < (int)group->level)
		return 0;
	if (own->level == (int)group->level)
		return own->kn->id == group->id;
	/* A group below it. */
	if (bpf_probe_read_kernel(&above, sizeof(above),
				  (void *)own + bpf_core_field_offset(own->ancestors) +
					  (__u64)group->level * sizeof(above)))
		return 0;
	return above && BPF_CORE_READ(above, kn, id) == group->id;
}

static __always_inline struct long_wait *reserve(__u32 table, struct task_struct *task, __u64 wait_ns, __u64 at_ns)
{
	struct long_wait *record = bpf_ringbuf_reserve(&long_waits, sizeof(*record), 0);
	__u32 zero = 0;
	__u64 *count;

	if (!record) {
		count = bpf_map_lookup_elem(&lost, &zero);
		if (count)
			*count += 1;
		return 0;
	}
	record->at_ns = at_ns;
	record->wait_ns = wait_ns;
	record->table = table;
	record->thread = task->pid;
	record->process = task->tgid;
	record->cpu = bpf_get_smp_processor_id();
	record->priority = task->prio;
	__builtin_memcpy(record->comm, task->comm, sizeof(record->comm));
	return record;
}

static __always_inline void report(__u32 table, struct task_struct *task, __u64 wait_ns, __u64 at_ns)
{
	struct long_wait *record = reserve(table, task, wait_ns, at_ns);

	if (!record)
		return;
	record->address = 0;
	record->waker = record->waker_process = 0;
	__builtin_memset(record->waker_comm, 0, sizeof(record->waker_comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Most waits are within the first bound. The rest is a search in halves, without branches. */
static __always_inline __u32 bucket_of(__u64 wait_ns)
{
	__u32 bucket = 0;

	if (wait_ns <= config.bounds_ns[0])
		return 0;
#pragma unroll
	for (int half = BUCKETS / 2; half; half /= 2)
		bucket += ((config.bounds_ns[(bucket + half - 1) & (BUCKETS - 1)] - wait_ns) >> 63) * half;
	return bucket;
}

#include "futex.h"

/* A switch, for each table in turn. */
struct coming {
	struct task_struct *task;
	__u64 here_ns;
	__u64 whole_ns; /* and 1; 0 where it is not known yet */
	__u64 since_ns; /* the end of the wait */
	__u32 all;
	__u32 group;
	__u32 holder;
};

/* The whole wait of a thread: also its parts in the queues of other CPUs, from which it was moved while it waited. */
static __always_inline void find_whole_wait(struct coming *coming)
{
	struct sched_info *now = &coming->task->sched_info;
	__u64 before = now->run_delay, runs = now->pcount;
	struct seen *seen = bpf_task_storage_get(&threads, coming->task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	coming->whole_ns = coming->here_ns + 1;
	if (!seen)
		return;
	/* The kernel counts this run after the switch. Runs that were not seen waited for something else. */
	if (seen->runs && seen->runs == runs)
		coming->whole_ns += before - seen->run_delay;
	seen->run_delay = before + coming->here_ns;
	seen->runs = runs + 1;
}

static __always_inline void count(__u32 table, struct coming *coming, __u64 wait_ns)
{
	struct counts *own = bpf_map_lookup_elem(&waits, &table);
	/* Masked: the verifier forgets the bound of what lies on the stack. */
	__u64 limit_ns = config.limit_ns[table & (TABLES - 1)];

	if (!own || coming->holder >= HOLDERS)
		return;
	own->sum_ns[coming->holder] += wait_ns;
	own->counts[coming->holder][bucket_of(wait_ns) & (BUCKETS - 1)] += 1;
	if (limit_ns && wait_ns > limit_ns)
		report(table, coming->task, wait_ns, bpf_ktime_get_ns() - coming->since_ns);
}

/* The verifier walks through a called loop's body once, and through one that is written out for each table. */
static long count_in(__u32 table, struct coming *coming)
{
	struct group *group;

	if (table >= TABLES)
		return 1;
	if (coming->all & 1U << table) {
		count(table, coming, coming->here_ns);
	} else if (coming->group & 1U << table) {
		group = bpf_map_lookup_elem(&groups, &table);
		if (!group || !group->id || !is_member(coming->task, group))
			return 0;
		if (!coming->whole_ns)
			find_whole_wait(coming);
		count(table, coming, coming->whole_ns - 1);
	}
	return 0;
}

/*
 * `task` leaves a CPU that was last seen given to another: its wait ended at a switch from a hidden thread. The kernel counted it,
 * and noted when the task came.
 */
static __noinline int count_hidden(struct task_struct *task, const struct watched *here)
{
	struct sched_info *now = &task->sched_info;
	struct coming coming = { .task = task, .holder = HIDDEN };
	struct seen *seen = bpf_task_storage_get(&threads, task, 0, 0);

	/* Other runs that were not seen: the wait cannot be told from theirs. */
	coming.since_ns = ran_ns(task);
	if (!seen || seen->runs + 1 != now->pcount || !coming.since_ns)
		return 0;
	coming.group = here->group;
	coming.whole_ns = now->run_delay - seen->run_delay + 1;
	seen->run_delay = now->run_delay;
	seen->runs = now->pcount;
	bpf_loop(config.tables, count_in, &coming, 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct coming coming = { .task = next };
	__u64 queued_ns = next->sched_info.last_queued;
	struct watched *here;
	__u32 zero = 0, given;
	struct rq *rq;

	here = bpf_map_lookup_elem(&watched, &zero);
	if (!here || !(here->all | here->group))
		return 0;
	given = here->thread;
	here->thread = next->pid;
	if (given && prev->pid && given != (__u32)prev->pid)
		count_hidden(prev, here);
	if (!queued_ns)
		return 0;
	/* The queue that it is taken from now, of whichever class it is. */
	rq = next->se.cfs_rq->rq;
	coming.here_ns = rq->clock - queued_ns;
	if (rq->cpu != (int)bpf_get_smp_processor_id() || (__s64)coming.here_ns < 0)
		return 0;
	coming.all = here->all;
	coming.group = here->group;
	coming.holder = !prev->pid ? 0 : prev->flags & IS_KERNEL_THREAD ? 1 : 2;
	bpf_loop(config.tables, count_in, &coming, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
