// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Packets of connections that the kernel's packet filters have accepted and would accept whatever the packet holds
// (daemons/routerd/src/policy/accepted.rs proves it, or the user says it by a connection mark): looked up in the kernel's own
// table of connections, with its own translation of addresses. What the kernel would do to such a packet on the
// way is done here: the translation, and the time until the connection is forgotten. Whatever could change more of a
// connection than that, or would be judged otherwise, is the network stack's: first packets, SYN, FIN, RST,
// ICMP, fragments, options, bad checksums, helpers, adjusted sequence numbers, accounts, and connections that nobody
// has answered.
//
// nf_conntrack_in, nf_conntrack_tcp_packet, nf_conntrack_udp_packet and nf_nat_inet_fn of Linux 6.18 are the
// source of each condition.

#pragma once

#include "kernel.h"
#include "route.h"

// In `policies.connections`, of IPv4 in the low half and of IPv6 in the high one: packets only as a connection's;
// only as one's with the mark.
#define CONNECTIONS_ONLY 1
#define CONNECTIONS_MARKED 2

// IPS_SEEN_REPLY, _ASSURED, _CONFIRMED; and what else may be: _SRC_NAT, _DST_NAT, and that both are settled.
#define STATUS_NEEDED 0x000eUL
#define STATUS_ALLOWED 0x01beUL
#define STATUS_TRANSLATED 0x0030UL
#define STATUS_SOURCE_TRANSLATED 0x0010UL
#define TCP_ESTABLISHED 3
#define TCP_UNACKNOWLEDGED 13
// The user's word in a connection mark that its packets need no rule any more: "Ebb".
#define CONNECTION_MARK 0x456262
#define UDP_REPLIED 1
// FIN, SYN, RST; ACK.
#define TCP_CHANGES 0x07
#define TCP_ACK 0x10

// Nanoseconds of the kernel's tick, set by the loader.
const volatile __u64 tick_ns = 4000000;

// What becomes of a packet's addresses, and by which interface a masqueraded connection leaves (0: any).
struct crossing {
	__u32 source[4], destination[4];
	__u16 ports[2];
	__u8 protocol, translated, unfinished;
	// It has the mark, and no rule is to be asked.
	__u8 marked;
	__s32 masqueraded;
};

struct udp {
	__u16 ports[2];
	__u16 length, checksum;
};

struct tcp_header {
	__u16 ports[2];
	__u32 numbers[2];
	__u8 length, flags;
	__u16 window, checksum, urgent;
};

// What of a packet decides whether it may cross.
struct question {
	__u8 protocol, how;
	// Rules are asked about those without the mark.
	__u8 ruled;
	// The checksum is known to be right, or there is none; a TCP packet carries data.
	__u8 sum_known, data;
};

// Whether nothing in a transport header keeps the packet from being one of an established connection's.
INLINE int is_ordinary(struct question *of, const void *transport, const void *end, __u32 length)
{
	const struct tcp_header *tcp = transport;
	const struct udp *udp = transport;
	__u32 header;

	if (of->protocol == 17) {
		if ((const void *)(udp + 1) > end || NET16(udp->length) < sizeof(*udp) ||
		    NET16(udp->length) > length)
			return 0;
		of->sum_known = udp->checksum == 0;
		return 1;
	}
	if (of->protocol != 6 || (const void *)(tcp + 1) > end)
		return 0;
	header = (tcp->length >> 4) * 4;
	of->data = header < length;
	return header >= sizeof(*tcp) && header <= length && !(tcp->flags & TCP_CHANGES) &&
	       (tcp->flags & TCP_ACK);
}

// The addresses and ports of one direction, from those that the other direction is expected to have.
INLINE void take(struct crossing *to, const struct nf_conntrack_tuple *other, int four)
{
	to->source[0] = other->dst.u3.ip6[0];
	to->destination[0] = other->src.u3.ip6[0];
	if (!four) {
		to->source[1] = other->dst.u3.ip6[1];
		to->source[2] = other->dst.u3.ip6[2];
		to->source[3] = other->dst.u3.ip6[3];
		to->destination[1] = other->src.u3.ip6[1];
		to->destination[2] = other->src.u3.ip6[2];
		to->destination[3] = other->src.u3.ip6[3];
	}
	to->ports[0] = other->dst.u.all;
	to->ports[1] = other->src.u.all;
}

#define EXTENSION(ext, which) \
	((ext)->offset[__builtin_preserve_enum_value(*(enum nf_ct_ext_id *)which, 1) & 15])

// Whether a connection has what only the network stack can serve: an account, a time of its own.
INLINE int has_more(const struct nf_ct_ext *ext)
{
	if (EXTENSION(ext, NF_CT_EXT_ACCT))
		return 1;
	return __builtin_preserve_enum_value(*(enum nf_ct_ext_id *)NF_CT_EXT_TIMEOUT, 0) &&
	       EXTENSION(ext, NF_CT_EXT_TIMEOUT);
}

// Whether the connection is one whose packets may be forwarded without asking the network stack, and what
// becomes of this one. `ticks`: until the connection is forgotten unless more comes.
INLINE int may_cross(const struct nf_conn *connection, const struct question *of, int reply,
		     struct crossing *to, int four, __u64 *ticks)
{
	const struct net *net = connection->ct_net.net;
	__u64 status = connection->status;
	const struct nf_ct_ext *ext = connection->ext;
	__u32 last;

	if ((status & STATUS_NEEDED) != STATUS_NEEDED || (status & ~STATUS_ALLOWED))
		return 0;
	to->marked = of->how == CONNECTIONS_MARKED && connection->mark == CONNECTION_MARK;
	if (of->how == CONNECTIONS_MARKED && !to->marked && !of->ruled)
		return 0;
	if (!of->sum_known && !to->unfinished && net->ct.sysctl_checksum)
		return 0;
	if (of->protocol == 6) {
		if (connection->proto.tcp.state != TCP_ESTABLISHED)
			return 0;
		*ticks = net->ct.nf_ct_proto.tcp.timeouts[TCP_ESTABLISHED];
		last = net->ct.nf_ct_proto.tcp.timeouts[TCP_UNACKNOWLEDGED];
		if (of->data && last < *ticks)
			*ticks = last;
	} else {
		*ticks = net->ct.nf_ct_proto.udp.timeouts[UDP_REPLIED];
	}
	if (ext && has_more(ext))
		return 0;
	if (ext && (status & STATUS_SOURCE_TRANSLATED) && !reply && EXTENSION(ext, NF_CT_EXT_NAT)) {
		__u32 at = EXTENSION(ext, NF_CT_EXT_NAT) +
			   __builtin_preserve_field_info(((struct nf_conn_nat *)0)->masq_index, 0);

		// A kernel whose module for translation came later than the program, or that has no masquerade.
		if (!__builtin_preserve_field_info(((struct nf_conn_nat *)0)->masq_index, 2) ||
		    read_kernel(&to->masqueraded, sizeof(to->masqueraded), (const char *)ext + at))
			return 0;
	}
	to->translated = (status & STATUS_TRANSLATED) != 0;
	if (reply)
		take(to, &connection->tuplehash[0].tuple, four);
	else
		take(to, &connection->tuplehash[1].tuple, four);
	return 1;
}

// Whether the namespace is one whose connections can do without the stack: it keeps no account of their packets, and
// does not judge TCP by sequence numbers, of which it would see a part only.
INLINE int can_do_without(const struct net *net, __u8 protocol)
{
	return !net->ct.sysctl_acct &&
	       (protocol != 6 || net->ct.nf_ct_proto.tcp.tcp_be_liberal);
}

INLINE int crosses(struct __sk_buff *skb, const struct ethernet *eth, const void *end, int four,
		   int how, int ruled, struct crossing *to, int only_asked)
{
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);
	struct ct_options options = { .namespace = -1 };
	struct question of = { .how = how, .ruled = ruled };
	struct nf_conn *connection;
	__u64 ticks = 0, timeout_ms;
	int may;

	to->masqueraded = 0;
	if (four) {
		struct ct_tuple4 tuple;
		const void *transport = v4 + 1;

		if (transport > end || v4->version_length != 0x45 || v4->fragment & NET16(0x3fff))
			return 0;
		of.protocol = v4->protocol;
		if (!is_ordinary(&of, transport, end, NET16(v4->total_length) - sizeof(*v4)))
			return 0;
		tuple.source = v4->source;
		tuple.destination = v4->destination;
		*(__u32 *)tuple.ports = LOAD32(transport);
		options.protocol = of.protocol;
		to->unfinished = checksum_of(skb);
		connection = ct_lookup(skb, &tuple, sizeof(tuple), &options, sizeof(options));
	} else {
		struct ct_tuple6 tuple;
		const void *transport = v6 + 1;

		if (transport > end)
			return 0;
		of.protocol = v6->next_header;
		if (!is_ordinary(&of, transport, end, NET16(v6->payload_length)))
			return 0;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			tuple.source[i] = LOAD32(v6->source + 2 * i);
			tuple.destination[i] = LOAD32(v6->destination + 2 * i);
		}
		*(__u32 *)tuple.ports = LOAD32(transport);
		options.protocol = of.protocol;
		to->unfinished = checksum_of(skb);
		connection = ct_lookup(skb, &tuple, sizeof(tuple), &options, sizeof(options));
	}
	if (!connection)
		return 0;
	// Who only asks does not say what is known of the checksum.
	of.sum_known |= to->unfinished == SUM_CHECKED || only_asked;
	to->unfinished = to->unfinished == SUM_UNFINISHED;
	to->protocol = of.protocol;
	may = can_do_without(connection->ct_net.net, of.protocol) &&
	      may_cross(connection, &of, options.direction != 0, to, four, &ticks);
	timeout_ms = ticks * tick_ns / 1000000;
	if (may)
		may = timeout_ms <= 0x7fffffff &&
		      (only_asked || !ct_change_timeout(connection, timeout_ms));
	ct_release(connection);
	return may;
}

INLINE __u32 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// The change of a sum when `from` becomes `to` (RFC 1624).
INLINE __u32 change(__u32 from, __u32 to)
{
	from = ~from;
	return (from & 0xffff) + (from >> 16) + (to & 0xffff) + (to >> 16);
}

// Enters other ports, and into the checksum what the addresses' change makes of it.
INLINE void translate_transport(void *transport, __u16 *checksum, const struct crossing *to,
				__u32 addresses)
{
	__u32 ports = LOAD32(to->ports), all = fold(addresses) + change(LOAD32(transport), ports);
	__u16 sum = *checksum;

	*(__u32 *)transport = ports;
	// What is not finished yet has the addresses only in it.
	if (to->unfinished)
		sum = fold(sum + fold(addresses));
	else if (to->protocol == 6 || sum)
		sum = ~fold((__u16)~sum + fold(all));
	else
		return;
	if (to->protocol == 17 && !sum)
		sum = 0xffff;
	*checksum = sum;
}

// What the kernel's routing is asked for: it is between the two halves of a translation.
INLINE void ask_for(struct bpf_fib_lookup *fib, const struct crossing *to, int four)
{
	if (four)
		fib->ipv4_dst = to->destination[0];
	else
		__builtin_memcpy(fib->ipv6_dst, to->destination, 16);
	fib->dport = to->ports[1];
}

// Where a packet has its transport checksum; nothing where its beginning does not reach that far.
INLINE __u16 *checksum_in(void *transport, const void *end, const struct crossing *to)
{
	// The compiler is kept from comparing both lengths at once: the verifier would not know which was.
	if (to->protocol == 6) {
		struct tcp_header *tcp = transport;

		asm volatile("" : "+r"(tcp));
		return (const void *)(tcp + 1) > end ? 0 : &tcp->checksum;
	} else {
		struct udp *udp = transport;

		asm volatile("" : "+r"(udp));
		return (const void *)(udp + 1) > end ? 0 : &udp->checksum;
	}
}

INLINE int translate4(struct ipv4 *ip, const void *end, const struct crossing *to)
{
	__u16 *checksum = checksum_in(ip + 1, end, to);
	__u32 addresses;

	if (!checksum)
		return 0;
	addresses = change(ip->source, to->source[0]) +
		    change(ip->destination, to->destination[0]);
	ip->source = to->source[0];
	ip->destination = to->destination[0];
	ip->checksum = ~fold((__u16)~ip->checksum + fold(addresses));
	translate_transport(ip + 1, checksum, to, addresses);
	return 1;
}

INLINE int translate6(struct ipv6 *ip, const void *end, const struct crossing *to)
{
	__u16 *checksum = checksum_in(ip + 1, end, to);
	__u32 addresses = 0;

	if (!checksum)
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		__u32 *source = (__u32 *)(ip->source + 2 * i);
		__u32 *destination = (__u32 *)(ip->destination + 2 * i);

		addresses += change(*source, to->source[i]) + change(*destination, to->destination[i]);
		*source = to->source[i];
		*destination = to->destination[i];
	}
	translate_transport(ip + 1, checksum, to, addresses);
	return 1;
}
