"""Fits the core model to samples on standard input with numpy and scipy; prints JSON.

Shares nothing with the crate but the equations: powers of t with a0 = 0 and sum 1, all power
parameters at once, no base.
"""

import csv
import json
import sys

import numpy as np
from scipy.optimize import least_squares

rows = list(csv.DictReader(sys.stdin))
clock = np.array([int(row["frequency_hz"]) for row in rows])
cores = np.array([int(row["cores"]) for row in rows])
offered, forwarded, watts = (np.array([float(row[name]) for row in rows])
                             for name in ("offered_pps", "forwarded_pps", "watts"))
clocks, counts = np.unique(clock), np.unique(cores)


def capacity(l, r):
    """The capacity c that minimises the squares of r - min(l, c), and the samples above it."""
    order = np.argsort(-l)
    means = np.cumsum(r[order]) / np.arange(1, len(r) + 1)
    best = min(means, key=lambda c: np.sum((r - np.minimum(l, c)) ** 2))
    return best, np.count_nonzero(l > best)


left, right = [], []
for f in range(len(clocks)):
    for n in range(len(counts)):
        group = (clock == clocks[f]) & (cores == counts[n])
        if not group.any():
            continue
        top, weight = capacity(offered[group], forwarded[group])
        row = np.zeros(len(clocks) + len(counts))
        row[f] = row[len(clocks) + n] = np.sqrt(weight)
        left.append(row)
        right.append(np.sqrt(weight) * np.log(top))
left = np.delete(np.array(left), len(clocks), axis=1)
logs = np.linalg.lstsq(left, np.array(right), rcond=None)[0]
r_max, gamma = np.exp(logs[:len(clocks)]), np.exp(np.concatenate([[0.0], logs[len(clocks):]]))

which = np.searchsorted(clocks, clock)
share = np.clip(forwarded / (gamma[np.searchsorted(counts, cores)] * r_max[which]), 0, 1)
powers = share[:, None] ** np.arange(1, 8)


def unpack(x):
    k = len(clocks)
    a = np.append(x[2 * k:], 1 - np.sum(x[2 * k:]))
    return x[:k], x[k:2 * k], a


def residuals(x):
    idle, span, a = unpack(x)
    return cores * (idle[which] + span[which] * (powers @ a)) - watts


start = np.concatenate([np.full(len(clocks), watts.min()), np.full(len(clocks), np.ptp(watts)),
                        [1.0, 0, 0, 0, 0, 0]])
found = least_squares(residuals, start, method="lm", x_scale="jac", xtol=1e-15, ftol=1e-15,
                      gtol=1e-15, max_nfev=100_000)
idle, span, a = unpack(found.x)
json.dump({
    "r_max": r_max.tolist(),
    "gamma": gamma.tolist(),
    "idle": idle.tolist(),
    "active": (idle + span).tolist(),
    "chi": [0.0, *a.tolist()],
    "chi_at": [float(np.polynomial.polynomial.polyval(t, [0.0, *a])) for t in np.linspace(0, 1, 21)],
    "rms": float(np.sqrt(np.mean(found.fun ** 2))),
    "power_error_max": float(np.max(np.abs(found.fun) / watts)),
}, sys.stdout)
