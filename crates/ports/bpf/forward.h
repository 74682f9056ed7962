// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The kernel path: forwards a packet where it already is, before the network stack looks at it. Included by
// steer.c, whose maps and whose decision what is the kernel's it shares. `forward` runs in the hook of traffic control
// (tcx, Linux 6.6), so that packets keep what travels beside them: super-frames of 64 KB, checksums that a sender has
// left to hardware. `forward_in_driver` (driver.h) does the same in a card's driver.
//
// The way out is the kernel's own answer (bpf_fib_lookup): its rules, routes, next hops and neighbours, at the
// moment of the packet. Whatever is not plain forwarding goes on to the stack untouched (TCX_NEXT), which answers
// as its operator configured it: time run out, too long, no neighbour, no route, back out by where it came in, an
// odd source, a damaged or padded header.

#include "rules.h"

static long (*fib_lookup)(void *ctx, struct bpf_fib_lookup *fib, int length,
			  __u32 flags) = (void *)BPF_FUNC_fib_lookup;
static long (*change_tail)(void *ctx, __u32 length, __u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*send_to)(__u32 index, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*send_to_peer)(__u32 index, __u64 flags) = (void *)BPF_FUNC_redirect_peer;

// The next program of the hook, then the stack (TC_ACT_UNSPEC of older headers).
#define TCX_NEXT -1

// In `near_exits` and `exits`: through the interface, with its queueing discipline; or straight into what its peer in
// another namespace receives.
#define EXIT_DEVICE 1
#define EXIT_PEER 2

// One packet of so many is timed; as in src/afxdp/program.rs.
#define SAMPLED 256

#define FAMILY4 2
#define FAMILY6 10
// `pkt_type` of frames to the interface's own address.
#define TO_THIS_HOST 0
#define FLOW_INFO NET32(0x0fffffff)

// Why a packet is the network stack's, as `explain` tells it: numbers as in src/afxdp/explain.rs. To
// WHY_POLICY the reason is added, to WHY_FIB what the look-up answered.
enum why {
	WHY_FORWARDED = 0,
	WHY_TAG = 1,
	WHY_NOT_HERE = 2,
	WHY_NOT_PLAIN = 3,
	WHY_LENGTH = 4,
	WHY_HEADER = 5,
	WHY_BACK = 6,
	WHY_SOURCE = 7,
	WHY_EXIT = 8,
	WHY_CONNECTION = 9,
	WHY_OTHER_EXIT = 10,
	WHY_TRANSLATION = 11,
	WHY_RULES = 12,
	WHY_POLICY = 32,
	WHY_FIB = 64,
};

// What is told of a packet that is only asked about; nothing (0) of one that is to be forwarded.
struct told {
	__u32 why, exit;
};

struct tcp {
	__u16 ports[2];
	__u32 numbers[2];
	__u8 length;
};

// The length of the packets that the packet stands for, link header left out: those of a super-frame are shorter.
// 0: it cannot be told.
INLINE __u32 length_of(__u32 gso_size, __u8 protocol, const void *transport, const void *end,
		       __u32 whole, __u32 header)
{
	const struct tcp *tcp = transport;

	if (LIKELY(gso_size == 0))
		return whole;
	if (protocol == 17)
		return header + 8 + gso_size;
	if (protocol != 6 || (const void *)(tcp + 1) > end)
		return 0;
	return header + ((__u32)(tcp->length >> 4) << 2) + gso_size;
}

#include "account.h"

// Whether an ICMP packet is an error (RFC 1122 section 3.2.2), which the network stack sends the way of what it is
// about where there are several.
INLINE int is_error4(__u8 type)
{
	return (type >= 3 && type <= 5) || type == 11 || type == 12;
}

// The same by RFC 4443 section 2.1.
INLINE int is_error6(__u8 type)
{
	return type < 128;
}

// The length of a frame without what its driver or a switch has filled it up with; 0: it cannot be told.
INLINE __u32 unpadded(const struct ethernet *eth, const void *end, int four)
{
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);

	if (four)
		return (const void *)(v4 + 1) > end ? 0 : sizeof(*eth) + NET16(v4->total_length);
	return (const void *)(v6 + 1) > end ? 0 : sizeof(*eth) + sizeof(*v6) + NET16(v6->payload_length);
}

// Whether the kernel takes a source for nobody's (RFC 1812 section 5.3.7), or it is the router's own.
INLINE int odd_source4(__u32 source)
{
	__u8 first = source;

	return first == 0 || first == 127 || first >= 224 || is_local4(source);
}

INLINE int odd6(const __u16 *address)
{
	__u8 first = address[0];

	// What is embedded, the host's own, and groups.
	return first == 0 || first == 0xff;
}

// The sum over an IPv4 header without options: 0xffff where its checksum is right.
INLINE __u32 sum_of(const struct ipv4 *ip)
{
	const __u16 *words = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// Fills in what is asked of the kernel about a packet in a frame of so many bytes; 0: it is the network stack's.
INLINE int ask4(const struct ipv4 *ip, const void *end, __u32 frame, __u32 gso_size,
		struct bpf_fib_lookup *fib)
{
	const void *transport = ip + 1;
	__u32 length = NET16(ip->total_length);

	// `route` has seen that there is a header of 20 bytes.
	if (UNLIKELY(transport > end || ip->ttl <= 1 || odd_source4(ip->source)))
		return 0;
	if (UNLIKELY(length + sizeof(struct ethernet) != frame || sum_of(ip) != 0xffff))
		return 0;
	if (UNLIKELY(ip->protocol == 1) && (transport + 1 > end || is_error4(*(const __u8 *)transport)))
		return 0;
	fib->family = FAMILY4;
	fib->l4_protocol = ip->protocol;
	fib->tot_len = length_of(gso_size, ip->protocol, transport, end, length, sizeof(*ip));
	// The kernel's answer does not tell of an MTU that a route has unless it is locked.
	if (UNLIKELY(fib->tot_len == 0 || (policies.longest4 && fib->tot_len > policies.longest)))
		return 0;
	fib->tos = ip->traffic_class;
	fib->ipv4_src = ip->source;
	fib->ipv4_dst = ip->destination;
	if (has_ports(ip->protocol) && !(ip->fragment & NET16(0x3fff)) && transport + 4 <= end) {
		fib->sport = ((const __u16 *)transport)[0];
		fib->dport = ((const __u16 *)transport)[1];
	}
	return 1;
}

INLINE int ask6(const struct ipv6 *ip, const void *end, __u32 frame, __u32 gso_size,
		struct bpf_fib_lookup *fib)
{
	const void *transport = ip + 1;
	__u32 length = sizeof(*ip) + NET16(ip->payload_length);

	if (UNLIKELY(transport > end || ip->hop_limit <= 1 || odd6(ip->source) ||
		     odd6(ip->destination)))
		return 0;
	if (UNLIKELY(length + sizeof(struct ethernet) != frame))
		return 0;
	if (UNLIKELY(ip->next_header == 58) &&
	    (transport + 1 > end || is_error6(*(const __u8 *)transport)))
		return 0;
	fib->family = FAMILY6;
	fib->l4_protocol = ip->next_header;
	fib->tot_len = length_of(gso_size, ip->next_header, transport, end, length, sizeof(*ip));
	if (UNLIKELY(fib->tot_len == 0 || (policies.longest6 && fib->tot_len > policies.longest)))
		return 0;
	fib->flowinfo = ip->version_class_flow & FLOW_INFO;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		fib->ipv6_src[i] = LOAD32(ip->source + 2 * i);
		fib->ipv6_dst[i] = LOAD32(ip->destination + 2 * i);
	}
	if (has_ports(ip->next_header) && transport + 4 <= end) {
		fib->sport = ((const __u16 *)transport)[0];
		fib->dport = ((const __u16 *)transport)[1];
	}
	return 1;
}

// RFC 1624: the header's checksum after its time to live went down by one.
INLINE void age4(struct ipv4 *ip)
{
	__u32 sum = (__u32)ip->checksum + NET16(0x0100);

	ip->checksum = sum + (sum >= 0xffff);
	ip->ttl--;
}

// The kernel's reverse-path filter (RFC 3704, `fib_validate_source`), as far as a packet passes it: what does not,
// or not for sure, is left for the filter itself.
INLINE int passes_filter(void *ctx, const struct ipv4 *ip, __u32 destination, __u64 entrance, __u32 exit,
			 __u32 reverse_path)
{
	struct bpf_fib_lookup back = {
		.family = FAMILY4,
		.l4_protocol = ip->protocol,
		.tos = ip->traffic_class,
		.ipv4_src = destination,
		.ipv4_dst = ip->source,
		.ifindex = exit,
	};

	if (fib_lookup(ctx, &back, sizeof(back), BPF_FIB_LOOKUP_SKIP_NEIGH) !=
	    BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	return reverse_path == LOOSE || back.ifindex == entrance;
}

// Counts a packet that is the network stack's, or tells why it would be.
INLINE int leave(struct cpu_state *cpu, int way, struct told *told, __u32 why)
{
	if (told) {
		told->why = way > FOR_WORKER ? WHY_POLICY + (way & (REASONS - 1)) : why;
		return 0;
	}
	cpu->passed++;
	if (way > FOR_WORKER)
		cpu->passed_for[way & (REASONS - 1)]++;
	return 0;
}

// Whom the kernel says the packet of a frame is for, in `fib`, `to`: a connection's. Why it is the network stack's,
// WHY_FORWARDED: it is not.
INLINE int find_way(void *ctx, struct ethernet *eth, const void *end, __u64 frame, __u32 gso_size,
		    __u64 entrance, __u32 reverse_path, struct bpf_fib_lookup *fib,
		    const struct crossing *to)
{
	int four = eth->type == NET16(0x0800);
	__u32 destination;
	long answer;

	if (UNLIKELY(four ? !ask4((void *)(eth + 1), end, frame, gso_size, fib) :
			    !ask6((void *)(eth + 1), end, frame, gso_size, fib)))
		return WHY_HEADER;
	if (to)
		ask_for(fib, to, four);
	destination = fib->ipv4_dst;
	fib->ifindex = entrance;
	answer = fib_lookup(ctx, fib, sizeof(*fib), 0);
	if (UNLIKELY(answer != BPF_FIB_LKUP_RET_SUCCESS))
		return WHY_FIB + (answer & 15);
	if (UNLIKELY(fib->ifindex == entrance))
		return WHY_BACK;
	if (four && UNLIKELY(reverse_path) &&
	    !passes_filter(ctx, (void *)(eth + 1), destination, entrance, fib->ifindex, reverse_path))
		return WHY_SOURCE;
	return WHY_FORWARDED;
}

// Makes the frame what leaves.
INLINE void rewrite(struct ethernet *eth, const struct bpf_fib_lookup *fib)
{
	__builtin_memcpy(eth->destination, fib->dmac, 6);
	__builtin_memcpy(eth->source, fib->smac, 6);
	if (eth->type == NET16(0x0800))
		age4((void *)(eth + 1));
	else
		((struct ipv6 *)(eth + 1))->hop_limit--;
}

// How the packets of a family go as connections' only; 0: they need be none's, or are the kernel's anyway.
INLINE int only_connections(int four)
{
	if (LIKELY(!policies.connections) || (four ? policies.all4 : policies.all6))
		return 0;
	return policies.connections >> (four ? 0 : 2) & 3;
}

// Which decision is asked about packets of a family; 0: none, or they are the kernel's anyway.
INLINE int by_rules(int four)
{
	if (LIKELY(!(four ? policies.rules4 : policies.rules6)) || (four ? policies.all4 : policies.all6))
		return 0;
	return four ? policies.rules4 : policies.rules6;
}

// What the kernel makes of a type of service (`rt_tos2priority`): disciplines with bands go by it.
INLINE __u32 priority_of(__u8 traffic_class)
{
	return 0x4620 >> ((traffic_class >> 3 & 3) << 2) & 0xf;
}

// Whether a tag beside a packet is that of a VLAN interface of the router.
INLINE int is_for_vlan(const struct __sk_buff *skb)
{
	__u32 vlan = skb->vlan_tci & (VLANS - 1);

	return vlan && skb->vlan_proto == NET16(0x8100) && !vlans.every && is_served(vlan);
}

// How packets may leave by an interface; 0: they may not.
INLINE __u32 exit_by(__u32 index)
{
	__u64 key = index;
	__u8 *exit;

	if (LIKELY(index < NEAR)) {
		// The compiler knows the bound, and Linux 6.1 forgets it.
		asm volatile("" : "+r"(key));
		return near_exits[key & (NEAR - 1)];
	}
	exit = map_lookup(&exits, &key);
	return exit ? *exit : 0;
}

// The program's verdict, 0: the packet is the network stack's. `connected`: the functions of the kernel are to be had that
// know connections. `tagged`: it stands where a VLAN interface's packets enter the stack.
// `told`: nothing is done, it is told what would be.
INLINE int forward_or_leave(struct __sk_buff *skb, struct cpu_state *cpu, int connected, int tagged,
			    struct told *told)
{
	struct ethernet *eth = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;
	struct bpf_fib_lookup fib = {};
	struct crossing to;
	int four, way, straight, how = 0, ruled = 0;
	__u32 hash, length, exit, packets, vlan = 0, reverse_path = policies.reverse_path;

	if (tagged) {
		__u64 key = skb->ifindex;
		__u32 *known = map_lookup(&vlan_interfaces, &key);

		if (!known)
			return leave(cpu, FOR_KERNEL, told, WHY_TAG);
		vlan = *known & (VLANS - 1);
		reverse_path = *known >> VLAN_BITS;
	} else if (UNLIKELY(skb->vlan_present) && is_for_vlan(skb)) {
		// The stack takes the tag off, and `forward_tagged` sees the packet.
		return 0;
	}
	// A tag beside the packet is another VLAN's.
	if (UNLIKELY(skb->vlan_present || skb->pkt_type != TO_THIS_HOST ||
		     (const void *)(eth + 1) > end))
		return leave(cpu, FOR_KERNEL, told, skb->vlan_present ? WHY_TAG : WHY_NOT_HERE);
	four = eth->type == NET16(0x0800);
	if (connected) {
		if (!four && UNLIKELY(eth->type != NET16(0x86dd)))
			return leave(cpu, FOR_KERNEL, told, WHY_NOT_PLAIN);
		how = only_connections(four);
		ruled = by_rules(four);
		if (UNLIKELY(how || ruled)) {
			if (!(how ? crosses(skb, eth, end, four, how, ruled, &to, told != 0) :
				    as_it_says(eth, end, four, &to)) ||
			    (to.translated && policies.sides & SIDES_OF_POLICY)) {
				if (told)
					return leave(cpu, FOR_KERNEL, told, WHY_CONNECTION);
				return leave(cpu, FOR_WORKER + (policies.connections >> 4), told, 0);
			}
			way = route_to(eth, end, &hash, 0, to.destination, vlan);
		} else {
			way = route_to(eth, end, &hash, 0, 0, vlan);
		}
	} else {
		way = route_to(eth, end, &hash, 0, 0, vlan);
	}
	if (UNLIKELY(way != FOR_WORKER))
		return leave(cpu, way, told, WHY_NOT_PLAIN);
	if (!connected && !four && UNLIKELY(eth->type != NET16(0x86dd)))
		return leave(cpu, FOR_KERNEL, told, WHY_NOT_PLAIN);
	length = unpadded(eth, end, four);
	if (UNLIKELY(length < skb->len)) {
		if (!length || skb->gso_size || change_tail(skb, length, 0))
			return leave(cpu, FOR_KERNEL, told, WHY_LENGTH);
		eth = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		if ((const void *)(eth + 1) > end)
			return leave(cpu, FOR_KERNEL, told, WHY_LENGTH);
	}
	if (connected && UNLIKELY(how))
		way = find_way(skb, eth, end, skb->len, skb->gso_size, skb->ingress_ifindex, reverse_path,
			       &fib, &to);
	else
		way = find_way(skb, eth, end, skb->len, skb->gso_size, skb->ingress_ifindex, reverse_path,
			       &fib, 0);
	if (told)
		told->exit = fib.ifindex;
	if (UNLIKELY(way != WHY_FORWARDED))
		return leave(cpu, FOR_KERNEL, told, way);
	exit = exit_by(fib.ifindex);
	if (UNLIKELY(!exit))
		return leave(cpu, FOR_KERNEL, told, WHY_EXIT);
	if (connected && UNLIKELY(ruled) && !to.marked &&
	    !rules_accept(eth, end, four, ruled, &to, skb->ingress_ifindex, fib.ifindex)) {
		if (told)
			return leave(cpu, FOR_KERNEL, told, WHY_RULES);
		return leave(cpu, FOR_WORKER + (policies.connections >> 4), told, 0);
	}
	if (connected && UNLIKELY(how)) {
		// The stack forgets a connection that would leave by another interface (nf_nat_oif_changed).
		if (to.masqueraded && to.masqueraded != fib.ifindex) {
			if (told)
				return leave(cpu, FOR_KERNEL, told, WHY_OTHER_EXIT);
			return leave(cpu, FOR_WORKER + (policies.connections >> 4), told, 0);
		}
		if (to.translated && !(four ? translate4((void *)(eth + 1), end, &to) :
					      translate6((void *)(eth + 1), end, &to)))
			return leave(cpu, FOR_KERNEL, told, WHY_TRANSLATION);
	}
	rewrite(eth, &fib);
	if (told)
		return 0;
	packets = LIKELY(skb->gso_segs <= 1) ? 1 : skb->gso_segs;
	cpu->forwarded += packets;
	cpu->forwarded_bytes += skb->len;
	account(eth, end, four, skb->ingress_ifindex, fib.ifindex, packets,
		skb->len - sizeof(*eth) + (packets - 1) * header_of(skb->gso_size, eth, end, four));
	// What is left to the stack for its length waits in the interface's queue: nothing of its flow may overtake it.
	straight = exit == EXIT_PEER && !(four ? policies.longest4 : policies.longest6);
	if (straight)
		return send_to_peer(fib.ifindex, 0);
	if (four)
		skb->priority = priority_of(((struct ipv4 *)(eth + 1))->traffic_class);
	return send_to(fib.ifindex, 0);
}

// When a packet comes that is timed; 0: it is none of those.
INLINE __u64 timed(struct cpu_state *cpu)
{
	return LIKELY(cpu->seen++ & (SAMPLED - 1)) ? 0 : ktime_ns();
}

INLINE int forward_one(struct __sk_buff *skb, int connected, int tagged)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	__u64 since;
	int verdict;

	if (UNLIKELY(!cpu))
		return TCX_NEXT;
	since = timed(cpu);
	verdict = forward_or_leave(skb, cpu, connected, tagged, 0);
	if (UNLIKELY(since))
		cpu->sampled_ns += ktime_ns() - since;
	return LIKELY(verdict) ? verdict : TCX_NEXT;
}

SEC("classifier")
int forward(struct __sk_buff *skb)
{
	return forward_one(skb, 0, 0);
}

// The same where the kernel lets programs look connections up.
SEC("classifier")
int forward_connected(struct __sk_buff *skb)
{
	return forward_one(skb, 1, 0);
}

// The same two for where the packets of VLAN interfaces enter the stack.
SEC("classifier")
int forward_tagged(struct __sk_buff *skb)
{
	return forward_one(skb, 0, 1);
}

SEC("classifier")
int forward_tagged_connected(struct __sk_buff *skb)
{
	return forward_one(skb, 1, 1);
}

// What would become of a packet: `why` above the index of the interface by which it would leave. For
// BPF_PROG_TEST_RUN only.
#define EXIT_BITS 24
INLINE int explain_one(struct __sk_buff *skb, int connected, int tagged)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	struct told told = {};

	if (!cpu)
		return 0;
	forward_or_leave(skb, cpu, connected, tagged, &told);
	return told.why << EXIT_BITS | (told.exit & ((1 << EXIT_BITS) - 1));
}

// Whether a decision, the packet's mark, lets it pass between two interfaces, `cb`. For BPF_PROG_TEST_RUN only.
SEC("classifier")
int decision_of(struct __sk_buff *skb)
{
	struct ethernet *eth = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;
	struct crossing to = {};
	int four;

	if ((const void *)(eth + 1) > end)
		return 0;
	four = eth->type == NET16(0x0800);
	if (!as_it_says(eth, end, four, &to))
		return 0;
	return rules_accept(eth, end, four, skb->mark, &to, skb->cb[0], skb->cb[1]);
}

#ifdef COUNTED
// Counts a packet as it is, as one that goes between two interfaces, `cb`. For BPF_PROG_TEST_RUN only.
SEC("classifier")
int account_of(struct __sk_buff *skb)
{
	struct ethernet *eth = (void *)(long)skb->data;
	const void *end = (void *)(long)skb->data_end;

	if ((const void *)(eth + 1) > end)
		return 0;
	account(eth, end, eth->type == NET16(0x0800), skb->cb[0], skb->cb[1], 1, skb->len - sizeof(*eth));
	return 1;
}
#endif

// Whether workers would get it.
SEC("classifier")
int explain_workers(struct __sk_buff *skb)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	struct told told = {};
	__u32 hash = 0;
	int way;

	if (!cpu)
		return 0;
	way = route((void *)(long)skb->data, (void *)(long)skb->data_end, &hash, 0);
	if (way != FOR_WORKER)
		leave(cpu, way, &told, WHY_NOT_PLAIN);
	return told.why << EXIT_BITS;
}

SEC("classifier")
int explain(struct __sk_buff *skb)
{
	return explain_one(skb, 0, 0);
}

SEC("classifier")
int explain_connected(struct __sk_buff *skb)
{
	return explain_one(skb, 1, 0);
}

SEC("classifier")
int explain_tagged(struct __sk_buff *skb)
{
	return explain_one(skb, 0, 1);
}

SEC("classifier")
int explain_tagged_connected(struct __sk_buff *skb)
{
	return explain_one(skb, 1, 1);
}
