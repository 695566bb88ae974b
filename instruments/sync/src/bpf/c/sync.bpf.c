// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel does to the threads of some processes: their futex and their long system calls, who wakes whom, which thread
 * runs where, and what holds a CPU that they touch. Processes are followed from the fork on by which a launcher makes them.
 */
#include "sync.h"
#include "arrival.h"
#include "quota.h"

const volatile struct sync_config sync_config SEC(".rodata.config") = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} sync_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sync_counts);
} sync_counts SEC(".maps");

/* Processes that are followed, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} sync_followed SEC(".maps");

/* When a followed thread last ran on a CPU, left it or was put into its queue. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, __u64);
} sync_touched SEC(".maps");

/* By thread, of followed ones. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS);
	__type(key, __u32);
	__type(value, struct open_call);
} sync_calls SEC(".maps");

/* Counted on all CPUs, touched or not: one that is not may wake a followed thread. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct nesting);
} sync_nesting SEC(".maps");

static __always_inline struct nesting *nesting(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sync_nesting, &zero);
}

static __always_inline void interrupt_begins(__u32 number)
{
	struct nesting *here = nesting();

	if (here) {
		here->interrupts++;
		here->interrupt = number;
	}
}

static __always_inline void interrupt_ends(void)
{
	struct nesting *here = nesting();

	/* None where it began before these programs were attached. */
	if (here && here->interrupts)
		here->interrupts--;
}

static __always_inline bool followed(__u32 process)
{
	__u64 is = bpf_map_lookup_elem(&sync_followed, &process) != 0;

	/* Else the compiler joins two of these by their pointers, which the kernel does not permit. */
	asm volatile("" : "+r"(is));
	return is;
}

static __always_inline void touch(__u32 cpu, __u64 now)
{
	__u64 *last = bpf_map_lookup_elem(&sync_touched, &cpu);

	if (last)
		*(volatile __u64 *)last = now;
}

static __always_inline bool is_touched(__u32 cpu, __u64 now)
{
	__u64 *last = bpf_map_lookup_elem(&sync_touched, &cpu);

	return last && *last && now - *last < (__u64)sync_config.untouched * 1000000;
}

static __always_inline struct sync_counts *counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&sync_counts, &zero);
}

static __always_inline void emit(__u64 now, __u8 kind, __u32 thread, __u32 other, __u32 operand, __u64 value,
				 __u8 detail)
{
	struct side_record *record = bpf_ringbuf_reserve(&sync_records, sizeof(*record), 0);

	if (!record) {
		struct sync_counts *all = counts();
		if (all)
			__sync_fetch_and_add(&all->lost, 1);
		return;
	}
	record->at_ns = now;
	record->value = value;
	record->thread = thread;
	record->other = other;
	record->operand = operand;
	record->cpu = bpf_get_smp_processor_id();
	record->kind = kind;
	record->detail = detail;
	/* The reader comes by itself. */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline bool is_futex(long number)
{
	return number == CALL_FUTEX || number == CALL_FUTEX_WAITV ||
	       (number >= CALL_FUTEX_WAKE && number <= CALL_FUTEX_REQUEUE);
}

#define IS_NUMBER(of_call) (number == (of_call))

/* All that the call is for is to wait. */
static __always_inline bool only_waits(__u32 number)
{
	return FOR_EACH_WAITING_CALL(IS_NUMBER);
}

/* A record of each call would flood the ring: only those are told of that took long, when they return. */
static __always_inline void call_begins(__u32 thread, long number)
{
	struct open_call call = { .entered_ns = bpf_ktime_get_ns(), .number = number };
	struct open_call *open = bpf_map_lookup_elem(&sync_calls, &thread);
	struct sync_counts *all;

	if (open) {
		*open = call;
		return;
	}
	if (!bpf_map_update_elem(&sync_calls, &thread, &call, BPF_ANY))
		return;
	all = counts();
	if (all)
		__sync_fetch_and_add(&all->lost, 1);
}

enum { OFF_UNKNOWN = 0, OFF_PREEMPTED = 1, OFF_BLOCKED = 2, OFF_EXITED = 3, OFF_YIELDED = 11, OFF_THROTTLED = 12 };

/* Readers put records in order that are late by less than 2 s. */
#define MOVES_BACK_NS 1900000000ULL

static __always_inline void falls_asleep(__u32 thread, __u64 now)
{
	struct open_call *open = bpf_map_lookup_elem(&sync_calls, &thread);

	if (open && open->entered_ns)
		open->asleep_ns = now;
}

static __always_inline void has_a_cpu(__u32 thread, __u64 now)
{
	struct open_call *open = bpf_map_lookup_elem(&sync_calls, &thread);

	if (!open || !open->asleep_ns)
		return;
	/* The scheduler's clock may be some nanoseconds behind. */
	if (now > open->asleep_ns)
		open->blocked_ns += now - open->asleep_ns;
	open->asleep_ns = 0;
}

/* The switch by which a hidden thread gave the CPU to the current one, that did not leave it yet and slept before. */
static __always_inline void comes_unseen(struct open_call *open, __u32 thread, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct nesting *here = nesting();
	__u64 came;

	if (!here || !here->ahead_ns)
		return;
	came = arrived_ns(task) + here->ahead_ns;
	/* Not known, or that of another sleep. */
	if (came < open->asleep_ns || came > now)
		return;
	open->blocked_ns += came - open->asleep_ns;
	open->asleep_ns = 0;
	if (here->thread && here->thread != thread && now - came <= MOVES_BACK_NS)
		emit(came, KIND_SWITCH, here->thread, thread, task->prio & 0xffff, 0, OFF_UNKNOWN);
	here->thread = thread;
}

static __always_inline void call_ends(__u32 thread)
{
	struct open_call *open = bpf_map_lookup_elem(&sync_calls, &thread);
	__u64 now, inside, blocked;

	/* None of a thread that is not followed, of a new one on its way out of clone, and of a call that began before. */
	if (!open || !open->entered_ns)
		return;
	now = bpf_ktime_get_ns();
	inside = now - open->entered_ns;
	if (open->asleep_ns)
		comes_unseen(open, thread, now);
	open->entered_ns = 0;
	if (inside <= sync_config.call_ns)
		return;
	blocked = open->blocked_ns;
	if (blocked >> 48)
		blocked = (1ULL << 48) - 1;
	emit(now, KIND_SYSTEM_CALL, thread, blocked, (blocked >> 32) << 16 | (open->number & 0xffff), inside,
	     only_waits(open->number));
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sync_sys_enter, struct pt_regs *regs, long number)
{
	__u64 identity = bpf_get_current_pid_tgid();
	struct sync_counts *all;
	__u32 operation, count;
	__u64 site;

	if (!followed(identity >> 32))
		return 0;
	if (!is_futex(number)) {
		call_begins(identity, number);
		return 0;
	}
	all = counts();
	if (all)
		__sync_fetch_and_add(&all->futex_calls, 1);
	operation = number == CALL_FUTEX ? ARGUMENT_2(regs) : 0x10000 + number;
	/* Who calls, in 47 bits: 15 above the operation's 17, 32 in place of the count, which then has seven. */
	site = RETURNS_TO(regs);
	if (site >> 47)
		site = 0;
	count = ARGUMENT_3(regs) > 127 ? 127 : ARGUMENT_3(regs);
	operation = (operation & 0x1ffff) | (__u32)(site >> 32) << 17;
	emit(bpf_ktime_get_ns(), KIND_FUTEX_ENTER, identity, (__u32)site, operation, ARGUMENT_1(regs), 0x80 | count);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sync_sys_exit, struct pt_regs *regs, long result)
{
	__u64 identity = bpf_get_current_pid_tgid();
	struct sync_counts *all;
	long number;

#ifdef __TARGET_ARCH_x86
	struct pt_regs___x86 {
		unsigned long orig_ax;
	} __attribute__((preserve_access_index)) *saved = (void *)regs;
	number = saved->orig_ax;
#else
	struct pt_regs___arm {
		int syscallno;
	} __attribute__((preserve_access_index)) *saved = (void *)regs;
	number = saved->syscallno;
#endif
	if (!is_futex(number)) {
		/* The number of rt_sigreturn is no longer there. */
		call_ends(identity);
		return 0;
	}
	if (!followed(identity >> 32))
		return 0;
	all = counts();
	if (all)
		__sync_fetch_and_add(&all->futex_returns, 1);
	emit(bpf_ktime_get_ns(), KIND_FUTEX_EXIT, identity, 0, 0, result, 0);
	return 0;
}

/* Whether a thread is giving its CPU away: it waits for others without sleeping. */
static __always_inline bool yields(__u32 thread)
{
	struct open_call *open = bpf_map_lookup_elem(&sync_calls, &thread);

	return open && open->entered_ns && open->number == CALL_SCHED_YIELD;
}

/* TASK_DEAD, EXIT_DEAD and EXIT_ZOMBIE of include/linux/sched.h. */
#define GONE (0x80 | 0x10 | 0x20)

/* The switch by which a hidden thread gave the CPU to `task`, that leaves it now. */
static __always_inline void hidden_switch(__u64 now, __u32 given, struct task_struct *task)
{
	__u64 ran = ran_ns(task);

	/* An older switch is known by the records that followed it. */
	if (!ran || ran > MOVES_BACK_NS)
		return;
	has_a_cpu(task->pid, now - ran);
	emit(now - ran, KIND_SWITCH, given, task->pid, task->prio & 0xffff, 0, OFF_UNKNOWN);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sync_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id();
	__u8 off = preempt || !prev_state ? OFF_PREEMPTED : prev_state & GONE ? OFF_EXITED : OFF_BLOCKED;

	bool leaves = followed(prev->tgid), comes = followed(next->tgid);
	struct nesting *here = nesting();

	/* Nobody switches in an interrupt. With a kernel that is preemptible in softirqs, the next thread is in none. */
	if (here) {
		here->interrupts = here->softirqs = 0;
		here->ahead_ns = scheduler_ns(prev) ? now - scheduler_ns(prev) : 0;
		if (leaves && here->thread && here->thread != (__u32)prev->pid)
			hidden_switch(now, here->thread, prev);
		here->thread = next->pid;
	}
	if (leaves || comes)
		touch(cpu, now);
	else if (!is_touched(cpu, now))
		return 0;
	if (leaves && off == OFF_BLOCKED)
		falls_asleep(prev->pid, now);
	if (leaves && !preempt && off == OFF_PREEMPTED && yields(prev->pid))
		off = OFF_YIELDED;
	if (leaves && off == OFF_PREEMPTED && throttled(prev))
		off = OFF_THROTTLED;
	if (comes)
		has_a_cpu(next->pid, now);
	emit(now, KIND_SWITCH, prev->pid, next->pid, prev->prio << 16 | (next->prio & 0xffff), 0, off);
	return 0;
}

/* The current thread is the waker only where it wakes itself: an interrupt or a softirq takes whatever thread it finds. */
SEC("tp_btf/sched_waking")
int BPF_PROG(sync_waking, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = task->thread_info.cpu, waker = 0, number = 0;
	__u8 context = WAKING_TASK;
	struct nesting *here;

	if (!followed(task->tgid))
		return 0;
	here = nesting();
	if (here && here->interrupts) {
		context = WAKING_INTERRUPT;
		number = here->interrupt;
	} else if (here && here->softirqs) {
		context = WAKING_SOFTIRQ;
		number = here->softirq;
	} else {
		waker = bpf_get_current_pid_tgid();
	}
	touch(cpu, now);
	emit(now, KIND_WAKING, task->pid, waker, cpu, number, context);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sync_wakeup, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = task->thread_info.cpu;

	if (!followed(task->tgid))
		return 0;
	touch(cpu, now);
	emit(now, KIND_WAKEUP, task->pid, 0, cpu, 0, 0);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sync_migrate, struct task_struct *task, int target)
{
	__u64 now = bpf_ktime_get_ns();

	if (!followed(task->tgid))
		return 0;
	touch(target, now);
	emit(now, KIND_MIGRATE, task->pid, task->thread_info.cpu, target, 0, 0);
	return 0;
}

/* What a thread that computes is at: a loop that waits for others looks like work from outside. */
SEC("perf_event")
int sync_sample(struct bpf_perf_event_data *context)
{
	__u64 identity = bpf_get_current_pid_tgid(), address = NEXT_INSTRUCTION(&context->regs);

	if (!followed(identity >> 32))
		return 0;
	/* Addresses of the kernel have the highest bit, and are nobody's business. */
	emit(bpf_ktime_get_ns(), KIND_SAMPLE, identity, 0, 0, address >> 63 ? 0 : address, yields(identity));
	return 0;
}

static __always_inline int held(__u8 kind, __u32 operand)
{
	__u64 now = bpf_ktime_get_ns(), identity = bpf_get_current_pid_tgid();

	/* A thread that computes for long without a switch is held up like any other. */
	if (followed(identity >> 32) || is_touched(bpf_get_smp_processor_id(), now))
		emit(now, kind, identity, 0, operand, 0, 0);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(sync_irq_entry, int number)
{
	interrupt_begins(number);
	return held(KIND_IRQ_ENTER, number);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(sync_irq_exit, int number)
{
	interrupt_ends();
	return held(KIND_IRQ_EXIT, number);
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(sync_timer_entry, int vector)
{
	interrupt_begins(LOCAL_TIMER + vector);
	return held(KIND_IRQ_ENTER, LOCAL_TIMER + vector);
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(sync_timer_exit, int vector)
{
	interrupt_ends();
	return held(KIND_IRQ_EXIT, LOCAL_TIMER + vector);
}

/* Interrupts that other CPUs send, and those that a CPU sends to itself. They are short, and only who wakes is told of. */
#define ONLY_NESTS(name)                                      \
	SEC("tp_btf/" #name "_entry")                         \
	int BPF_PROG(sync_##name##_entry)                     \
	{                                                     \
		interrupt_begins(FROM_OTHER_CPU);             \
		return 0;                                     \
	}                                                     \
	SEC("tp_btf/" #name "_exit")                          \
	int BPF_PROG(sync_##name##_exit)                      \
	{                                                     \
		interrupt_ends();                             \
		return 0;                                     \
	}
ONLY_NESTS(reschedule)
ONLY_NESTS(call_function)
ONLY_NESTS(call_function_single)
ONLY_NESTS(irq_work)

SEC("tp_btf/softirq_entry")
int BPF_PROG(sync_softirq_entry, unsigned int number)
{
	struct nesting *here = nesting();

	if (here) {
		here->softirqs = 1;
		here->softirq = number;
	}
	return held(KIND_SOFTIRQ_ENTER, number);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(sync_softirq_exit, unsigned int number)
{
	struct nesting *here = nesting();

	if (here)
		here->softirqs = 0;
	return held(KIND_SOFTIRQ_EXIT, number);
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(sync_idle, unsigned int state)
{
	return held(state == ~0U ? KIND_IDLE_EXIT : KIND_IDLE_ENTER, state);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sync_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 process = child->tgid, one = 1;
	bool known = followed(parent->tgid);

	if (!known && (!sync_config.launcher || (__u32)parent->pid != sync_config.launcher))
		return 0;
	/* A thread of a launcher is no program. */
	if (!known && child->tgid == parent->tgid)
		return 0;
	if (child->tgid != parent->tgid)
		bpf_map_update_elem(&sync_followed, &process, &one, BPF_ANY);
	emit(bpf_ktime_get_ns(), KIND_FORK, parent->pid, child->pid, 0, process, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sync_exit, struct task_struct *task)
{
	__u32 thread = task->pid;

	if (followed(task->tgid)) {
		bpf_map_delete_elem(&sync_calls, &thread);
		emit(bpf_ktime_get_ns(), KIND_EXIT, thread, 0, 0, 0, 0);
	}
	return 0;
}

static __always_inline bool is_probed(__u32 process)
{
	return followed(process) || process == sync_config.own;
}

/* Calls of the thread library, where probes were asked for: attached to one process at a time, with the event's kind as cookie. */
SEC("uprobe")
int sync_function(struct pt_regs *regs)
{
	__u64 identity = bpf_get_current_pid_tgid();

	if (is_probed(identity >> 32))
		emit(bpf_ktime_get_ns(), KIND_FUNCTION_ENTER, identity, ARGUMENT_2(regs), bpf_get_attach_cookie(regs),
		     FUNCTION_ARGUMENT_1(regs), 0);
	return 0;
}

SEC("uretprobe")
int sync_function_return(struct pt_regs *regs)
{
	__u64 identity = bpf_get_current_pid_tgid();

	if (is_probed(identity >> 32))
		emit(bpf_ktime_get_ns(), KIND_FUNCTION_EXIT, identity, 0, bpf_get_attach_cookie(regs), FUNCTION_RESULT(regs), 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
