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
# # Circuit schedules against a demand
#
# An optical circuit switch serves one output per input at a time and is dark while it changes its mind.
# Which scheduler serves most of a demand, how close to what is possible at all, and how does that depend
# on how long a change takes?

# %%
import matplotlib.pyplot as plt
import numpy as np

import ebb

plt.style.use("paper.mplstyle")

# %% [markdown]
# The demand of 16 racks, in units of what a link carries in a window: a few heavy pairs over a floor of
# little ones, as measured data centres have them. It is an array of numpy; yours may be a data frame.

# %%
racks = 16
random = np.random.default_rng(3)
demand = random.exponential(0.01, (racks, racks))
for shift, weight in ((1, 0.35), (5, 0.25), (9, 0.15)):
    demand[np.arange(racks), (np.arange(racks) + shift) % racks] += weight * random.uniform(0.8, 1.2, racks)
np.fill_diagonal(demand, 0.0)
demand *= 0.95 / max(demand.sum(axis=0).max(), demand.sum(axis=1).max())

plan = ebb.plan("circuit", demand=demand, delta=0.01, window=1.0, scheduler="all")
plan.tables["share-of-the-demand-served"]

# %%
deltas = [0.001, 0.003, 0.01, 0.03, 0.1]
plans = [ebb.plan("circuit", demand=demand, delta=delta, window=1.0, scheduler="all") for delta in deltas]
names = {"eclipse": "Eclipse", "solstice": "Solstice", "tms-bottleneck": "TMS", "round-robin": "round robin"}
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 2.6), width_ratios=[1, 1.1])
shown = left.imshow(demand, cmap="Blues")
left.set(xlabel="to rack", ylabel="from rack", xticks=range(0, racks, 5), yticks=range(0, racks, 5))
left.grid(visible=False)
figure.colorbar(shown, ax=left, label="demand (windows of a link)", shrink=0.9)
for (name, label), form in zip(names.items(), ("o-", "s-", "^-", "v-"), strict=True):
    right.plot(deltas, [100 * plan.figures[f"served.{name}"] for plan in plans], form, label=label)
right.plot(deltas, [100 * plan.figures["bound"] for plan in plans], "k--", label="no schedule can")
right.set(xscale="log", xlabel="time of a change (windows)", ylabel="demand served (%)", ylim=(0, 105))
right.legend(loc="center left", bbox_to_anchor=(0.02, 0.57))

# %% [markdown]
# The schedule itself is in the figures: the days of Eclipse, each a matching and how long it stands.

# %%
schedule = plan.figures["schedulers"]["eclipse"]["schedule"]
print(f"{len(schedule)} days")
[(round(day["duration"], 4), day["matching"][:6]) for day in schedule[:3]]
