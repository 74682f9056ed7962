// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the kernel's own policy concerns of what workers could forward: by VLAN, source, destination and route
// (src/afxdp/policy.rs); and whose addresses are local.

#pragma once

#include "announced.h"
#include "packet.h"
#include "state.h"

// What `route` says; above FOR_WORKER: for the kernel, for this reason.
#define FOR_KERNEL 0
#define FOR_WORKER 0x100
// Of `policies.sides`, those that are not of routes.
#define SIDES_OF_POLICY 0x0f

// Keys of maps are written to the stack by eights: Linux 6.1 refuses to store less where the compiler has
// kept a pointer before, unless with CAP_PERFMON.

INLINE int is_local4(__u32 address)
{
	__u32 bit = (address * 0x9e3779b1U) >> 20;
	__u64 key = address;

	if (LIKELY(!(local_filter.v4[bit >> 6 & (FILTER_WORDS - 1)] >> (bit & 63) & 1)))
		return 0;
	return map_lookup(&local4, &key) != 0;
}

INLINE int is_local6(const struct address6 *address)
{
	__u64 bit = ((address->high ^ address->low) * K1) >> 52;

	if (LIKELY(!(local_filter.v6[bit >> 6 & (FILTER_WORDS - 1)] >> (bit & 63) & 1)))
		return 0;
	return map_lookup(&local6, address) != 0;
}

INLINE int reason_of(__u32 side, __u32 a, __u32 b, __u32 c, __u32 d)
{
	// A `side_prefix` by eights.
	__u64 length = side < SOURCE6 || side == ROUTE4 ? 64 : 160;
	__u64 key[3] = { length | (__u64)side << 32, a | (__u64)b << 32, c | (__u64)d << 32 };
	__u8 *reason = map_lookup(&policy_prefixes, (struct side_prefix *)key);

	return reason ? *reason : 0;
}

// The reason by VLAN: IPv4 in the low byte, IPv6 in the next.
INLINE int reasons_of_vlan(__u32 vlan)
{
	__u64 key = vlan;
	struct vlan_policy *of = map_lookup(&policy_vlans, &key);

	return of ? of->v4 | of->v6 << 8 : 0;
}

// `found`: the packet is one of a connection that was found.
INLINE int policy4(const struct ipv4 *ip, __u32 destination, __u32 vlan, int found)
{
	int reason;

	if (UNLIKELY(!is_judged()))
		return FOR_WORKER + announced.unheld;
	if (LIKELY(!policies.any))
		return FOR_WORKER;
	reason = policies.all4;
	if (!reason && !found && (policies.connections & 3 || policies.rules4))
		reason = policies.connections >> 4;
	if (!reason && policies.vlans)
		reason = reasons_of_vlan(vlan) & 0xff;
	if (!reason && policies.sides & 1 << SOURCE4)
		reason = reason_of(SOURCE4, ip->source, 0, 0, 0);
	if (!reason && policies.sides & 1 << DESTINATION4)
		reason = reason_of(DESTINATION4, destination, 0, 0, 0);
	if (!reason && policies.sides & 1 << ROUTE4 && reason_of(ROUTE4, destination, 0, 0, 0))
		return FOR_KERNEL;
	return FOR_WORKER + reason;
}

INLINE int policy6(const struct ipv6 *ip, const __u16 *destination, __u32 vlan, int found)
{
	const __u16 *a = ip->source;
	int reason;

	if (UNLIKELY(!is_judged()))
		return FOR_WORKER + announced.unheld;
	if (LIKELY(!policies.any))
		return FOR_WORKER;
	reason = policies.all6;
	if (!reason && !found && (policies.connections & 12 || policies.rules6))
		reason = policies.connections >> 4;
	if (!reason && policies.vlans)
		reason = reasons_of_vlan(vlan) >> 8;
	if (!reason && policies.sides & 1 << SOURCE6)
		reason = reason_of(SOURCE6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4), LOAD32(a + 6));
	a = destination;
	if (!reason && policies.sides & 1 << DESTINATION6)
		reason = reason_of(DESTINATION6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4),
				   LOAD32(a + 6));
	if (!reason && policies.sides & 1 << ROUTE6 &&
	    reason_of(ROUTE6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4), LOAD32(a + 6)))
		return FOR_KERNEL;
	return FOR_WORKER + reason;
}
