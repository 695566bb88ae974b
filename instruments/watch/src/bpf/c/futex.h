/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits in futex(2) of the threads of tables: from the call until another thread, or a timer or signal, makes the thread ready to run.
 * What it then waits for a CPU is no part of them.
 */
#define ENDS 3
enum { LOCK, OTHER, NOT_WOKEN };
/* What glibc and Rust have in a mutex for which somebody waits. Nothing else says that a futex is a lock. */
#define CONTENDED 2

struct blocked {
	__u64 since_ns; /* 0: in no wait */
	__u64 woken_ns;
	__u64 address;
	__u32 tables;
	__u32 is_lock;
	__u32 waker;
	__u32 waker_process;
	char waker_comm[16];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct blocked);
} blocked SEC(".maps");

struct futex_counts {
	__u64 sum_ns[ENDS];
	__u64 counts[ENDS][BUCKETS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TABLES);
	__type(key, __u32);
	__type(value, struct futex_counts);
} futex_waits SEC(".maps");

struct joining {
	struct task_struct *task;
	__u32 tables;
};

static long joins(__u32 table, struct joining *joining)
{
	struct group *group = bpf_map_lookup_elem(&groups, &table);

	if (config.futex_tables & 1U << (table & (TABLES - 1)) && group && group->id && is_member(joining->task, group))
		joining->tables |= 1U << (table & (TABLES - 1));
	return 0;
}

static __always_inline int blocks(__u64 address, __u32 is_lock)
{
	struct joining joining = { .task = bpf_get_current_task_btf() };
	struct blocked *own;

	bpf_loop(config.tables, joins, &joining, 0);
	if (!joining.tables)
		return 0;
	own = bpf_task_storage_get(&blocked, joining.task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!own)
		return 0;
	own->address = address;
	own->is_lock = is_lock;
	own->tables = joining.tables;
	own->woken_ns = 0;
	own->since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(futex_waking, struct task_struct *task)
{
	struct blocked *own = bpf_task_storage_get(&blocked, task, 0, 0);
	__u64 waker = bpf_get_current_pid_tgid();

	if (!own || !own->since_ns || own->woken_ns)
		return 0;
	own->woken_ns = bpf_ktime_get_ns();
	own->waker = waker;
	own->waker_process = waker >> 32;
	bpf_get_current_comm(own->waker_comm, sizeof(own->waker_comm));
	return 0;
}

struct ending {
	struct task_struct *task;
	struct blocked *own;
	__u64 wait_ns;
	__u32 end;
};

static long count_futex(__u32 table, struct ending *ending)
{
	struct blocked *own = ending->own;
	struct futex_counts *counts;
	struct long_wait *record;
	__u64 limit_ns = config.futex_limit_ns[table & (TABLES - 1)];

	if (!(own->tables & 1U << (table & (TABLES - 1))) || ending->end >= ENDS)
		return 0;
	counts = bpf_map_lookup_elem(&futex_waits, &table);
	if (!counts)
		return 1;
	counts->sum_ns[ending->end] += ending->wait_ns;
	counts->counts[ending->end][bucket_of(ending->wait_ns) & (BUCKETS - 1)] += 1;
	if (!limit_ns || ending->wait_ns <= limit_ns || ending->end != LOCK)
		return 0;
	record = reserve(table, ending->task, ending->wait_ns, own->woken_ns);
	if (!record)
		return 0;
	record->address = own->address;
	record->waker = own->waker;
	record->waker_process = own->waker_process;
	__builtin_memcpy(record->waker_comm, own->waker_comm, sizeof(record->waker_comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* `result` 0: a thread woke it. One that never slept has no wait. */
static __always_inline int unblocks(long result)
{
	struct ending ending = { .task = bpf_get_current_task_btf() };

	ending.own = bpf_task_storage_get(&blocked, ending.task, 0, 0);
	if (!ending.own || !ending.own->since_ns)
		return 0;
	if (ending.own->woken_ns) {
		ending.wait_ns = ending.own->woken_ns - ending.own->since_ns;
		ending.end = result ? NOT_WOKEN : ending.own->is_lock ? LOCK : OTHER;
		bpf_loop(config.tables, count_futex, &ending, 0);
	}
	ending.own->since_ns = 0;
	return 0;
}

#ifdef __TARGET_ARCH_x86
#define CALL_FUTEX 202
#define NUMBER(regs) ((regs)->orig_ax)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#else
#define CALL_FUTEX 98
#define NUMBER(regs) ((regs)->syscallno)
#define ARGUMENT_1(regs) ((regs)->orig_x0)
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#endif
/* include/uapi/linux/futex.h, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */
#define OPERATION 0x7f
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_LOCK_PI2 = 13 };

SEC("tp_btf/sys_enter")
int BPF_PROG(futex_begins, struct pt_regs *regs, long number)
{
	__u32 operation;

	if (number != CALL_FUTEX)
		return 0;
	operation = ARGUMENT_2(regs) & OPERATION;
	if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET)
		return blocks(ARGUMENT_1(regs), (__u32)ARGUMENT_3(regs) == CONTENDED);
	if (operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2)
		return blocks(ARGUMENT_1(regs), 1);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(futex_ends, struct pt_regs *regs, long result)
{
	return NUMBER(regs) == CALL_FUTEX ? unblocks(result) : 0;
}
