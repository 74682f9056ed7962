// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Whether a frame is for the router's workers: its MAC address, its VLAN tags, its IP header and what policy.h
// says of it.

#pragma once

#include "policy.h"

INLINE int for_this_interface(const struct ethernet *eth)
{
	__u64 mac = LOAD32(eth->destination) |
		    (__u64) * (const __u16 *)(eth->destination + 4) << 32;

	if (LIKELY(own_macs.mac[0] == mac))
		return own_macs.count != 0;
	if (own_macs.count == MACS_EVERY)
		return !(eth->destination[0] & 1);
#pragma unroll
	for (int i = 1; i < MACS_MAX; i++) {
		if (i >= own_macs.count)
			return 0;
		if (own_macs.mac[i] == mac)
			return 1;
	}
	return 0;
}

// Whether an IPv4 packet is for the router's workers, and its flow hash. `to`: its destination where that is another
// than it says, for one of a connection that was found.
INLINE int route4(const struct ipv4 *ip, const void *end, __u32 vlan, __u32 *hash, int hashed,
		  const __u32 *to)
{
	const void *transport = ip + 1;
	__u32 destination;
	int way;
	__u32 ports = 0;

	if (UNLIKELY(transport > end || (ip->version_length & 0xf0) != 0x40))
		return 0;
	if (UNLIKELY(ip->version_length != 0x45 && !ip_options))
		return 0;
	destination = to ? *to : ip->destination;
	if (UNLIKELY((destination & 0xf0) == 0xe0 || destination == 0xffffffff))
		return 0;
	// Own networks are the kernel's to judge, from where as to where (`ip_route_input_slow`,
	// `fib_validate_source`): route_localnet and accept_local allow what is otherwise forged or has
	// come back.
	if (UNLIKELY((destination & 0xff) == 127 || (ip->source & 0xff) == 127))
		return 0;
	if (UNLIKELY(is_local4(destination) || is_local4(ip->source)))
		return 0;
	way = policy4(ip, destination, vlan, to != 0);
	if (!hashed || UNLIKELY(way != FOR_WORKER))
		return way;
	if (has_ports(ip->protocol) && ip->version_length == 0x45 && !(ip->fragment & NET16(0x3fff)) &&
	    transport + 4 <= end)
		ports = LOAD32(transport);
	*hash = finish(LOAD64(&ip->source) * K1, ports, ip->protocol);
	return way;
}

INLINE int is_link_local(const __u16 *address)
{
	return (address[0] & NET16(0xffc0)) == NET16(0xfe80);
}

// The same for IPv6.
INLINE int route6(const struct ipv6 *ip, const void *end, __u32 vlan, __u32 *hash, int hashed,
		  const __u32 *to)
{
	const __u16 *to_address = to ? (const __u16 *)to : ip->destination;
	const void *transport = ip + 1;
	int way;
	struct address6 destination;
	__u64 mixed = 0;
	__u32 ports = 0;

	if (transport > end || (ip->version_class_flow & 0xf0) != 0x60)
		return 0;
	if (ip->next_header == 0 && !ip_options)
		return 0;
	if ((to_address[0] & 0xff) == 0xff || is_link_local(to_address) ||
	    is_link_local(ip->source))
		return 0;
	if (ip->next_header == 58) {
		const __u8 *type = transport;

		// Neighbour discovery, RFC 4861 section 4.
		if (type + 1 > (const __u8 *)end || (*type >= 133 && *type <= 137))
			return 0;
	}
	destination.high = LOAD64(to_address);
	destination.low = LOAD64(to_address + 4);
	if (is_local6(&destination))
		return 0;
	way = policy6(ip, to_address, vlan, to != 0);
	if (!hashed || way != FOR_WORKER)
		return way;
	if (has_ports(ip->next_header) && transport + 4 <= end)
		ports = LOAD32(transport);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		mixed = (mixed ^ LOAD64(ip->source + 4 * i)) * K1;
		mixed ^= mixed >> 32;
	}
	*hash = finish(mixed, ports, ip->next_header);
	return way;
}

INLINE int is_served(__u32 vlan)
{
	__u32 word = vlan >> 6;

	// The compiler knows the bound, and Linux 6.1 forgets it where bytes were swapped.
	asm volatile("" : "+r"(word));
	return vlans.served[word & (VLANS / 64 - 1)] >> (vlan & 63) & 1;
}

// `vlan`: that of the interface where the packet is, 0 for none.
INLINE int route_to(const void *data, const void *end, __u32 *hash, int hashed, const __u32 *to,
		    __u32 vlan)
{
	const struct ethernet *eth = data;
	const __u16 *type = &eth->type;

	if (UNLIKELY((const void *)(eth + 1) > end || !for_this_interface(eth)))
		return 0;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (LIKELY(*type != NET16(0x8100) && *type != NET16(0x88a8)))
			break;
		type += 2;
		if ((const void *)(type + 1) > end)
			return 0;
		// The outer tag decides which interface the kernel would see: frames of a VLAN that is
		// none of the router's are nobody's, or somebody's who is not seen from here. Those with
		// service tags or two tags are the kernel's as well.
		if (i == 0)
			vlan = NET16(type[-1]) & (VLANS - 1);
		if (!vlans.every && (i == 1 || type[-2] != NET16(0x8100) || !is_served(vlan)))
			return 0;
	}
	if (LIKELY(*type == NET16(0x0800)))
		return route4((const void *)(type + 1), end, vlan, hash, hashed, to);
	if (*type == NET16(0x86dd))
		return route6((const void *)(type + 1), end, vlan, hash, hashed, to);
	return 0;
}

INLINE int route(const void *data, const void *end, __u32 *hash, int hashed)
{
	return route_to(data, end, hash, hashed, 0, 0);
}
