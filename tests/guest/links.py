"""VLANs, a bond and a VRF in the guest, whose kernel has them."""

import json
import time

from cards import never_entered
from flows import Exchange
from machine import Failure, mac

# The tag of each card's packets.
VLANS = (7, 8)
SOURCE, DESTINATION = "10.7.0.2", "10.8.0.2"
ROUNDS = 16


def make(guest):
    """A VLAN on each card, and a bond."""
    for card, vlan in enumerate(VLANS):
        name = f"eth{card}.{vlan}"
        guest.check(
            f"/bin/ip link add link eth{card} name {name} type vlan id {vlan}\n"
            f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6\n"
            f"/bin/ip addr add 10.{vlan}.0.1/24 dev {name} && /bin/ip link set {name} up\n"
            f"/bin/ip neigh add 10.{vlan}.0.2 lladdr 02:00:00:00:00:02 dev {name} nud permanent"
        )
    # The module makes bond0 by itself.
    guest.check("/bin/ip link show bond0 || /bin/ip link add bond0 type bond")
    guest.check("/bin/ip link set bond0 up")


def bond_is_refused(guest, configuration, say):
    """Neither `check` nor `run` takes a bond for a port, and both say why."""
    text = configuration.replace('"eth1"', '"bond0"')
    guest.check(f"cat > /run/bond.toml <<'END'\n{text}\nEND")
    for command in ("check", "run"):
        status, said = guest.run(f"ebb router {command} -c /run/bond.toml", 60)
        if status != 1 or "bond0" not in said or "cannot be a port" not in said:
            raise Failure(f"router {command} with a bond: exit status {status}: {said}")
    guest.check("/bin/ip link set bond0 down")
    say("a bond is refused by `check` and by `run`")


def tagged_packets_pass(guest, flows, say):
    """Sends packets of one VLAN that have to leave in another, by the running router."""
    exchange = vlan_exchange()
    before = never_entered(0)
    try:
        for _ in range(ROUNDS):
            for flow in range(flows):
                exchange.send(flow)
            exchange.take(0.01)
        exchange.settle()
        lost = exchange.lost() - (never_entered(0) - before)
    finally:
        exchange.close()
    if lost or exchange.reordered or exchange.repeated:
        raise Failure(
            f"VLANs {VLANS}: {lost} lost, {exchange.reordered} reordered, {exchange.repeated} repeated"
        )
    status = json.loads(guest.check("ebb router show --json", 60))
    counted = {one["name"]: (one["received"], one["forwarded"]) for one in status["interfaces"]}
    names = [f"eth{card}.{vlan}" for card, vlan in enumerate(VLANS)]
    if counted[names[0]][0] < exchange.received or counted[names[1]][1] < exchange.received:
        raise Failure(f"the router did not forward the tagged packets itself: {counted}")
    say(f"{exchange.received} packets came in VLAN {VLANS[0]} and left in VLAN {VLANS[1]}: 0 lost, 0 reordered")


def vrf_is_the_kernels(guest, flows, say):
    """Packets of interfaces in a VRF go the kernel's way: nowhere when only one side is in it, by the
    VRF's own table when both are. The router forwards none of them, and says why."""
    # Without the last route what the VRF's table does not know is looked up in the main one.
    guest.check(
        "/bin/ip link add red type vrf table 10 && /bin/ip link set red up\n"
        "/bin/ip route add table 10 unreachable default metric 4278198272"
    )
    enter_vrf(guest, "eth0.7")
    await_policy(guest, "eth0.7")
    between = vlan_exchange()
    try:
        for flow in range(flows):
            between.send(flow)
        between.settle()
        if between.received:
            raise Failure(f"{between.received} packets left the VRF for another interface")
    finally:
        between.close()
    enter_vrf(guest, "eth1.8")
    await_policy(guest, "eth1.8")
    before = forwarded(guest, "eth1.8")
    within, entered = vlan_exchange(), never_entered(0)
    try:
        for flow in range(flows):
            within.send(flow)
        within.settle()
        lost = within.lost() - (never_entered(0) - entered)
    finally:
        within.close()
    if lost or forwarded(guest, "eth1.8") != before:
        raise Failure(f"in the VRF {lost} packets were lost; the router forwarded {forwarded(guest, 'eth1.8') - before}")
    guest.check("/bin/ip link set eth0.7 nomaster; /bin/ip link set eth1.8 nomaster; /bin/ip link del red; /bin/ip route flush table 10")
    say(f"of {flows} packets 0 left a VRF, and {within.received} passed within it, by the kernel")


def vlan_exchange():
    """From the one VLAN to the other."""
    return Exchange("tap0", "tap1", mac(0), SOURCE, DESTINATION, VLANS)


def enter_vrf(guest, name):
    """Puts a VLAN into the VRF; that takes its link down and up, and the neighbour with it."""
    guest.check(
        f"/bin/ip link set {name} master red\n"
        f"/bin/ip neigh replace 10.{name[-1]}.0.2 lladdr 02:00:00:00:00:02 dev {name} nud permanent"
    )


def await_policy(guest, name):
    """Waits until the router says that packets from an interface are left to the kernel for its VRF."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        lines = guest.check("ebb router show", 60).splitlines()
        if any("vrf" in line and name in line and "left to the kernel" in line for line in lines):
            return
        time.sleep(0.2)
    raise Failure(f"the router does not say that {name} is in a VRF: {guest.check('ebb router show', 60)}")


def forwarded(guest, name):
    """Packets that the router itself has sent to an interface."""
    status = json.loads(guest.check("ebb router show --json", 60))
    return next((one["forwarded"] for one in status["interfaces"] if one["name"] == name), 0)
