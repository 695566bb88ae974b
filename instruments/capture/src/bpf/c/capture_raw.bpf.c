// SPDX-License-Identifier: GPL-2.0
/*
 * Which packet is at netif_receive_skb, and its raw cycles where the kernel lets programs read them
 * (bpf_get_cpu_time_counter). Where it does not, its trace ring has the cycles of the same call, and a record finds them by
 * CPU, address and time. The kernel has stamped the packet right before: that stamp is the key.
 */
#include "types.h"

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_MMAPABLE = 1024,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct sk_buff {
	struct net_device *dev;
	__s64 tstamp;
	unsigned int len;
	__u16 mac_header;
	unsigned char *head;
	unsigned char *data;
};
#pragma clang attribute pop

extern __u64 bpf_get_cpu_time_counter(void) __ksym __weak;

#define RAW_INTERFACES 64

/* Set before loading; its twin is `RawConfig`. */
struct raw_config {
	__u32 counter;   /* the kernel lets this program read the processor's counter */
	__u32 name_space; /* inode of the network namespace: numbers of interfaces are its own */
	__u32 count;     /* of interfaces; 0 is all */
	__u32 interfaces[RAW_INTERFACES];
};
const volatile struct raw_config config SEC(".rodata.config");

/* One packet; `RawRecord`. */
struct raw_record {
	__u64 kernel_ns;    /* CLOCK_REALTIME: the key, as the packet ring shows it */
	__u64 cycles;       /* 0: they are in the trace ring */
	__u64 packet;       /* address of the sk_buff */
	__u64 monotonic_ns; /* now, where there are no cycles */
	__u32 length;       /* with the link header */
	__u32 interface;
	__u32 cpu;
	__u32 traced_length; /* as the tracepoint shows it */
};
_Static_assert(sizeof(struct raw_record) == 48, "RawRecord");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} raw_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} raw_lost SEC(".maps");

static __always_inline bool is_wanted(__u32 interface)
{
	if (!config.count)
		return 1;
	for (__u32 i = 0; i < RAW_INTERFACES && i < config.count; i++)
		if (config.interfaces[i] == interface)
			return 1;
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(capture_raw, struct sk_buff *packet)
{
	__u64 cycles = 0, monotonic_ns = 0;

	if (config.counter && bpf_ksym_exists(bpf_get_cpu_time_counter))
		cycles = bpf_get_cpu_time_counter();
	else
		monotonic_ns = bpf_ktime_get_ns();
	struct net_device *device = packet->dev;
	if (device->nd_net.net->ns.inum != config.name_space || !is_wanted(device->ifindex))
		return 0;
	struct raw_record *record = bpf_ringbuf_reserve(&raw_records, sizeof(*record), 0);
	if (!record) {
		__u32 first = 0;
		__u64 *lost = bpf_map_lookup_elem(&raw_lost, &first);
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return 0;
	}
	record->kernel_ns = packet->tstamp;
	record->cycles = cycles;
	record->packet = (__u64)packet;
	record->monotonic_ns = monotonic_ns;
	record->traced_length = packet->len;
	/* The data begin behind the link header by now. */
	record->length = packet->len + (__u32)(packet->data - packet->head) - packet->mac_header;
	record->interface = device->ifindex;
	record->cpu = bpf_get_smp_processor_id();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
