/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What else the CPUs do: one record an interval, written at its end; its start waits in the CPU's state.
 */
#ifndef QUAVER_EVENTS_H
#define QUAVER_EVENTS_H

#include "observed.h"
#include "refills.h"

/* The CPU's state, if that CPU's interference is wanted. */
static __always_inline struct cpu_state *recorded(__u32 cpu)
{
	struct cpu_state *state = state_of(cpu);

	return state && state->recorded ? state : 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, int irq)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());

	if (state) {
		state->irq_number = irq;
		state->irq_ns = seen(state);
	}
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, int irq)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = state_of(cpu);

	if (!state)
		return 0;
	if (state->recorded && state->irq_ns && state->irq_number == (__u32)irq)
		emit(state, cpu, state->irq_ns, seen(state), 0, irq, EVENT_IRQ, 0);
	state->irq_ns = 0;
	return 0;
}

/* A device's handler that asks for NET_RX is the interrupt of the packets that follow. */
SEC("tp_btf/softirq_raise")
int BPF_PROG(on_softirq_raise, unsigned int vector)
{
	struct cpu_state *state;

	if (vector != SOFTIRQ_NET_RX)
		return 0;
	state = state_of(bpf_get_smp_processor_id());
	if (state && state->irq_ns)
		state->raised_irq_ns = state->irq_ns;
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu_state *state = state_of(bpf_get_smp_processor_id());
	__u64 now;

	if (!state)
		return 0;
	now = seen(state);
	state->softirq_vector = vector;
	state->softirq_ns = now;
	if (vector == SOFTIRQ_NET_RX) {
		state->batch_ns = now;
		state->batch_irq_ns = state->raised_irq_ns;
		state->raised_irq_ns = 0;
		state->poll++;
		state->in_net_rx = 1;
		state->pending_head = state->pending_tail;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = state_of(cpu);

	if (!state)
		return 0;
	if (state->recorded && state->softirq_ns && state->softirq_vector == vector)
		emit(state, cpu, state->softirq_ns, seen(state), vector == SOFTIRQ_NET_RX ? state->in_net_rx : 0, vector,
		     EVENT_SOFTIRQ, 0);
	state->softirq_ns = 0;
	state->in_net_rx = 0;
	state->stream_enters = 0;
	return 0;
}

#define VECTOR_LOCAL_TIMER 1

/* A thread that keeps its CPU from before the recording to its end is seen in no switch, but in a tick. */
static __always_inline void first_thread(struct cpu_state *state)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct control *all = shared_control();

	if (!all || !all->recording_ns)
		return;
	state->thread_id = task->pid;
	state->thread_priority = task->prio;
	state->thread_ns = all->recording_ns;
}

#define SYSTEM_VECTOR(NAME, NUMBER)                                                                          \
	SEC("tp_btf/" #NAME "_entry")                                                                        \
	int BPF_PROG(on_##NAME##_entry)                                                                      \
	{                                                                                                    \
		__u32 cpu = bpf_get_smp_processor_id();                                                      \
		struct cpu_state *state = state_of(cpu);                                                     \
                                                                                                             \
		if (state) {                                                                                 \
			state->vector_ns[NUMBER] = seen(state);                                              \
			if (NUMBER == VECTOR_LOCAL_TIMER && state->recorded)                                 \
				find_steal(state, cpu);                                                      \
			if (NUMBER == VECTOR_LOCAL_TIMER && state->recorded && !state->thread_ns)            \
				first_thread(state);                                                         \
		}                                                                                            \
		return 0;                                                                                    \
	}                                                                                                    \
	SEC("tp_btf/" #NAME "_exit")                                                                         \
	int BPF_PROG(on_##NAME##_exit)                                                                       \
	{                                                                                                    \
		__u32 cpu = bpf_get_smp_processor_id();                                                      \
		struct cpu_state *state = state_of(cpu);                                                     \
                                                                                                             \
		if (state && state->vector_ns[NUMBER]) {                                                     \
			if (state->recorded)                                                                 \
				emit(state, cpu, state->vector_ns[NUMBER], seen(state), 0, NUMBER,           \
				     EVENT_VECTOR, 0);                                                       \
			state->vector_ns[NUMBER] = 0;                                                        \
		}                                                                                            \
		return 0;                                                                                    \
	}

SYSTEM_VECTOR(local_timer, 1)
SYSTEM_VECTOR(reschedule, 2)
SYSTEM_VECTOR(call_function, 3)
SYSTEM_VECTOR(call_function_single, 4)
SYSTEM_VECTOR(irq_work, 5)
SYSTEM_VECTOR(thermal_apic, 6)
SYSTEM_VECTOR(threshold_apic, 7)
SYSTEM_VECTOR(deferred_error_apic, 8)
SYSTEM_VECTOR(spurious_apic, 9)
SYSTEM_VECTOR(error_apic, 10)
SYSTEM_VECTOR(x86_platform_ipi, 11)

/* Begins an interval that one of the same kind may interrupt; `key` tells the two apart. */
static __always_inline void open(struct cpu_state *state, struct open_interval *two, __u64 key, __u64 aux)
{
	struct open_interval *one = two[0].key ? &two[1] : &two[0];

	one->key = key;
	one->aux = aux;
	one->start_ns = seen(state);
}

static __always_inline void close(struct cpu_state *state, __u32 cpu, struct open_interval *two, __u64 key,
				  __u64 kind, __u64 detail)
{
#pragma unroll
	for (int i = 0; i < 2; i++)
		if (two[i].key == key) {
			emit(state, cpu, two[i].start_ns, seen(state), two[i].aux, 0, kind, detail);
			two[i].key = 0;
			return;
		}
	/* Neither: an entry was missed, so whatever waits here is stale. */
	two[0].key = two[1].key = 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer_entry, struct hrtimer *timer)
{
	struct cpu_state *state = recorded(bpf_get_smp_processor_id());

	if (state)
		open(state, state->hrtimer, (__u64)timer, (__u64)timer->function);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_exit, struct hrtimer *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = recorded(cpu);

	if (state)
		close(state, cpu, state->hrtimer, (__u64)timer, EVENT_HRTIMER,
		      ((__u64)timer == state->sampling_timer) | refills_quota(timer));
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer_entry, struct timer_list *timer)
{
	struct cpu_state *state = recorded(bpf_get_smp_processor_id());

	if (state) {
		state->timer.key = (__u64)timer;
		state->timer.aux = (__u64)timer->function;
		state->timer.start_ns = seen(state);
	}
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_exit, struct timer_list *timer)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = recorded(cpu);

	if (state && state->timer.key == (__u64)timer)
		emit(state, cpu, state->timer.start_ns, seen(state), state->timer.aux, 0, EVENT_TIMER, 0);
	if (state)
		state->timer.key = 0;
	return 0;
}

/* Raw tracepoints: the typed kind refuses a pointer to a function as an argument. */
SEC("raw_tp/csd_function_entry")
int BPF_PROG(on_csd_entry, void *function, void *csd)
{
	struct cpu_state *state = recorded(bpf_get_smp_processor_id());

	if (state)
		open(state, state->cross_call, (__u64)csd | 1, (__u64)function);
	return 0;
}

SEC("raw_tp/csd_function_exit")
int BPF_PROG(on_csd_exit, void *function, void *csd)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = recorded(cpu);

	if (state)
		close(state, cpu, state->cross_call, (__u64)csd | 1, EVENT_CROSS_CALL, 0);
	return 0;
}

/* A work item may sleep and move, so its start belongs to its thread. */
struct work_start {
	__u64 work;
	__u64 start_ns;
	__u64 function;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct work_start);
} works SEC(".maps");

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(on_work_start, struct work_struct *work)
{
	__u32 index = (__u32)bpf_get_current_pid_tgid() % 1024;
	struct work_start *start = bpf_map_lookup_elem(&works, &index);

	if (start) {
		start->work = (__u64)work;
		start->function = (__u64)work->func;
		start->start_ns = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(on_work_end, struct work_struct *work)
{
	__u32 thread = bpf_get_current_pid_tgid(), index = thread % 1024, cpu = bpf_get_smp_processor_id();
	struct work_start *start = bpf_map_lookup_elem(&works, &index);
	struct cpu_state *state = recorded(cpu);

	if (!start || start->work != (__u64)work)
		return 0;
	if (state)
		emit(state, cpu, start->start_ns, seen(state), start->function, thread, EVENT_WORK, 0);
	start->work = 0;
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_cpu_idle, unsigned int idle_state, unsigned int cpu)
{
	struct cpu_state *state = recorded(cpu);

	if (!state)
		return 0;
	if (idle_state != (__u32)-1) {
		state->idle_state = idle_state;
		state->idle_ns = seen(state);
	} else if (state->idle_ns) {
		emit(state, cpu, state->idle_ns, seen(state), 0, state->idle_state, EVENT_IDLE_STATE, 0);
		state->idle_ns = 0;
	}
	return 0;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, __s64 delta_ns)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = recorded(cpu);
	__u64 now;

	if (!state)
		return 0;
	now = seen(state);
	emit(state, cpu, now - delta_ns, now, (__u64)handler, 0, EVENT_NMI, 0);
	return 0;
}

SEC("tp_btf/tlb_flush")
int BPF_PROG(on_tlb_flush, int reason, unsigned long pages)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = recorded(cpu);
	__u64 now;

	if (!state)
		return 0;
	now = seen(state);
	emit(state, cpu, now, now, pages, reason, EVENT_TLB_FLUSH, 0);
	return 0;
}

/* Senders of interrupts matter wherever they run. */
SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_send_cpu, unsigned int target, unsigned long callsite, void *callback)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = state_of(cpu);
	__u64 now;

	if (!state)
		return 0;
	now = seen(state);
	emit(state, cpu, now, now, (__u64)callback, target, EVENT_IPI_SEND, 0);
	return 0;
}

static __always_inline __u32 ones(__u64 word)
{
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return word * 0x0101010101010101ULL >> 56;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(on_ipi_send_mask, struct cpumask *mask, unsigned long callsite, void *callback)
{
	__u32 cpu = bpf_get_smp_processor_id(), targets = 0;
	struct cpu_state *state = state_of(cpu);
	__u64 now, words[16] = {};
	__u32 bytes = bpf_core_type_size(struct cpumask);

	if (!state)
		return 0;
	now = seen(state);
	if (bytes > sizeof(words))
		bytes = sizeof(words);
	if (bpf_probe_read_kernel(words, bytes, mask))
		return 0;
#pragma unroll
	for (int i = 0; i < 16; i++)
		targets += ones(words[i]);
	emit(state, cpu, now, now, (__u64)callback, targets, EVENT_IPI_SEND, 1);
	return 0;
}

#endif
