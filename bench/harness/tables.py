"""Routing tables for the live benchmarks: the Internet's where its files are, else made up."""

import gzip
import ipaddress
import os
import random


def side_of(net):
    """Nested prefixes agree in the bit that decides: no packet leaves where it came from."""
    address, _, _ = net.partition("/")
    if ":" in address:
        return int(address.split(":")[0] or "0", 16) & 1
    return int(address.split(".")[0]) & 1


def usable(net):
    """Whether hosts of this prefix may exchange packets across a router."""
    first = int(net.split(".")[0])
    return 1 <= first < 224 and first not in (10, 127, 100, 169, 172, 192, 198)


def prefixes(directory, small):
    """All prefixes of a table and where it comes from."""
    files = [os.path.join(directory, name) for name in ("ipv4.txt.gz", "ipv6.txt.gz")]
    if small or not all(map(os.path.exists, files)):
        return synthetic(2_000 if small else 700_000), "made up"
    found = {}
    for path in files:
        with gzip.open(path, "rt") as lines:
            for line in lines:
                found[line.split()[0]] = None
    return list(found), "Route Views, June 2026"


def synthetic(count):
    drawn, random_ = {}, random.Random(1)
    lengths = [24] * 60 + [22, 23] * 10 + [20, 21, 19] * 4 + [16] * 3
    while len(drawn) < count:
        length = random_.choice(lengths)
        address = random_.randrange(1 << 24, 224 << 24) >> (32 - length) << (32 - length)
        net = f"{ipaddress.IPv4Address(address)}/{length}"
        if usable(net):
            drawn[net] = None
    return list(drawn)


def write(lab, nets):
    """Writes a lab's table, and 2,000 of its prefixes for traffic; returns how many there are."""
    put(lab.path("table"), nets)
    candidates = [net for net in nets if ":" not in net and usable(net)]
    drawn = random.Random(2).sample(candidates, min(4000, len(candidates)))
    half = len(drawn) // 2
    put(lab.path("flows"), drawn[:half])
    put(lab.path("bystanders"), drawn[half:])
    return len(nets)


def put(path, nets):
    with open(path, "w") as file:
        file.writelines(f"{net} {side_of(net)}\n" for net in nets)


def install(lab, nets):
    """Puts a table into the lab's kernel and returns how many routes the kernel took."""
    write(lab, nets)
    return lab.tool(lab.router, "table", lab.path("table"), "p0", "p1")
