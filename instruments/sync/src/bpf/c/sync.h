/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of `quaver sync` share with user space, and the few kernel types that they read. The record has its
 * twin in `quaver_abi::kernel_side`, the configuration in `bpf/sync/mod.rs`; sizes are asserted on both sides.
 */
#ifndef QUAVER_SYNC_H
#define QUAVER_SYNC_H

#include "types.h"

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_ANY = 0,
	BPF_F_MMAPABLE = 1024,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	int prio;
	int pid;
	int tgid;
};

#ifdef __TARGET_ARCH_x86
#define NEXT_INSTRUCTION(regs) ((regs)->ip)
struct pt_regs {
	unsigned long ax;
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long ip;
};
#define RETURNS_TO(regs) ((regs)->ip)
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
/* Of a function; a system call's first one lies elsewhere on arm64. */
#define FUNCTION_ARGUMENT_1(regs) ((regs)->di)
#define FUNCTION_RESULT(regs) ((regs)->ax)
#define CALL_FUTEX 202
#define CALL_SCHED_YIELD 24
/* poll, select, pause, nanosleep, accept, wait4, rt_sigtimedwait, rt_sigsuspend, io_getevents, clock_nanosleep, epoll_wait,
 * waitid, pselect6, ppoll, epoll_pwait, accept4, io_pgetevents, epoll_pwait2 (arch/x86/entry/syscalls/syscall_64.tbl). */
#define FOR_EACH_WAITING_CALL(IS) \
	(IS(7) || IS(23) || IS(34) || IS(35) || IS(43) || IS(61) || IS(128) || IS(130) || IS(208) || IS(230) || IS(232) || \
	 IS(247) || IS(270) || IS(271) || IS(281) || IS(288) || IS(333) || IS(441))
#else
#define NEXT_INSTRUCTION(regs) ((regs)->pc)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__u64 pc;
};
#define RETURNS_TO(regs) ((regs)->pc)
#define ARGUMENT_1(regs) ((regs)->orig_x0)
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#define FUNCTION_ARGUMENT_1(regs) ((regs)->regs[0])
#define FUNCTION_RESULT(regs) ((regs)->regs[0])
#define CALL_FUTEX 98
#define CALL_SCHED_YIELD 124
/* io_getevents, epoll_pwait, pselect6, ppoll, waitid, nanosleep, clock_nanosleep, rt_sigsuspend, rt_sigtimedwait, accept,
 * accept4, wait4, io_pgetevents, epoll_pwait2 (include/uapi/asm-generic/unistd.h). */
#define FOR_EACH_WAITING_CALL(IS) \
	(IS(4) || IS(22) || IS(72) || IS(73) || IS(95) || IS(101) || IS(115) || IS(133) || IS(137) || IS(202) || IS(242) || \
	 IS(260) || IS(292) || IS(441))
#endif

/* What a program of the kernel's clock event is given. */
struct bpf_perf_event_data {
	struct pt_regs regs;
};

#pragma clang attribute pop

/* The same numbers everywhere, since they are younger than the split of the tables. */
#define CALL_FUTEX_WAITV 449
#define CALL_FUTEX_WAKE 454
#define CALL_FUTEX_WAIT 455
#define CALL_FUTEX_REQUEUE 456

enum kernel_side_kind {
	KIND_FUTEX_ENTER = 1,
	KIND_FUTEX_EXIT = 2,
	KIND_SWITCH = 3,
	KIND_WAKING = 4,
	KIND_WAKEUP = 5,
	KIND_MIGRATE = 6,
	KIND_IRQ_ENTER = 7,
	KIND_IRQ_EXIT = 8,
	KIND_SOFTIRQ_ENTER = 9,
	KIND_SOFTIRQ_EXIT = 10,
	KIND_IDLE_ENTER = 11,
	KIND_IDLE_EXIT = 12,
	KIND_FORK = 13,
	KIND_EXIT = 14,
	KIND_SYSTEM_CALL = 15,
	KIND_FUNCTION_ENTER = 17,
	KIND_FUNCTION_EXIT = 18,
	KIND_SAMPLE = 19,
};

/* quaver_abi::kernel_side::KernelSideRecord */
struct side_record {
	__u64 at_ns;
	__u64 value;
	__u32 thread;
	__u32 other;
	__u32 operand;
	__u16 cpu;
	__u8 kind;
	__u8 detail;
};
_Static_assert(sizeof(struct side_record) == 32, "KernelSideRecord");

/* Fixed before loading. */
struct sync_config {
	__u32 launcher;  /* thread whose next processes are followed; 0: none */
	__u32 untouched; /* a CPU that no followed thread touched for so long is not looked at, ms */
	__u64 call_ns;   /* system calls that take longer are told of */
	__u32 own;       /* process whose functions are probed to see what that costs */
	__u32 fill;
};
_Static_assert(sizeof(struct sync_config) == 24, "SyncConfig");

/* The system call that a followed thread is in. */
struct open_call {
	__u64 entered_ns; /* 0: none */
	__u64 asleep_ns;  /* sleeps since; 0: does not */
	__u64 blocked_ns; /* slept so far */
	__u32 number;
	__u32 fill;
};

/* What user space reads while the programs run. */
struct sync_counts {
	__u64 lost;
	__u64 futex_calls; /* entries of futex system calls, counted whether or not a record found room */
	__u64 futex_returns;
	__u64 fill[5];
};
_Static_assert(sizeof(struct sync_counts) == 64, "SyncCounts");

/* quaver_abi::kernel_side::WakingContext */
enum waking_context {
	WAKING_TASK = 1,
	WAKING_INTERRUPT = 2,
	WAKING_SOFTIRQ = 3,
};

/* Numbers of interrupts that are no device's: + vector of the local timer; from another CPU. */
#define LOCAL_TIMER 0x10000
#define FROM_OTHER_CPU 0x20000

/* What a CPU is in the middle of. */
struct nesting {
	__u32 interrupts;
	__u32 softirqs;
	__u32 interrupt; /* number of the latest */
	__u32 softirq;
	__u32 thread; /* to which the CPU was given last; 0: not known */
	__u32 fill;
	__u64 ahead_ns; /* by which the monotonic clock is ahead of the scheduler's; 0: not known */
};

#define CPUS 4096
#define PROCESSES 8192
#define THREADS 32768

#endif
