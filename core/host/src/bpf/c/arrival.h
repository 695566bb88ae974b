/* SPDX-License-Identifier: GPL-2.0 */
/*
 * When a thread came to its CPU, as the scheduler noted. A kernel can hide threads from every trace point, and with them each
 * switch from one: the thread that comes then is first seen when it leaves.
 */
#ifndef QUAVER_ARRIVAL_H
#define QUAVER_ARRIVAL_H

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq___arrival {
	int cpu;
	__u64 clock;
};

struct cfs_rq___arrival {
	struct rq___arrival *rq;
};

struct sched_entity___arrival {
	struct cfs_rq___arrival *cfs_rq;
};

struct sched_info___arrival {
	unsigned long long last_arrival;
};

struct task_struct___arrival {
	struct sched_entity___arrival se;
	struct sched_info___arrival sched_info;
};

#pragma clang attribute pop

/* The scheduler's clock as this CPU read it last, which it does at each switch. 0: not known. */
static __always_inline __u64 scheduler_ns(struct task_struct *of)
{
	struct task_struct___arrival *task = (void *)of;
	struct rq___arrival *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->cpu == (int)bpf_get_smp_processor_id() ? rq->clock : 0;
}

/* When a thread came to its CPU by the scheduler's clock. 0: not known. */
static __always_inline __u64 arrived_ns(struct task_struct *of)
{
	struct task_struct___arrival *task = (void *)of;

	return bpf_core_field_exists(task->sched_info.last_arrival) ? task->sched_info.last_arrival : 0;
}

/* For how long a thread that leaves this CPU now had it. 0: not known. */
static __always_inline __u64 ran_ns(struct task_struct *of)
{
	__u64 clock = scheduler_ns(of), arrived = arrived_ns(of);

	return clock && arrived ? clock - arrived : 0;
}

#endif
