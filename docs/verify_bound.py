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
"""

import heapq
import json
import sys

TOLERANCE = 1e-9


def distances(certificate, lengths):
    """Sum of rate x shortest distance under the links' lengths."""
    leaving = {}
    for link, (begin, end) in enumerate(certificate["links"]):
        leaving.setdefault(begin, []).append((end, lengths[link]))
    total, by_source = 0.0, {}
    for source, target, rate in certificate["flows"]:
        by_source.setdefault(source, []).append((target, rate))
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
        total += sum(rate * reached[target] for target, rate in wanted)
    return total


def lower(certificate):
    """The power that the prices prove."""
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


def upper(certificate):
    """The power that the routes need, each flow and link looked at."""
    flows = {(source, target): rate for source, target, rate in certificate["flows"]}
    loads, hops = [0.0] * len(certificate["links"]), 0.0
    carried = {}
    for route in certificate["routes"]:
        at = route["source"]
        for link in route["links"]:
            begin, end = certificate["links"][link]
            assert begin == at, f"link {link} does not begin at tile {at}"
            at = end
            loads[link] += route["rate"]
        assert at == route["target"] and route["rate"] >= 0, "a route ends elsewhere"
        hops += route["rate"] * len(route["links"])
        pair = (route["source"], route["target"])
        carried[pair] = carried.get(pair, 0.0) + route["rate"]
    for pair, rate in flows.items():
        difference = abs(carried.get(pair, 0.0) - rate)
        assert difference <= TOLERANCE * rate, f"flow {pair} is not carried whole"
    assert set(carried) <= set(flows), "a route for a flow that there is not"
    u = max(loads + [certificate["floor"]])
    assert u <= 1 + TOLERANCE, "a link carries more than it can"
    return u * u * hops


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
            worse = claimed - proven if which == "lower" else proven - claimed
            if worse > TOLERANCE * claimed:
                sys.exit(f"{name}: {which} {claimed} is claimed, {proven} is proven")
            print(f"{name}: {which} {claimed} is proven")
        verified += 1
    if not verified:
        sys.exit("no certificate in it: ebb plan noc ... --certificate --json")


if __name__ == "__main__":
    main()
