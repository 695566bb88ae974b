/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads: who holds a CPU, who wakes whom, who moves, who faults.
 */
#ifndef QUAVER_THREADS_H
#define QUAVER_THREADS_H

#include "sleeps.h"
#include "arrival.h"

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

/*
 * The name of a thread, with its process; the process's own name is that of its leader. Names of one thread come from
 * several CPUs, and so in no order: the time says which one is the last.
 */
static __always_inline void report_name(struct cpu_state *state, __u32 cpu, __u64 now, struct task_struct *task,
					__u32 thread, __u32 process)
{
	__u32 index = thread % NAMES;
	struct name *name = bpf_map_lookup_elem(&names, &index);
	__u64 comm[2];

	if (!name || bpf_probe_read_kernel(comm, sizeof(comm), task->comm))
		return;
	if (name->thread == thread && name->comm[0] == comm[0] && name->comm[1] == comm[1])
		return;
	if (emit(state, cpu, comm[0], comm[1], process | now >> 14 << 32, thread, EVENT_TASK_NAME, 0)) {
		name->thread = thread;
		name->comm[0] = comm[0];
		name->comm[1] = comm[1];
	}
}

static __always_inline bool wanted(struct task_struct *task)
{
	__u32 thread = task->pid;

	/* Also threads that the observed process has made since. */
	if (config.observed_process && task->tgid == (int)config.observed_process)
		return 1;
	return bpf_map_lookup_elem(&threads, &thread) != 0;
}

/*
 * Switches were missed: a kernel can hide threads from every trace point. Until `prev` came to the CPU, as the scheduler
 * noted, the CPU was that of the thread which it was last seen given to. Returns when `prev` came.
 */
static __noinline __u64 emit_hidden(struct cpu_state *state, __u32 cpu, __u64 now, struct task_struct *prev)
{
	__u64 start, ran = ran_ns(prev);

	if (!state)
		return now;
	start = state->thread_ns;
	if (!ran || ran >= now - start)
		return start;
	emit(state, cpu, start, now - ran, state->thread_priority | (__u64)(__u32)prev->pid << 32, state->thread_id,
	     EVENT_THREAD, OFF_UNKNOWN);
	return now - ran;
}

/* A followed thread waits longer for its CPU than a switch takes: from here on the stack of who holds it is of use. */
#define LONG_SWITCH_NS 50000

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u32 cpu = bpf_get_smp_processor_id(), thread = prev->pid, priority = prev->prio;
	struct cpu_state *state = recorded(cpu);
	struct control *all;
	bool told = 0;
	__u64 now, start;
	__u32 off;

	if (!state)
		return 0;
	now = seen(state);
	find_steal(state, cpu);
	off = off_cpu(prev, preempt, prev_state);
	if ((off == OFF_BLOCKED || off == OFF_UNINTERRUPTIBLE) && wanted(prev)) {
		off = emit_sleep(ctx, state, cpu, now, prev, off);
		told = off == OFF_UNINTERRUPTIBLE;
	}
	if (off == OFF_THROTTLED && wanted(prev))
		note_refills(prev);
	if (bpf_core_field_exists(prev->dl_server))
		off |= OFF_SERVER_KNOWN | (prev->dl_server ? OFF_SERVED : 0);
	start = state->thread_ns;
	if (!start) {
		/* It ran when recording began. */
		all = shared_control();
		start = all ? all->recording_ns : 0;
		if (!start || start > now)
			start = now;
	} else if (state->thread_id != thread) {
		start = emit_hidden(state, cpu, now, prev);
	}
	emit(state, cpu, start, now, priority | (__u64)(__u32)next->pid << 32, thread, EVENT_THREAD, off);
	if (thread)
		report_name(state, cpu, now, prev, thread, prev->tgid);
	if (thread != (__u32)prev->tgid)
		report_name(state, cpu, now, prev->group_leader, prev->tgid, prev->tgid);
	if (state->woken_thread) {
		/* Whoever comes next: the one who waited need not be first. One that goes to sleep by itself did not give
		 * way before: its stack ends in the same call of the kernel. */
		if (thread && thread != state->woken_thread && now - state->woken_ns > LONG_SWITCH_NS && !told &&
		    (off & 0x3f) != OFF_EXITED)
			emit_frames(ctx, state, cpu, now, thread);
		state->woken_thread = 0;
	}
	state->thread_id = next->pid;
	state->thread_priority = next->prio;
	state->thread_ns = now;
	return 0;
}

#define PF_EXITING 0x4 /* include/linux/sched.h: the thread ends. */

/* quaver_abi::record::WakeContext. */
enum wake_context {
	WOKEN_BY_TASK = 1,
	WOKEN_BY_INTERRUPT = 2,
	WOKEN_BY_SOFTIRQ = 3,
	WOKEN_BY_VECTOR = 4,
	WOKEN_BY_TIMER = 5,
	WOKEN_BY_STREAM = 6,
};

/* From which context this CPU makes a wake-up, in the places of `quaver_abi::record::Wakeup`. What interrupts is
 * not the thread that is interrupted. */
static __always_inline __u32 wake_context(struct cpu_state *state)
{
	if (state->irq_ns)
		return WOKEN_BY_INTERRUPT << 16 | (state->irq_number & 0xfff) << 20;
	if (state->vector_ns[VECTOR_LOCAL_TIMER])
		return WOKEN_BY_TIMER << 16;
#pragma unroll
	for (__u32 vector = 2; vector < VECTORS; vector++)
		if (state->vector_ns[vector])
			return WOKEN_BY_VECTOR << 16 | vector << 20;
	if (state->softirq_ns && state->stream_enters)
		return WOKEN_BY_STREAM << 16;
	if (state->softirq_ns)
		return WOKEN_BY_SOFTIRQ << 16 | (state->softirq_vector & 0xfff) << 20;
	/* quaver_abi::record::Wakeup::ENDING: the kernel wakes who waits for a thread's end (pthread_join). */
	if (bpf_get_current_task_btf()->flags & PF_EXITING)
		return WOKEN_BY_TASK << 16 | 1 << 20;
	return WOKEN_BY_TASK << 16;
}

/* What was recorded of a wake-up: `detail` of EVENT_WAKEUP. */
enum wakeup_step { MADE_RUNNABLE = 0, ONLY_WAKING = 1, NEW_THREAD = 2 };

static __always_inline void wakeup(struct task_struct *task, __u64 step)
{
	__u32 cpu = bpf_get_smp_processor_id(), thread = task->pid, target = task->thread_info.cpu;
	struct cpu_state *state, *there;
	__u64 now, current;

	if (!wanted(task))
		return;
	state = state_of(cpu);
	if (!state)
		return;
	now = seen(state);
	current = (__u32)bpf_get_current_pid_tgid();
	if (config.ready_by_waking && step == ONLY_WAKING)
		ready(state, now);
	emit(state, cpu, now, now, current << 32 | wake_context(state) | (target & 0xffff), thread, EVENT_WAKEUP,
	     step);
	if (step == ONLY_WAKING)
		return;
	there = state_of(target);
	if (there && !there->woken_thread) {
		there->woken_ns = now;
		there->woken_thread = thread;
	}
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	wakeup(task, ONLY_WAKING);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	wakeup(task, MADE_RUNNABLE);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_sched_wakeup_new, struct task_struct *task)
{
	wakeup(task, NEW_THREAD);
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

	if (!wanted(bpf_get_current_task_btf()))
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
