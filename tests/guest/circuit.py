"""The guest as an unmodified host behind a top-of-rack switch that keeps circuits."""

import json
import subprocess
import time

from cards import host
from machine import Failure

RACKS = (("tap0", "10.0.0", "10.0.0.254"), ("v0", "10.9.0", "10.9.0.1"))

TOR = """
[tor]
link_mbps = 1000
control = "sync0"
socket = "{folder}/tor.sock"
"""

RACK = """
[[rack]]
number = {rack}
uplink = "up{rack}"
[[rack.host]]
name = "{name}"
prefixes = ["{network}.0/24"]
own = ["{gateway}"]
"""

# Long days: emulated guests are slow, and what is tried here is that streams pass.
OCS = """
[ocs]
link_mbps = 1000
control = "sync1"
socket = "{folder}/ocs.sock"
[[port]]
rack = 0
name = "light0"
[[port]]
rack = 1
name = "light1"
[controller]
racks = 2
day_us = 2000.0
night_us = 50.0
lead_ms = 20.0
control = "sync2"
socket = "{folder}/control.sock"
"""


def streams_pass(guest, binary, folder, transfer, say):
    """Sends a file both ways over circuits, by the addresses and routes that are there.

    Raises Failure when a hash is wrong, or when the kernel forwarded instead.
    """
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
        file.write("0")
    # Its card takes super-frames apart only for a kernel that forwards them, which this side does not.
    guest.check("ethtool -K eth0 tso off gso off")
    furnish()
    programs = []
    try:
        start(binary, folder, programs)
        begun = time.monotonic()
        transfer(guest, folder)
        seconds = time.monotonic() - begun
        expect_circuits(status(binary, folder, "ocs"), seconds, say)
    except Failure as failure:
        raise Failure(f"{failure}\n{circumstances(binary, folder)}") from None
    finally:
        for process in reversed(programs):
            process.terminate()
            process.wait()


def furnish():
    """Links between the switches, and a bridge for sync frames."""
    host("link add sync type bridge")
    host("link set sync up")
    for name in ("sync0", "sync1", "sync2"):
        host(f"link add {name} type veth peer name b-{name}")
        host(f"link set b-{name} master sync")
        host(f"link set b-{name} up")
        host(f"link set {name} up")
    for rack in range(len(RACKS)):
        host(f"link add up{rack} type veth peer name light{rack}")
        host(f"link set up{rack} up")
        host(f"link set light{rack} up")


def start(binary, folder, programs):
    """Starts all three and waits until days are kept."""
    tor = TOR.format(folder=folder)
    for rack, (name, network, gateway) in enumerate(RACKS):
        tor += RACK.format(rack=rack, name=name, network=network, gateway=gateway)
    for name, text in (("tor.toml", tor), ("ocs.toml", OCS.format(folder=folder))):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    for name, words in (
        ("control", ["ocs", "control", "-c", f"{folder}/ocs.toml"]),
        ("ocs", ["ocs", "run", "-c", f"{folder}/ocs.toml"]),
        ("tor", ["tor", "run", "-c", f"{folder}/tor.toml"]),
    ):
        with open(f"{folder}/{name}.log", "wb") as log:
            programs.append(subprocess.Popen([binary, *words], stderr=log))
    end = time.monotonic() + 30
    while any(status(binary, folder, name).get("source") != "controller" for name in ("tor", "ocs")):
        if time.monotonic() > end or any(process.poll() is not None for process in programs):
            raise Failure("the switches do not keep days")
        time.sleep(0.1)


def status(binary, folder, name):
    """What a program shows of itself; nothing while it does not answer."""
    shown = subprocess.run([binary, "ocs", "show", "--socket", f"{folder}/{name}.sock"], capture_output=True)
    return (json.loads(shown.stdout) or {}) if shown.returncode == 0 else {}


def expect_circuits(ocs, seconds, say):
    """Fails unless the file went over circuits."""
    if ocs["passed_bytes"] < 16 << 20 or ocs["by_packets"]:
        raise Failure(f"the file did not go over circuits: {ocs}")
    say(
        f"the guest behind circuits: a file there and back in {seconds:.1f} s, {ocs['passed']} frames passed, "
        f"{ocs['at_night'] + ocs['wrong_circuit'] + ocs['unknown']} outside their day"
    )


def circumstances(binary, folder):
    """What the switches say."""
    texts = [json.dumps(status(binary, folder, name)) for name in ("tor", "ocs")]
    for name in ("tor", "ocs", "control"):
        with open(f"{folder}/{name}.log", encoding="utf-8") as log:
            texts.append(log.read())
    return "\n--\n".join(texts)
