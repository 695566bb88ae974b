/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The followed flow's packets, layer by layer: NET_RX softirq, netif_receive_skb, our receiver's socket filter,
 * sk_data_ready, and drops.
 */
#ifndef QUAVER_PACKETS_H
#define QUAVER_PACKETS_H

#include "memory.h"

/* Which slot an sk_buff in the stack has. Direct-mapped: a collision loses a join, never makes a wrong one. */
struct flight {
	__u64 skb;
	__u64 arrival;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SKBS);
	__type(key, __u32);
	__type(value, struct flight);
} flights SEC(".maps");

/* The verifier lets nobody calculate with a pointer; through memory it becomes a number. Each program has its
 * own word, since another may interrupt it. */
enum { SCRATCH_RECEIVE = 0, SCRATCH_ENQUEUE = 0, SCRATCH_FREE = 1, SCRATCH_READY = 2, SCRATCH_RETURN = 3 };

static __always_inline __u64 number_of(struct cpu_state *state, __u32 word, const void *pointer)
{
	*(volatile __u64 *)&state->scratch[word] = (__u64)pointer;
	return *(volatile __u64 *)&state->scratch[word];
}

static __always_inline struct flight *flight_of(__u64 skb)
{
	__u32 index = (skb >> 8) * 0x9e3779b97f4a7c15ULL >> 51;
	return bpf_map_lookup_elem(&flights, &index);
}

/* The slot of a packet that this CPU took in during its latest NET_RX run and that has not left the stack. */
static __always_inline struct stamp *stamp_in_flight(struct cpu_state *state, struct flight *flight, __u64 skb)
{
	struct stamp *stamp;

	if (!flight || flight->skb != skb)
		return 0;
	stamp = stamp_of(flight->arrival);
	if (!stamp || stamp->arrival != flight->arrival || stamp->skb != skb)
		return 0;
	if (stamp->ready_ns || (stamp->flags & STAMP_DROPPED))
		return 0;
	if (stamp->receive_ns < state->batch_ns && stamp->enqueued_ns < state->batch_ns)
		return 0;
	return stamp;
}

static __always_inline bool followed_port(__u16 port)
{
#pragma unroll
	for (__u32 i = 0; i < PORTS; i++)
		if (i < config.port_count && config.ports[i] == port)
			return 1;
	return 0;
}

static __always_inline __u16 be16(const __u8 *at)
{
	return (__u16)at[0] << 8 | at[1];
}

static __always_inline __u32 be32(const __u8 *at)
{
	return (__u32)be16(at) << 16 | be16(at + 2);
}

/* Octets of the payload that hold the key, from `payload_offset`. */
#define KEY_BYTES 16

static __always_inline void read_key(struct stamp *stamp, const __u8 *at)
{
	if (config.payload == PAYLOAD_OURS && be32(at) == 0x51565354) {
		stamp->key = (__u64)be32(at + 8) << 32 | be32(at + 12);
		stamp->flags |= STAMP_OURS;
	}
	if (config.payload == PAYLOAD_RTP && at[0] >> 6 == 2 && (at[1] < 192 || at[1] > 223)) {
		stamp->key = be16(at + 2);
		stamp->media_timestamp = be32(at + 4);
		stamp->flags |= STAMP_RTP;
	}
}

/* Offset from `network` of the UDP header of a packet to the followed address and ports; 0 for any other. */
static __always_inline __u32 followed(const unsigned char *network, __u16 protocol, __u16 *bytes)
{
	__u8 header[48];
	__u32 udp;

	if (protocol != ETH_P_IP && protocol != ETH_P_IPV6)
		return 0;
	if (bpf_probe_read_kernel(header, sizeof(header), network))
		return 0;
	if (protocol == ETH_P_IP) {
		/* Only the socket filter sees a fragmented packet whole. */
		if (header[9] != PROTOCOL_UDP || (be16(header + 6) & 0x3fff))
			return 0;
		if (config.address_family == 6)
			return 0;
		if (config.address_family == 4 &&
		    *(__u32 *)(header + 16) != *(const volatile __u32 *)config.address)
			return 0;
		udp = (header[0] & 0xf) * 4;
		if (udp == 20) {
			*bytes = be16(header + 24) - 8;
			return followed_port(be16(header + 22)) ? udp : 0;
		}
	} else {
		if (header[6] != PROTOCOL_UDP || config.address_family == 4)
			return 0;
		if (config.address_family == 6) {
			const volatile __u64 *wanted = (const volatile __u64 *)config.address;

			if (*(__u64 *)(header + 24) != wanted[0] || *(__u64 *)(header + 32) != wanted[1])
				return 0;
		}
		*bytes = be16(header + 44) - 8;
		return followed_port(be16(header + 42)) ? 40 : 0;
	}
	if (bpf_probe_read_kernel(header, 8, network + udp))
		return 0;
	*bytes = be16(header + 4) - 8;
	return followed_port(be16(header + 2)) ? udp : 0;
}

/* A part of a datagram, of which only the first has ports. */
static __always_inline bool fragment(const unsigned char *network, __u16 protocol)
{
	__u8 header[8];

	return protocol == ETH_P_IP && !bpf_probe_read_kernel(header, sizeof(header), network) &&
	       (be16(header + 6) & 0x3fff);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	__u64 now, arrival, address;
	__u16 protocol = __builtin_bswap16(skb->protocol), bytes = 0;
	const unsigned char *network = skb->data;
	__u32 cpu = bpf_get_smp_processor_id(), udp, linear;
	struct cpu_state *state = state_of(cpu);
	struct flight *flight;
	struct stamp *stamp;
	__u8 key[KEY_BYTES];

	if (!state)
		return 0;
	now = seen(state);
	if (protocol == ETH_P_8021Q) {
		__u8 tag[4];

		if (bpf_probe_read_kernel(tag, sizeof(tag), network))
			return 0;
		protocol = be16(tag + 2);
		network += 4;
	}
	udp = followed(network, protocol, &bytes);
	if (!udp) {
		if (state->in_net_rx && !fragment(network, protocol))
			state->in_net_rx++;
		return 0;
	}
	address = number_of(state, SCRATCH_RECEIVE, skb);
	flight = flight_of(address);
	/* A bridge or a VLAN shows the same packet again: its first sight counts. */
	if (stamp_in_flight(state, flight, address))
		return 0;
	stamp = new_stamp(state, cpu, address, &arrival);
	if (!stamp)
		return 0;
	stamp->receive_ns = now;
	stamp->payload_bytes = bytes;
	linear = skb->len - skb->data_len;
	if (config.payload != PAYLOAD_OPAQUE && bytes >= config.payload_offset + KEY_BYTES - 4 &&
	    linear >= udp + 8 + config.payload_offset + KEY_BYTES - 4 &&
	    !bpf_probe_read_kernel(key, sizeof(key), network + udp + 8 + config.payload_offset))
		read_key(stamp, key);
	publish(&stamp->arrival, arrival);
	if (flight) {
		flight->skb = address;
		flight->arrival = arrival;
	}
	if (config.observed_process) {
		state->pending[state->pending_tail % PENDING] = arrival;
		state->pending_tail++;
	}
	return 0;
}

/* On our own receiver: the packet is about to enter the socket's queue. Always accepts all of it. */
SEC("socket")
int on_enqueue(struct __sk_buff *context)
{
	__u64 now, arrival, skb;
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = state_of(cpu);
	struct flight *flight;
	struct stamp *stamp;
	__u8 key[KEY_BYTES];
	bool fresh = 0;

	if (!state)
		return 0x7fffffff;
	now = seen(state);
	skb = number_of(state, SCRATCH_ENQUEUE, bpf_cast_to_kern_ctx(context));
	flight = flight_of(skb);
	stamp = stamp_in_flight(state, flight, skb);
	if (stamp && !stamp->enqueued_ns) {
		arrival = flight->arrival;
	} else {
		/* No program ran for it before (or it was a fragment): it is first seen here. */
		stamp = new_stamp(state, cpu, skb, &arrival);
		if (!stamp)
			return 0x7fffffff;
		stamp->payload_bytes = context->len >= 8 ? context->len - 8 : 0;
		fresh = 1;
	}
	stamp->enqueued_ns = now;
	if (config.payload != PAYLOAD_OPAQUE && stamp->key == KEY_UNKNOWN &&
	    !bpf_skb_load_bytes(context, 8 + config.payload_offset, key,
				config.payload == PAYLOAD_OURS ? KEY_BYTES : KEY_BYTES - 4))
		read_key(stamp, key);
	if (fresh) {
		publish(&stamp->arrival, arrival);
		if (flight) {
			flight->skb = skb;
			flight->arrival = arrival;
		}
	}
	state->last_enqueued = arrival;
	return 0x7fffffff;
}

/* The receiver is told of the packet that this CPU's socket filter has just let through. */
static __always_inline void ready(struct cpu_state *state, __u64 now)
{
	struct stamp *stamp;

	if (!state->last_enqueued)
		return;
	stamp = stamp_of(state->last_enqueued);
	if (stamp && stamp->arrival == state->last_enqueued && !stamp->ready_ns)
		stamp->ready_ns = now;
	state->last_enqueued = 0;
}

static __always_inline void count_drop(__u32 reason)
{
	__u32 index = (reason >> 16) * DROP_REASONS + (reason & (DROP_REASONS - 1));
	__u64 *count;

	if (reason >> 16 >= DROP_SUBSYSTEMS || (reason & 0xffff) >= DROP_REASONS)
		index = 0;
	count = bpf_map_lookup_elem(&drops, &index);
	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_kfree_skb, struct sk_buff *skb, void *location, int reason)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *state = state_of(cpu);
	struct flight *flight;
	struct stamp *stamp;
	__u64 arrival = 0, address;
	__u16 bytes = 0;

	if (!state)
		return 0;
	address = number_of(state, SCRATCH_FREE, skb);
	flight = flight_of(address);
	stamp = stamp_in_flight(state, flight, address);
	if (!stamp) {
		/* Dropped before any layer saw it. Only what the receive path drops can be that. */
		if (!state->in_net_rx)
			return 0;
		if (flight && flight->skb == address)
			return 0;
		if (!followed(skb->head + skb->network_header, __builtin_bswap16(skb->protocol), &bytes))
			return 0;
		stamp = new_stamp(state, cpu, address, &arrival);
		if (!stamp)
			return 0;
		stamp->payload_bytes = bytes;
	}
	stamp->flags |= STAMP_DROPPED;
	stamp->drop_reason = reason;
	if (arrival)
		publish(&stamp->arrival, arrival);
	if (flight && flight->skb == address)
		flight->skb = 0;
	count_drop(reason);
	return 0;
}

#endif
