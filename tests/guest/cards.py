"""The guest's network cards: addresses, counters, hash key and indirection table."""

import re
import subprocess

from flows import Exchange, flow_hash
from image import program
from machine import Failure, mac

SOURCE, DESTINATION = "10.0.0.2", "10.0.1.2"
FLOW_PACKETS = 8


def prepare(guest, cards, workers):
    """Gives both sides their addresses and every card as many queues as there are workers."""
    for card in range(cards):
        host(f"link set tap{card} txqueuelen 10000 up")
        name = f"eth{card}"
        if guest.check(f"cat /sys/class/net/{name}/address") != mac(card):
            raise Failure(f"{name} is not card {card}")
        # /bin/ip: the shell prefers its own, which knows less.
        guest.check(
            f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6\n"
            f"/bin/ip addr add 10.0.{card}.1/24 dev {name} && /bin/ip link set {name} up\n"
            f"/bin/ip neigh add 10.0.{card}.2 lladdr 02:00:00:00:00:02 dev {name} nud permanent\n"
            f"ethtool -L {name} combined {workers}"
        )
    guest.check("echo 1 > /proc/sys/net/ipv4/ip_forward")


def host(command):
    """Runs `ip` on this side and returns its output."""
    done = subprocess.run([program("ip"), *command.split()], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"ip {command}: {done.stderr.strip()}")
    return done.stdout


def never_entered(card):
    """Packets that this side dropped before the guest could take them."""
    counters = re.search(r"TX:.*\n\s*\d+\s+\d+\s+\d+\s+(\d+)", host(f"-s link show tap{card}"))
    return int(counters.group(1))


def queues(guest, card):
    """Receive queues of a card: the most it can have, and those in use."""
    text = guest.check(f"ethtool -l {card}")
    most, used = re.findall(r"^Combined:\s*(\d+)", text, re.MULTILINE)
    return int(most), int(used)


def expect_obeyed(guest, flows, when):
    """Sends flows through the guest's kernel and compares what each queue of eth0 got with the
    table and every flow's hash; returns it."""
    key, table = indirection(guest, "eth0")
    before = queue_packets(guest, "eth0")
    expected = [0] * len(before)
    for flow in range(flows):
        entry = flow_hash(key, flow, SOURCE, DESTINATION) % len(table)
        expected[table[entry]] += FLOW_PACKETS
    exchange = Exchange("tap0", "tap1", mac(0), SOURCE, DESTINATION)
    for _ in range(FLOW_PACKETS):
        for flow in range(flows):
            exchange.send(flow)
        exchange.take(0.01)
    exchange.settle()
    exchange.close()
    got = [new - old for old, new in zip(before, queue_packets(guest, "eth0"))]
    if got != expected or exchange.lost() or exchange.reordered:
        raise Failure(
            f"{when}: queues got {got}, the table says {expected}; "
            f"{exchange.lost()} lost, {exchange.reordered} reordered"
        )
    return got


def indirection(guest, card):
    """A card's hash key and indirection table."""
    text = guest.check(f"ethtool -x {card}")
    table = parse_table(text)
    key = re.search(r"RSS hash key:\s*([0-9a-f:]+)", text)
    if not table or not key:
        raise Failure(f"no indirection table: {text}")
    return bytes.fromhex(key.group(1).replace(":", "")), table


def parse_table(text):
    """The queue of each entry in what `ethtool -x` prints."""
    rows = re.findall(r"^\s*\d+:((?:\s+\d+)+)\s*$", text, re.MULTILINE)
    return [int(queue) for row in rows for queue in row.split()]


def queue_packets(guest, card):
    """Packets received by each queue of a card."""
    text = guest.check(f"ethtool -S {card}")
    return [int(count) for count in re.findall(r"rx_queue_\d+_packets: (\d+)", text)]
