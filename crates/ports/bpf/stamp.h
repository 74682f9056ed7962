// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What stands before some frames: their time of arrival, or that the router has handed them back.

#pragma once

#include "state.h"

// "Ebb-time": stands before a stamped packet. Its first byte has the group bit of a MAC address
// set, and no frame to a group address is ever redirected.
#define STAMP_MAGIC 0x656d69742d626245ULL

struct stamp {
	__u64 magic;
	__u64 time_ns;
};

// "Ebb-back": stands before a frame that the router hands to the kernel where this program is generic and so
// meets it again, as in src/afxdp/inject.rs. Its first byte, too, has the group bit set.
#define HANDED_BACK_MAGIC 0x6b6361622d626245ULL

struct handed_back {
	__u64 magic, unused;
};

// The time, when this CPU's next packet is to carry it. The clock is read at every sixteenth
// packet and whenever the jiffy has changed.
INLINE __u64 stamp_due(struct cpu_state *cpu)
{
	__u64 jiffies = jiffies64();
	__u64 now;

	if (!stamp_interval_ns)
		return ktime_ns();
	if (LIKELY(jiffies == cpu->jiffies && (++cpu->count & 15)))
		return 0;
	cpu->jiffies = jiffies;
	now = ktime_ns();
	if (now - cpu->stamped_ns < stamp_interval_ns)
		return 0;
	cpu->stamped_ns = now;
	return now;
}

INLINE int put_stamp(struct xdp_md *ctx, __u64 now)
{
	struct stamp *stamp;

	if (adjust_head(ctx, -(int)sizeof(*stamp)))
		return 0;
	stamp = (void *)(long)ctx->data;
	// Cannot fail, but the verifier wants to see it; the packet would be spoilt.
	if ((void *)(stamp + 1) > (void *)(long)ctx->data_end)
		return 1;
	stamp->magic = STAMP_MAGIC;
	stamp->time_ns = now;
	return 1;
}

// Takes off what stands before a frame that the router has handed to the kernel.
INLINE int was_handed_back(struct xdp_md *ctx)
{
	const struct handed_back *mark = (void *)(long)ctx->data;

	if ((const void *)(mark + 1) > (void *)(long)ctx->data_end || mark->magic != HANDED_BACK_MAGIC)
		return 0;
	return !adjust_head(ctx, sizeof(*mark));
}
