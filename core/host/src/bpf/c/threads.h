/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads: who holds a CPU, who wakes whom, who moves, who faults.
 */
#ifndef QUAVER_THREADS_H
#define QUAVER_THREADS_H

#include "events.h"

/* Which name a thread was last reported under. Direct-mapped: a collision only repeats a name. */
struct name {
	__u64 thread;
	__u64 comm[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NAMES);
	__type(key, __u32);
	__type(value, struct name);
} names SEC(".maps");

static __always_inline void report_name(struct cpu_state *state, __u32 cpu, struct task_struct *task, __u32 thread)
{
	__u32 index = thread % NAMES;
	struct name *name = bpf_map_lookup_elem(&names, &index);
	__u64 comm[2];

	if (!name || bpf_probe_read_kernel(comm, sizeof(comm), task->comm))
		return;
	if (name->thread == thread && name->comm[0] == comm[0] && name->comm[1] == comm[1])
		return;
	if (emit(state, cpu, comm[0], comm[1], 0, thread, EVENT_TASK_NAME, 0)) {
		name->thread = thread;
		name->comm[0] = comm[0];
		name->comm[1] = comm[1];
	}
}

enum { OFF_PREEMPTED = 1, OFF_BLOCKED = 2, OFF_EXITED = 3 };
/* TASK_DEAD, EXIT_DEAD and EXIT_ZOMBIE of include/linux/sched.h. */
#define GONE (0x80 | 0x10 | 0x20)

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u32 cpu = bpf_get_smp_processor_id(), thread = prev->pid, priority = prev->prio;
	struct cpu_state *state = recorded(cpu);
	struct control *all;
	__u64 now, start;
	__u32 off;

	if (!state)
		return 0;
	now = seen(state);
	find_steal(state, cpu);
	off = preempt || !prev_state ? OFF_PREEMPTED : prev_state & GONE ? OFF_EXITED : OFF_BLOCKED;
	start = state->thread_ns;
	if (!start) {
		/* It ran when recording began. */
		all = shared_control();
		start = all ? all->recording_ns : 0;
		if (!start || start > now)
			start = now;
	}
	emit(state, cpu, start, now, priority | (__u64)(__u32)next->pid << 32, thread, EVENT_THREAD, off);
	if (thread)
		report_name(state, cpu, prev, thread);
	state->thread_id = next->pid;
	state->thread_priority = next->prio;
	state->thread_ns = now;
	return 0;
}

static __always_inline bool wanted(struct task_struct *task)
{
	__u32 thread = task->pid;

	return bpf_map_lookup_elem(&threads, &thread) != 0;
}

static __always_inline void wakeup(struct task_struct *task, __u64 only_waking)
{
	__u32 cpu = bpf_get_smp_processor_id(), thread = task->pid, waker;
	struct cpu_state *state;
	__u64 now;

	if (!wanted(task))
		return;
	state = state_of(cpu);
	if (!state)
		return;
	now = seen(state);
	waker = bpf_get_current_pid_tgid();
	if (config.ready_by_waking && only_waking)
		ready(state, now);
	emit(state, cpu, now, now, (__u64)waker << 32 | task->thread_info.cpu, thread, EVENT_WAKEUP, only_waking);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	wakeup(task, 1);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	wakeup(task, 0);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *task, int target)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state;
	__u64 now;

	if (!wanted(task))
		return 0;
	state = state_of(cpu);
	if (!state)
		return 0;
	now = seen(state);
	emit(state, cpu, now, now, (__u64)task->thread_info.cpu << 32 | (__u32)target, task->pid, EVENT_MIGRATE,
	     0);
	return 0;
}

static __always_inline void page_fault(unsigned long address, __u64 in_kernel)
{
	__u32 cpu = bpf_get_smp_processor_id(), thread = bpf_get_current_pid_tgid();
	struct cpu_state *state;
	__u64 now;

	if (!bpf_map_lookup_elem(&threads, &thread))
		return;
	state = state_of(cpu);
	if (!state)
		return;
	now = seen(state);
	emit(state, cpu, now, now, address, thread, EVENT_PAGE_FAULT, in_kernel);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault_user, unsigned long address)
{
	page_fault(address, 0);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_page_fault_kernel, unsigned long address)
{
	page_fault(address, 1);
	return 0;
}

#endif
