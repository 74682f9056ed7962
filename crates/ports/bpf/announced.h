// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Whether the kernel's policy is still the one that the router has judged: changes are counted (announce.c) before whoever
// makes them is told that they are made.

#pragma once

#include "helpers.h"

// Messages by the socket that they come by; those of them that tell of policy; as many as the router has judged. And
// the reason of what nobody has judged, UNHELD in src/afxdp/policy.rs: were it a constant here, the verifier would refuse to add it
// to an address on this way and something else on others, unless with CAP_PERFMON.
struct announced {
	__u64 by[3], all, judged, unheld;
};

// The object's own map is a place holder: the loader puts the process's one in its place (src/afxdp/announced.rs).
struct announced announced SEC(".data.announced");

// Asked of every packet that might not go through the network stack.
INLINE int is_judged(void)
{
	return LIKELY(announced.all == announced.judged);
}
