/* DPDK's rte_fib and rte_fib6 as the yardstick for longest-prefix match.
 *
 * Usage: rte_fib DIRECTORY EAL-ARGUMENTS...
 * DIRECTORY holds, in host byte order, what the caller drew:
 *   4.prefixes  records of u32 address, u32 length, u32 value
 *   6.prefixes  records of 16 address bytes, u32 length, u32 value
 *   4.uniform 4.routed 4.hot   u32 addresses;   6.uniform 6.routed 6.hot   16 address bytes each
 * Once ready it prints "ready", then answers each line "FAMILY ENTRY-BYTES LOOKUP LOCALITY PASSES" of
 * standard input by "SECONDS-OF-CPU LOOKUPS CHECKSUM", the checksum being the sum of the values of one pass.
 */
#include <inttypes.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_fib6.h>

#define BATCH 32

#include "../peer.h"

static const char *const localities[] = {"uniform", "routed", "hot"};

struct prefix4 {
	uint32_t address, len, value;
};
struct prefix6 {
	uint8_t address[16];
	uint32_t len, value;
};

static uint32_t *addresses4[ARRAY(localities)];
static uint8_t (*addresses6[ARRAY(localities)])[16];
static size_t count4[ARRAY(localities)], count6[ARRAY(localities)];
static struct rte_fib *fib_2, *fib_4;
static struct rte_fib6 *fib6;

static struct rte_fib *build4(const char *name, enum rte_fib_dir24_8_nh_sz size, uint32_t tbl8,
			      const struct prefix4 *prefixes, size_t count)
{
	struct rte_fib_conf conf = {.type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = 1200000};
	conf.dir24_8.nh_sz = size;
	conf.dir24_8.num_tbl8 = tbl8;
	struct rte_fib *fib = rte_fib_create(name, 0, &conf);
	if (!fib)
		die("rte_fib_create");
	double start = now();
	for (size_t i = 0; i < count; i++)
		if (rte_fib_add(fib, prefixes[i].address, prefixes[i].len, prefixes[i].value)) {
			fprintf(stderr, "rte_fib: %s cannot hold these routes\n", name);
			rte_fib_free(fib);
			return NULL;
		}
	fprintf(stderr, "rte_fib: %s loaded in %.2f s\n", name, now() - start);
	return fib;
}

static struct rte_fib6 *build6(const struct prefix6 *prefixes, size_t count)
{
	struct rte_fib6_conf conf = {.type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = 400000};
	conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
	conf.trie.num_tbl8 = 1 << 18;
	struct rte_fib6 *fib = rte_fib6_create("fib6", 0, &conf);
	if (!fib)
		die("rte_fib6_create");
	double start = now();
	for (size_t i = 0; i < count; i++)
		if (rte_fib6_add(fib, prefixes[i].address, prefixes[i].len, prefixes[i].value))
			die("rte_fib6_add");
	fprintf(stderr, "rte_fib: fib6 loaded in %.2f s\n", now() - start);
	return fib;
}

static void measure4(struct rte_fib *fib, const char *lookup, int locality, int passes)
{
	static const struct {
		const char *name;
		enum rte_fib_lookup_type type;
	} lookups[] = {{"macro", RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO},
		       {"inline", RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE},
		       {"unified", RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI},
		       {"avx512", RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512}};
	size_t chosen = 0;
	while (chosen < ARRAY(lookups) && strcmp(lookups[chosen].name, lookup))
		chosen++;
	if (!fib || chosen == ARRAY(lookups) || rte_fib_select_lookup(fib, lookups[chosen].type)) {
		printf("unsupported\n");
		return;
	}
	uint64_t values[BATCH], sum = 0;
	uint32_t *addresses = addresses4[locality];
	size_t count = count4[locality] / BATCH * BATCH;
	double start = now();
	for (int pass = 0; pass < passes; pass++)
		for (size_t i = 0; i < count; i += BATCH) {
			rte_fib_lookup_bulk(fib, addresses + i, values, BATCH);
			sum += values[i / BATCH % BATCH];
		}
	double seconds = now() - start;
	sum = 0;
	for (size_t i = 0; i < count; i += BATCH) {
		rte_fib_lookup_bulk(fib, addresses + i, values, BATCH);
		for (int k = 0; k < BATCH; k++)
			sum += values[k];
	}
	printf("%.9f %zu %" PRIu64 "\n", seconds, count * passes, sum);
}

static void measure6(const char *lookup, int locality, int passes)
{
	enum rte_fib6_lookup_type type = strcmp(lookup, "avx512") ? RTE_FIB6_LOOKUP_TRIE_SCALAR
								  : RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512;
	if (rte_fib6_select_lookup(fib6, type)) {
		printf("unsupported\n");
		return;
	}
	uint64_t values[BATCH], sum = 0;
	uint8_t(*addresses)[16] = addresses6[locality];
	size_t count = count6[locality] / BATCH * BATCH;
	double start = now();
	for (int pass = 0; pass < passes; pass++)
		for (size_t i = 0; i < count; i += BATCH) {
			rte_fib6_lookup_bulk(fib6, addresses + i, values, BATCH);
			sum += values[i / BATCH % BATCH];
		}
	double seconds = now() - start;
	sum = 0;
	for (size_t i = 0; i < count; i += BATCH) {
		rte_fib6_lookup_bulk(fib6, addresses + i, values, BATCH);
		for (int k = 0; k < BATCH; k++)
			sum += values[k];
	}
	printf("%.9f %zu %" PRIu64 "\n", seconds, count * passes, sum);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: rte_fib DIRECTORY EAL-ARGUMENTS...");
	const char *directory = argv[1];
	argv[1] = argv[0];
	if (rte_eal_init(argc - 1, argv + 1) < 0)
		die("rte_eal_init");

	size_t prefixes;
	struct prefix4 *p4 = load(directory, "4.prefixes", sizeof(*p4), &prefixes);
	fib_2 = build4("fib_2", RTE_FIB_DIR24_8_2B, 32767, p4, prefixes);
	fib_4 = build4("fib_4", RTE_FIB_DIR24_8_4B, 65536, p4, prefixes);
	struct prefix6 *p6 = load(directory, "6.prefixes", sizeof(*p6), &prefixes);
	fib6 = build6(p6, prefixes);
	for (size_t i = 0; i < ARRAY(localities); i++) {
		char name[32];
		snprintf(name, sizeof(name), "4.%s", localities[i]);
		addresses4[i] = load(directory, name, 4, &count4[i]);
		snprintf(name, sizeof(name), "6.%s", localities[i]);
		addresses6[i] = load(directory, name, 16, &count6[i]);
	}

	printf("ready\n");
	fflush(stdout);
	int family, bytes, passes;
	char lookup[16], locality[16];
	while (scanf("%d %d %15s %15s %d", &family, &bytes, lookup, locality, &passes) == 5) {
		int l = 0;
		while (l < (int)ARRAY(localities) - 1 && strcmp(localities[l], locality))
			l++;
		if (family == 4)
			measure4(bytes == 2 ? fib_2 : fib_4, lookup, l, passes);
		else
			measure6(lookup, l, passes);
		fflush(stdout);
	}
	return 0;
}
