"""The router in the guest, changing between one and all of its workers while packets flow."""

import json
import re
import time

import links
from cards import (
    DESTINATION, SOURCE, expect_obeyed, indirection, never_entered, parse_table, queue_packets,
)
from flows import Exchange
from image import Unavailable
from machine import Failure, mac

RATE_PPS = 2000
# Queues are seldom empty while a burst passes: only then can a careless change reorder.
BURST = 192
CHANGES = 25
CHANGE_SECONDS = 0.2

CONFIGURATION = """
[router]
workers = {workers}
mode = "powersave"
redirect = "rss"
[powersave]
# One core whatever happens: only the change of the policy moves entries here.
queue_high = 100000
queue_low = 1
[governor]
frequency = false
idle = false
[[port]]
name = "eth0"
xdp = "native"
[[port]]
name = "eth1"
xdp = "native"
"""

# Exchanges the policy of one core for the one of all cores and back, waits for the table to
# change, and notes it.
ALTERNATE = """
cd /run
ethtool -x eth0 > before
for change in $(seq {changes}); do
    if [ $((change % 2)) = 1 ]; then mode=napi; else mode=powersave; fi
    sed -i "s/^mode = .*/mode = \\"$mode\\"/" router.toml
    kill -HUP $(cat router.pid)
    for wait in $(seq 50); do
        sleep 0.1
        ethtool -x eth0 > now
        cmp -s before now || break
    done
    mv now before
    echo "mode $mode"
    cat before
    sleep {seconds}
done > tables.new
mv tables.new tables
"""


def moves_entries(guest, workers, flows, say):
    """Starts the router, alternates its policy under load, and ends it.

    Raises Failure when an entry is not where the policy wants it, when a packet was reordered,
    repeated or lost, or when the router leaves something behind.
    """
    if guest.run("ebb router run --help", 60)[0] != 0:
        raise Unavailable("this ebb has no `router run`")
    # The table that the router will want first. Some drivers, this one among them, forget theirs
    # when an XDP program is attached and still show it: it has to be written all the same.
    guest.check("for card in eth0 eth1; do ethtool -X $card equal 1; done")
    links.make(guest)
    links.bond_is_refused(guest, CONFIGURATION.format(workers=workers), say)
    before = indirection(guest, "eth0")[1]
    start(guest, workers)
    arrived = queue_packets(guest, "eth0")
    exchange = Exchange("tap0", "tap1", mac(0), SOURCE, DESTINATION)
    try:
        exchange.run(flows, 1.0, RATE_PPS, BURST)
        exchange.settle()
        expect_complete(guest, exchange, "on one worker")
        links.tagged_packets_pass(guest, flows, say)
        links.vrf_is_the_kernels(guest, flows, say)
        arrived = [new - old for old, new in zip(arrived, queue_packets(guest, "eth0"))]
        if any(arrived[1:]):
            raise Failure(f"one worker is active, the queues got {arrived}")
        script = ALTERNATE.format(changes=CHANGES, seconds=CHANGE_SECONDS)
        guest.check(f"rm -f /run/tables; cat > /run/alternate <<'END'\n{script}\nEND")
        guest.check("sh /run/alternate & true")
        alternate_under_load(guest, exchange, flows)
        expect_complete(guest, exchange, f"over {CHANGES} changes")
    finally:
        exchange.close()
    moved = expect_tables(guest.check("cat /run/tables"), workers)
    status = json.loads(guest.check("ebb router show --json", 60))
    expect_work(status, workers, sum(exchange.sent.values()))
    say(
        f"{CHANGES} changes between 1 and {workers} workers moved {moved} entries; "
        f"{exchange.received} packets of {flows} flows: 0 lost, 0 reordered"
    )
    stop(guest, before, flows)
    say("the router left no XDP program behind, put the table back, and the card obeys it")


def start(guest, workers):
    """Starts the router and waits until its status socket answers."""
    text = CONFIGURATION.format(workers=workers)
    guest.check(f"cat > /run/router.toml <<'END'\n{text}\nEND")
    guest.check("ebb router check -c /run/router.toml", 60)
    guest.check(
        "EBB_LOG=debug ebb router run -c /run/router.toml > /run/router.log 2>&1 & echo $! > /run/router.pid"
    )
    end = time.monotonic() + 120
    while guest.run("ebb router show --json", 60)[0] != 0:
        alive = guest.run("kill -0 $(cat /run/router.pid)")[0] == 0
        if not alive or time.monotonic() > end:
            raise Failure(f"the router does not start: {log(guest)}")
        time.sleep(0.2)


def alternate_under_load(guest, exchange, flows):
    """Sends for as long as the changes take."""
    end = time.monotonic() + 60
    while guest.run("test -e /run/tables")[0] != 0:
        if time.monotonic() > end:
            raise Failure(f"the changes take too long: {log(guest)}")
        exchange.run(flows, 1.0, RATE_PPS, BURST)
    exchange.settle()


def expect_complete(guest, exchange, when):
    """Fails when packets were reordered, repeated, or lost after they entered the guest."""
    lost = exchange.lost() - never_entered(0)
    if lost or exchange.reordered or exchange.repeated:
        counters = guest.run("for c in eth0 eth1; do ethtool -S $c | grep -v ': 0$'; done; ebb router show", 60)[1]
        raise Failure(
            f"{when}: of {sum(exchange.sent.values())} packets {lost} were lost, "
            f"{exchange.reordered} reordered, {exchange.repeated} repeated\n"
            f"{counters}\n{log(guest)}"
        )


def expect_tables(text, workers):
    """Compares every noted table with its policy and returns how many entries moved in all."""
    previous, moved = None, 0
    for mode, shown in re.findall(r"^mode (\w+)\n(.*?)(?=^mode |\Z)", text, re.MULTILINE | re.DOTALL):
        table = parse_table(shown)
        active = workers if mode == "napi" else 1
        shares = [table.count(queue) for queue in range(active)]
        if not table or sum(shares) != len(table) or max(shares) - min(shares) > 1:
            raise Failure(f"{mode} wants {active} workers, the card's table is {table}")
        if previous is not None:
            moved += sum(old != new for old, new in zip(previous, table))
        previous = table
    return moved


def expect_work(status, workers, sent):
    """Fails when the packets did not go through every worker of the router."""
    forwarded = [worker["packets"]["forwarded"] for worker in status["workers"]]
    if len(forwarded) != workers or min(forwarded) == 0 or sum(forwarded) < sent // 2:
        raise Failure(f"the workers forwarded {forwarded} of {sent} packets")


def stop(guest, before, flows):
    """Ends the router and looks for what it left."""
    guest.check("kill $(cat /run/router.pid)")
    end = time.monotonic() + 10
    while guest.run("kill -0 $(cat /run/router.pid)")[0] == 0:
        if time.monotonic() > end:
            raise Failure(f"the router does not end: {log(guest)}")
        time.sleep(0.1)
    links = guest.check("/bin/ip link")
    if "xdp" in links:
        raise Failure(f"an XDP program is left: {links}")
    after = indirection(guest, "eth0")[1]
    if after != before:
        raise Failure(f"the table was {before} and is now {after}")
    expect_obeyed(guest, flows, "after the router")


def log(guest):
    """The end of what the router wrote."""
    return guest.run("tail -n 40 /run/router.log")[1]
