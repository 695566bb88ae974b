// SPDX-License-Identifier: GPL-2.0
/*
 * The XDP program for one device, which is loaded for it (BPF_F_XDP_DEV_BOUND_ONLY, Linux 6.3): it may ask the driver for
 * the stamp that the interface itself took. Where the kernel lets programs read the processor's counter, its own stamp is
 * that.
 */
#include "capture.h"

extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *packet, __u64 *timestamp) __ksym __weak;
extern __u64 bpf_get_cpu_time_counter(void) __ksym __weak;

SEC("xdp.frags")
int capture_xdp(struct xdp_md *packet)
{
	__u64 hardware_ns = 0;
	__u64 xdp;
	__u32 flags = 0;

	if (bpf_ksym_exists(bpf_get_cpu_time_counter)) {
		xdp = bpf_get_cpu_time_counter();
		flags = XDP_IN_CYCLES;
	} else {
		xdp = bpf_ktime_get_ns();
	}
	/* A driver that has none for this packet leaves it as it is. */
	if (bpf_ksym_exists(bpf_xdp_metadata_rx_timestamp) && bpf_xdp_metadata_rx_timestamp(packet, &hardware_ns))
		hardware_ns = 0;
	return leave_mark(packet, xdp, flags, hardware_ns);
}

char LICENSE[] SEC("license") = "GPL";
