// SPDX-License-Identifier: GPL-2.0
/*
 * The XDP program for one device, which is loaded for it (BPF_F_XDP_DEV_BOUND_ONLY, Linux 6.3): it may ask the driver for
 * the stamp that the interface itself took. Where the kernel lets programs read the processor's counter, its own stamp is
 * that.
 */
#define QUAVER_CYCLES 1
#include "capture.h"

extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *packet, __u64 *timestamp) __ksym __weak;

SEC("xdp.frags")
int capture_xdp(struct xdp_md *packet)
{
	__u64 hardware_ns = 0;
	__u32 flags = 0;
	__u64 xdp = stamp(&flags, XDP_IN_CYCLES);

	/* A driver that has none for this packet leaves it as it is. */
	if (bpf_ksym_exists(bpf_xdp_metadata_rx_timestamp) && bpf_xdp_metadata_rx_timestamp(packet, &hardware_ns))
		hardware_ns = 0;
	return leave_mark(packet, xdp, flags, hardware_ns);
}

char LICENSE[] SEC("license") = "GPL";
