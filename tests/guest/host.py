"""The guest as a host: TCP with the offloads of its card passes a router on this side, then circuits."""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

import circuit
from cards import host
from image import program
from machine import Failure

BYTES = 16 << 20
GUEST, GATEWAY, SERVER = "10.0.0.1", "10.0.0.254", "10.9.0.2"

CONFIGURATION = """
[router]
workers = 1
mode = "napi"
[governor]
frequency = false
idle = false
journal_directory = "{folder}/journal"
[status]
socket = "{folder}/router.sock"
[[port]]
name = "tap0"
path = "worker"
[[port]]
name = "v0"
path = "worker"
"""

# A namespace of its own with the far end of a veth pair: a file on port 80, and on port 81 the hash of
# as many bytes as it has.
SERVE = """
until ip link set v1 up 2> /dev/null; do sleep 0.02; done
ip link set lo up
ip address add {server}/24 dev v1
ip route add default via 10.9.0.1
exec {python} -c '
import hashlib, http.server, socketserver, threading
class File(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args):
        super().__init__(*args, directory="{folder}")
class Hash(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(hashlib.sha256(self.rfile.read({size})).hexdigest().encode())
hashes = socketserver.TCPServer(("{server}", 81), Hash)
threading.Thread(target=hashes.serve_forever).start()
http.server.HTTPServer(("{server}", 80), File).serve_forever()
'
"""


def streams_pass(guest, binary, say):
    """Fetches a file and sends it back; both ways its hash has to be right.

    Raises Failure when it is not, or when the router left the packets to the kernel.
    """
    with open("/proc/self/uid_map", encoding="ascii") as file:
        if file.read().split()[1] != "0":
            return say("the guest as a host: left out, only root loads XDP programs")
    offloads = guest.check("ethtool -k eth0")
    for feature in ("tx-checksumming", "tcp-segmentation-offload"):
        if not re.search(rf"^{feature}: on", offloads, re.MULTILINE):
            raise Failure(f"the guest's card does not offload: {offloads}")
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        try:
            furnish(guest, folder, processes)
            start(binary, folder, processes)
            before = status(binary, folder)
            begun = time.monotonic()
            try:
                transfer(guest, folder)
            except Failure as failure:
                raise Failure(f"{failure}\n{circumstances(guest, binary, folder)}") from None
            seconds = time.monotonic() - begun
            expect_work(before, status(binary, folder), seconds, say)
            router = processes.pop()
            router.terminate()
            router.wait()
            circuit.streams_pass(guest, binary, folder, transfer, say)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


def furnish(guest, folder, processes):
    """The server with its file, and addresses on the way there."""
    data = hashlib.shake_128(b"ebb").digest(BYTES)
    with open(f"{folder}/file", "wb") as file:
        file.write(data)
    script = SERVE.format(server=SERVER, folder=folder, python=sys.executable, size=BYTES)
    server = subprocess.Popen([program("unshare"), "--net", "sh", "-c", script], stderr=subprocess.DEVNULL)
    processes.append(server)
    own = os.readlink("/proc/self/ns/net")
    end = time.monotonic() + 10
    while os.readlink(f"/proc/{server.pid}/ns/net") == own:
        if time.monotonic() > end:
            raise Failure("the server has no namespace")
        time.sleep(0.02)
    host(f"link add v0 type veth peer name v1 netns {server.pid}")
    host("link set v0 up")
    host("address add 10.9.0.1/24 dev v0")
    host(f"address add {GATEWAY}/24 dev tap0")
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
        file.write("1")
    guest.check(f"/bin/ip route add default via {GATEWAY} dev eth0")
    wait_for_server()


def wait_for_server():
    """Waits until the server answers."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection((SERVER, 80), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Failure("the server does not answer")


def start(binary, folder, processes):
    """Starts the router on this side and waits until it forwards."""
    with open(f"{folder}/router.toml", "w", encoding="ascii") as file:
        file.write(CONFIGURATION.format(folder=folder))
    with open(f"{folder}/log", "wb") as log:
        router = subprocess.Popen([binary, "router", "run", "-c", f"{folder}/router.toml"], stderr=log)
    processes.append(router)
    end = time.monotonic() + 20
    while time.monotonic() < end and router.poll() is None:
        seen = status(binary, folder)
        # One that sleeps has received, after which the kernel no longer keeps the packets.
        if seen and seen["governor"]["changes"] > 0 and seen["workers"][0]["busy"] < 1:
            return
        time.sleep(0.1)
    with open(f"{folder}/log", encoding="utf-8") as log:
        raise Failure(f"the router on this side does not start: {log.read()}")


def status(binary, folder):
    """The router's state; none while it does not answer."""
    shown = subprocess.run(
        [binary, "router", "show", "--json", "-s", f"{folder}/router.sock"], capture_output=True
    )
    return json.loads(shown.stdout) if shown.returncode == 0 else None


def circumstances(guest, binary, folder):
    """What may have kept a stream from passing."""
    with open(f"{folder}/log", encoding="utf-8") as log:
        texts = [guest.run("/bin/ip addr; /bin/ip route; /bin/ip neigh")[1], host("addr"), host("route"), log.read()]
    return "\n--\n".join([*texts, json.dumps(status(binary, folder))])


def transfer(guest, folder):
    """Both ways."""
    with open(f"{folder}/file", "rb") as file:
        wanted = hashlib.sha256(file.read()).hexdigest()
    url = f"http://{SERVER}/file"
    fetched = guest.check(f"wget -q -O /run/file {url} && sha256sum /run/file", 60)
    if fetched.split()[0] != wanted:
        raise Failure(f"the guest fetched another file: {fetched}")
    answered = guest.check(f"nc {SERVER} 81 < /run/file", 60)
    if answered.split() != [wanted]:
        raise Failure(f"the guest sent another file: {answered}")


def expect_work(before, after, seconds, say):
    """Fails unless the router forwarded, and completed what the guest had left unfinished."""
    one, other = (state["workers"][0]["packets"] for state in (before, after))
    forwarded, finished = (other[key] - one[key] for key in ("forwarded", "checksums_finished"))
    long = sum(port["passed_long"] for port in after["ports"])
    if forwarded < BYTES // 1448 or finished < 100:
        raise Failure(f"forwarded {forwarded}, checksums finished {finished}: {after}")
    if any(port["receive_dropped"] for port in after["ports"]):
        raise Failure(f"a ring overflowed: {after['ports']}")
    rate = 2 * BYTES * 8 / seconds / 1e6
    say(
        f"the guest as a host: {BYTES >> 20} MiB there and back with its offloads, {rate:.0f} Mbit/s; "
        f"{forwarded} packets forwarded, {finished} checksums finished, {long} super-frames left to the kernel"
    )
