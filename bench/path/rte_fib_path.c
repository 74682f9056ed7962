/* The whole way of a 64-byte IPv4 packet around DPDK's rte_fib, as the yardstick for routing in memory:
 * copy the frame into a free buffer, check link address, type, version, lengths, checksum and martians,
 * look up a batch, lower the TTL, rewrite the link header, sort by port, free the buffers.
 *
 * Usage: rte_fib_path DIRECTORY EAL-ARGUMENTS...
 * DIRECTORY holds
 *   prefixes               records of u32 address (host order), u32 length, u32 value
 *   uniform routed hot     frames of 64 bytes
 * Value v leads out of port v & 1 to the neighbour 02:aa:00:00:00:v. Once ready it prints "ready", then
 * answers each line "LOOKUP LOCALITY PASSES" of standard input by "SECONDS PACKETS DIGEST", in seconds of the
 * processor, the digest being the sum of all 64-bit words of the frames that one pass sends.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_byteorder.h>
#include <rte_eal.h>
#include <rte_fib.h>

#define BATCH 64
#define FRAME 64
#define BUFFER 2048
#define HEADROOM 256
#define BUFFERS 1024

#include "../peer.h"

static const char *const localities[] = {"uniform", "routed", "hot"};
static const uint8_t own_mac[6] = {2, 0, 0, 0, 0, 1};

struct prefix {
	uint32_t address, len, value;
};

struct adjacency {
	uint8_t macs[12];
	uint16_t type;
	uint16_t port;
} __attribute__((aligned(64)));

struct packet {
	uint8_t *data;
	uint32_t len;
};

static struct adjacency adjacencies[256];
static uint8_t *frames[ARRAY(localities)];
static size_t count[ARRAY(localities)];
static struct rte_fib *fib;
static uint8_t *free_buffers[BUFFERS];
static size_t free_count;

static inline uint64_t word(const uint8_t *bytes)
{
	uint32_t w;
	memcpy(&w, bytes, 4);
	return w;
}

static inline bool plain(uint8_t first)
{
	return (uint8_t)(first - 1) < 223 && first != 127;
}

static inline bool valid(const uint8_t *frame, uint32_t len)
{
	const uint8_t *ip = frame + 14;
	if (len < 34 || memcmp(frame, own_mac, 6) || frame[12] != 8 || frame[13] != 0 || ip[0] != 0x45)
		return false;
	uint32_t total = ip[2] << 8 | ip[3];
	uint64_t sum = word(ip) + word(ip + 4) + word(ip + 8) + word(ip + 12) + word(ip + 16);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return total >= 20 && total <= len - 14 && sum == 0xffff && plain(ip[12]) && plain(ip[16]) && ip[8] > 1;
}

static inline void forward(uint8_t *frame, const struct adjacency *adjacency)
{
	uint8_t *ip = frame + 14;
	uint16_t old, checksum;
	memcpy(&old, ip + 8, 2);
	memcpy(&checksum, ip + 10, 2);
	/* The TTL comes first in memory. As a whole: a word that is read right after one byte of it was written
	 * waits until that byte is in the cache. */
	uint16_t new = rte_cpu_to_be_16(rte_be_to_cpu_16(old) - 0x100);
	memcpy(ip + 8, &new, 2);
	uint32_t sum = (uint16_t)~checksum + (uint32_t)(uint16_t)~old + new;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	checksum = ~sum;
	memcpy(ip + 10, &checksum, 2);
	memcpy(frame, adjacency->macs, 14);
}

static uint64_t pass(const uint8_t *input, size_t packets, bool digest)
{
	struct packet batch[BATCH], out[2][BATCH];
	uint32_t keys[BATCH];
	uint64_t values[BATCH], sum = 0;
	for (size_t at = 0; at + BATCH <= packets; at += BATCH) {
		for (int i = 0; i < BATCH; i++) {
			uint8_t *data = free_buffers[--free_count] + HEADROOM;
			uint32_t len = FRAME;
			__asm__ volatile("" : "+r"(len)); /* lengths come from descriptors */
			memcpy(data, input + (at + i) * FRAME, len);
			batch[i] = (struct packet){data, len};
		}
		int good = 0;
		for (int i = 0; i < BATCH; i++) {
			if (!valid(batch[i].data, batch[i].len)) {
				free_buffers[free_count++] = batch[i].data - HEADROOM;
				continue;
			}
			uint32_t key;
			memcpy(&key, batch[i].data + 30, 4);
			keys[good] = rte_be_to_cpu_32(key);
			batch[good++] = batch[i];
		}
		rte_fib_lookup_bulk(fib, keys, values, good);
		int sent[2] = {0, 0};
		for (int i = 0; i < good; i++) {
			const struct adjacency *adjacency = &adjacencies[values[i] & 255];
			forward(batch[i].data, adjacency);
			out[adjacency->port][sent[adjacency->port]++] = batch[i];
		}
		for (int port = 0; port < 2; port++)
			for (int i = 0; i < sent[port]; i++) {
				if (digest)
					for (int w = 0; w < FRAME; w += 8) {
						uint64_t part;
						memcpy(&part, out[port][i].data + w, 8);
						sum += part;
					}
				free_buffers[free_count++] = out[port][i].data - HEADROOM;
			}
	}
	return sum;
}

static void measure(const char *lookup, int locality, int passes)
{
	static const struct {
		const char *name;
		enum rte_fib_lookup_type type;
	} lookups[] = {{"macro", RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO},
		       {"inline", RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE},
		       {"avx512", RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512}};
	size_t chosen = 0;
	while (chosen < ARRAY(lookups) && strcmp(lookups[chosen].name, lookup))
		chosen++;
	if (chosen == ARRAY(lookups) || rte_fib_select_lookup(fib, lookups[chosen].type)) {
		printf("unsupported\n");
		return;
	}
	uint64_t digest = pass(frames[locality], count[locality], true);
	double start = now();
	for (int i = 0; i < passes; i++)
		pass(frames[locality], count[locality], false);
	printf("%.9f %zu %" PRIu64 "\n", now() - start, count[locality] / BATCH * BATCH * passes, digest);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: rte_fib_path DIRECTORY EAL-ARGUMENTS...");
	const char *directory = argv[1];
	argv[1] = argv[0];
	if (rte_eal_init(argc - 1, argv + 1) < 0)
		die("rte_eal_init");

	for (int v = 0; v < 256; v++) {
		struct adjacency *a = &adjacencies[v];
		a->port = v & 1;
		memcpy(a->macs, (uint8_t[]){2, 0xaa, 0, 0, 0, v, 2, 0, 0, 0, 0, 1 + (v & 1)}, 12);
		a->type = rte_cpu_to_be_16(0x0800);
	}
	size_t prefixes;
	struct prefix *p = load(directory, "prefixes", sizeof(*p), &prefixes);
	struct rte_fib_conf conf = {.type = RTE_FIB_DIR24_8, .default_nh = 1, .max_routes = 1200000};
	conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_2B;
	conf.dir24_8.num_tbl8 = 32767;
	fib = rte_fib_create("fib", 0, &conf);
	if (!fib)
		die("rte_fib_create");
	for (size_t i = 0; i < prefixes; i++)
		if (rte_fib_add(fib, p[i].address, p[i].len, p[i].value))
			die("rte_fib_add");
	for (size_t i = 0; i < ARRAY(localities); i++)
		frames[i] = load(directory, localities[i], FRAME, &count[i]);
	uint8_t *memory = aligned_alloc(2 << 20, BUFFERS * BUFFER);
	madvise(memory, BUFFERS * BUFFER, MADV_HUGEPAGE);
	memset(memory, 0, BUFFERS * BUFFER);
	while (free_count < BUFFERS) {
		free_buffers[free_count] = memory + free_count * BUFFER;
		free_count++;
	}

	printf("ready\n");
	fflush(stdout);
	char lookup[16], locality[16];
	int passes;
	while (scanf("%15s %15s %d", lookup, locality, &passes) == 3) {
		int l = 0;
		while (l < (int)ARRAY(localities) - 1 && strcmp(localities[l], locality))
			l++;
		measure(lookup, l, passes);
		fflush(stdout);
	}
	return 0;
}
