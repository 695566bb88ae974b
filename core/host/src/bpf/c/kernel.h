/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the programs read, each with only the fields used. CO-RE finds the true offsets at
 * load time, so that no generated vmlinux.h is needed and one object runs on every kernel with BTF.
 */
#ifndef QUAVER_KERNEL_H
#define QUAVER_KERNEL_H

#include "types.h"

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_STACK_TRACE = 7,
};
enum {
	BPF_ANY = 0,
	BPF_F_USER_STACK = 256,
	BPF_F_MMAPABLE = 1024,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021Q 0x8100
#define PROTOCOL_UDP 17
#define SOFTIRQ_NET_RX 3
#define MESSAGE_PEEK 0x2
#define MESSAGE_ERROR_QUEUE 0x2000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	unsigned int len;
	unsigned int data_len;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct sk_buff_head {
	__u32 qlen;
};

struct sock_common {
	unsigned short skc_family;
	__u16 skc_num;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	__u16 sk_protocol;
};

struct udp_sock {
	struct sk_buff_head reader_queue;
};

struct thread_info {
	__u32 cpu;
};

struct inode {
	__u16 i_mode;
	unsigned long i_ino;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	void *private_data;
	struct inode *f_inode;
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct socket {
	struct sock *sk;
};

struct rq {
	int cpu;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

/* Written by a KVM host while the CPU is off (arch/x86/include/uapi/asm/kvm_para.h). */
struct kvm_steal_time {
	__u64 steal;
	__u32 version;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	unsigned int flags;
	int prio;
	int pid;
	int tgid;
	char comm[16];
	unsigned long jobctl;
	unsigned int in_iowait : 1;
	struct files_struct *files;
	void *dl_server;
	struct task_struct *group_leader;
};

#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long orig_ax;
	unsigned long di;
};
#else
struct user_pt_regs {
	unsigned long regs[31];
};
struct pt_regs {
	struct user_pt_regs user_regs;
	int syscallno;
};
#endif

struct hrtimer {
	void *function;
};

struct timer_list {
	void *function;
};

struct work_struct {
	void *func;
};

struct cpumask {
	unsigned long bits[1];
};

#pragma clang attribute pop

/* The context of a socket filter is user-visible ABI, not a kernel type. */
struct __sk_buff {
	__u32 len;
};

extern void *bpf_cast_to_kern_ctx(void *) __weak __ksym;
extern void *bpf_rdonly_cast(const void *, __u32) __weak __ksym;

char LICENSE[] SEC("license") = "GPL";

#endif
