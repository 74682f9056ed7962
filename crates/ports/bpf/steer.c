// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Decides for each packet of one interface whether a worker of the router or the kernel gets it,
// and which worker. To the kernel (XDP_PASS) goes everything but unicast IP without options to
// somewhere else, and of that what a policy of the kernel concerns (policy.h); so do all
// packets while no worker has opened its socket.

#include "route.h"
#include "stamp.h"

// Bytes that a frame of the workers' memory holds without a stamp, as in src/afxdp/interface.rs.
#define ROOM 1776
// The same for packets that come in several frames: an MTU of 9,216 with an Ethernet header and two VLAN tags.
#define ROOM_LONG 9238
// There is no tag beside the frame (ENODATA).
#define NO_TAG -61

// Whether a worker's frame holds the packet. Neither the difference of two pointers nor a pointer
// plus a length is to be had without CAP_PERFMON, so nothing tells a short packet in several
// buffers; the kernel counts it as lost at the socket. No driver at hand makes such.
INLINE int fits(struct xdp_md *ctx, int pieces)
{
	const char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (pieces)
		return buff_len(ctx) <= (long_packets ? ROOM_LONG : ROOM);
	return data + ROOM + 1 > end;
}

// Whether a VLAN tag travels beside the frame, which seems to have none then, or nobody can say.
INLINE int has_tag_beside(struct xdp_md *ctx)
{
	// By eights, as keys of maps are.
	__u64 room[2] = {};

	return rx_vlan_tag(ctx, (__u16 *)&room[0], (__u16 *)&room[1]) != NO_TAG;
}

// Packets that a worker has not finished with.
INLINE __u64 in_flight(const volatile struct flight *flight)
{
	return flight->given - flight->done - flight->lost;
}

INLINE int decide(struct xdp_md *ctx, int pieces, int beside)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	struct flight *flight;
	struct table *table;
	__u32 key = ctx->rx_queue_index;
	// Any value but one that the verifier knows: it follows ways that no packet takes, and without
	// CAP_PERFMON refuses an index that is a constant on one and unknown on another.
	__u32 hash = key;
	// With one worker, or where the device has chosen, nobody asks for the hash.
	int steered = form == FORM_STEER && workers > 1;
	int stamped = 0, way;
	__u64 now;

	if (UNLIKELY(!cpu))
		return XDP_PASS;
	way = route((void *)(long)ctx->data, (void *)(long)ctx->data_end, &hash, steered);
	if (UNLIKELY(way != FOR_WORKER)) {
		if (way == FOR_KERNEL && was_handed_back(ctx))
			return XDP_PASS;
		cpu->passed++;
		if (way != FOR_KERNEL)
			cpu->passed_for[way & (REASONS - 1)]++;
		return XDP_PASS;
	}
	if (beside && UNLIKELY(has_tag_beside(ctx))) {
		cpu->passed++;
		cpu->passed_beside++;
		return XDP_PASS;
	}
	if (UNLIKELY(!fits(ctx, pieces))) {
		cpu->passed++;
		cpu->passed_long++;
		return XDP_PASS;
	}
	if (steered) {
		table = map_lookup(&redirect, &zero);
		if (!table)
			return XDP_PASS;
		key = key * workers + *(volatile __u8 *)&table->worker[hash & (TABLE_LEN - 1)];
	}
	flight = map_lookup(&flights, &key);
	if (UNLIKELY(!flight))
		return XDP_PASS;
	if (UNLIKELY(packets_go != TO_WORKERS) &&
	    (packets_go == BEFORE_THE_STACK || (__s64)in_flight(flight) <= 0))
		return XDP_PASS;
	now = stamp_due(cpu);
	if (UNLIKELY(now))
		stamped = put_stamp(ctx, now);
	if (LIKELY(redirect_map(&sockets, key, XDP_PASS) == XDP_REDIRECT)) {
		cpu->redirected++;
		flight->given++;
		return XDP_REDIRECT;
	}
	if (stamped)
		adjust_head(ctx, sizeof(struct stamp));
	cpu->passed++;
	return XDP_PASS;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	return decide(ctx, 0, 0);
}

// For interfaces whose packets may lie in several buffers (Linux 5.18).
SEC("xdp.frags")
int steer_frags(struct xdp_md *ctx)
{
	return decide(ctx, 1, 0);
}

// The same two for interfaces whose VLAN tags may travel beside the frames: bound to one interface, and
// only in its driver.
SEC("xdp")
int steer_beside(struct xdp_md *ctx)
{
	return decide(ctx, 0, 1);
}

SEC("xdp.frags")
int steer_beside_frags(struct xdp_md *ctx)
{
	return decide(ctx, 1, 1);
}

#include "forward.h"
#include "driver.h"

// Run on packets that the router hands to the kernel.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

// The flow hash of a packet, for the test that compares it with ebb-wire.
SEC("xdp")
int hash_of(struct xdp_md *ctx)
{
	__u32 hash = 0;

	route((void *)(long)ctx->data, (void *)(long)ctx->data_end, &hash, 1);
	return hash;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
