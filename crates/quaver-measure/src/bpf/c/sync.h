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
struct pt_regs {
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
};
#define ARGUMENT_1(regs) ((regs)->di)
#define ARGUMENT_2(regs) ((regs)->si)
#define ARGUMENT_3(regs) ((regs)->dx)
#define CALL_FUTEX 202
#else
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
};
#define ARGUMENT_1(regs) ((regs)->orig_x0)
#define ARGUMENT_2(regs) ((regs)->regs[1])
#define ARGUMENT_3(regs) ((regs)->regs[2])
#define CALL_FUTEX 98
#endif

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
};
_Static_assert(sizeof(struct sync_config) == 8, "SyncConfig");

/* What user space reads while the programs run. */
struct sync_counts {
	__u64 lost;
	__u64 futex_calls; /* entries of futex system calls, counted whether or not a record found room */
	__u64 futex_returns;
	__u64 fill[5];
};
_Static_assert(sizeof(struct sync_counts) == 64, "SyncCounts");

#define CPUS 4096
#define PROCESSES 8192

#endif
