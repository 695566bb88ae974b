/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Layouts that the programs share with user space through mapped memory. Each has a twin in
 * `quaver_abi::record` or in `layout.rs` beside this folder; sizes are asserted on both sides.
 */
#ifndef QUAVER_SHARED_H
#define QUAVER_SHARED_H

#define KEY_UNKNOWN (~0ULL)
#define PORTS 8
#define VECTORS 12
#define NAMES 16384
#define SKBS 8192
#define PENDING 64
#define SOCKETS 16
#define QUEUE 65536
#define READERS 64
#define BATCH 1024
#define STACK_DEPTH 48
#define NO_STACK 0xffffffffU
#define REFILLS_QUOTA 2 /* quaver_abi::record */
#define DROP_REASONS 256
#define DROP_SUBSYSTEMS 8

enum payload { PAYLOAD_OPAQUE = 0, PAYLOAD_OURS = 1, PAYLOAD_RTP = 2 };

enum stamp_flags {
	STAMP_OURS = 1 << 0,
	STAMP_RTP = 1 << 1,
	STAMP_DROPPED = 1 << 2,
	STAMP_PEEKED = 1 << 3,
	STAMP_BATCHED = 1 << 4,
	STAMP_ELSEWHERE = 1 << 5,
};

enum event_kind {
	EVENT_NMI = 1,
	EVENT_IRQ = 2,
	EVENT_VECTOR = 3,
	EVENT_SOFTIRQ = 4,
	EVENT_THREAD = 5,
	EVENT_HRTIMER = 6,
	EVENT_TIMER = 7,
	EVENT_WORK = 8,
	EVENT_CROSS_CALL = 9,
	EVENT_IDLE_STATE = 10,
	EVENT_SYSTEM_CALL = 12,
	EVENT_STEAL = 11,
	EVENT_WAKEUP = 20,
	EVENT_MIGRATE = 21,
	EVENT_PAGE_FAULT = 22,
	EVENT_IPI_SEND = 23,
	EVENT_TLB_FLUSH = 24,
	EVENT_SLEEP = 26,
	EVENT_FRAME = 30,
	EVENT_SAMPLE = 28,
	EVENT_TASK_NAME = 40,
};

/* quaver_abi::record::StampRecord */
struct stamp {
	__u64 arrival;
	__u64 key;
	__u64 skb;
	__u64 irq_ns;
	__u64 softirq_ns;
	__u64 receive_ns;
	__u64 enqueued_ns;
	__u64 ready_ns;
	__u64 user_ns;
	__u32 media_timestamp;
	__u32 payload_bytes;
	__u16 cpu;
	__u16 user_cpu;
	__u32 flags;
	__u32 drop_reason;
	__u32 poll;
};
_Static_assert(sizeof(struct stamp) == 96, "StampRecord");

/* quaver_abi::record::EventRecord; `tail` is id, cpu, kind and detail, so that kind becomes visible last. */
struct event {
	__u64 start_ns;
	__u64 end_ns;
	__u64 aux;
	__u64 tail;
};
_Static_assert(sizeof(struct event) == 32, "EventRecord");

/* An interval whose end has not been seen. */
struct open_interval {
	__u64 key;
	__u64 start_ns;
	__u64 aux;
};

/* What one CPU's programs remember between two trace points. `recorded` and the ring's place are set by user
 * space before anything is attached; the last cache line is user space's. */
struct cpu_state {
	__u64 produced;
	__u64 lost;
	__u64 ring_base;
	__u64 ring_mask;
	__u64 ring_limit;
	__u32 recorded;
	__u32 poll;

	__u64 thread_ns;
	__u32 thread_id;
	__u32 thread_priority;

	__u64 irq_ns;
	__u32 irq_number;
	__u32 softirq_vector;
	__u64 softirq_ns;
	__u64 idle_ns;
	__u32 idle_state;
	__u32 in_net_rx; /* 1 and the packets of others so far; 0 outside */
	__u64 vector_ns[VECTORS];
	struct open_interval hrtimer[2];
	struct open_interval timer;
	struct open_interval cross_call[2];

	__u64 raised_irq_ns;
	__u64 batch_irq_ns;
	__u64 batch_ns;
	__u64 last_enqueued;
	__u64 pending_head;
	__u64 pending_tail;
	__u64 pending[PENDING];
	__u64 scratch[4];
	__u64 woken_ns;      /* when the first followed thread since the last switch was made runnable here */
	__u32 stream_enters; /* a packet of the followed flow is entering its socket */
	__u32 woken_thread;

	/* Stolen time: where the host counts it (0: not found yet), when the count was last seen, and the count. */
	__u64 steal_page;
	__u64 seen_ns;
	__u64 steal_ns;
	__u64 sampling_timer; /* the one that takes samples of ours, by its address */

	__u64 consumed __attribute__((aligned(64)));
	__u64 reserved[7];
};
_Static_assert(sizeof(struct cpu_state) == 1024, "CpuState");

/* Shared by all CPUs. */
struct control {
	__u64 arrivals;
	__u64 reserved[7];
	__u64 recording_ns;
	__u64 recordings; /* how often recording was switched on */
	__u64 sockets;    /* receive queues in use */
	__u64 fill[5];
};
_Static_assert(sizeof(struct control) == 128, "Control");

/* Fixed before loading. */
struct config {
	__u64 stamp_mask;
	__u32 observed_process;
	__u32 payload;
	__u32 payload_offset;
	__u32 address_family; /* 0 any, 4, 6 */
	__u8 address[16];
	__u16 ports[PORTS];
	__u32 port_count;
	__u32 ready_by_waking;
	__u64 steal_counted; /* the host counts stolen time, at this distance from a CPU's run queue */
	__s64 steal_offset;
};
_Static_assert(sizeof(struct config) == 80, "Config");

#endif
