// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// For `bench/run forwarding`. `forward` is the peer `xdp`: what an operator writes who forwards IPv4 in XDP, the kernel's
// own table asked for each packet (bpf_fib_lookup, as in the kernel's samples), without policy and counters.
// `ask` is the peer `tc`: the same in traffic control, straight into what the far end of a veth receives.
// `straight` is the least that any forwarder costs there: it asks nobody, for it knows the two ways (OUT0, HOST0 ... by
// the compiler's flags: index of an interface, MAC address of the host behind it).
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

SEC("tc_straight")
int straight(struct __sk_buff *skb)
{
	static const __u8 hosts[2][ETH_ALEN] = { { HOST0 }, { HOST1 } };
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 sum;

	if ((void *)(ip + 1) > (void *)(long)skb->data_end || eth->h_proto != NET16(ETH_P_IP))
		return TC_ACT_UNSPEC;
	sum = ip->check + NET16(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	if (skb->ingress_ifindex == OUT0) {
		__builtin_memcpy(eth->h_dest, hosts[1], ETH_ALEN);
		return redirect_peer(OUT1, 0);
	}
	__builtin_memcpy(eth->h_dest, hosts[0], ETH_ALEN);
	return redirect_peer(OUT0, 0);
}

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
