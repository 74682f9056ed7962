"""A straightforward checker of forwarding tables, to hold the Rust one to.

Reads lines `OLD NEW` (two directories) from standard input and writes one JSON object per line.
Every pair of hosts is walked by itself; graphs and components are networkx's.
"""

import json
import os
import re
import sys

import networkx


class Tables:
    def __init__(self, folder):
        self.peer, self.ports, self.lid, self.hosts = {}, {}, {}, {}
        node = None
        for line in open(os.path.join(folder, "ibnetdiscover.txt")):
            head = re.match(r'(Switch|Ca)\t(\d+) "([SH]-\w+)"(.*)', line)
            if head:
                kind, count, node = head[1], int(head[2]), head[3]
                self.ports[node] = count
                if kind == "Switch":
                    self.lid[int(re.search(r" lid (\d+)", head[4])[1])] = node
                continue
            port = re.match(r'\[(\d+)\](?:\(\w+\))?\s*"([SH]-\w+)"\[(\d+)\](.*)', line)
            if port:
                self.peer[node, int(port[1])] = (port[2], int(port[3]))
                if node[0] == "H":
                    lid = int(re.search(r"# lid (\d+)", port[4])[1])
                    self.lid[lid], self.hosts[node] = node, lid
        self.lft, switch = {}, None
        for line in open(os.path.join(folder, "opensm-lfts.dump")):
            head = re.match(r"Unicast lids .* guid 0x(\w+)", line)
            entry = re.match(r"0x(\w+) (\d+)", line)
            if head:
                switch = "S-" + head[1]
            elif entry:
                self.lft[switch, int(entry[1], 16)] = int(entry[2])
        self.sl, self.vl = {}, {}
        path = os.path.join(folder, "sl.csv")
        for line in open(path) if os.path.exists(path) else []:
            source, destination, level = line.split(",")
            self.sl[int(source), int(destination)] = int(level, 16)
        path = os.path.join(folder, "sl2vl.txt")
        for line in open(path) if os.path.exists(path) else []:
            row = re.match(r"(\d+),\d+,ports: in\s+(\d+), out\s+(\d+): \|(.*)\|", line)
            if row:
                lanes = [int(lane) for lane in row[4].split("|")]
                self.vl[self.lid[int(row[1])], int(row[2]), int(row[3])] = lanes

    def level(self, source, destination):
        return self.sl.get((source, destination), 0)

    def lane(self, switch, enters, leaves, level):
        lanes = self.vl.get((switch, enters, leaves))
        return lanes[level] if lanes else level

    def hop(self, switch, enters, lid, level):
        """The port and lane by which a packet leaves, or None when it is lost here."""
        port = self.lft.get((switch, lid))
        if not port or (switch, port) not in self.peer:
            return None
        lane = self.lane(switch, enters, port, level)
        return None if lane == 15 else (port, lane)


def walk(tables, graph, source, destination):
    """Follows one pair and adds its dependencies; True when it arrives."""
    level = tables.level(tables.hosts[source], destination)
    switch, enters = tables.peer[source, 1]
    before, seen = None, set()
    while True:
        hop = tables.hop(switch, enters, destination, level)
        if hop is None:
            return False
        channel = (switch, *hop)
        graph.add_node(channel)
        if before is not None:
            graph.add_edge(before, channel)
        if channel in seen:
            return False
        seen.add(channel)
        node, enters = tables.peer[switch, hop[0]]
        if node[0] == "H":
            return tables.hosts[node] == destination
        before, switch = channel, node


def cyclic(graph):
    """The channels on cycles."""
    found = set()
    for component in networkx.strongly_connected_components(graph):
        if len(component) > 1 or any(graph.has_edge(node, node) for node in component):
            found |= component
    return found


def side(tables):
    graph, unreachable = networkx.DiGraph(), 0
    for source in tables.hosts:
        for destination in tables.hosts.values():
            if tables.hosts[source] != destination:
                unreachable += not walk(tables, graph, source, destination)
    found = cyclic(graph)
    report = {
        "acyclic": not found,
        "unreachable": unreachable,
        "channels_in_cycles": len(found),
    }
    return graph, report


def mixed(old, new):
    """Every mixture: whether dependencies can close, and for how many addresses packets circle."""
    graph, loops = networkx.DiGraph(), 0
    peer = {**old.peer, **new.peer}
    for lid in old.hosts.values():
        switches = networkx.DiGraph()
        stack, seen = [], set()
        for source in old.hosts:
            if old.hosts[source] != lid:
                for tables in (old, new):
                    level = tables.level(old.hosts[source], lid)
                    stack.append((None, *peer[source, 1], level))
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            before, switch, enters, level = state
            for tables in (old, new):
                port = tables.lft.get((switch, lid))
                if not port or (switch, port) not in tables.peer:
                    continue
                node, there = peer[switch, port]
                if node[0] == "S":
                    switches.add_edge(switch, node)
                for lanes in (old, new):
                    lane = lanes.lane(switch, enters, port, level)
                    if lane == 15:
                        continue
                    channel = (switch, port, lane)
                    graph.add_node(channel)
                    if before is not None:
                        graph.add_edge(before, channel)
                    if node[0] == "S":
                        stack.append((channel, node, there, level))
        loops += not networkx.is_directed_acyclic_graph(switches)
    return not cyclic(graph), loops


def compare(old, new):
    old_graph, old_side = side(old)
    new_graph, new_side = side(new)
    keys = set(old.lft) | set(new.lft)
    changed = [key for key in keys if old.lft.get(key) != new.lft.get(key)]
    acyclic, loops = mixed(old, new)
    return {
        "old": old_side,
        "new": new_side,
        "changed_entries": len(changed),
        "changed_switches": len({switch for switch, _ in changed}),
        "union_acyclic": not cyclic(networkx.compose(old_graph, new_graph)),
        "mixed_acyclic": acyclic,
        "mixed_loop_destinations": loops,
    }


for line in sys.stdin:
    old, new = line.split()
    print(json.dumps(compare(Tables(old), Tables(new))), flush=True)
