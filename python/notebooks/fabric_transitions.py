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
# # Switching links of a lossless fabric off and on
#
# Links that are hardly used can be off, but routing tables must change without a deadlock while packets
# are under way. What a change costs depends on the scheme: stopping all traffic, dropping, or ordering old
# before new.

# %%
import matplotlib.pyplot as plt
import networkx
import pandas as pd

import ebb

plt.style.use("paper.mplstyle")

# %% [markdown]
# The fabric is a graph of networkx: a ring of eight switches with four chords. Every switch gets a host.

# %%
graph = networkx.cycle_graph(8)
graph.add_edges_from([(0, 4), (1, 5), (2, 6), (3, 7)])
plan = ebb.plan("fabric", topology=graph, routing="up-down", load=0.05, use_max=0.8,
                pattern={"kind": "uniform"})  # fmt: skip
plan

# %% [markdown]
# One link goes off at 1 ms and on again at 2 ms, on a 4 x 4 torus, under each scheme. All of it is proved
# to be free of deadlocks before it is done; `unsynchronised` would not be, and is refused.

# %%
schemes = ["st", "ds", "upr", "sr-la", "minimal"]
runs = {}
for scheme in schemes:
    runs[scheme] = ebb.sim("fabric", {
        "topology": "torus:4x4", "routing": "up-down", "duration_us": 3000, "transient_packets": 4000,
        "bin_us": 20, "traffic": {"load": 0.12},
        "change": [{"at_us": 1000, "off": ["S1:1"], "scheme": scheme},
                   {"at_us": 2000, "on": ["S1:1"], "scheme": scheme}],
    })  # fmt: skip
names = {"reconfiguration_us.max": "longest change (µs)", "peak_latency_us": "peak of the latency (µs)",
         "latency_us.p99": "latency, 99 % (µs)", "lost": "lost packets"}  # fmt: skip
table = pd.DataFrame({s: {names[k]: run.figures[k] for k in names} for s, run in runs.items()}).T
table


# %%
def curve(result: ebb.Result, part: str) -> tuple[list[float], list[float]]:
    """A curve of the report's plot over time."""
    for panel in result.plots[0]["panels"]:
        if part in panel["y"]["label"]:
            points = [point for point in panel["series"][-1]["points"] if point[1]]
            return [x for x, _ in points], [y for _, y in points]
    raise KeyError(part)


figure, axes = plt.subplots(figsize=(3.5, 2.6))
for scheme in schemes:
    times, latency = curve(runs[scheme], "latency")
    axes.plot(times, latency, linewidth=0.9, label=scheme)
axes.axvline(1000, color="0.5", linewidth=0.6, linestyle=":")
axes.axvline(2000, color="0.5", linewidth=0.6, linestyle=":")
axes.set(xlabel="time (µs)", ylabel="packet latency (µs)", xlim=(500, 3000), ylim=(1, 100), yscale="log")
axes.set_yticks([1, 10, 100], ["1", "10", "100"])
axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.25))

# %% [markdown]
# A regulator does it by itself: two thresholds, links off while traffic is low.

# %%
regulated = ebb.sim("fabric", {
    "topology": "torus:4x4", "routing": "up-down", "duration_us": 6000, "transient_packets": 4000,
    "schemes": ["minimal", "ds", "st"],
    "traffic": {"load": 0.1, "profile": [[0, 1.0], [1500, 1.0], [2000, 0.1], [4000, 0.1], [4500, 1.0]]},
    "regulator": {"low": 0.06, "high": 0.45, "period_us": 100, "patience": 2, "batch": 8},
})  # fmt: skip
saved = regulated.figures["energy_saved_j"] / (
    regulated.figures["energy_links_j"] + regulated.figures["energy_saved_j"])  # fmt: skip
print(f"{regulated.figures['changes']} changes; links draw {100 * saved:.1f} % less; "
      f"{regulated.figures['lost']} packets lost")  # fmt: skip
regulated.plot()
