// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Headers of packets, and the flow hash over them: the one of `ebb_wire::redirect_hash`, a test compares the two.

#pragma once

#include "helpers.h"

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__u16 type;
};

struct ipv4 {
	__u8 version_length;
	__u8 traffic_class;
	__u16 total_length;
	__u16 identification;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
};

struct ipv6 {
	__u32 version_class_flow;
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u16 source[8];
	__u16 destination[8];
};

#define K1 0x9e3779b97f4a7c15ULL
#define K2 0xc2b2ae3d27d4eb4fULL
#define K3 0xff51afd7ed558ccdULL
#define K4 0xc4ceb9fe1a85ec53ULL

INLINE __u32 finish(__u64 mixed, __u32 ports, __u8 protocol)
{
	__u64 hash = mixed ^ ((__u64)ports << 8 | protocol) * K2;

	hash ^= hash >> 33;
	hash *= K3;
	hash ^= hash >> 33;
	hash *= K4;
	return hash >> 32;
}

INLINE int has_ports(__u8 protocol)
{
	return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 ||
	       protocol == 136;
}
