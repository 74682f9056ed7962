// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The kernel path of one port on several CPUs (driver.h): by the redirect table of 128 entries a packet is forwarded
// where it is, or goes to another CPU (cpumap), whose program forwards it. An entry goes to another CPU as soon as
// none of its packets can be overtaken by it.

#include "state.h"

static __u32 (*this_cpu)(void) = (void *)BPF_FUNC_get_smp_processor_id;

// Lane 0: the CPU that has received the packet.
#define HERE 0
// Packets that follow on a lane until one is sent for sure: neither drivers (NAPI_POLL_WEIGHT) nor the kernel's cpumap take
// more in a round before they send what they have.
#define ROUND 64
// How long that takes where none follow.
#define QUIET_NS 1000000ULL
// "Ebb-lane": stands before a frame on its way to another CPU.
#define LANE_MAGIC 0x656e616c2d626245ULL

struct way {
	__u64 magic;
	// The lane's number among those of all queues.
	__u64 lane;
};

INLINE struct flight *lane_of(__u32 queue, __u32 lane)
{
	__u32 key = queue * LANES + lane;

	return map_lookup(&lanes, &key);
}

// Whether the packets that an entry has sent by a lane have left.
INLINE int has_left(struct lane_entry *entry, const struct flight *lane)
{
	__u64 done = entry->at == HERE ? lane->given : *(volatile __u64 *)&lane->done;
	__s64 behind = done - entry->last;
	__u64 now, since;

	if (behind >= ROUND)
		return 1;
	now = ktime_ns();
	since = entry->at == HERE ? entry->looked_ns : lane->emptied_ns;
	entry->looked_ns = now;
	return done == lane->given && since && now - since >= QUIET_NS;
}

// Packets that are on their way to another CPU.
INLINE __u64 under_way(const struct flight *lane)
{
	return lane->given - *(volatile __u64 *)&lane->done;
}

// What becomes of a packet that is to be forwarded on one of several CPUs; 0: it is forwarded here.
INLINE int to_lane(struct xdp_md *ctx, __u32 hash)
{
	__u32 index = hash & (TABLE_LEN - 1), queue = ctx->rx_queue_index;
	__u32 key = queue * TABLE_LEN + index, at, wanted;
	struct lane_entry *entry = map_lookup(&lane_entries, &key);
	struct flight *lane;
	struct way *way;
	__u64 room;

	if (!entry)
		return 0;
	wanted = *(volatile __u8 *)&spread.lane[index] & (LANES - 1);
	if (wanted != HERE && spread.cpu[wanted] == this_cpu())
		wanted = HERE;
	at = entry->at & (LANES - 1);
	lane = lane_of(queue, at);
	if (!lane)
		return 0;
	room = spread.room;
	if (UNLIKELY(at != wanted)) {
		if (has_left(entry, lane)) {
			entry->at = at = wanted;
			entry->looked_ns = 0;
			lane = lane_of(queue, at);
			if (!lane)
				return 0;
		} else if (at != HERE) {
			// It would never leave a lane that is full.
			room -= room >> 2;
		}
	}
	if (at == HERE) {
		entry->last = ++lane->given;
		return 0;
	}
	if (UNLIKELY(under_way(lane) >= room)) {
		lane->lost++;
		return XDP_DROP;
	}
	// Fails for all packets of a port or for none: a driver has room before its frames or not, a CPU is there or not.
	if (adjust_head(ctx, -(int)sizeof(*way)))
		return 0;
	way = (void *)(long)ctx->data;
	if ((void *)(way + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	way->magic = LANE_MAGIC;
	way->lane = queue * LANES + at;
	if (LIKELY(redirect_map(&cpus, spread.cpu[at], XDP_PASS) == XDP_REDIRECT)) {
		entry->last = ++lane->given;
		return XDP_REDIRECT;
	}
	adjust_head(ctx, sizeof(*way));
	return 0;
}

// Takes off what stands before a frame that has come to this CPU, and counts it as done; 0: there is none.
INLINE int arrives(struct xdp_md *ctx)
{
	struct way *way = (void *)(long)ctx->data;
	struct flight *lane;
	__u32 key;

	if ((void *)(way + 1) > (void *)(long)ctx->data_end || way->magic != LANE_MAGIC)
		return 0;
	key = way->lane;
	lane = map_lookup(&lanes, &key);
	if (lane) {
		// Until it is done with, the packet may be overtaken by none.
		if (lane->given == lane->done + 1)
			*(volatile __u64 *)&lane->emptied_ns = ktime_ns();
		*(volatile __u64 *)&lane->done = lane->done + 1;
	}
	return !adjust_head(ctx, sizeof(*way));
}
