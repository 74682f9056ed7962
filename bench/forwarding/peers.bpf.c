// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// For `bench/run forwarding`. `forward` is the peer `xdp`: what an operator writes who forwards IPv4 in XDP, the kernel's
// own table asked for each packet (bpf_fib_lookup, as in the kernel's samples), without policy and counters.
// `take` ends UDP over IPv4 where it arrives: at the far host, and at the router's door to measure the load alone.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))
#define NET16(x) __builtin_bswap16(x)

static long (*fib_lookup)(void *, struct bpf_fib_lookup *, int, __u32) = (void *)BPF_FUNC_fib_lookup;
static long (*redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct bpf_fib_lookup fib = { .family = 2, .ifindex = ctx->ingress_ifindex };
	__u32 sum;

	if ((void *)(ip + 1) > (void *)(long)ctx->data_end || eth->h_proto != NET16(ETH_P_IP))
		return XDP_PASS;
	if (ip->ihl != 5 || ip->ttl <= 1)
		return XDP_PASS;
	fib.tos = ip->tos;
	fib.l4_protocol = ip->protocol;
	fib.tot_len = NET16(ip->tot_len);
	fib.ipv4_src = ip->saddr;
	fib.ipv4_dst = ip->daddr;
	if (fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	sum = ip->check + NET16(0x0100);
	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	return redirect(fib.ifindex, 0);
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
