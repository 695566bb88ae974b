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

/* For how long a thread that leaves this CPU now had it. 0: not known. */
static __always_inline __u64 ran_ns(struct task_struct *of)
{
	struct task_struct___arrival *task = (void *)of;
	struct rq___arrival *rq;

	if (!bpf_core_field_exists(task->sched_info.last_arrival) || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	if (!task->sched_info.last_arrival)
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->cpu == (int)bpf_get_smp_processor_id() ? rq->clock - task->sched_info.last_arrival : 0;
}

#endif
