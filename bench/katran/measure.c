// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For `bench/katran/run`: what Katran's XDP program takes for a packet. 60-byte UDP packets of many flows to one address that it
// balances, in an order that no cache foresees, 64 by one BPF_PROG_TEST_RUN. The kernel says how long each took; what a
// turn of a function that does nothing takes is subtracted. Holds nothing of Katran but the shapes of its maps' entries.
//
//     measure OBJECT FLOWS TURNS
//
// prints a line of JSON: median and mean of the turns, nanoseconds a packet.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REALS 4
#define FRAME 60
#define RING 65537           /* RING_SIZE */
#define NO_CONNECTIONS 2     /* F_LRU_BYPASS */
#define MISSES 512           /* MAX_VIPS + LRU_CNTRS of its statistics: their second number */
#define PACKETS 64           /* of a turn */
#define SLOWEST_NS 500000    /* above: somebody else had the processor */

/* The entries of Katran's maps that are written here. */
struct vip { __be32 address[4]; __u16 port; __u8 protocol; };
struct vip_about { __u32 flags, number; };
struct real { __be32 address[4]; __u8 flags; };
struct flow { __be32 from[4], to[4]; __u16 ports[2]; __u8 protocol; };
struct connection { __u32 real; __u64 seen; };

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int map(struct bpf_object *object, const char *name)
{
    int fd = bpf_object__find_map_fd_by_name(object, name);
    if (fd < 0) {
        fprintf(stderr, "the object has no map %s: is it Katran's balancer?\n", name);
        exit(1);
    }
    return fd;
}

static void put(int fd, const void *key, const void *value, const char *what)
{
    if (bpf_map_update_elem(fd, key, value, BPF_ANY) != 0)
        fail(what);
}

static struct flow flow_of(__u32 number)
{
    struct flow flow = { .protocol = IPPROTO_UDP };
    flow.from[0] = htonl(0xc6120000u | number >> 8);
    flow.to[0] = htonl(0xc6130001u);
    flow.ports[0] = htons(1024 + (number & 255));
    flow.ports[1] = htons(9);
    return flow;
}

static void write_frame(unsigned char *frame, __u32 number)
{
    struct flow flow = flow_of(number);
    struct ethhdr *ethernet = (void *)frame;
    struct iphdr *ip = (void *)(ethernet + 1);
    struct udphdr *udp = (void *)(ip + 1);
    memset(frame, 0, FRAME);
    ethernet->h_proto = htons(ETH_P_IP);
    ip->version = 4;
    ip->ihl = 5;
    ip->ttl = 64;
    ip->protocol = IPPROTO_UDP;
    ip->tot_len = htons(FRAME - sizeof *ethernet);
    ip->saddr = flow.from[0];
    ip->daddr = flow.to[0];
    udp->source = flow.ports[0];
    udp->dest = flow.ports[1];
    udp->len = htons(FRAME - sizeof *ethernet - sizeof *ip);
}

/* Fills the maps: one address, a ring that gives each of the reals as much as any other, a table of connections for this CPU. */
static void fill(struct bpf_object *object, __u32 flows, int cpu, __u32 flags)
{
    struct flow one = flow_of(0);
    struct vip vip = { .port = one.ports[1], .protocol = IPPROTO_UDP };
    struct vip_about about = { .flags = flags };
    vip.address[0] = one.to[0];
    put(map(object, "vip_map"), &vip, &about, "vip_map");
    for (__u32 number = 0; number < REALS; number++) {
        struct real real = { .address = { htonl(0x0a000001u + number) } };
        __u32 at = number + 1;
        put(map(object, "reals"), &at, &real, "reals");
    }
    int ring = map(object, "ch_rings");
    for (__u32 at = 0; at < RING; at++) {
        __u32 real = 1 + at % REALS;
        put(ring, &at, &real, "ch_rings");
    }
    __u32 zero = 0;
    unsigned char gateway[8] = { 2, 0, 0, 0, 0, 1 };
    put(map(object, "ctl_array"), &zero, gateway, "ctl_array");
    int table = bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "connections", sizeof(struct flow), sizeof(struct connection), 2 * flows + 1024, NULL);
    if (table < 0)
        fail("a table of connections");
    if (!(flags & NO_CONNECTIONS)) {
        /* Katran itself learns at most 125,000 connections a second. */
        for (__u32 number = 0; number < flows; number++) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            struct flow flow = flow_of(number);
            struct connection connection = { 1 + number % REALS, now.tv_sec * 1000000000ull + now.tv_nsec };
            put(table, &flow, &connection, "connections");
        }
    }
    __u32 key = cpu;
    put(map(object, "lru_mapping"), &key, &table, "lru_mapping");
}

/* Median and mean, in nanoseconds a packet. */
struct found { double median, mean; };

static int in_order(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* What a program takes for a packet: `turns` calls of the one that turns it. */
static struct found run(struct bpf_object *object, const char *name, __u32 flows, __u32 turns, __u64 expected)
{
    double *times = calloc(turns, sizeof *times), sum = 0;
    struct { __u64 next, flows, sent; } numbers = { 1, flows, 0 };
    int held = map(object, ".data");
    __u32 zero = 0;
    if (!times)
        fail("memory");
    put(held, &zero, &numbers, "the object's numbers");
    unsigned char in[FRAME], out[256];
    __u32 counted = 0;
    write_frame(in, 0);
    int program = bpf_program__fd(bpf_object__find_program_by_name(object, name));
    for (__u32 turn = 0; turn < turns; turn++) {
        LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = in, .data_size_in = FRAME, .data_out = out, .data_size_out = sizeof out, .repeat = 1);
        if (bpf_prog_test_run_opts(program, &options))
            fail("BPF_PROG_TEST_RUN");
        if (options.duration < SLOWEST_NS) {
            times[counted++] = options.duration / (double)PACKETS;
            sum += options.duration / (double)PACKETS;
        }
    }
    if (bpf_map_lookup_elem(held, &zero, &numbers))
        fail("the object's numbers");
    if (numbers.sent != expected || counted * 10 < turns * 9) {
        fprintf(stderr, "%llu packets were sent, not %llu; %u of %u turns were not interrupted\n", numbers.sent, expected, counted, turns);
        exit(1);
    }
    qsort(times, counted, sizeof *times, in_order);
    struct found found = { times[counted / 2], sum / counted };
    free(times);
    return found;
}

/* How many packets found no connection in the table. */
static __u64 missed(struct bpf_object *object)
{
    int cpus = libbpf_num_possible_cpus();
    __u64 (*numbers)[2] = calloc(cpus, sizeof *numbers), sum = 0;
    __u32 key = MISSES;
    if (!numbers || bpf_map_lookup_elem(map(object, "stats"), &key, numbers))
        fail("stats");
    for (int cpu = 0; cpu < cpus; cpu++)
        sum += numbers[cpu][1];
    free(numbers);
    return sum;
}

static struct bpf_object *opened(const char *path)
{
    struct bpf_object *object = bpf_object__open_file(path, NULL);
    if (!object || bpf_object__load(object))
        fail(path);
    return object;
}

static struct found katran(const char *path, __u32 flows, __u32 turns, int cpu, __u32 flags)
{
    struct bpf_object *object = opened(path);
    fill(object, flows, cpu, flags);
    __u64 packets = (__u64)turns * PACKETS;
    struct found found = run(object, "katran", flows, turns, packets);
    __u64 misses = missed(object), expected = flags & NO_CONNECTIONS ? packets : 0;
    if (misses != expected) {
        fprintf(stderr, "%llu of %llu packets found no connection, not %llu\n", misses, packets, expected);
        exit(1);
    }
    bpf_object__close(object);
    return found;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list rest)
{
    return level == LIBBPF_WARN ? vfprintf(stderr, format, rest) : 0;
}

int main(int count, char **words)
{
    libbpf_set_print(quiet);
    if (count != 4) {
        fprintf(stderr, "measure OBJECT FLOWS TURNS\n");
        return 2;
    }
    __u32 flows = atoi(words[2]), turns = atoi(words[3]);
    int cpu = sched_getcpu();
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    if (sched_setaffinity(0, sizeof here, &here))
        fail("this CPU");
    struct bpf_object *object = opened(words[1]);
    struct found bare = run(object, "bare", flows, turns, 0);
    bpf_object__close(object);
    struct found table = katran(words[1], flows, turns, cpu, 0);
    struct found ring = katran(words[1], flows, turns, cpu, NO_CONNECTIONS);
    printf("{\"around_ns\": [%.1f, %.1f], \"connections_ns\": [%.1f, %.1f], \"ring_ns\": [%.1f, %.1f]}\n", bare.median, bare.mean,
           table.median - bare.median, table.mean - bare.mean, ring.median - bare.median, ring.mean - bare.mean);
    return 0;
}
