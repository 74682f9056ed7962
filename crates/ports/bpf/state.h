// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the router and the programs share: constants that its loader sets, maps that it writes and reads. The
// layouts are those of src/afxdp.

#pragma once

#include "helpers.h"

#define FORM_RSS 0
#define FORM_STEER 1
#define TABLE_LEN 128
#define MACS_MAX 16
// Instead of a count: frames to every unicast address are for this interface.
#define MACS_EVERY ~0ULL
#define FILTER_WORDS 64
#define VLANS 4096
#define REASONS 16

// Set by the loader.
const volatile __u32 form = FORM_RSS;
const volatile __u32 workers = 1;
// Whether IPv4 packets with options and IPv6 packets with hop-by-hop options may be workers'.
const volatile __u32 ip_options = 0;
// Whether packets in several buffers may be workers' up to ROOM_LONG.
const volatile __u32 long_packets = 0;
// Least time between two packets that carry their time of arrival; 0: all do.
const volatile __u64 stamp_interval_ns = 1000000;

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

// In `reverse_path`: sources that a route leads back to, by whatever interface; by the one they came from.
#define LOOSE 1
#define STRICT 2

// Why packets that a worker could forward are the kernel's, 0: they are not.
union policy {
	struct {
		// Which sides are in `policy_prefixes`, a bit each; whether there is something in
		// `policy_vlans`.
		__u8 sides, vlans;
		// For all VLANs.
		__u8 all4, all6;
		// Which sources of IPv4 `forward` lets pass.
		__u8 reverse_path : 2;
		// Packets that only go as the rules say (rules.h), 0: none ask; else which of the two decisions is theirs.
		__u8 rules4 : 2, rules6 : 2;
		// Whether `longest` holds for a family.
		__u8 longest4 : 1, longest6 : 1;
		// Packets that only go as a connection's (connections.h): in bits 0 and 1 those of IPv4, in 2 and 3
		// those of IPv6; above, the reason by which others are left to the kernel.
		__u8 connections;
		// The longest packet that `forward` sends of these families; of others what the kernel's answer is.
		__u16 longest;
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

// Whom the XDP program gives packets that workers may have: them; whatever stands before the network stack; or the
// latter as soon as nothing is with the packet's worker any more, so that no packet overtakes another.
#define TO_WORKERS 0
#define BEFORE_THE_STACK 1
#define WHEN_SENT 2

// Lanes of the kernel path in a driver (spread.h): the lane of each entry, the CPU of each lane, how many packets may
// be on their way to one from one queue.
#define LANES 16
struct spread {
	__u8 lane[TABLE_LEN];
	__u32 cpu[LANES];
	__u64 room;
	// 0: all packets are forwarded where they are.
	__u64 on;
};

// Packets given to one socket; of these, packets that its worker has sent or is done with, and packets that found no
// room. What the program and what the worker write lie apart.
struct flight {
	__u64 given;
	__u64 apart[15];
	__u64 done;
	__u64 lost;
	// When there was nothing left, of lanes.
	__u64 emptied_ns;
	__u64 unused[13];
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
	// By `forward`, bytes with link headers.
	__u64 forwarded;
	__u64 forwarded_bytes;
	// Packets that `forward` has seen, and how long it worked for one of SAMPLED of them.
	__u64 seen;
	__u64 sampled_ns;
};

// The sockets: by queue and worker in the form Steer, by queue in the form Rss.
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	ENTRIES(1);
	__u32 *key;
	__u32 *value;
} sockets SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*map_flags)[BPF_F_MMAPABLE];
	ENTRIES(1);
	__u32 *key;
	struct flight *value;
} flights SEC(".maps");

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
__u64 packets_go SEC(".data.packets_go");
struct spread spread SEC(".data.spread");

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

// The VLAN interfaces on this one where `forward_tagged` stands, by index: their VLAN, and above VLAN_BITS which sources
// of IPv4 it lets pass, as `reverse_path` of `policies` says of packets without a tag.
#define VLAN_BITS 16
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	ENTRIES(VLANS);
	__u32 *key;
	__u32 *value;
} vlan_interfaces SEC(".maps");

// How packets may leave that `forward` sends, by the interface's index: EXIT_DEVICE or EXIT_PEER. Ports, and the VLAN
// interfaces on them. Those with a low index are read without a look-up.
#define NEAR 4096
__u8 near_exits[NEAR] SEC(".data.exits");
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*map_flags)[BPF_F_NO_PREALLOC];
	ENTRIES(8192);
	__u32 *key;
	__u8 *value;
} exits SEC(".maps");

// By which lane an entry's packets go, and which of the lane's packets was its last one; when it was looked at in vain.
struct lane_entry {
	__u64 at;
	__u64 last;
	__u64 looked_ns;
	__u64 unused;
};

// By queue, TABLE_LEN each. Only the CPU that receives from the queue writes them.
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	ENTRIES(TABLE_LEN);
	__u32 *key;
	struct lane_entry *value;
} lane_entries SEC(".maps");

// By queue, LANES each.
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*map_flags)[BPF_F_MMAPABLE];
	ENTRIES(LANES);
	__u32 *key;
	struct flight *value;
} lanes SEC(".maps");

// By CPU.
struct {
	int (*type)[BPF_MAP_TYPE_CPUMAP];
	ENTRIES(1);
	__u32 *key;
	struct bpf_cpumap_val *value;
} cpus SEC(".maps");

// The interfaces whose drivers send what `forward_in_driver` redirects, by index.
struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP_HASH];
	ENTRIES(256);
	__u32 *key;
	__u32 *value;
} driver_exits SEC(".maps");
