"""The kernel path in the guest, whose kernel has VLANs and the hook before the network stack."""

import json
import time

import links
from cards import never_entered
from flows import Exchange, frame, packet_socket
from machine import Failure, mac

FLOWS, ROUNDS = 16, 16
PRIORITY = 5
CONFIGURATION = """
[router]
mode = "powersave"
workers = 1
[governor]
frequency = false
idle = false
[[port]]
name = "eth0"
path = "kernel"
[[port]]
name = "eth1"
path = "kernel"
"""
RULES = """table ip f { chain forward { type filter hook forward priority 0; policy drop;
ct state established,related accept; iifname "eth0" accept; }; }"""
# VLAN of the packets that come in, and of those that leave; 0: none.
WAYS = [(7, 8), (7, 0), (0, 8)]


def vlans_are_forwarded(guest, say):
    """Packets from and to VLANs go by the program, one that comes while the router runs too, under the kernel's
    filters, with its priorities and counters; and by the kernel when the router was killed."""
    # With several the emulator's own queues let packets of new flows overtake each other, whoever forwards.
    guest.check("for card in eth0 eth1; do ethtool -L $card combined 1; done")
    links.make(guest)
    start(guest)
    for come, leave in WAYS:
        forwarded = expect_forwarded(guest, come, leave)
        say(f"{forwarded} packets came {named(come)} and left {named(leave)} by the kernel path: 0 lost, 0 reordered")
    sent = int(guest.check("cat /sys/class/net/eth1.8/statistics/tx_packets"))
    if sent < 2 * FLOWS * ROUNDS:
        raise Failure(f"the kernel counts {sent} packets of eth1.8")
    a_new_vlan_is_forwarded(guest, say)
    an_upgrade_goes_on(guest, say)
    tags_have_their_priority(guest, say)
    filters_hold(guest, say)
    connections_are_forwarded(guest, say)
    guest.check("kill -9 $(pidof ebb)")
    passes(exchange(7, 8), "after the router was killed")
    say("the router was killed: the kernel forwards")
    interrupts_gather(guest, say)


def filters_do_where_there_are_no_links(guest, say):
    """A kernel before 6.6: the program is a filter of traffic control, which comes back when somebody removes it and is
    gone with the place where it hung however the router ends."""
    guest.check("for card in eth0 eth1; do ethtool -L $card combined 1; done")
    for ends in ("kill -9", "kill"):
        guest.check("rm -f /run/router.log")
        start(guest, way=(0, 0))
        forwarded = expect_forwarded(guest, 0, 0)
        if traffic_control(guest).count("ebb direct-action") != 2:
            raise Failure(f"not a filter at each card: {traffic_control(guest)}")
        guest.check("/bin/tc filter del dev eth0 ingress; /bin/tc qdisc del dev eth1 clsact")
        await_forwarding(guest, 0, 0)
        expect_forwarded(guest, 0, 0)
        # Not the guard process, which takes the filters away.
        guest.check(f"{ends} $(cat /run/router.pid)")
        guest.check("while pidof ebb > /dev/null; do sleep 0.1; done", 30)
        passes(exchange(0, 0), f"after {ends}")
        if traffic_control(guest):
            raise Failure(f"after {ends}: {traffic_control(guest)}")
        say(f"{forwarded} packets passed by filters before the network stack, 0 lost, 0 reordered; none are left after {ends}")


def traffic_control(guest):
    """The filters of both cards, and the places where they hang."""
    return guest.check(
        "for card in eth0 eth1; do /bin/tc filter show dev $card ingress; /bin/tc qdisc show dev $card clsact | grep clsact; done; true"
    )


def interrupts_gather(guest, say):
    """With a queue for each CPU and little to do, one CPU has all interrupts, and packets leave by the queue that
    received them; in the end everything is as it was found."""
    # The killed router's guard puts back what that one had turned.
    guest.check("while pidof ebb > /dev/null; do sleep 0.1; done")
    guest.check("rm -f /run/router.log; for card in eth0 eth1; do ethtool -L $card combined 2; done")
    found = irqs(guest), transmit_cpus(guest)
    start(guest, CONFIGURATION.replace("workers = 1", "workers = 2"))
    end = time.monotonic() + 30
    while len(set(irqs(guest))) != 1 or set("".join(transmit_cpus(guest))) != {"0"}:
        if time.monotonic() > end:
            raise Failure(f"interrupts do not gather: {irqs(guest)}, {transmit_cpus(guest)}: {log(guest)}")
        time.sleep(0.5)
    gathered = irqs(guest)
    guest.check("kill $(cat /run/router.pid); while pidof ebb > /dev/null; do sleep 0.1; done")
    if (irqs(guest), transmit_cpus(guest)) != found:
        raise Failure(f"not put back: {found}, then {irqs(guest)}, {transmit_cpus(guest)}")
    say(f"{len(gathered)} interrupts of two cards went to CPU {gathered[0]}, and back to {', '.join(found[0])}")


def irqs(guest):
    """The CPUs of the interrupts of the queues in use."""
    return guest.check(
        "for irq in $(sed -n 's/^ *\\([0-9]*\\):.*-input\\.[01]$/\\1/p' /proc/interrupts); do cat /proc/irq/$irq/smp_affinity_list; done"
    ).split()


def transmit_cpus(guest):
    """The CPUs of the cards' transmit queues."""
    return guest.check("cat /sys/class/net/eth[01]/queues/tx-[01]/xps_cpus").split()


def start(guest, configuration=CONFIGURATION, way=(7, 8)):
    """Starts the router and waits until it has judged the kernel's policy."""
    guest.check(f"cat > /run/router.toml <<'END'\n{configuration}\nEND")
    guest.check("EBB_LOG=debug ebb router run -c /run/router.toml > /run/router.log 2>&1 & echo $! > /run/router.pid")
    end = time.monotonic() + 180
    while guest.run("ebb router show --json", 60)[0] != 0:
        if guest.run("kill -0 $(cat /run/router.pid)")[0] or time.monotonic() > end:
            raise Failure(f"the router does not start: {log(guest)}")
        time.sleep(0.2)
    await_forwarding(guest, *way)


def await_forwarding(guest, come, leave):
    """Waits until a packet is seen to go by the kernel path."""
    end = time.monotonic() + 30
    while True:
        one, before = exchange(come, leave), kernel_path(guest)
        one.send(0)
        one.settle()
        one.close()
        if kernel_path(guest) > before:
            return
        if time.monotonic() > end:
            raise Failure(f"packets {named(come)} do not take the kernel path: {log(guest)}\n{guest.run('ebb router show', 60)[1]}")


def expect_forwarded(guest, come, leave):
    """Sends from one VLAN to another; how many packets came, all by the kernel path."""
    before = kernel_path(guest)
    received = passes(exchange(come, leave), f"{named(come)} to {named(leave)}")
    counted = kernel_path(guest) - before
    if counted < received:
        raise Failure(f"{named(come)} to {named(leave)}: {received} packets passed, {counted} of them by the kernel path")
    return received


def passes(one, when):
    """Sends and closes; how many packets arrived, which must be all, in order."""
    before = never_entered(0)
    try:
        for _ in range(ROUNDS):
            for flow in range(FLOWS):
                one.send(flow)
            one.take(0.01)
        one.settle()
        lost = one.lost() - (never_entered(0) - before)
    finally:
        one.close()
    if lost or one.reordered or one.repeated:
        raise Failure(f"{when}: {lost} lost, {one.reordered} reordered, {one.repeated} repeated")
    return one.received


def a_new_vlan_is_forwarded(guest, say):
    """A VLAN that is made and one that is unmade while the router runs."""
    guest.check(
        "/bin/ip link add link eth0 name eth0.9 type vlan id 9\n"
        "/bin/ip addr add 10.9.0.1/24 dev eth0.9 && /bin/ip link set eth0.9 up\n"
        "/bin/ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0.9 nud permanent"
    )
    await_forwarding(guest, 9, 8)
    expect_forwarded(guest, 9, 8)
    guest.check("/bin/ip link del eth0.9")
    gone = exchange(9, 8)
    gone.send(0)
    gone.settle(2, 1)
    gone.close()
    if gone.received:
        raise Failure("a VLAN that was unmade is still forwarded")
    expect_forwarded(guest, 7, 8)
    say("a VLAN made meanwhile is forwarded, and no longer when it is unmade")


def an_upgrade_goes_on(guest, say):
    """The program that takes over forwards VLANs, and says so of a packet."""
    # An emulated machine beside others may be too slow for it; then nothing has changed.
    guest.check("failed=1; for try in 1 2 3; do ebb router upgrade && failed=0 && break; sleep 2; done; [ $failed = 0 ]", 90)
    await_forwarding(guest, 7, 8)
    expect_forwarded(guest, 7, 8)
    end = time.monotonic() + 20
    while True:
        said = guest.check("ebb router explain eth0 --vlan 7 --from 10.7.0.2 --to 10.8.0.2", 60)
        if "kernel path" in said and "leaves by eth1.8" in said:
            break
        if time.monotonic() > end:
            raise Failure(f"the router explains a packet of VLAN 7 otherwise: {said}")
    say("after an upgrade VLANs are forwarded, and `explain` says so")


def tags_have_their_priority(guest, say):
    """The VLAN's own map from priorities to tags holds."""
    guest.check(f"/bin/ip link set eth1.8 type vlan egress 0:{PRIORITY}")
    one = exchange(7, 8)
    passes(one, "with a map of priorities")
    if one.priorities != {PRIORITY}:
        raise Failure(f"tags have the priorities {one.priorities}, not {PRIORITY}")
    guest.check("/bin/ip link set eth1.8 type vlan egress 0:0")
    say(f"tags leave with the priority that the VLAN's map has, {PRIORITY}")


def filters_hold(guest, say):
    """A VLAN's reverse-path filter, of its own, and its forwarding switch."""
    switches = "/proc/sys/net/ipv4/conf/eth0.7"
    guest.check(f"/bin/ip route add 10.77.0.0/24 via 10.0.1.2 dev eth1; echo 1 > {switches}/rp_filter")
    strange = exchange(7, 8, source="10.77.0.2")
    await_silence(strange, "from where no route leads back to the VLAN")
    expect_forwarded(guest, 7, 8)
    guest.check(f"echo 0 > {switches}/rp_filter; echo 0 > {switches}/forwarding")
    await_silence(exchange(7, 8), "where forwarding is off")
    expect_forwarded(guest, 0, 8)
    guest.check(f"echo 1 > {switches}/forwarding")
    await_forwarding(guest, 7, 8)
    say("reverse-path filter and forwarding switch of a VLAN hold for it alone")


def connections_are_forwarded(guest, say):
    """What a packet filter with state accepts: the kernel tracks connections in a module."""
    guest.check(f"cat > /run/rules.nft <<'END'\n{RULES}\nEND\nnft -f /run/rules.nft")
    answering = packet_socket("tap1")
    for _ in range(2):
        asking = exchange(0, 0)
        for flow in range(FLOWS):
            asking.send(flow)
        asking.settle()
        asking.close()
        for flow in range(FLOWS):
            answer = frame(flow, 0, mac(1), "10.0.1.2", "10.0.0.2")
            answering.send(answer[:34] + answer[36:38] + answer[34:36] + answer[38:])
        # From then on the kernel holds them for more than a question and its answer.
        time.sleep(2.5)
    answering.close()
    await_forwarding(guest, 0, 0)
    forwarded = expect_forwarded(guest, 0, 0)
    guest.check("nft flush ruleset")
    say(f"{forwarded} packets of {FLOWS} connections passed a filter with state by the kernel path: 0 lost, 0 reordered")


def await_silence(one, what):
    """Waits until nothing passes any more."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        before = one.received
        one.send(0)
        one.settle(1, 0.5)
        if one.received == before:
            return one.close()
    raise Failure(f"packets pass {what}")


def exchange(come, leave, source=None):
    """From behind the first card to behind the second."""
    of = {0: "10.0.{}.2", 7: "10.7.0.2", 8: "10.8.0.2", 9: "10.9.0.2"}
    return Exchange(
        "tap0", "tap1", mac(0), source or of[come].format(0), of[leave].format(1), (come, leave)
    )


def named(vlan):
    """A VLAN in words."""
    return f"in VLAN {vlan}" if vlan else "without a tag"


def kernel_path(guest):
    """Packets that the router has forwarded by the kernel path."""
    status = json.loads(guest.check("ebb router show --json", 60))
    return sum(port["kernel_path"] for port in status["ports"])


def log(guest):
    """The end of what the router wrote."""
    return guest.run("tail -n 40 /run/router.log")[1]
