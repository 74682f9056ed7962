// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For `bench/katran/run`, which compiles it with a checkout of Katran in its include path: gives Katran's XDP program 64 packets of
// as many flows, one after the other, as a driver's turn does, and takes the header that it put before them off again.

// A function of its own, so that a turn's loop can call it.
#define PROG_SEC_NAME ".text"
struct xdp_md;
__attribute__((noinline)) int balancer_ingress(struct xdp_md *packet);
#include "katran/lib/bpf/balancer.bpf.c"

#define PACKETS 64
#define WRAPPED 20

// What flow comes next, how many there are, how many packets were sent.
struct {
    __u64 next, flows, sent;
} numbers = {1, 1, 0};
volatile int never = 0;

// Instead of Katran.
__attribute__((noinline)) int nothing(struct xdp_md *packet)
{
    volatile int verdict = XDP_PASS;
    if (never)
        return bpf_xdp_adjust_head(packet, 0);
    return verdict;
}

static __attribute__((always_inline)) int turn_of(struct xdp_md *packet, bool is_katran)
{
    for (int number = 0; number < PACKETS; number++) {
        void *data = (void *)(long)packet->data, *end = (void *)(long)packet->data_end;
        struct ethhdr *ethernet = data;
        struct iphdr *ip = (void *)(ethernet + 1);
        struct udphdr *udp = (void *)(ip + 1);
        if ((void *)(udp + 1) > end)
            return XDP_ABORTED;
        // A full period modulo 2^64 (Knuth, volume 2, section 3.3.4).
        numbers.next = numbers.next * 6364136223846793005ull + 1442695040888963407ull;
        __u32 flow = ((numbers.next >> 32) * numbers.flows) >> 32;
        __builtin_memset(ethernet, 0, sizeof *ethernet);
        ethernet->h_proto = BE_ETH_P_IP;
        ip->saddr = bpf_htonl(0xc6120000u | flow >> 8);
        udp->source = bpf_htons(1024 + (flow & 255));
        int back = 0;
        if ((is_katran ? balancer_ingress(packet) : nothing(packet)) == XDP_TX) {
            numbers.sent++;
            back = WRAPPED;
        }
        if (bpf_xdp_adjust_head(packet, back))
            return XDP_ABORTED;
    }
    return XDP_PASS;
}

SEC("xdp") int katran(struct xdp_md *packet)
{
    return turn_of(packet, true);
}

SEC("xdp") int bare(struct xdp_md *packet)
{
    return turn_of(packet, false);
}
