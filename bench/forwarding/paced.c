// SPDX-License-Identifier: MIT OR Apache-2.0
//
// For `bench/run forwarding` and `firewall`: 64-byte packets of flows in turn, 1,024 unless said, at a rate, in bursts of
// a millisecond between which it sleeps, so that what the machine spends beside them is what forwarding costs.
//
//     paced INTERFACE ITS-MAC NEXT-HOP'S-MAC PACKETS-A-SECOND SECONDS [FLOWS [FIRST-FLOW]]
//
// prints how many it sent, and nanoseconds of processor time meanwhile: of forwarding that is done while it sends, too.
//
// To 10.101.0.0/16, from 198.18.0.0/16.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

// 64 bytes on the wire with the check sequence.
enum { LENGTH = 60, BATCH = 64, BURST_NS = 1000000 };

static uint64_t now_by(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static uint64_t now(void)
{
	return now_by(CLOCK_MONOTONIC);
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void fill(uint8_t *frame, const uint8_t *from, const uint8_t *to, unsigned flow)
{
	uint8_t *ip = frame + 14, *udp = ip + 20;
	uint32_t sum = 0;

	memcpy(frame, to, 6);
	memcpy(frame + 6, from, 6);
	put16(frame + 12, ETHERTYPE_IP);
	ip[0] = 0x45;
	put16(ip + 2, LENGTH - 14);
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, (uint8_t[]){ 198, 18, flow >> 8, flow }, 4);
	memcpy(ip + 16, (uint8_t[]){ 10, 101, flow >> 8, flow }, 4);
	for (int i = 0; i < 20; i += 2)
		sum += ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~sum);
	put16(udp, 10000 + (flow >> 16));
	put16(udp + 2, 9);
	put16(udp + 4, LENGTH - 34);
}

int main(int count, char **words)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET };
	struct ether_addr from, to;
	int on = 1, line = socket(AF_PACKET, SOCK_RAW, 0);
	uint64_t begun, end, sent = 0, tried = 0, used, rate;
	unsigned flows = count > 6 ? atoi(words[6]) : 1024, first = count > 7 ? atoi(words[7]) : 0;
	uint8_t (*frames)[LENGTH] = calloc(flows, LENGTH);
	struct iovec *parts = calloc(flows, sizeof(*parts));
	// The first ones stand behind the last ones once more.
	struct mmsghdr *messages = calloc(flows + BATCH, sizeof(*messages));

	if (count < 6 || count > 8 || flows < BATCH || !frames || !parts || !messages ||
	    !ether_aton_r(words[2], &from) || !ether_aton_r(words[3], &to)) {
		fprintf(stderr, "usage: paced INTERFACE MAC NEXT-HOP PACKETS-A-SECOND SECONDS [FLOWS [FIRST]]\n");
		return 2;
	}
	address.sll_ifindex = if_nametoindex(words[1]);
	setsockopt(line, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	if (bind(line, (void *)&address, sizeof(address))) {
		perror(words[1]);
		return 1;
	}
	for (unsigned i = 0; i < flows; i++) {
		fill(frames[i], from.ether_addr_octet, to.ether_addr_octet, first + i);
		parts[i] = (struct iovec){ frames[i], LENGTH };
	}
	for (unsigned i = 0; i < flows + BATCH; i++) {
		messages[i].msg_hdr.msg_iov = &parts[i % flows];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	rate = strtoull(words[4], NULL, 10);
	used = now_by(CLOCK_PROCESS_CPUTIME_ID);
	begun = now();
	end = begun + (uint64_t)(atof(words[5]) * 1e9);
	for (uint64_t time = begun; time < end; time = now()) {
		uint64_t due = (time - begun) * rate / 1000000000 + 1;

		while (tried < due && now() < end) {
			unsigned batch = due - tried < BATCH ? due - tried : BATCH;
			int taken = sendmmsg(line, messages + tried % flows, batch, 0);

			// What the interface does not take is gone.
			tried += taken > 0 ? taken : 1;
			sent += taken > 0 ? taken : 0;
		}
		time += BURST_NS;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
				&(struct timespec){ time / 1000000000, time % 1000000000 }, NULL);
	}
	used = now_by(CLOCK_PROCESS_CPUTIME_ID) - used;
	printf("%llu %llu\n", (unsigned long long)sent, (unsigned long long)used);
	return 0;
}
