/* SPDX-License-Identifier: GPL-2.0 */
/* Timers that refill the quotas which followed threads ran out of. Other groups of control have timers of the same function. */
#ifndef QUAVER_REFILLS_H
#define QUAVER_REFILLS_H

#include "memory.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cfs_bandwidth___refills {
	struct hrtimer period_timer;
};

struct task_group___refills {
	struct cfs_bandwidth___refills cfs_bandwidth;
};

struct cfs_rq___refills {
	int throttled;
	struct task_group___refills *tg;
};

struct sched_entity___refills {
	struct sched_entity___refills *parent;
	struct cfs_rq___refills *cfs_rq;
};

struct task_struct___refills {
	struct sched_entity___refills se;
};

#pragma clang attribute pop

/* By address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u8);
} refills SEC(".maps");

#define GROUPS 8 /* of control, one in another, at most */

/* Notes the timer of each quota that is used up around a followed thread. */
static __always_inline void note_refills(struct task_struct *task)
{
	struct sched_entity___refills *entity = &((struct task_struct___refills *)task)->se;
	__u8 yes = 1;

	if (!bpf_core_field_exists(entity->cfs_rq->throttled) || !bpf_core_field_exists(entity->parent))
		return;
	for (int i = 0; i < GROUPS && entity; i++) {
		struct cfs_rq___refills *queue = BPF_CORE_READ(entity, cfs_rq);

		if (queue && BPF_CORE_READ(queue, throttled)) {
			__u64 timer = (__u64)&BPF_CORE_READ(queue, tg)->cfs_bandwidth.period_timer;

			bpf_map_update_elem(&refills, &timer, &yes, BPF_ANY);
		}
		entity = BPF_CORE_READ(entity, parent);
	}
}

static __always_inline __u64 refills_quota(struct hrtimer *timer)
{
	__u64 key = (__u64)timer;

	return bpf_map_lookup_elem(&refills, &key) ? REFILLS_QUOTA : 0;
}

#endif
