// SPDX-License-Identifier: GPL-2.0
/*
 * The layers below the packet socket. XDP stamps the packet before there is a packet buffer and leaves the stamp in the
 * metadata before the packet; TC reads it there, adds its own, and writes one record. The packet goes on as it came.
 */
#include "capture.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	/* As the ring of packets needs it: set before it is loaded. */
	__uint(max_entries, 1 << 23);
} layer_records SEC(".maps");

/* Records for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} layer_lost SEC(".maps");

SEC("xdp.frags")
int capture_xdp(struct xdp_md *packet)
{
	__u32 flags = 0;
	__u64 xdp = stamp(&flags, XDP_IN_CYCLES);

	return leave_mark(packet, xdp, flags, 0);
}

SEC("tc")
int capture_tc(struct __sk_buff *packet)
{
	__u32 flags = 0;
	__u64 now = stamp(&flags, TC_IN_CYCLES);
	struct layer_record *record = bpf_ringbuf_reserve(&layer_records, sizeof(*record), 0);

	if (!record) {
		__u32 first = 0;
		__u64 *lost = bpf_map_lookup_elem(&layer_lost, &first);
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return TC_NEXT;
	}
	struct mark *mark = (void *)(long)packet->data_meta;
	__u64 hardware_ns = packet->hwtstamp;
	__u64 xdp = 0;
	if ((void *)(mark + 1) <= (void *)(long)packet->data && mark->magic == MARK_MAGIC) {
		xdp = mark->xdp;
		flags |= mark->flags;
		if (!hardware_ns)
			hardware_ns = mark->hardware_ns;
	}
	record->kernel_ns = packet->tstamp;
	record->hardware_ns = hardware_ns;
	record->xdp = xdp;
	record->tc = now;
	record->length = packet->len;
	record->interface = packet->ifindex;
	record->flags = flags;
	record->reserved = 0;
	/* The writer comes by itself, with each block of packets. */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return TC_NEXT;
}

char LICENSE[] SEC("license") = "GPL";
