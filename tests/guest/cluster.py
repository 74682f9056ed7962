"""The guest as a back-end of a cluster on this side, beside one that is a network namespace."""

import json
import subprocess
import tempfile
import time

import router
from cards import host
from flows import Exchange
from machine import MONITOR, Failure

RATE_PPS, BURST = 1000, 16
PATIENCE_SECONDS = 60

# The guest is emulated: its answers may be late, and what is tried here is not how soon a death is seen.
CONFIGURATION = f"""
[cluster]
name = "guest"
socket = "/run/cluster.sock"
[policy]
name = "all"
[probing]
interval_ms = 20
misses = 100
[[side]]
mac = "02:eb:b0:00:00:10"
addresses = ["10.77.0.1/24"]
probe = "10.77.0.240"
[[side]]
mac = "02:eb:b0:00:01:10"
addresses = ["10.77.1.1/24"]
probe = "10.77.1.240"
[[back_end]]
name = "space"
macs = ["02:eb:b0:01:00:00", "02:eb:b0:01:00:01"]
[[back_end]]
name = "guest"
macs = ["02:eb:b0:01:01:00", "02:eb:b0:01:01:01"]
[[member]]
name = "here"
leader = true
[member.balancer]
outside = ["out0", "out1"]
inside = ["in0", "in1"]
[[member.keep]]
back_end = "space"
how = "namespace"
bridges = ["seg0", "seg1"]
[[member.keep]]
back_end = "guest"
how = "guest"
monitor = "{MONITOR}"
"""

# As an operator sets a machine up that is to be a back-end, for one side.
FURNISH = """
/bin/ip link del eth{side}.{vlan}
/bin/ip link set eth{side} down
/bin/ip addr flush dev eth{side}
/bin/ip link set eth{side} address 02:eb:b0:01:01:0{side}
/bin/ip link set eth{side} up
/bin/ip addr add 10.77.{side}.1/24 dev eth{side}
echo 0 > /proc/sys/net/ipv4/conf/eth{side}/rp_filter
echo 1 > /proc/sys/net/ipv4/conf/eth{side}/arp_ignore
"""


def halts_and_resumes(guest, binary, flows, say):
    """Drains the guest and takes it back while flows pass.

    Raises Failure when one is lost or out of order, when a guest that is off runs or one that is on does
    not, or when nothing went through it.
    """
    with open("/proc/self/uid_map", encoding="ascii") as file:
        if file.read().split()[1] != "0":
            return say("the guest as a back-end: left out, only root loads XDP programs")
    furnish(guest)
    router.start(guest, 1)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/cluster.toml", "w", encoding="ascii") as file:
            file.write(CONFIGURATION)
        with open(f"{folder}/log", "wb") as log:
            member = subprocess.Popen(
                [binary, "cluster", "run", f"{folder}/cluster.toml", "--member", "here"], stderr=log
            )
        try:
            pass_and_move(guest, binary, flows, say)
        except Failure as failure:
            with open(f"{folder}/log", encoding="utf-8") as log:
                raise Failure(f"{failure}\n{json.dumps(status(binary))}\n{log.read()}") from None
        finally:
            member.terminate()
            member.wait()


def furnish(guest):
    """A host on each side of the balancer, and a segment on each side behind it with the guest's card."""
    # Hosts and segments are of one namespace here: each answers for its own addresses only.
    with open("/proc/sys/net/ipv4/conf/all/arp_ignore", "w", encoding="ascii") as file:
        file.write("1")
    for side in range(2):
        # What was tried before has left its addresses.
        host(f"address flush dev tap{side}")
        host(f"link add seg{side} type bridge mcast_snooping 0")
        host(f"link set seg{side} up")
        for near, far in ((f"out{side}", f"host{side}"), (f"in{side}", f"b-in{side}")):
            host(f"link add {near} type veth peer name {far}")
            host(f"link set {near} up")
            host(f"link set {far} up")
        host(f"link set b-in{side} master seg{side}")
        host(f"link set tap{side} master seg{side}")
        host(f"address add 10.77.{side}.2/24 dev host{side}")
        guest.check(FURNISH.format(side=side, vlan=7 + side))
    guest.check("echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; echo 1 > /proc/sys/net/ipv4/ip_forward")


def pass_and_move(guest, binary, flows, say):
    """Flows pass both back-ends, then one, then both."""
    until("both are on", lambda: powers(binary) == {"space": "on", "guest": "on"} and reached(binary))
    # Neighbours are found by the first packets, of which a kernel keeps a few.
    until("hosts are known", lambda: all_cross(flows))
    exchange = exchange_of_hosts()
    try:
        before = forwarded(guest)
        exchange.run(flows, 1.0, RATE_PPS, BURST)
        exchange.settle()
        first = forwarded(guest) - before
        order(binary, "drain", "guest")
        while_passing(exchange, flows, "it is off", lambda: powers(binary)["guest"] == "off")
        if guest.state() != "paused":
            raise Failure(f"a guest that is off is {guest.state()}")
        exchange.run(flows, 1.0, RATE_PPS, BURST)
        begun = time.monotonic()
        order(binary, "drain", "guest", "--back")
        until("it is on", lambda: powers(binary)["guest"] == "on" and reached(binary))
        woken = time.monotonic() - begun
        exchange.run(flows, 1.0, RATE_PPS, BURST)
        exchange.settle()
        second = forwarded(guest) - before - first
        lost = exchange.lost()
        if lost or exchange.reordered or exchange.repeated:
            raise Failure(f"{lost} lost, {exchange.reordered} reordered, {exchange.repeated} repeated")
        if guest.state() != "running" or not first or not second:
            raise Failure(f"the guest is {guest.state()}, forwarded {first} packets, then {second}")
        say(
            f"the guest as a back-end: halted and resumed, on again after {1e3 * woken:.0f} ms; of "
            f"{sum(exchange.sent.values())} packets it forwarded {first + second}: 0 lost, 0 reordered"
        )
    finally:
        exchange.close()


def exchange_of_hosts():
    """From the host on one side to the one on the other, by the balancer."""
    return Exchange("host0", "host1", "02:eb:b0:00:00:10", "10.77.0.2", "10.77.1.2")


def all_cross(flows):
    """Whether packets of all flows come."""
    exchange = exchange_of_hosts()
    try:
        exchange.run(flows, 0.2, RATE_PPS, BURST)
        exchange.settle()
        return exchange.lost() == 0
    finally:
        exchange.close()


def while_passing(exchange, flows, what, ready):
    """Sends until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise Failure(f"after {PATIENCE_SECONDS} s not: {what}")
        exchange.run(flows, 0.2, RATE_PPS, BURST)


def until(what, ready):
    """Waits until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > end:
            raise Failure(f"after {PATIENCE_SECONDS} s not: {what}")
        time.sleep(0.02)


def status(binary):
    """The cluster's state; none while it does not answer."""
    shown = subprocess.run(
        [binary, "cluster", "show", "--json", "--socket", "/run/cluster.sock"], capture_output=True
    )
    return json.loads(shown.stdout) if shown.returncode == 0 else None


def powers(binary):
    """Which back-ends are on."""
    seen = status(binary)
    return {one["name"]: one["power"] for one in seen["back_ends"]} if seen else {}


def reached(binary):
    """Whether the balancer reaches all back-ends."""
    return not any(one["dead_to"] for one in status(binary)["back_ends"])


def order(binary, *words):
    """Tells the cluster something."""
    done = subprocess.run(
        [binary, "cluster", *words, "--socket", "/run/cluster.sock"], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: {done.stderr}")


def forwarded(guest):
    """Packets that the router in the guest has sent."""
    seen = json.loads(guest.check("ebb router show --json", 60))
    return sum(worker["packets"]["forwarded"] for worker in seen["workers"])
