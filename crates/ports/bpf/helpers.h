// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs are written in: sections, helpers of the kernel, byte order.

#pragma once

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
// the loader puts the function's own, see src/afxdp/beside.rs.
#define RX_VLAN_TAG 0x45424201
static int (*rx_vlan_tag)(struct xdp_md *ctx, __u16 *protocol, __u16 *tag) = (void *)RX_VLAN_TAG;

#define NET16(x) __builtin_bswap16(x)
#define NET32(x) __builtin_bswap32(x)
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "compile with -target bpfel"
#endif

static const __u32 zero = 0;

#define LOAD32(p) (*(const __u32 *)(p))
#define LOAD64(p) ((__u64)LOAD32(p) | (__u64)LOAD32((const char *)(p) + 4) << 32)
