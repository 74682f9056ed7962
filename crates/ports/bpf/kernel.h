// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What connections.h reads of the kernel's own memory: members by name, whose places the loader enters from the
// types of the running kernel (CO-RE), and functions of the kernel, whose numbers it enters
// (src/afxdp/connections.rs). Only what is used of a structure is declared.

#pragma once

#include "helpers.h"

// No helpers have these numbers.
#define CT_LOOKUP 0x45424211
#define CT_RELEASE 0x45424212
#define CT_CHANGE_TIMEOUT 0x45424213
#define CAST_TO_KERNEL 0x45424214

// `struct bpf_sock_tuple` of either family.
struct ct_tuple4 {
	__u32 source, destination;
	__u16 ports[2];
};

struct ct_tuple6 {
	__u32 source[4], destination[4];
	__u16 ports[2];
};

// `struct bpf_ct_opts` as every kernel takes it.
struct ct_options {
	__s32 namespace, error;
	__u8 protocol, direction, reserved[2];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

union nf_inet_addr {
	__u32 ip;
	__u32 ip6[4];
};

union nf_conntrack_man_proto {
	__u16 all;
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__u16 all;
		} u;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct ip_ct_tcp {
	__u8 state;
};

union nf_conntrack_proto {
	struct ip_ct_tcp tcp;
};

struct nf_ct_ext {
	__u8 offset[16];
};

enum nf_ct_ext_id {
	NF_CT_EXT_NAT = 1,
	NF_CT_EXT_ACCT = 3,
	NF_CT_EXT_TIMEOUT = 6,
};

struct nf_conn_nat {
	int masq_index;
};

struct nf_tcp_net {
	__u32 timeouts[14];
	__u8 tcp_be_liberal;
};

struct nf_udp_net {
	__u32 timeouts[2];
};

struct nf_ip_net {
	struct nf_udp_net udp;
	struct nf_tcp_net tcp;
};

struct netns_ct {
	__u8 sysctl_acct, sysctl_checksum;
	struct nf_ip_net nf_ct_proto;
};

struct net {
	struct netns_ct ct;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct nf_conn {
	__u32 timeout;
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
	possible_net_t ct_net;
	__u32 mark;
	struct nf_ct_ext *ext;
	union nf_conntrack_proto proto;
};

struct sk_buff {
	__u8 ip_summed : 2;
};

#pragma clang attribute pop

// `ip_summed`: nobody has looked; checked; the sum over everything is there; the checksum is not finished yet.
#define SUM_CHECKED 1
#define SUM_UNFINISHED 3

static struct nf_conn *(*ct_lookup)(struct __sk_buff *skb, void *tuple, __u32 tuple_length,
				    struct ct_options *options, __u32 options_length) = (void *)CT_LOOKUP;
static void (*ct_release)(struct nf_conn *connection) = (void *)CT_RELEASE;
static int (*ct_change_timeout)(struct nf_conn *connection, __u32 timeout_ms) = (void *)CT_CHANGE_TIMEOUT;
static struct sk_buff *(*cast_to_kernel)(struct __sk_buff *skb) = (void *)CAST_TO_KERNEL;
static long (*read_kernel)(void *to, __u32 length, const void *from) = (void *)BPF_FUNC_probe_read_kernel;

// Whether the kernel casts (Linux 6.2): set by the loader.
const volatile __u32 casts = 1;

// What `ip_summed` says of a packet.
INLINE __u32 checksum_of(struct __sk_buff *skb)
{
	const struct sk_buff *whole;
	__u32 at = __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, 0);
	__u32 length = __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, 1);
	__u64 bits = 0;

	if (!casts) {
		// The context is the kernel's own packet, whatever the verifier makes of its members.
		if (length > sizeof(bits) || read_kernel(&bits, length, (const char *)skb + at))
			return 0;
	} else {
		whole = cast_to_kernel(skb);
		// The member's own unit of storage, whatever its length.
		if (length == 1)
			bits = *((const __u8 *)whole + at);
		else if (length == 2)
			bits = *(const __u16 *)((const char *)whole + at);
		else if (length == 4)
			bits = *(const __u32 *)((const char *)whole + at);
	}
	bits <<= __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, 4);
	return bits >> __builtin_preserve_field_info(((struct sk_buff *)0)->ip_summed, 5);
}
