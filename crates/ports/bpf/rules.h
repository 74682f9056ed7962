// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Whether the rules of packet filters accept a packet by what it holds and by its interfaces. The router has compiled them
// (daemons/routerd/src/policy/compile) into a decision of a few steps each of which looks at one part of the packet; this
// takes the steps. Nothing but "accepted, and nothing else happens" lets a packet pass: all others are the
// kernel's, which asks its rules itself.

#pragma once

#include "connections.h"

// Words of a decision, and of the two that are held together: the one in use and the next. As in src/afxdp/decision.rs.
#define DECISION_BITS 19
#define DECISION_WORDS (1 << DECISION_BITS)
#define DECISION_MASK (DECISION_WORDS - 1)
// Steps that a decision takes at most, and halvings of a table of addresses.
#define STEPS_MAX 192
#define HALVINGS 19

// Parts of a packet that are asked for. Addresses of IPv4 are in the first word of four.
#define PART_SOURCE 0
#define PART_DESTINATION 4
#define PART_SOURCE_PORT 8
#define PART_DESTINATION_PORT 9
#define PART_PROTOCOL 10
#define PART_INPUT 11
#define PART_OUTPUT 12
// The type of service, and above it the flags of TCP.
#define PART_BITS 13
// Sets that the source is in, and the destination, a bit each.
#define PART_SOURCE_SETS 14
#define PART_DESTINATION_SETS 15
#define PARTS 16

// What a step does, in its lowest bits; the part, where to go on, and a value are above.
#define STEP_AT_LEAST 0
#define STEP_BITS 1
#define STEP_WITHIN 2

// Bit of the head: packets whose addresses are translated are not decided on.
#define DECISION_UNTRANSLATED (1ULL << 40)

// The object's own map is a place holder: the loader enters the one of the process (src/afxdp/decision.rs).
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	ENTRIES(1);
	__u32 *key;
	__u64 *value;
} decisions SEC(".maps");

// What a decision is asked. In a map, so that whatever is known of it on some way to here makes no ways of its own for the
// verifier.
struct request {
	__u32 parts[PARTS];
	__u32 which, six, translated, unused;
};

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	ENTRIES(1);
	__u32 *key;
	struct request *value;
} requests SEC(".maps");

#define bounded(place) asm volatile("%0 &= 0x7ffff" : "+r"(place))

// The mask of sets that an address is in. A table: where its roots begin, and how far an address is shifted for one.
INLINE __u32 sets_of4(const __u64 *words, __u64 table, __u32 address)
{
	__u64 root = words[(table + (address >> (table >> 32 & 31))) & DECISION_MASK];
	__u64 at = root & DECISION_MASK, count = root >> 32;

	for (int i = 0; i < HALVINGS; i++) {
		__u64 half = count >> 1, there = at + half;

		bounded(there);
		if (words[there] >> 32 <= address)
			at = there;
		count -= half;
		bounded(count);
	}
	bounded(at);
	return words[at];
}

// The same of IPv6, whose tables have three words for an address and no roots: where it begins, and how many there are.
INLINE __u32 sets_of6(const __u64 *words, __u64 table, const __u32 *address)
{
	__u64 high = (__u64)address[0] << 32 | address[1], low = (__u64)address[2] << 32 | address[3];
	__u64 at = table & DECISION_MASK, count = table >> 32;

	for (int i = 0; i < HALVINGS; i++) {
		__u64 half = count >> 1, there = at + 3 * half, behind, known;

		bounded(there);
		behind = there + 1;
		bounded(behind);
		known = words[there];
		if (known < high || (known == high && words[behind] <= low))
			at = there;
		count -= half;
		bounded(count);
	}
	at += 2;
	bounded(at);
	return words[at];
}

static __attribute__((noinline)) int decided(void)
{
	const __u64 *words = map_lookup(&decisions, &zero);
	struct request *request = map_lookup(&requests, &zero);
	__u64 head, table, at;
	__u32 *parts, six;

	if (!words || !request)
		return 0;
	parts = request->parts;
	six = request->six;
	words += (request->which - 1 & 1) << DECISION_BITS;
	head = words[0];
	if (request->translated && head & DECISION_UNTRANSLATED)
		return 0;
	at = head >> (six ? 20 : 0) & DECISION_MASK;
	table = words[six ? 3 : 1];
	if (table)
		parts[PART_SOURCE_SETS] = six ? sets_of6(words, table, parts + PART_SOURCE) :
						sets_of4(words, table, parts[PART_SOURCE]);
	table = words[six ? 4 : 2];
	if (table)
		parts[PART_DESTINATION_SETS] = six ?
			sets_of6(words, table, parts + PART_DESTINATION) :
			sets_of4(words, table, parts[PART_DESTINATION]);
	for (int i = 0; i < STEPS_MAX; i++) {
		__u64 step;

		// All ways to here look alike to the verifier, which then follows one of them.
		bounded(at);
		step = words[at];
		__u32 kind = step & 3, value = step >> 32, part = parts[step >> 2 & (PARTS - 1)];
		__u32 then = step >> 6 & DECISION_MASK;

		if (kind == STEP_AT_LEAST) {
			at = part >= value ? then : at + 1;
		} else if (kind == STEP_BITS) {
			at = part & value ? then : at + 1;
		} else if (kind == STEP_WITHIN) {
			__u64 range, second = at + 1;

			bounded(second);
			range = words[second];
			at = (part & value) - (__u32)range <= (__u32)(range >> 32) ? at + 2 : then;
		} else {
			return value;
		}
	}
	return 0;
}

// Whether what is above IP can be told without looking behind further headers (`ipv6_find_hdr`).
INLINE int is_transport(__u8 protocol)
{
	return has_ports(protocol) || protocol == 58 || protocol == 47;
}

// Bytes of a transport header that rules may ask for.
INLINE __u32 needed(__u8 protocol)
{
	return protocol == 6 ? sizeof(struct tcp_header) : 4;
}

// A packet without a connection goes where it says.
INLINE int as_it_says(const struct ethernet *eth, const void *end, int four, struct crossing *to)
{
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);

	// Each asks for itself: Linux 6.1 would not know which of two lengths was compared.
	to->translated = to->marked = 0;
	if (four) {
		if ((const void *)(v4 + 1) + 4 > end)
			return 0;
		to->destination[0] = v4->destination;
		to->ports[1] = ((const __u16 *)(v4 + 1))[1];
	} else {
		if ((const void *)(v6 + 1) + 4 > end)
			return 0;
#pragma unroll
		for (int i = 0; i < 4; i++)
			to->destination[i] = LOAD32(v6->destination + 2 * i);
		to->ports[1] = ((const __u16 *)(v6 + 1))[1];
	}
	return 1;
}

// Whether the rules accept a packet between its two interfaces, and between the two halves of a translation.
INLINE int rules_accept(const struct ethernet *eth, const void *end, int four, __u32 which,
			const struct crossing *to, __u32 input, __u32 output)
{
	const struct ipv4 *v4 = (const void *)(eth + 1);
	const struct ipv6 *v6 = (const void *)(eth + 1);
	const void *transport = four ? (const void *)(v4 + 1) : (const void *)(v6 + 1);
	const struct tcp_header *tcp = transport;
	struct request *request = map_lookup(&requests, &zero);
	__u32 *parts, length;

	if (!request || transport + 4 > end)
		return 0;
	parts = request->parts;
	__builtin_memset(request, 0, sizeof(*request));
	if (four) {
		if (v4->version_length != 0x45 || v4->fragment & NET16(0x3fff))
			return 0;
		parts[PART_SOURCE] = NET32(v4->source);
		parts[PART_DESTINATION] = NET32(to->destination[0]);
		parts[PART_PROTOCOL] = v4->protocol;
		parts[PART_BITS] = v4->traffic_class;
		length = NET16(v4->total_length) - sizeof(*v4);
	} else {
		if (!is_transport(v6->next_header))
			return 0;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			parts[PART_SOURCE + i] = NET32(LOAD32(v6->source + 2 * i));
			parts[PART_DESTINATION + i] = NET32(to->destination[i]);
		}
		parts[PART_PROTOCOL] = v6->next_header;
		parts[PART_BITS] = NET32(v6->version_class_flow) >> 20 & 0xff;
		length = NET16(v6->payload_length);
	}
	if (length < needed(parts[PART_PROTOCOL]))
		return 0;
	if (parts[PART_PROTOCOL] == 6) {
		if ((const void *)(tcp + 1) > end)
			return 0;
		parts[PART_BITS] |= (__u32)tcp->flags << 8;
	}
	parts[PART_SOURCE_PORT] = NET16(((const __u16 *)transport)[0]);
	parts[PART_DESTINATION_PORT] = NET16(to->ports[1]);
	parts[PART_INPUT] = input;
	parts[PART_OUTPUT] = output;
	request->which = which;
	request->six = !four;
	request->translated = to->translated;
	return decided();
}
