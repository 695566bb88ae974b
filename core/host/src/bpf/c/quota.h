/* SPDX-License-Identifier: GPL-2.0 */
/* Whether the quota of its control group keeps a thread from its CPU. */
#ifndef QUAVER_QUOTA_H
#define QUAVER_QUOTA_H

#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cfs_rq___quota {
	int throttle_count;
};

struct sched_entity___quota {
	struct cfs_rq___quota *cfs_rq;
};

struct task_struct___quota {
	struct sched_entity___quota se;
	bool throttled;
};

#pragma clang attribute pop

/* Of a runnable thread: since Linux 6.18 a quota takes the thread itself off the queue when it returns to user mode, before it took
 * the whole queue. */
static __always_inline bool throttled(struct task_struct *of)
{
	struct task_struct___quota *task = (void *)of;

	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	if (bpf_core_field_exists(task->se.cfs_rq->throttle_count))
		return task->se.cfs_rq->throttle_count > 0;
	return 0;
}

#endif
