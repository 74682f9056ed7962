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
# # A sweep on Dask
#
# The latency of a network on chip over its load, for buffers of different depth: all combinations,
# computed by whatever Dask has. Here that is two processes on this machine;
# `Client("tcp://scheduler:8786")` is a cluster. The result is the same to the last byte.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from distributed import Client, LocalCluster

import ebb

plt.style.use("paper.mplstyle")

# %%
scenario = {
    "mesh": "4x4", "traffic": "transpose", "runs": 1,
    "router": {"kind": "vc", "vcs": 2}, "run": {"warmup": 500, "sample": 2000, "samples_max": 4},
}  # fmt: skip
over = {"router.depth": [2, 4, 8, 16], "load": "0.02..0.4:0.02"}
out = Path(tempfile.mkdtemp()) / "sweep"
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
with cluster, Client(cluster) as client:
    sweep = ebb.sweep("noc", scenario, over=over, executor=client, out=out)
print(f"{len(sweep.frame)} points, {len(sweep.failed)} failed")

# %% [markdown]
# What was finished is on disk while the sweep goes on, and again after an interruption: started again with
# any executor, it computes only what is missing.

# %%
parts = pd.read_parquet(out / "parts")
again = ebb.sweep("noc", scenario, over=over, out=out)
assert again.to_csv("points") == sweep.to_csv("points")
parts.columns[:8].tolist(), len(parts)

# %%
grid = sweep.to_xarray()
figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 2.5))
for depth, form in zip(grid["router.depth"].values, ("o-", "s-", "^-", "v--"), strict=True):
    line = grid.sel({"router.depth": depth})
    left.plot(line["load"], line["latency_cycles.mean"], form, label=f"{depth:g} flits", markersize=2.5)
    right.plot(line["load"], line["accepted"], form, label=f"{depth:g} flits", markersize=2.5)
left.set(xlabel="load (flits/tile/cycle)", ylabel="mean latency (cycles)", yscale="log")
# Tiles on the diagonal of a transposition have nobody to send to: less is offered than the load says.
right.plot(line["load"], line["offered"], "k:", linewidth=0.8, label="all that is offered")
right.set(xlabel="load (flits/tile/cycle)", ylabel="accepted (flits/tile/cycle)")
left.legend(title="buffer of a lane", title_fontsize=7)
right.legend()
