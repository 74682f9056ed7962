// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Decides for each packet of one interface whether a worker of the router or the kernel gets it,
// and which worker. To the kernel (XDP_PASS) goes everything but unicast IP without options to
// somewhere else, and of that what a policy of the kernel concerns (its own maps below); so do all
// packets while no worker has opened its socket. The flow hash is the one of src/hash.rs; a test
// compares the two.

#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define ENTRIES(count) int (*max_entries)[count]
// The way of most packets is to be laid out in a row: whoever sends pays for each line of code that it has
// to fetch, between the kernel's own for a packet.
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*redirect_map)(void *map, __u64 key, __u64 flags) = (void *)BPF_FUNC_redirect_map;
static long (*adjust_head)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_head;
static __u64 (*ktime_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*jiffies64)(void) = (void *)BPF_FUNC_jiffies64;
static __u64 (*buff_len)(struct xdp_md *ctx) = (void *)BPF_FUNC_xdp_get_buff_len;
// The kernel's function bpf_xdp_metadata_rx_vlan_tag (Linux 6.8). No helper has this number: in its place
// the loader puts the function's own, see src/afxdp/load.rs.
#define RX_VLAN_TAG 0x45424201
static int (*rx_vlan_tag)(struct xdp_md *ctx, __u16 *protocol, __u16 *tag) = (void *)RX_VLAN_TAG;

#define NET16(x) __builtin_bswap16(x)
#define NET32(x) __builtin_bswap32(x)
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "compile with -target bpfel"
#endif

// Bytes that a frame of the workers' memory holds without a stamp, as in src/afxdp/interface.rs.
#define ROOM 1776
#define FORM_RSS 0
#define FORM_STEER 1
#define TABLE_LEN 128
#define MACS_MAX 16
// Instead of a count: frames to every unicast address are for this interface.
#define MACS_EVERY ~0ULL
#define FILTER_WORDS 64
#define VLANS 4096
#define REASONS 16
// There is no tag beside the frame (ENODATA).
#define NO_TAG -61

// What `route` says; above FOR_WORKER: for the kernel, for this reason.
#define FOR_KERNEL 0
#define FOR_WORKER 0x100

// Set by the loader.
const volatile __u32 form = FORM_RSS;
const volatile __u32 workers = 1;
// Least time between two packets that carry their time of arrival; 0: all do.
const volatile __u64 stamp_interval_ns = 1000000;

// "Ebb-time": stands before a stamped packet. Its first byte has the group bit of a MAC address
// set, and no frame to a group address is ever redirected.
#define STAMP_MAGIC 0x656d69742d626245ULL

struct stamp {
	__u64 magic;
	__u64 time_ns;
};

// "Ebb-back": stands before a frame that the router hands to the kernel where this program is generic and so
// meets it again, as in src/afxdp/inject.rs. Its first byte, too, has the group bit set.
#define HANDED_BACK_MAGIC 0x6b6361622d626245ULL

struct handed_back {
	__u64 magic, unused;
};

struct table {
	__u8 worker[TABLE_LEN];
};

struct macs {
	__u64 count;
	__u64 mac[MACS_MAX];
};

struct filter {
	__u64 v4[FILTER_WORDS];
	__u64 v6[FILTER_WORDS];
};

struct address6 {
	__u64 high, low;
};

// Why packets that a worker could forward are the kernel's, 0: they are not.
union policy {
	struct {
		// Which sides are in `policy_prefixes`, a bit each; whether there is something in
		// `policy_vlans`.
		__u8 sides, vlans;
		// For all VLANs.
		__u8 all4, all6;
		__u32 unused;
	};
	// 0 where nothing is the kernel's.
	__u64 any;
};

// VLANs whose frames a worker may take, a bit each.
struct vlans {
	// All, whatever their tags.
	__u64 every;
	__u64 served[VLANS / 64];
};

struct vlan_policy {
	__u8 v4, v6;
};

#define SOURCE4 0
#define DESTINATION4 1
#define SOURCE6 2
#define DESTINATION6 3
// Destinations by the kernel's routes: 1 where it forwards itself, 0 where a worker does.
#define ROUTE4 4
#define ROUTE6 5

struct side_prefix {
	__u32 length;
	__u32 side;
	__u32 address[4];
};

struct cpu_state {
	__u64 redirected;
	__u64 passed;
	__u64 stamped_ns;
	__u64 jiffies;
	__u64 count;
	__u64 passed_for[REASONS];
	__u64 passed_long;
	__u64 passed_beside;
};

// The sockets: by queue and worker in the form Steer, by queue in the form Rss.
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	ENTRIES(1);
	__u32 *key;
	__u32 *value;
} sockets SEC(".maps");

// The redirect table, written by plain stores through a mapping.
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*map_flags)[BPF_F_MMAPABLE];
	ENTRIES(1);
	__u32 *key;
	struct table *value;
} redirect SEC(".maps");

// What the router writes and every packet asks for: arrays of one value each, by the names of their
// sections, read without a look-up.

// MAC addresses whose frames are for this interface.
struct macs own_macs SEC(".data.macs");
// One bit for each hash of a local address: spares most packets the look-up.
struct filter local_filter SEC(".data.filter");
struct vlans vlans SEC(".data.vlans") = { .every = 1 };
union policy policies SEC(".data.policies");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	ENTRIES(4096);
	__u32 *key;
	__u8 *value;
} local4 SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	ENTRIES(4096);
	struct address6 *key;
	__u8 *value;
} local6 SEC(".maps");

// By VLAN, 0 for none.
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	ENTRIES(VLANS);
	__u32 *key;
	struct vlan_policy *value;
} policy_vlans SEC(".maps");

// Sources and destinations that are the kernel's, with the reason.
struct {
	int (*type)[BPF_MAP_TYPE_LPM_TRIE];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	// Those before and after a change are in it together, and routes: twice PREFIXES_MAX of
	// src/afxdp/policy.rs, and as many again.
	ENTRIES(262144);
	struct side_prefix *key;
	__u8 *value;
} policy_prefixes SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	ENTRIES(1);
	__u32 *key;
	struct cpu_state *value;
} cpu_states SEC(".maps");

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

static const __u32 zero = 0;

#define LOAD32(p) (*(const __u32 *)(p))
#define LOAD64(p) ((__u64)LOAD32(p) | (__u64)LOAD32((const char *)(p) + 4) << 32)

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

// Keys of maps are written to the stack by eights: Linux 6.1 refuses to store less where the compiler has
// kept a pointer before, unless with CAP_PERFMON.

INLINE int is_local4(__u32 address)
{
	__u32 bit = (address * 0x9e3779b1U) >> 20;
	__u64 key = address;

	if (LIKELY(!(local_filter.v4[bit >> 6 & (FILTER_WORDS - 1)] >> (bit & 63) & 1)))
		return 0;
	return map_lookup(&local4, &key) != 0;
}

INLINE int is_local6(const struct address6 *address)
{
	__u64 bit = ((address->high ^ address->low) * K1) >> 52;

	if (LIKELY(!(local_filter.v6[bit >> 6 & (FILTER_WORDS - 1)] >> (bit & 63) & 1)))
		return 0;
	return map_lookup(&local6, address) != 0;
}

INLINE int reason_of(__u32 side, __u32 a, __u32 b, __u32 c, __u32 d)
{
	// A `side_prefix` by eights.
	__u64 length = side < SOURCE6 || side == ROUTE4 ? 64 : 160;
	__u64 key[3] = { length | (__u64)side << 32, a | (__u64)b << 32, c | (__u64)d << 32 };
	__u8 *reason = map_lookup(&policy_prefixes, (struct side_prefix *)key);

	return reason ? *reason : 0;
}

// The reason by VLAN: IPv4 in the low byte, IPv6 in the next.
INLINE int reasons_of_vlan(__u32 vlan)
{
	__u64 key = vlan;
	struct vlan_policy *of = map_lookup(&policy_vlans, &key);

	return of ? of->v4 | of->v6 << 8 : 0;
}

INLINE int policy4(const struct ipv4 *ip, __u32 vlan)
{
	int reason;

	if (LIKELY(!policies.any))
		return FOR_WORKER;
	reason = policies.all4;
	if (!reason && policies.vlans)
		reason = reasons_of_vlan(vlan) & 0xff;
	if (!reason && policies.sides & 1 << SOURCE4)
		reason = reason_of(SOURCE4, ip->source, 0, 0, 0);
	if (!reason && policies.sides & 1 << DESTINATION4)
		reason = reason_of(DESTINATION4, ip->destination, 0, 0, 0);
	if (!reason && policies.sides & 1 << ROUTE4 && reason_of(ROUTE4, ip->destination, 0, 0, 0))
		return FOR_KERNEL;
	return FOR_WORKER + reason;
}

INLINE int policy6(const struct ipv6 *ip, __u32 vlan)
{
	const __u16 *a = ip->source;
	int reason;

	if (LIKELY(!policies.any))
		return FOR_WORKER;
	reason = policies.all6;
	if (!reason && policies.vlans)
		reason = reasons_of_vlan(vlan) >> 8;
	if (!reason && policies.sides & 1 << SOURCE6)
		reason = reason_of(SOURCE6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4), LOAD32(a + 6));
	a = ip->destination;
	if (!reason && policies.sides & 1 << DESTINATION6)
		reason = reason_of(DESTINATION6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4),
				   LOAD32(a + 6));
	if (!reason && policies.sides & 1 << ROUTE6 &&
	    reason_of(ROUTE6, LOAD32(a), LOAD32(a + 2), LOAD32(a + 4), LOAD32(a + 6)))
		return FOR_KERNEL;
	return FOR_WORKER + reason;
}

// Whether an IPv4 packet is for the router's workers, and its flow hash.
INLINE int route4(const struct ipv4 *ip, const void *end, __u32 vlan, __u32 *hash, int hashed)
{
	const void *transport = ip + 1;
	int way;
	__u32 ports = 0;

	if (UNLIKELY(transport > end || ip->version_length != 0x45))
		return 0;
	if (UNLIKELY((ip->destination & 0xf0) == 0xe0 || ip->destination == 0xffffffff))
		return 0;
	// Own networks are the kernel's to judge, from where as to where (`ip_route_input_slow`,
	// `fib_validate_source`): route_localnet and accept_local allow what is otherwise forged or has
	// come back.
	if (UNLIKELY((ip->destination & 0xff) == 127 || (ip->source & 0xff) == 127))
		return 0;
	if (UNLIKELY(is_local4(ip->destination) || is_local4(ip->source)))
		return 0;
	way = policy4(ip, vlan);
	if (!hashed || UNLIKELY(way != FOR_WORKER))
		return way;
	if (has_ports(ip->protocol) && !(ip->fragment & NET16(0x3fff)) && transport + 4 <= end)
		ports = LOAD32(transport);
	*hash = finish(LOAD64(&ip->source) * K1, ports, ip->protocol);
	return way;
}

INLINE int is_link_local(const __u16 *address)
{
	return (address[0] & NET16(0xffc0)) == NET16(0xfe80);
}

// The same for IPv6.
INLINE int route6(const struct ipv6 *ip, const void *end, __u32 vlan, __u32 *hash, int hashed)
{
	const void *transport = ip + 1;
	int way;
	struct address6 destination;
	__u64 mixed = 0;
	__u32 ports = 0;

	if (transport > end || (ip->version_class_flow & 0xf0) != 0x60 || ip->next_header == 0)
		return 0;
	if ((ip->destination[0] & 0xff) == 0xff || is_link_local(ip->destination) ||
	    is_link_local(ip->source))
		return 0;
	if (ip->next_header == 58) {
		const __u8 *type = transport;

		// Neighbour discovery, RFC 4861 section 4.
		if (type + 1 > (const __u8 *)end || (*type >= 133 && *type <= 137))
			return 0;
	}
	destination.high = LOAD64(ip->destination);
	destination.low = LOAD64(ip->destination + 4);
	if (is_local6(&destination))
		return 0;
	way = policy6(ip, vlan);
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

INLINE int route(const void *data, const void *end, __u32 *hash, int hashed)
{
	const struct ethernet *eth = data;
	const __u16 *type = &eth->type;
	__u32 vlan = 0;

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
		return route4((const void *)(type + 1), end, vlan, hash, hashed);
	if (*type == NET16(0x86dd))
		return route6((const void *)(type + 1), end, vlan, hash, hashed);
	return 0;
}

// The time, when this CPU's next packet is to carry it. The clock is read at every sixteenth
// packet and whenever the jiffy has changed.
INLINE __u64 stamp_due(struct cpu_state *cpu)
{
	__u64 jiffies = jiffies64();
	__u64 now;

	if (!stamp_interval_ns)
		return ktime_ns();
	if (LIKELY(jiffies == cpu->jiffies && (++cpu->count & 15)))
		return 0;
	cpu->jiffies = jiffies;
	now = ktime_ns();
	if (now - cpu->stamped_ns < stamp_interval_ns)
		return 0;
	cpu->stamped_ns = now;
	return now;
}

INLINE int put_stamp(struct xdp_md *ctx, __u64 now)
{
	struct stamp *stamp;

	if (adjust_head(ctx, -(int)sizeof(*stamp)))
		return 0;
	stamp = (void *)(long)ctx->data;
	// Cannot fail, but the verifier wants to see it; the packet would be spoilt.
	if ((void *)(stamp + 1) > (void *)(long)ctx->data_end)
		return 1;
	stamp->magic = STAMP_MAGIC;
	stamp->time_ns = now;
	return 1;
}

// Whether a worker's frame holds the packet. Neither the difference of two pointers nor a pointer
// plus a length is to be had without CAP_PERFMON, so nothing tells a short packet in several
// buffers; the kernel counts it as lost at the socket. No driver at hand makes such.
INLINE int fits(struct xdp_md *ctx, int pieces)
{
	const char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	return pieces ? buff_len(ctx) <= ROOM : data + ROOM + 1 > end;
}

// Takes off what stands before a frame that the router has handed to the kernel.
INLINE int was_handed_back(struct xdp_md *ctx)
{
	const struct handed_back *mark = (void *)(long)ctx->data;

	if ((const void *)(mark + 1) > (void *)(long)ctx->data_end || mark->magic != HANDED_BACK_MAGIC)
		return 0;
	return !adjust_head(ctx, sizeof(*mark));
}

// Whether a VLAN tag travels beside the frame, which seems to have none then, or nobody can say.
INLINE int has_tag_beside(struct xdp_md *ctx)
{
	// By eights, as keys of maps are.
	__u64 room[2] = {};

	return rx_vlan_tag(ctx, (__u16 *)&room[0], (__u16 *)&room[1]) != NO_TAG;
}

INLINE int decide(struct xdp_md *ctx, int pieces, int beside)
{
	struct cpu_state *cpu = map_lookup(&cpu_states, &zero);
	struct table *table;
	__u32 key = ctx->rx_queue_index;
	// Any value but one that the verifier knows: it follows ways that no packet takes, and without
	// CAP_PERFMON refuses an index that is a constant on one and unknown on another.
	__u32 hash = key;
	// With one worker, or where the device has chosen, nobody asks for the hash.
	int steered = form == FORM_STEER && workers > 1;
	int stamped = 0, way;
	__u64 now;

	if (UNLIKELY(!cpu))
		return XDP_PASS;
	way = route((void *)(long)ctx->data, (void *)(long)ctx->data_end, &hash, steered);
	if (UNLIKELY(way != FOR_WORKER)) {
		if (way == FOR_KERNEL && was_handed_back(ctx))
			return XDP_PASS;
		cpu->passed++;
		if (way != FOR_KERNEL)
			cpu->passed_for[way & (REASONS - 1)]++;
		return XDP_PASS;
	}
	if (beside && UNLIKELY(has_tag_beside(ctx))) {
		cpu->passed++;
		cpu->passed_beside++;
		return XDP_PASS;
	}
	if (UNLIKELY(!fits(ctx, pieces))) {
		cpu->passed++;
		cpu->passed_long++;
		return XDP_PASS;
	}
	if (steered) {
		table = map_lookup(&redirect, &zero);
		if (!table)
			return XDP_PASS;
		key = key * workers + *(volatile __u8 *)&table->worker[hash & (TABLE_LEN - 1)];
	}
	now = stamp_due(cpu);
	if (UNLIKELY(now))
		stamped = put_stamp(ctx, now);
	if (LIKELY(redirect_map(&sockets, key, XDP_PASS) == XDP_REDIRECT)) {
		cpu->redirected++;
		return XDP_REDIRECT;
	}
	if (stamped)
		adjust_head(ctx, sizeof(struct stamp));
	cpu->passed++;
	return XDP_PASS;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	return decide(ctx, 0, 0);
}

// For interfaces whose packets may lie in several buffers (Linux 5.18).
SEC("xdp.frags")
int steer_frags(struct xdp_md *ctx)
{
	return decide(ctx, 1, 0);
}

// The same two for interfaces whose VLAN tags may travel beside the frames: bound to one interface, and
// only in its driver.
SEC("xdp")
int steer_beside(struct xdp_md *ctx)
{
	return decide(ctx, 0, 1);
}

SEC("xdp.frags")
int steer_beside_frags(struct xdp_md *ctx)
{
	return decide(ctx, 1, 1);
}

// Run on packets that the router hands to the kernel.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

// The flow hash of a packet, for the test that compares it with src/hash.rs.
SEC("xdp")
int hash_of(struct xdp_md *ctx)
{
	__u32 hash = 0;

	route((void *)(long)ctx->data, (void *)(long)ctx->data_end, &hash, 1);
	return hash;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
