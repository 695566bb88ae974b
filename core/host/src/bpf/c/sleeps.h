/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Why a followed thread left its CPU: which state, in which system call, at which object. The registers that a thread
 * entered the kernel with tell the call, so that no program runs at each system call of the machine.
 */
#ifndef QUAVER_SLEEPS_H
#define QUAVER_SLEEPS_H

#include "events.h"
#include "quota.h"

/* quaver_abi::record::OffCpu, and `served` in its highest bits. */
enum off_cpu {
	OFF_UNKNOWN = 0,
	OFF_PREEMPTED = 1,
	OFF_BLOCKED = 2,
	OFF_EXITED = 3,
	OFF_UNINTERRUPTIBLE = 4,
	OFF_STOPPED = 5,
	OFF_TRACED = 6,
	OFF_FROZEN = 7,
	OFF_PARKED = 8,
	OFF_RECEIVING = 9,
	OFF_POLLING = 10,
	OFF_THROTTLED = 12,
	OFF_SERVER_KNOWN = 1 << 6,
	OFF_SERVED = 1 << 7,
};

/* include/linux/sched.h. A thread of the kernel that idles (TASK_IDLE) does not count as uninterruptible. */
#define STATE_UNINTERRUPTIBLE 0x2
#define STATE_STOPPED 0x4
#define STATE_TRACED 0x8
#define STATE_GONE (0x80 | 0x10 | 0x20)
#define STATE_PARKED 0x40
#define STATE_NO_LOAD 0x400
#define STATE_LOCK 0x1000
#define STATE_FROZEN 0x8000
/* include/linux/sched/jobctl.h: the cgroup's freezer holds it, in an interruptible sleep. */
#define JOBCTL_TRAP_FREEZE (1UL << 23)

/* quaver_abi::record::SleepObject. */
enum sleep_object {
	AT_UNKNOWN = 0,
	AT_FUTEX = 1,
	AT_SOCKET = 2,
	AT_PIPE = 3,
	AT_FILE = 4,
	AT_DEVICE = 5,
	AT_TIMER = 6,
	AT_ANONYMOUS = 7,
	AT_CLOCK = 8,
	AT_CHILD = 9,
	AT_PEER = 10,
	AT_STREAM = 64, /* never recorded: the thread's state tells */
	AT_POLL = 65,
	FOR_DISK = 1 << 7,
};

/* Linux 5.15; the kernel's own number is found when the programs load. */
enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
};

#define NO_CALL 0xffff
#define FRAMES 10

static __always_inline __u32 off_cpu(struct task_struct *task, bool preempt, unsigned int state)
{
	if (preempt || !state)
		return throttled(task) ? OFF_THROTTLED : OFF_PREEMPTED;
	if (state & STATE_GONE)
		return OFF_EXITED;
	if (state & STATE_STOPPED)
		return OFF_STOPPED;
	if (state & STATE_TRACED)
		return OFF_TRACED;
	if (state & STATE_FROZEN)
		return OFF_FROZEN;
	if (state & STATE_PARKED)
		return OFF_PARKED;
	if ((state & STATE_LOCK) || ((state & STATE_UNINTERRUPTIBLE) && !(state & STATE_NO_LOAD)))
		return OFF_UNINTERRUPTIBLE;
	return task->jobctl & JOBCTL_TRAP_FREEZE ? OFF_FROZEN : OFF_BLOCKED;
}

/* What a system call waits for whatever its first argument is; AT_UNKNOWN where that may be a descriptor. */
static __always_inline __u32 waits_for(__u32 call)
{
	switch (call) {
#ifdef __TARGET_ARCH_x86
	case 202: /* futex */
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
		return AT_FUTEX;
	case 35:  /* nanosleep */
	case 230: /* clock_nanosleep */
		return AT_CLOCK;
	case 34:  /* pause */
	case 65:  /* semop */
	case 69:  /* msgsnd */
	case 70:  /* msgrcv */
	case 72:  /* fcntl */
	case 73:  /* flock */
	case 128: /* rt_sigtimedwait */
	case 130: /* rt_sigsuspend */
	case 220: /* semtimedop */
	case 242: /* mq_timedsend */
	case 243: /* mq_timedreceive */
		return AT_PEER;
	case 61:  /* wait4 */
	case 247: /* waitid */
		return AT_CHILD;
	case 7:   /* poll */
	case 23:  /* select */
	case 232: /* epoll_wait */
	case 270: /* pselect6 */
	case 271: /* ppoll */
	case 281: /* epoll_pwait */
#else
	case 98:  /* futex */
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
		return AT_FUTEX;
	case 101: /* nanosleep */
	case 115: /* clock_nanosleep */
		return AT_CLOCK;
	case 25:  /* fcntl */
	case 32:  /* flock */
	case 133: /* rt_sigsuspend */
	case 137: /* rt_sigtimedwait */
	case 182: /* mq_timedsend */
	case 183: /* mq_timedreceive */
	case 188: /* msgrcv */
	case 189: /* msgsnd */
	case 192: /* semtimedop */
	case 193: /* semop */
		return AT_PEER;
	case 95:  /* waitid */
	case 260: /* wait4 */
		return AT_CHILD;
	case 22:  /* epoll_pwait */
	case 72:  /* pselect6 */
	case 73:  /* ppoll */
#endif
	case 426: /* io_uring_enter */
	case 441: /* epoll_pwait2 */
		return AT_POLL;
	default:
		return AT_UNKNOWN;
	}
}

/* Whether a system call's first argument is the descriptor that it waits for. Other calls take small numbers too. */
static __always_inline int takes_descriptor(__u32 call)
{
	switch (call) {
#ifdef __TARGET_ARCH_x86
	case 0 ... 1:	  /* read, write */
	case 16 ... 20:	  /* ioctl, pread64, pwrite64, readv, writev */
	case 40:	  /* sendfile */
	case 42 ... 47:	  /* connect, accept, sendto, recvfrom, sendmsg, recvmsg */
	case 74 ... 75:	  /* fsync, fdatasync */
	case 77 ... 78:	  /* ftruncate, getdents */
	case 187:	  /* readahead */
	case 217:	  /* getdents64 */
	case 221:	  /* fadvise64 */
	case 275 ... 278: /* splice, tee, sync_file_range, vmsplice */
	case 285:	  /* fallocate */
	case 288:	  /* accept4 */
	case 295 ... 296: /* preadv, pwritev */
	case 299:	  /* recvmmsg */
	case 306 ... 307: /* syncfs, sendmmsg */
	case 326 ... 328: /* copy_file_range, preadv2, pwritev2 */
#else
	case 29:	  /* ioctl */
	case 46 ... 47:	  /* ftruncate, fallocate */
	case 61:	  /* getdents64 */
	case 63 ... 71:	  /* read, write, readv, writev, pread64, pwrite64, preadv, pwritev, sendfile */
	case 75 ... 77:	  /* vmsplice, splice, tee */
	case 82 ... 84:	  /* fsync, fdatasync, sync_file_range */
	case 202 ... 203: /* accept, connect */
	case 206 ... 207: /* sendto, recvfrom */
	case 211 ... 213: /* sendmsg, recvmsg, readahead */
	case 223:	  /* fadvise64 */
	case 242 ... 243: /* accept4, recvmmsg */
	case 267:	  /* syncfs */
	case 269:	  /* sendmmsg */
	case 285 ... 287: /* copy_file_range, preadv2, pwritev2 */
#endif
		return 1;
	default:
		return 0;
	}
}

/* The file behind a descriptor of the current process. */
static __always_inline struct file *file_of(struct task_struct *task, __u64 descriptor)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = 0;

	if (!table || descriptor >= BPF_CORE_READ(table, max_fds))
		return 0;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
	return file;
}

static __always_inline __u32 object_of(struct file *file, __u64 *object)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u16 mode = BPF_CORE_READ(inode, i_mode) & 0xf000;
	struct socket *socket;
	struct sock *sk;
	char name[8] = {};

	*object = BPF_CORE_READ(inode, i_ino);
	switch (mode) {
	case 0xc000:
		socket = BPF_CORE_READ(file, private_data);
		sk = BPF_CORE_READ(socket, sk);
		if (BPF_CORE_READ(sk, sk_protocol) == PROTOCOL_UDP &&
		    followed_port(BPF_CORE_READ(sk, __sk_common.skc_num)))
			return AT_STREAM;
		return AT_SOCKET;
	case 0x1000:
		return AT_PIPE;
	case 0x8000:
	case 0x4000:
	case 0x6000:
		return AT_FILE;
	case 0x2000:
		return AT_DEVICE;
	}
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return *(__u64 *)name == *(__u64 *)"[timerf" ? AT_TIMER : AT_ANONYMOUS;
}

/* The kernel stack of the current thread, innermost first. The analysis knows which frames are the scheduler's. */
static __always_inline void emit_frames(void *ctx, struct cpu_state *state, __u32 cpu, __u64 now, __u32 thread)
{
	__u64 frames[FRAMES];
	long bytes = bpf_get_stack(ctx, frames, sizeof(frames), 0);

#pragma unroll
	for (int i = 0; i < FRAMES; i++)
		if (bytes >= (long)((i + 1) * sizeof(__u64)))
			emit(state, cpu, now, now, frames[i], thread, EVENT_FRAME, i);
}

/* What a followed thread that leaves its CPU waits for. Hands back its state, which may tell all there is. */
static __always_inline __u32 emit_sleep(void *ctx, struct cpu_state *state, __u32 cpu, __u64 now,
					struct task_struct *task, __u32 off)
{
	__u32 call = NO_CALL, at = AT_UNKNOWN, thread = task->pid;
	__u64 object = 0, argument = 0;
	struct pt_regs *regs;
	struct file *file;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
#ifdef __TARGET_ARCH_x86
		call = regs->orig_ax > NO_CALL ? NO_CALL : regs->orig_ax;
		argument = regs->di;
#else
		call = regs->syscallno < 0 ? NO_CALL : regs->syscallno;
		argument = regs->user_regs.regs[0];
#endif
	}
	if (call != NO_CALL) {
		at = waits_for(call);
		file = at == AT_UNKNOWN && takes_descriptor(call) ? file_of(task, argument) : 0;
		if (file)
			at = object_of(file, &object);
		if (at == AT_FUTEX)
			object = argument;
	}
	if (off == OFF_BLOCKED && at == AT_STREAM)
		return OFF_RECEIVING;
	if (off == OFF_BLOCKED && at == AT_POLL)
		return OFF_POLLING;
	if (at >= AT_STREAM)
		at = AT_UNKNOWN;
	if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		at |= FOR_DISK;
	emit(state, cpu, now, now, object << 16 | call, thread, EVENT_SLEEP, at);
	if (off == OFF_UNINTERRUPTIBLE)
		emit_frames(ctx, state, cpu, now, thread);
	return off;
}

#endif
