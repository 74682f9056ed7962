// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Filters of the sockets by which the kernel announces changes of its policy. They keep every message, and count it while
// whoever makes the change still waits for the kernel: from then on packets are the kernel's, whatever the router's threads
// do, until the router has judged what came of it. Attached by src/afxdp/announced.rs; steer.c asks by announced.h.

#include "announced.h"

// Of `linux/rtnetlink.h`: an IPv6 address is announced whenever a router advertises it, and says nothing of policy but that
// IPv6 may have been switched off or on, which the router looks at by and by.
#define RTM_NEWADDR 20
#define RTM_DELADDR 21
// In `struct nlmsghdr`.
#define NLMSG_TYPE 4

static long (*load_bytes)(const void *message, __u32 from, void *to, __u32 len) =
	(void *)BPF_FUNC_skb_load_bytes;

INLINE int count(int socket, int tells)
{
	__sync_fetch_and_add(&announced.by[socket], 1);
	// Later: whoever sees the sum sees its parts.
	if (tells)
		__sync_fetch_and_add(&announced.all, 1);
	return -1;
}

SEC("socket/route")
int route(struct __sk_buff *message)
{
	__u16 kind = 0;

	load_bytes(message, NLMSG_TYPE, &kind, sizeof(kind));
	return count(0, kind != RTM_NEWADDR && kind != RTM_DELADDR);
}

SEC("socket/transforms")
int transforms(struct __sk_buff *message)
{
	return count(1, 1);
}

SEC("socket/filters")
int filters(struct __sk_buff *message)
{
	return count(2, 1);
}

char license_text[] SEC("license") = "Dual MIT/GPL";
