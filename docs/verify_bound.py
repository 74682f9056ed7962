#!/usr/bin/env python3
"""Verifies a bound that `ebb plan noc ... --certificate --json` printed, with nothing but Python.

usage: verify_bound.py PLAN.json      (- for standard input); exit status 0 where all of it holds

Two halves, each for itself:

- the routes carry every flow over links that join its tiles, and need the power `upper`: the square of
  the fullest link's load, but not less than `floor`, times the sum of rate x hops;
- no routing needs less than `lower`. Any link prices w >= 0 prove that (linear duality): with u the
  capacity that the voltage leaves, a routing within u needs rate x hops of at least
  sum(rate x distance under 1 + w) - u sum(w), and none is within u below
  sum(rate x distance under w) / sum(w). Distances are shortest paths, found here by Dijkstra's algorithm.

On several planes, with capacities 1 >= u_0 >= u_1 >= ... >= floor, the power is h(c, u) at costs of a hop
c_k = u_k^2, where h is the least sum of c_k x rate x hops within capacities u. Prices y prove at costs c that
h >= F - sum u_k Y_k: F is sum(rate x distance under c_k + y on the nearest plane), Y_k the sum of plane k's
prices. h is concave in c and grows in proportion with it, so what is proven at some corners proves its mean for
the costs between them. Along a ray of fixed ratios of the u_k that mean rises and then falls, so it is least
where u_0 is at an end of a cell, or where the last plane is at the floor. There a root of a mean of costs is
replaced by its tangent above it, and a quadratic is left, which is nowhere below its Bernstein coefficients.
The certificate says how the whole is parted into cells; every part is looked at.
"""

import heapq
import json
import sys

TOLERANCE = 1e-9


def distances(certificate, *planes):
    """Sum of rate x shortest distance on the nearest of some planes with their links' lengths."""
    nearest = {}
    for lengths in planes:
        for (source, target), far in shortest(certificate, lengths).items():
            nearest[source, target] = min(far, nearest.get((source, target), far))
    return sum(rate * nearest[source, target] for source, target, rate in certificate["flows"])


def shortest(certificate, lengths):
    """The distance of every flow's ends under the links' lengths."""
    leaving = {}
    for link, (begin, end) in enumerate(certificate["links"]):
        leaving.setdefault(begin, []).append((end, lengths[link]))
    found, by_source = {}, {}
    for source, target, _ in certificate["flows"]:
        by_source.setdefault(source, []).append(target)
    for source, wanted in by_source.items():
        reached, queue = {}, [(0.0, source)]
        while queue:
            distance, tile = heapq.heappop(queue)
            if tile in reached:
                continue
            reached[tile] = distance
            for end, length in leaving.get(tile, []):
                if end not in reached:
                    heapq.heappush(queue, (distance + length, end))
        found.update(((source, target), reached[target]) for target in wanted)
    return found


def lower(certificate):
    """The power that the prices prove."""
    if "nodes" in certificate:
        return lower_of_planes(certificate)
    lines, floor = [], certificate["floor"]
    for prices in certificate["prices"]:
        assert len(prices) == len(certificate["links"]), "a price for each link"
        assert all(price >= 0 for price in prices), "no price below zero"
        worth = sum(prices)
        lines.append((distances(certificate, [1 + price for price in prices]), worth))
        if worth > 0:
            floor = max(floor, distances(certificate, prices) / worth)
    # Along a line u^2 (a - b u) rises, then falls: its least is at an end of a piece of their maximum.
    high = max(1.0, floor)
    places = [floor, high]
    for index, (a, b) in enumerate(lines):
        for c, d in lines[:index]:
            if b != d and floor < (a - c) / (b - d) < high:
                places.append((a - c) / (b - d))
    return min(u * u * max(a - b * u for a, b in lines) for u in places)


def lower_of_planes(certificate):
    """The power that the prices prove on several planes."""
    corners, floor = certificate["corners"], certificate["floor"]
    planes = len(corners[0]["costs"])
    for lowered in range(planes):
        costs = corners[lowered]["costs"]
        whole = [1.0] * (planes - lowered) + [floor * floor] * lowered
        assert all(abs(a - b) <= TOLERANCE for a, b in zip(costs, whole)), "the whole is not covered"
    lines = [[line(certificate, corner["costs"], prices) for prices in corner["prices"]] for corner in corners]
    proven, open_cells = float("inf"), [(0, list(range(planes)), floor, 1.0)]
    while open_cells:
        node, cell, low, high = open_cells.pop()
        node = certificate["nodes"][node]
        if "at" in node:
            assert low <= node["at"] <= high, "a cell is halved outside"
            below, above = node["parts"]
            open_cells += [(below, cell, low, node["at"]), (above, cell, node["at"], high)]
        elif "between" in node:
            costs = corners[node["corner"]]["costs"]
            a, b = (corners[cell[at]]["costs"] for at in node["between"])
            wide = max(range(planes), key=lambda plane: abs(b[plane] - a[plane]))
            part = (costs[wide] - a[wide]) / (b[wide] - a[wide])
            straight = all(abs(x + part * (y - x) - z) <= 1e-12 for x, y, z in zip(a, b, costs))
            assert 0 < part < 1 and straight, "a corner is not between two others"
            for gone, next_node in zip(node["between"], node["parts"]):
                rest = [node["corner"] if at == gone else corner for at, corner in enumerate(cell)]
                open_cells.append((next_node, rest, low, high))
        elif "empty" in node:
            most = max(corners[corner]["costs"][-1] for corner in cell)
            assert high * most**0.5 < floor, "a cell is called empty"
        else:
            means = []
            for corner, weights in zip(cell, node["weights"]):
                assert all(share >= 0 for _, share in weights), "a share below zero"
                total = sum(share for _, share in weights)
                mean = [0.0] * (planes + 1)
                for which, share in weights:
                    mean = [x + share / total * y for x, y in zip(mean, lines[corner][which])]
                means.append(mean)
            costs = [corners[corner]["costs"] for corner in cell]
            proven = min(proven, least_of_cell(costs, means, low, high, floor))
    return proven


def line(certificate, costs, prices):
    """F and the Y_k that prices prove at the costs of a hop."""
    for plane in prices:
        assert len(plane) == len(certificate["links"]), "a price for each link"
        assert all(price >= 0 for price in plane), "no price below zero"
    lengths = [[cost + price for price in plane] for cost, plane in zip(costs, prices)]
    return [distances(certificate, *lengths)] + [sum(plane) for plane in prices]


def least_of_cell(costs, means, low, high, floor):
    """The least power that the means of lines at a cell's corners prove."""
    last = [corner[-1] ** 0.5 for corner in costs]
    ends = [(0, high)]
    if low * max(last) >= floor:
        ends.append((0, low))
    if low * min(last) < floor:
        ends.append((len(costs[0]) - 1, floor))
    least = float("inf")
    for plane, u in ends:
        scaled = [[cost / corner[plane] for cost in corner] for corner in costs]
        middle = [sum(column) / len(scaled) for column in zip(*scaled)]
        roots = [[(c + m) / (2 * m**0.5) for c, m in zip(corner, middle)] for corner in scaled]

        def value(at, other):
            flows, worths = means[at][0], means[at][1:]
            worth = sum(y * root for y, root in zip(worths, roots[other]))
            return u * u * (flows - u * worth) / costs[at][plane]

        for a in range(len(costs)):
            for b in range(a, len(costs)):
                least = min(least, (value(a, b) + value(b, a)) / 2)
    return least


def upper(certificate):
    """The power that the routes need, each flow and link looked at."""
    flows = {(source, target): rate for source, target, rate in certificate["flows"]}
    loads, hops, carried = {}, {}, {}
    for route in certificate["routes"]:
        at, plane = route["source"], route["plane"]
        for link in route["links"]:
            begin, end = certificate["links"][link]
            assert begin == at, f"link {link} does not begin at tile {at}"
            at = end
            loads[plane, link] = loads.get((plane, link), 0.0) + route["rate"]
        assert at == route["target"] and route["rate"] >= 0, "a route ends elsewhere"
        hops[plane] = hops.get(plane, 0.0) + route["rate"] * len(route["links"])
        pair = (route["source"], route["target"])
        carried[pair] = carried.get(pair, 0.0) + route["rate"]
    for pair, rate in flows.items():
        difference = abs(carried.get(pair, 0.0) - rate)
        assert difference <= TOLERANCE * rate, f"flow {pair} is not carried whole"
    assert set(carried) <= set(flows), "a route for a flow that there is not"
    power = 0.0
    for plane, rate in hops.items():
        u = max([load for (on, _), load in loads.items() if on == plane] + [certificate["floor"]])
        assert u <= 1 + TOLERANCE, "a link carries more than it can"
        power += u * u * rate
    if "nodes" in certificate:
        most = len(certificate["corners"][0]["costs"])
        assert all(plane < most for plane in hops), "more planes than the lower bound is for"
    return power


def main():
    source = sys.stdin if sys.argv[1] == "-" else open(sys.argv[1])
    plan = json.load(source)
    plan = plan if "bound" in plan else plan["plan"]
    bounds = {name: plan[name] for name in ("bound", "bound_one_plane") if plan.get(name)}
    verified = 0
    for name, bound in bounds.items():
        if "certificate" not in bound:
            continue
        for which, found in (("lower", lower), ("upper", upper)):
            try:
                proven = found(bound["certificate"])
            except AssertionError as fault:
                sys.exit(f"{name}: {which} is not proven: {fault}")
            claimed = bound[which]
            if which == "lower" and "lower" in bound["certificate"]:
                claimed = bound["certificate"]["lower"]
                assert claimed <= bound["upper"], "the ends cross"
            worse = claimed - proven if which == "lower" else proven - claimed
            if worse > TOLERANCE * claimed:
                sys.exit(f"{name}: {which} {claimed} is claimed, {proven} is proven")
            print(f"{name}: {which} {claimed} is proven")
        verified += 1
    if not verified:
        sys.exit("no certificate in it: ebb plan noc ... --certificate --json")


if __name__ == "__main__":
    main()
