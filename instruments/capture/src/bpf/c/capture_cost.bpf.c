// SPDX-License-Identifier: GPL-2.0
/* A stamp by BPF at the first checkpoint of a comparison: the program alone, by the kernel's clock, by the processor's counter. */
#include "types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct sk_buff;

extern __u64 bpf_get_cpu_time_counter(void) __ksym __weak;

/* Where stamps go, as those of a capture go to a record. */
volatile __u64 last_stamp;

SEC("tp_btf/netif_rx_entry")
int BPF_PROG(bpf, struct sk_buff *packet)
{
	last_stamp = (__u64)packet;
	return 0;
}

SEC("tp_btf/netif_rx_entry")
int BPF_PROG(bpf_ktime, struct sk_buff *packet)
{
	last_stamp = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/netif_rx_entry")
int BPF_PROG(bpf_cycles, struct sk_buff *packet)
{
	if (bpf_ksym_exists(bpf_get_cpu_time_counter))
		last_stamp = bpf_get_cpu_time_counter();
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
