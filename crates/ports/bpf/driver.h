// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The kernel path in a card's driver (XDP): forwards a packet before the network stack has made anything of it, by the
// same questions as forward.h. For cards whose drivers run the program and send what it redirects; packets that
// leave by another interface are the stack's, and so is what forward.h leaves to it.

#include "spread.h"

static long (*adjust_tail)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_tail;

// The program's verdict, 0: the packet is the network stack's. `arrived`: it comes from the CPU that received it.
INLINE int forward_or_pass(struct xdp_md *ctx, struct cpu_state *cpu, int beside, int arrived)
{
	struct ethernet *eth = (void *)(long)ctx->data;
	const void *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup fib = {};
	__u64 frame = buff_len(ctx), entrance = ctx->ingress_ifindex;
	// No constant, see steer.c.
	__u32 hash = ctx->rx_queue_index, length;
	int spreads = !arrived && *(volatile __u64 *)&spread.on;
	int four, way;

	// Kept by eights, see policy.h.
	asm volatile("" : "+r"(entrance));
	asm volatile("" : "+r"(frame));
	if (UNLIKELY((const void *)(eth + 1) > end))
		return leave(cpu, FOR_KERNEL, 0, 0);
	way = route(eth, end, &hash, spreads);
	if (UNLIKELY(way != FOR_WORKER))
		return way == FOR_KERNEL && was_handed_back(ctx) ? 0 : leave(cpu, way, 0, 0);
	if (beside && UNLIKELY(has_tag_beside(ctx))) {
		cpu->passed_beside++;
		return leave(cpu, FOR_KERNEL, 0, 0);
	}
	// Packets with a tag are the stack's.
	four = eth->type == NET16(0x0800);
	if (!four && UNLIKELY(eth->type != NET16(0x86dd)))
		return leave(cpu, FOR_KERNEL, 0, 0);
	if (UNLIKELY(spreads)) {
		way = to_lane(ctx, hash);
		if (way)
			return way;
		eth = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		if ((const void *)(eth + 1) > end)
			return leave(cpu, FOR_KERNEL, 0, 0);
	}
	length = unpadded(eth, end, four);
	if (UNLIKELY(length < frame)) {
		if (length < sizeof(*eth) || adjust_tail(ctx, -(int)(frame - length)))
			return leave(cpu, FOR_KERNEL, 0, 0);
		frame = length;
		asm volatile("" : "+r"(frame));
		eth = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		if ((const void *)(eth + 1) > end)
			return leave(cpu, FOR_KERNEL, 0, 0);
	}
	if (UNLIKELY(find_way(ctx, eth, end, frame, 0, entrance, policies.reverse_path, &fib, 0) != WHY_FORWARDED))
		return leave(cpu, FOR_KERNEL, 0, 0);
	if (UNLIKELY(!map_lookup(&driver_exits, &fib.ifindex)))
		return leave(cpu, FOR_KERNEL, 0, 0);
	rewrite(eth, &fib);
	cpu->forwarded++;
	cpu->forwarded_bytes += frame;
	account(eth, end, four, entrance, fib.ifindex, 1, frame - sizeof(*eth));
	return redirect_map(&driver_exits, fib.ifindex, XDP_DROP);
}

INLINE int forward_here(struct xdp_md *ctx, int beside, int arrived)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	__u64 since;
	int verdict;

	if (UNLIKELY(!cpu))
		return XDP_PASS;
	since = timed(cpu);
	verdict = forward_or_pass(ctx, cpu, beside, arrived);
	if (UNLIKELY(since))
		cpu->sampled_ns += ktime_ns() - since;
	return LIKELY(verdict) ? verdict : XDP_PASS;
}

SEC("xdp")
int forward_in_driver(struct xdp_md *ctx)
{
	return forward_here(ctx, 0, 0);
}

// For interfaces whose VLAN tags may travel beside the frames, see steer.c.
SEC("xdp")
int forward_in_driver_beside(struct xdp_md *ctx)
{
	return forward_here(ctx, 1, 0);
}

// The same on the CPU to which a packet was sent.
SEC("xdp/cpumap")
int forward_on_lane(struct xdp_md *ctx)
{
	return arrives(ctx) ? forward_here(ctx, 0, 1) : XDP_PASS;
}
