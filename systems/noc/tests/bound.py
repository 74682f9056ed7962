"""g(u) by scipy: the least sum of rate x hops when no link carries more than u, commodities
aggregated by source (Li 2012, eqs. 6.4-6.6); where a capacity is a list, the least power of planes
with these capacities. Reads and writes JSON; null where nothing fits."""

import json
import sys

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix, eye, hstack, vstack

problem = json.load(sys.stdin)
nodes, links, flows = problem["nodes"], problem["links"], problem["flows"]
sources = sorted({flow[0] for flow in flows})
columns = len(sources) * len(links)
rows, cols, values = [], [], []
for s, source in enumerate(sources):
    for l, (begin, end) in enumerate(links):
        rows += [s * nodes + begin, s * nodes + end]
        cols += [s * len(links) + l] * 2
        values += [1.0, -1.0]
conserve = coo_matrix((values, (rows, cols)), shape=(len(sources) * nodes, columns))
ends = [(sources.index(a) * nodes + a, sources.index(a) * nodes + b) for a, b, _ in flows]
sent = coo_matrix(
    (
        [1.0, -1.0] * len(flows),
        ([row for pair in ends for row in pair], [f for f in range(len(flows)) for _ in "ab"]),
    ),
    shape=(len(sources) * nodes, len(flows)),
)
rates = np.array([flow[2] for flow in flows])
load = coo_matrix(
    (np.ones(columns), ([c % len(links) for c in range(columns)], range(columns))),
    shape=(len(links), columns),
).tocsr()
answers = []
for u in problem["capacities"]:
    planes = u if isinstance(u, list) else [u]
    costs = [x * x for x in u] if isinstance(u, list) else [1.0]
    # Per plane, what each source sends over each link, then how much of each flow is on it.
    plane_cost = np.concatenate([np.ones(columns), np.zeros(len(flows))])
    balance = block_diag([hstack([conserve, -sent])] * len(planes))
    all_sent = hstack([coo_matrix((len(flows), columns)), eye(len(flows))])
    found = linprog(
        np.concatenate([cost * plane_cost for cost in costs]),
        A_ub=block_diag([hstack([load, coo_matrix((len(links), len(flows)))])] * len(planes)),
        b_ub=np.repeat(planes, len(links)),
        A_eq=vstack([balance, hstack([all_sent] * len(planes))]),
        b_eq=np.concatenate([np.zeros(balance.shape[0]), rates]),
        method="highs",
    )
    answers.append(float(found.fun) if found.status == 0 else None)
json.dump(answers, sys.stdout)
