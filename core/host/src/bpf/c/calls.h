/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the observed process does itself: its system calls that take long, and what its threads run, looked at by a timer.
 */
#ifndef QUAVER_CALLS_H
#define QUAVER_CALLS_H

#include "observed.h"

/* Shorter calls are not told: nearly all are, and a record costs more than they take. */
#define LONG_CALL_NS 20000
#define CALLS 1024

/* The system call that a thread is in. A thread with the same place in the table only loses it. */
struct call {
	__u64 thread;
	__u64 number;
	__u64 start_ns; /* 0: in none */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CALLS);
	__type(key, __u32);
	__type(value, struct call);
} calls SEC(".maps");

/* Addresses of a stack, innermost first. Sized by user space. */
struct stack {
	__u64 addresses[STACK_DEPTH];
};
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct stack));
} stacks SEC(".maps");

SEC("raw_tp/sys_enter")
int on_sys_enter(__u64 *arguments)
{
	__u64 who = bpf_get_current_pid_tgid();
	__u32 thread = who, index = thread % CALLS;
	struct call *call;

	if (who >> 32 != config.observed_process)
		return 0;
	begins(thread);
	call = bpf_map_lookup_elem(&calls, &index);
	if (!call)
		return 0;
	call->thread = thread;
	call->number = arguments[1];
	call->start_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void tell_long_call(__u32 cpu, __u32 thread, __u64 now)
{
	__u32 index = thread % CALLS;
	struct call *call = bpf_map_lookup_elem(&calls, &index);
	struct cpu_state *state;
	struct control *all;
	__u64 start;

	if (!call || call->thread != thread)
		return;
	start = call->start_ns;
	call->start_ns = 0;
	if (!start || now - start < LONG_CALL_NS)
		return;
	/* A start from before this recording may be that of a call whose end was not recorded. */
	all = shared_control();
	state = state_of(cpu);
	if (!all || !state || !all->recording_ns || start < all->recording_ns)
		return;
	emit(state, cpu, start, now, call->number, thread, EVENT_SYSTEM_CALL, 0);
}

SEC("raw_tp/sys_exit")
int on_sys_exit(void *context)
{
	__u64 who = bpf_get_current_pid_tgid(), now;
	__u32 cpu = bpf_get_smp_processor_id(), thread = who;

	if (who >> 32 != config.observed_process)
		return 0;
	now = bpf_ktime_get_ns();
	returned(cpu, thread, now);
	tell_long_call(cpu, thread, now);
	return 0;
}

/* What the thread that was interrupted runs. In user mode it has no kernel stack. */
SEC("perf_event")
int on_sample(void *context)
{
	__u64 who = bpf_get_current_pid_tgid();
	__u32 cpu = bpf_get_smp_processor_id(), thread = who;
	struct cpu_state *state;
	__s64 kernel, user;
	__u64 now;
	bool inner;

	state = state_of(cpu);
	if (!state)
		return 0;
	/* Known by its address from now on: a kernel may take no sample of an idle CPU. */
	inner = state->hrtimer[1].key && state->hrtimer[1].start_ns > state->hrtimer[0].start_ns;
	state->sampling_timer = inner ? state->hrtimer[1].key : state->hrtimer[0].key;
	if (!thread ||
	    (config.observed_process ? who >> 32 != config.observed_process : !bpf_map_lookup_elem(&threads, &thread)))
		return 0;
	now = bpf_ktime_get_ns();
	kernel = bpf_get_stackid(context, &stacks, 0);
	user = bpf_get_stackid(context, &stacks, BPF_F_USER_STACK);
	emit(state, cpu, now, now,
	     (kernel < 0 ? NO_STACK : (__u32)kernel) | (user < 0 ? NO_STACK : (__u64)user) << 32, thread,
	     EVENT_SAMPLE, kernel >= 0);
	return 0;
}

#endif
