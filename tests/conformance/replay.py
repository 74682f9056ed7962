"""Frames through `ebb router replay`, for what needs VLANs, which not every kernel has."""

import json
import os
import subprocess
import tempfile

from scapy.utils import RawPcapReader, wrpcap

from lab import HOST4, HOST6, HOST_MAC, MTU, PORTS, ROUTER4, ROUTER6, ROUTER_MAC, ROUTES

VLANS = {"a": (7, "198.18.7.1/24"), "b": (8, "198.18.8.1/24")}
VLAN_HOSTS = [("198.18.7.2", "a"), ("198.18.8.2", "b")]


def configuration():
    """The laboratory's tables as a configuration, with a VLAN on two of the links."""
    lines = []
    for port in PORTS:
        addresses = f'"{ROUTER4[port]}/24", "{ROUTER6[port]}/64"'
        lines += ["[[port]]", f'name = "p{port}"', f'mac = "{ROUTER_MAC[port]}"',
                  f"mtu = {MTU[port]}", f"address = [{addresses}]"]
        if port in VLANS:
            number, address = VLANS[port]
            lines.append(f'vlan = [{{ id = {number}, address = ["{address}"] }}]')
    for prefix, target in ROUTES:
        lines += ["[[route]]", f'to = "{prefix}"']
        if target.isupper():
            lines.append(f'kind = "{target.lower()}"')
        else:
            gateways = ", ".join(f'"{word}"' for word in target.split() if word[0].isdigit())
            lines.append(f"via = [{gateways}]")
    hosts = [(table[port], f"p{port}", port) for table in (HOST4, HOST6) for port in PORTS]
    hosts += [(address, f"p{port}.{VLANS[port][0]}", port) for address, port in VLAN_HOSTS]
    for address, device, port in hosts:
        lines += ["[[neighbour]]", f'address = "{address}"', f'dev = "{device}"',
                  f'mac = "{HOST_MAC[port]}"']
    return "\n".join(lines) + "\n"


def replay(ebb, directory, inputs, outputs=PORTS, missing_ok=False):
    """Replays captures by port; returns how it ended, the report (None where there is none, if
    `missing_ok`) and, by port, what was transmitted."""
    path = os.path.join(directory, "router.toml")
    with open(path, "w", encoding="ascii") as file:
        file.write(configuration())
    arguments = [ebb, "router", "replay", "-c", path, "--json"]
    for port, capture in inputs.items():
        arguments += ["--in", f"p{port}={capture}"]
    for port in outputs:
        arguments += ["--out", f"p{port}={directory}/out-{port}.pcap"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if not done.stdout and missing_ok:
        return done, None, {}
    if not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)}: {done.returncode}: {done.stderr}")
    sent = {}
    for port in outputs:
        reader = RawPcapReader(f"{directory}/out-{port}.pcap")
        sent[port] = [bytes(data) for data, _ in reader]
        reader.close()
    return done, json.loads(done.stdout), sent


def run_replay(rows, ebb):
    """Runs the matrix's rows of this kind as one capture."""
    with tempfile.TemporaryDirectory(prefix="ebb-conform-") as directory:
        frames = [frame for row in rows for _, frame in row.sent]
        capture = f"{directory}/in.pcap"
        wrpcap(capture, frames, linktype=1)
        _, _, sent = replay(ebb, directory, {"a": capture})
    seen = [(port, frame) for port in PORTS for frame in sent[port]]
    for row in rows:
        row.judge(seen)
