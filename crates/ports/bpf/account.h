// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Flows that the kernel path forwards, counted for whoever exports them (src/afxdp/flows.rs). Only in the object that is compiled
// with COUNTED; elsewhere there is nothing of it.
//
// There are two tables. Programs count in one while the other is read: whoever reads turns `side` and waits until no program runs
// that may have seen the former one, so that nothing is added to a flow behind its reader's back. Neither forgets a flow to make
// room: packets of flows that find none are counted together.

#pragma once

#include "rules.h"

#ifndef COUNTED

INLINE void account(const struct ethernet *eth, const void *end, int four, __u32 input, __u32 output,
		    __u32 packets, __u32 bytes)
{
}

INLINE __u32 header_of(__u32 gso_size, const struct ethernet *eth, const void *end, int four)
{
	return 0;
}

#else

static long (*map_update)(void *map, const void *key, const void *value,
			  __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static __u64 (*coarse_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static long (*ring_out)(void *ring, void *data, __u64 length, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;

// Another CPU was faster (EEXIST).
#define IS_THERE -17

// What identifies a flow. Addresses as they stand in packets, those of IPv4 as IPv4-mapped ones of IPv6 (RFC 4291 section
// 2.5.5.2); ports as they stand, above them the protocol; and the interface where it came in.
struct flow_key {
	__u64 source[2], destination[2];
	__u64 transport;
	__u64 input;
};

struct flow {
	// Of IP, headers included; those of super-frames singly.
	__u64 packets, bytes;
	// By the kernel's coarse clock.
	__u64 first_ns, last_ns;
	// Of TCP.
	__u64 flags;
	// The interface by which its first packet left, and above 32 bits its type of service or traffic class.
	__u64 exit;
};

struct accounts {
	// Which table is counted in, 0 or 1.
	__u64 side;
	// Flows in each; how many have the reader called.
	__u64 begun[2], called_at;
	// Packets and bytes of flows that found no room.
	__u64 unaccounted[2];
};

// The object's own maps are place holders, as `announced` is.
struct accounts accounts SEC(".data.accounts");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	ENTRIES(1);
	struct flow_key *key;
	struct flow *value;
} flows_even SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	ENTRIES(1);
	struct flow_key *key;
	struct flow *value;
} flows_odd SEC(".maps");

// Something to wait for: readable once a table is half full.
struct {
	int (*type)[BPF_MAP_TYPE_RINGBUF];
	ENTRIES(4096);
} flows_call SEC(".maps");

// The headers that each packet of a super-frame has, link header left out; 0: it is none.
INLINE __u32 header_of(__u32 gso_size, const struct ethernet *eth, const void *end, int four)
{
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);
	__u32 length;

	if (LIKELY(!gso_size) || (const void *)(v6 + 1) > end)
		return 0;
	length = four ? length_of(gso_size, v4->protocol, v4 + 1, end, 0, sizeof(*v4)) :
			length_of(gso_size, v6->next_header, v6 + 1, end, 0, sizeof(*v6));
	return length > gso_size ? length - gso_size : 0;
}

// Ports and protocol of a key; of ICMP, type and code stand for the destination port, as NetFlow has it. The flags of TCP.
INLINE __u64 transport_of(__u8 protocol, const void *transport, const void *end, __u64 *flags)
{
	__u64 ports = 0;

	if (protocol == 1 || protocol == 58) {
		if (transport + 2 <= end)
			ports = (__u64)*(const __u16 *)transport << 16;
	} else if (protocol == 6 || protocol == 17 || protocol == 132 || protocol == 136) {
		if (transport + 4 <= end)
			ports = LOAD32(transport);
		if (protocol == 6 && transport + 14 <= end)
			*flags = ((const __u8 *)transport)[13];
	}
	return ports | (__u64)protocol << 32;
}

INLINE __u64 key4(const struct ipv4 *ip, const void *end, struct flow_key *key)
{
	__u64 flags = 0;

	key->source[0] = key->destination[0] = 0;
	key->source[1] = (__u64)ip->source << 32 | 0xffff0000;
	key->destination[1] = (__u64)ip->destination << 32 | 0xffff0000;
	if (UNLIKELY(ip->fragment & NET16(0x1fff)))
		key->transport = (__u64)ip->protocol << 32;
	else
		key->transport = transport_of(ip->protocol, ip + 1, end, &flags);
	return flags;
}

// Behind extension headers but that of fragments nothing is looked for: the protocol is theirs.
INLINE __u64 key6(const struct ipv6 *ip, const void *end, struct flow_key *key)
{
	const __u8 *above = (const void *)(ip + 1);
	__u8 protocol = ip->next_header;
	__u64 flags = 0;

	key->source[0] = LOAD64(ip->source);
	key->source[1] = LOAD64(ip->source + 4);
	key->destination[0] = LOAD64(ip->destination);
	key->destination[1] = LOAD64(ip->destination + 4);
	if (UNLIKELY(protocol == 44) && (const void *)(above + 8) <= end) {
		protocol = above[0];
		if (*(const __u16 *)(above + 2) & NET16(0xfff8)) {
			key->transport = (__u64)protocol << 32;
			return 0;
		}
		above += 8;
	}
	key->transport = transport_of(protocol, above, end, &flags);
	return flags;
}

INLINE struct flow *flow_in(__u64 side, const struct flow_key *key)
{
	if (side)
		return map_lookup(&flows_odd, key);
	// Else both look-ups become one, of a table that nobody knows.
	asm volatile("");
	return map_lookup(&flows_even, key);
}

// Begins a flow in one of the tables; what the kernel answers, in 32 bits: before Linux 6.4 the others of a map's answer say
// nothing, where the verifier calls the map at once.
INLINE int begin_in(void *table, __u64 *count, const struct flow_key *key, const struct flow *flow)
{
	int answer = (int)map_update(table, key, flow, BPF_NOEXIST);
	__u64 begun;

	if (UNLIKELY(answer))
		return answer;
	begun = __sync_fetch_and_add(count, 1) + 1;
	if (UNLIKELY(begun == accounts.called_at))
		ring_out(&flows_call, &begun, sizeof(begun), BPF_RB_FORCE_WAKEUP);
	return 0;
}

// Begins a flow; another CPU's where that was faster. Nothing: it was begun with what it has, or there is no room, which
// is counted.
INLINE struct flow *begin(__u64 side, const struct flow_key *key, const struct flow *flow)
{
	struct flow *other;
	int answer;

	if (side) {
		answer = begin_in(&flows_odd, &accounts.begun[1], key, flow);
	} else {
		// As above; and the verifier follows no place that differs by the way.
		asm volatile("");
		answer = begin_in(&flows_even, &accounts.begun[0], key, flow);
	}
	if (LIKELY(!answer))
		return 0;
	if (answer == IS_THERE) {
		other = flow_in(side, key);
		if (other)
			return other;
	}
	__sync_fetch_and_add(&accounts.unaccounted[0], flow->packets);
	__sync_fetch_and_add(&accounts.unaccounted[1], flow->bytes);
	return 0;
}

// Counts packets as they leave, all of the same headers.
INLINE void account(const struct ethernet *eth, const void *end, int four, __u32 input, __u32 output,
		    __u32 packets, __u32 bytes)
{
	__u64 side = *(volatile __u64 *)&accounts.side & 1, now = coarse_ns(), flags;
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);
	struct flow_key key;
	struct flow *flow, fresh;

	if (four) {
		if ((const void *)(v4 + 1) > end)
			return;
		flags = key4(v4, end, &key);
		fresh.exit = (__u64)v4->traffic_class << 32 | output;
	} else {
		if ((const void *)(v6 + 1) > end)
			return;
		flags = key6(v6, end, &key);
		fresh.exit = (__u64)(NET32(v6->version_class_flow) >> 20 & 0xff) << 32 | output;
	}
	key.input = input;
	flow = flow_in(side, &key);
	if (UNLIKELY(!flow)) {
		fresh.packets = packets;
		fresh.bytes = bytes;
		fresh.first_ns = fresh.last_ns = now;
		fresh.flags = flags;
		flow = begin(side, &key, &fresh);
		if (!flow)
			return;
	}
	__sync_fetch_and_add(&flow->packets, packets);
	__sync_fetch_and_add(&flow->bytes, bytes);
	if (UNLIKELY((flow->flags | flags) != flow->flags))
		__sync_fetch_and_or(&flow->flags, flags);
	if ((__s64)(now - flow->last_ns) > 0)
		*(volatile __u64 *)&flow->last_ns = now;
}

#endif
