"""Rate limits of ICMP errors: RFC 1812 section 4.3.2.8, RFC 4443 section 2.4(f)."""

import time

import ipv4
import ipv6
from matrix import Row
from wire import collect

# The router's defaults: per second and worker, and at once.
RATE, BURST = 1000, 100
PACKETS = 1000


class Limited:
    """At least the burst, at most what the rate allows besides; judged with the time it took."""

    says = f"at least {BURST} errors, at most {BURST} and {RATE} per second"
    seconds = 0.0

    def judge(self, sent, seen):
        return BURST <= len(seen) <= BURST + RATE * self.seconds + 10 and len(seen) < len(sent)


def rows():
    """One row for each family."""
    return [
        Row("RFC 1812 4.3.2.8", "errors are limited by a token bucket",
            f"{PACKETS} UDP packets of one flow at once, TTL 1",
            lambda f: [ipv4.udp(f, ttl=1)] * PACKETS, Limited()),
        Row("RFC 4443 2.4(f)", "errors are limited by a token bucket",
            f"{PACKETS} UDP packets of one flow at once, hop limit 1",
            lambda f: [ipv6.udp(f, hlim=1)] * PACKETS, Limited()),
    ]


def run(rows, lab):
    """Sends each row's packets as fast as it can."""
    for row in rows:
        time.sleep(0.2)
        frames = row.sent
        begun = time.monotonic()
        seen, last = [], begun
        for port, frame in frames:
            lab.stations[port].send(frame)
        for pair in collect(lab.stations, 0.5, 10):
            seen.append(pair)
            last = time.monotonic()
        row.expects.seconds = last - begun
        row.judge(seen)
        row.observed = "limited" if row.verdict == "conforms" else f"{len(row.seen)} errors"
