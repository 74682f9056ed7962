// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// For `bench/run forwarding`. `forward` is the peer `xdp`: what an operator writes who forwards IPv4 in XDP, the kernel's
// own table asked for each packet (bpf_fib_lookup, as in the kernel's samples), without policy and counters.
// `ask` is the peer `tc`: the same in traffic control, straight into what the far end of a veth receives.
// `straight` is the least that any forwarder costs there: it asks nobody, for it knows the two ways (OUT0, HOST0 ... by
// the compiler's flags: index of an interface, MAC address of the host behind it).
// `leave` is the same through the interface's queueing discipline; `known` forwards so the packets of connections, which
// it looks up in the kernel's table, and does nothing else: without translation, and no timeout is set.
// `take` ends UDP over IPv4 where it arrives: at the far host, and at the router's door to measure the load alone.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))
#define NET16(x) __builtin_bswap16(x)

static long (*fib_lookup)(void *, struct bpf_fib_lookup *, int, __u32) = (void *)BPF_FUNC_fib_lookup;
static long (*redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
static long (*redirect_peer)(__u32, __u64) = (void *)BPF_FUNC_redirect_peer;

// Makes a plain packet what leaves, by the kernel's answer; the index of the interface, 0: it is the network stack's.
static __attribute__((always_inline)) inline __u32 way(void *ctx, void *data, void *end, __u32 entrance)
{
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct bpf_fib_lookup fib = { .family = 2, .ifindex = entrance };
	__u32 sum;

	if ((void *)(ip + 1) > end || eth->h_proto != NET16(ETH_P_IP) || ip->ihl != 5 || ip->ttl <= 1)
		return 0;
	fib.tos = ip->tos;
	fib.l4_protocol = ip->protocol;
	fib.tot_len = NET16(ip->tot_len);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	if (fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	sum = ip->check + NET16(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return fib.ifindex;
}

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	__u32 exit = way(ctx, (void *)(long)ctx->data, (void *)(long)ctx->data_end, ctx->ingress_ifindex);

	return exit ? redirect(exit, 0) : XDP_PASS;
}

SEC("tc_ask")
int ask(struct __sk_buff *skb)
{
	__u32 exit = way(skb, (void *)(long)skb->data, (void *)(long)skb->data_end, skb->ingress_ifindex);

	return exit ? redirect_peer(exit, 0) : TC_ACT_UNSPEC;
}

// Makes a packet what leaves by the other interface, whose index it returns; 0: it is the network stack's.
static __attribute__((always_inline)) inline __u32 straight_on(struct __sk_buff *skb)
{
	static const __u8 hosts[2][ETH_ALEN] = { { HOST0 }, { HOST1 } };
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 sum;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end || eth->h_proto != NET16(ETH_P_IP))
		return 0;
	sum = ip->check + NET16(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	if (skb->ingress_ifindex == OUT0) {
		__builtin_memcpy(eth->h_dest, hosts[1], ETH_ALEN);
		return OUT1;
	}
	__builtin_memcpy(eth->h_dest, hosts[0], ETH_ALEN);
	return OUT0;
}

SEC("tc_straight")
int straight(struct __sk_buff *skb)
{
	__u32 exit = straight_on(skb);

	return exit ? redirect_peer(exit, 0) : TC_ACT_UNSPEC;
}

// Whether a packet is of UDP over IPv4, whose ports are then to be read.
static __attribute__((always_inline)) inline int is_udp(struct __sk_buff *skb)
{
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);

	return (void *)(ip + 1) + 4 <= (void *)(long)skb->data_end && eth->h_proto == NET16(ETH_P_IP) && ip->ihl == 5 &&
	       ip->protocol == 17;
}

SEC("tc_leave")
int leave(struct __sk_buff *skb)
{
	__u32 exit = is_udp(skb) ? straight_on(skb) : 0;

	return exit ? redirect(exit, 0) : TC_ACT_UNSPEC;
}

#ifdef CONNECTIONS // Kernels without connection tracking do not take it.
struct nf_conn {
	int unused;
};
struct ct_options {
	__s32 namespace, error;
	__u8 protocol, direction, reserved[2];
};
extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb, struct bpf_sock_tuple *tuple, __u32 length,
					 struct ct_options *options, __u32 options_length) __attribute__((section(".ksyms")));
extern void bpf_ct_release(struct nf_conn *connection) __attribute__((section(".ksyms")));

SEC("tc_known")
int known(struct __sk_buff *skb)
{
	struct iphdr *ip = (void *)(long)skb->data + sizeof(struct ethhdr);
	struct ct_options options = { .namespace = -1, .protocol = 17 };
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *connection;
	__u32 exit;

	if (!is_udp(skb) || (void *)(ip + 1) + 4 > (void *)(long)skb->data_end)
		return TC_ACT_UNSPEC;
	tuple.ipv4.saddr = ip->saddr;
	tuple.ipv4.daddr = ip->daddr;
	__builtin_memcpy(&tuple.ipv4.sport, ip + 1, 4);
	connection = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv4), &options, sizeof(options));
	if (!connection)
		return TC_ACT_UNSPEC;
	bpf_ct_release(connection);
	exit = straight_on(skb);
	return exit ? redirect_peer(exit, 0) : TC_ACT_UNSPEC;
}
#endif

SEC("tc")
int take(struct __sk_buff *skb)
{
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);

	if ((void *)(ip + 1) > (void *)(long)skb->data_end || eth->h_proto != NET16(ETH_P_IP))
		return TC_ACT_UNSPEC;
	return ip->protocol == 17 ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
