# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Voltage planes of a network on chip
#
# A network whose links are half empty can run slower, at a lower voltage. With two planes flows can be
# distributed so that one of them is slower still. How much does that save, and how far is it from the
# least power that any routing could reach?

# %%
import matplotlib.pyplot as plt
import numpy as np

import ebb

plt.style.use("paper.mplstyle")

# %% [markdown]
# Traffic is a matrix of numpy: row = source, column = destination. Here, an accelerator in the middle of a
# 5 x 5 mesh that every tile talks to, beside a little that all send to all.

# %%
tiles, middle = 25, 12
matrix = np.full((tiles, tiles), 0.2 / tiles)
matrix[:, middle] += 1.0
matrix[middle, :] += 0.6
np.fill_diagonal(matrix, 0.0)

loads = np.round(np.arange(0.1, 1.01, 0.1), 2)
found = []
for load in loads:
    plan = ebb.plan("noc", mesh="5x5", traffic=matrix, normalise="xy", routing="xy", planes=2,
                    load=float(load), router="scc48")  # fmt: skip
    found.append(plan)
plan

# %%
whole = np.array([plan.figures["power_nodvfs"] for plan in found])
curves = {
    "one plane, scaled": np.array([plan.figures["power.xy"] for plan in found]),
    "two planes, 2P-4PHASE": np.array([plan.figures["power.2p-4phase"] for plan in found]),
    "least of any routing": np.array([plan.figures["power.bound"] for plan in found]),
}
figure, axes = plt.subplots()
for (name, power), form in zip(curves.items(), ("o-", "s-", "k--"), strict=True):
    axes.plot(loads, 100 * power / whole, form, label=name)
axes.set(xlabel="load (share of what XY routing carries)", ylabel="power (% of one speed)", ylim=(0, 105))
axes.legend(loc="upper left")

# %% [markdown]
# The plan is of means; packets queue. The same two planes flit by flit, with the latency that slower
# clocks cost:

# %%
scenario = {
    "mesh": "5x5", "traffic": matrix, "normalise": "xy", "planes": 2, "allocation": "2p-4phase",
    "alpha": "auto", "headroom": 0.1, "runs": 1, "router": {"kind": "voq"},
    "run": {"warmup": 2000, "sample": 6000, "samples_max": 4},
}  # fmt: skip
steps = [0.2, 0.4, 0.6, 0.8]
scaled = ebb.sweep("noc", scenario, over={"load": steps}, executor=2).frame
full = ebb.sweep("noc", {**scenario, "alpha": 1.0}, over={"load": steps}, executor=2).frame

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 2.4))
for frame, name, form in ((full, "one speed", "o-"), (scaled, "as slow as the load permits", "s-")):
    left.plot(frame["load"], frame["energy_per_flit"], form, label=name)
    right.plot(frame["load"], frame["latency_ns.mean"], form, label=name)
left.set(xlabel="load (share of what XY carries)", ylabel="energy of a flit (flit hops)", ylim=(0, None))
right.set(xlabel="load (share of what XY carries)", ylabel="mean latency (ns)", ylim=(0, None))
left.legend()
