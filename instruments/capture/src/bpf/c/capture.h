/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of `quaver capture` share with user space, and the few types of the kernel's interface that they
 * use. Contexts of XDP and TC programs are user-visible ABI (linux/bpf.h): no relocation is needed. The layout of a
 * record has its twin in `bpf/capture/records.rs`.
 */
#ifndef QUAVER_CAPTURE_H
#define QUAVER_CAPTURE_H

#include "types.h"

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_MMAPABLE = 1024,
	BPF_RB_NO_WAKEUP = 1,
	XDP_PASS = 2,
	TC_NEXT = -1,
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys __attribute__((aligned(8)));
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk __attribute__((aligned(8)));
	__u32 gso_size;
	__u8 tstamp_type;
	__u8 padding[3];
	__u64 hwtstamp;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, tstamp) == 152, "linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, hwtstamp) == 184, "linux/bpf.h");

#include <bpf/bpf_helpers.h>

/* What an XDP program leaves before the packet for the TC program: "QVXE". At most 32 octets of metadata fit. */
#define MARK_MAGIC 0x51565845
struct mark {
	__u32 magic;
	__u32 flags;
	__u64 xdp;         /* CLOCK_MONOTONIC, or cycles */
	__u64 hardware_ns; /* the interface's own clock, as the driver tells XDP programs */
};

/* Stamps that are the processor's counter. */
#define XDP_IN_CYCLES 1
#define TC_IN_CYCLES 2

/* One packet. Times of 0 are missing. */
struct layer_record {
	__u64 kernel_ns;   /* CLOCK_REALTIME: the key, as the packet ring shows it */
	__u64 hardware_ns; /* the interface's own clock */
	__u64 xdp;         /* as in the mark */
	__u64 tc;          /* CLOCK_MONOTONIC, or cycles */
	__u32 length;
	__u32 interface;
	__u32 flags;
	__u32 reserved;
};
_Static_assert(sizeof(struct layer_record) == 48, "LayerRecord");

#ifdef QUAVER_CYCLES
extern __u64 bpf_get_cpu_time_counter(void) __ksym __weak;
#endif

/* Now: cycles, with `in_cycles` set in the flags, where the kernel lets programs read them; else CLOCK_MONOTONIC. */
static __attribute__((always_inline)) inline __u64 stamp(__u32 *flags, __u32 in_cycles)
{
#ifdef QUAVER_CYCLES
	if (bpf_ksym_exists(bpf_get_cpu_time_counter)) {
		*flags |= in_cycles;
		return bpf_get_cpu_time_counter();
	}
#endif
	return bpf_ktime_get_ns();
}

static __attribute__((always_inline)) inline int leave_mark(struct xdp_md *packet, __u64 xdp, __u32 flags,
							    __u64 hardware_ns)
{
	if (bpf_xdp_adjust_meta(packet, -(int)sizeof(struct mark)))
		return XDP_PASS;
	struct mark *mark = (void *)(long)packet->data_meta;
	if ((void *)(mark + 1) > (void *)(long)packet->data)
		return XDP_PASS;
	mark->magic = MARK_MAGIC;
	mark->flags = flags;
	mark->xdp = xdp;
	mark->hardware_ns = hardware_ns;
	return XDP_PASS;
}

#endif
