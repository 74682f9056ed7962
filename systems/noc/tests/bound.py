"""g(u) by scipy: the least sum of rate x hops when no link carries more than u, commodities
aggregated by source (Li 2012, eqs. 6.4-6.6); where a capacity is a list, the least power of planes
with these capacities. Reads and writes JSON; null where nothing fits."""

import json
import sys

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix, hstack

problem = json.load(sys.stdin)
nodes, links, flows = problem["nodes"], problem["links"], problem["flows"]
sources = sorted({flow[0] for flow in flows})
columns = len(sources) * len(links)
rows, cols, values = [], [], []
demand = np.zeros(len(sources) * nodes)
for s, source in enumerate(sources):
    for l, (begin, end) in enumerate(links):
        rows += [s * nodes + begin, s * nodes + end]
        cols += [s * len(links) + l] * 2
        values += [1.0, -1.0]
    for flow in flows:
        if flow[0] == source:
            demand[s * nodes + source] += flow[2]
            demand[s * nodes + flow[1]] -= flow[2]
conserve = coo_matrix((values, (rows, cols)), shape=(len(demand), columns)).tocsr()
load = coo_matrix(
    (np.ones(columns), ([c % len(links) for c in range(columns)], range(columns))),
    shape=(len(links), columns),
).tocsr()
answers = []
for u in problem["capacities"]:
    planes = u if isinstance(u, list) else [u]
    costs = [x * x for x in u] if isinstance(u, list) else [1.0]
    found = linprog(
        np.repeat(costs, columns),
        A_ub=block_diag([load] * len(planes)),
        b_ub=np.repeat(planes, len(links)),
        A_eq=hstack([conserve] * len(planes)),
        b_eq=demand,
        method="highs",
    )
    answers.append(float(found.fun) if found.status == 0 else None)
json.dump(answers, sys.stdout)
