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
# # What a router would have saved last month
#
# Counters of an interface, as every router keeps them and every monitoring reads them, are enough to say
# what the same traffic would have drawn under each policy. The counters here are made up (a month of the
# day in `examples/my-traffic.csv`, quieter at weekends); put yours in their place. All power is modelled,
# for the published server of Niccolini et al. (2012); `ebb calibrate` writes a model of your own.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import ebb

plt.style.use("paper.mplstyle")

# %% [markdown]
# A counter of bytes that only grows (`ifHCInOctets`), read every 15 minutes for 30 days.

# %%
day = pd.read_csv("../../examples/my-traffic.csv", comment="#")["gbit_per_second"].to_numpy()
random = np.random.default_rng(1)
weekend = np.array([0.6 if number % 7 >= 5 else 1.0 for number in range(30)])
rates = (day[None, :] * weekend[:, None] * random.lognormal(0, 0.08, (30, len(day)))).ravel()
times = pd.date_range("2026-09-28", periods=len(rates) + 1, freq="15min", tz="UTC")
octets = np.concatenate([[0], np.cumsum(rates * 1e9 / 8 * 900)]).astype("uint64")
counters = pd.Series(octets, index=times, name="ifHCInOctets")
counters.tail(3)

# %% [markdown]
# The counters are handed over as they are: no file is written, and `unit` says what they count, so that
# nothing is guessed.

# %%
past = counters.rename_axis("time").reset_index()
plan = ebb.plan("router", from_=past, unit="byte-counter", traffic__sizes="imix", simulated_s=300)
plan

# %% [markdown]
# The report says what was read:

# %%
print("\n".join(line for line in plan.report.splitlines() if "column" in line or "byte-counter" in line))

# %%
policies = plan.tables["policies"].set_index("policy")
policies[["mean power", "energy", "saved", "latency, mean", "lost"]]

# %%
names = ["poll", "napi", "powersave", "model", "optimum"]
figure, (above, below) = plt.subplots(2, 1, figsize=(3.5, 3.6), height_ratios=[1, 1.2])
gbps = counters.astype("float64").diff().iloc[1:] * 8 / 900 / 1e9
days = (gbps.index - gbps.index[0]).total_seconds() / 86_400
above.fill_between(days, gbps, color="0.6", linewidth=0)
above.set(xlabel="day", ylabel="traffic (Gb/s)", xlim=(0, 30), ylim=(0, None))
energy = policies.loc[names, "energy"]
bars = below.barh(names[::-1], energy[::-1], color=["0.75", "C2", "C2", "C0", "0.4"])
below.bar_label(bars, [f"{policies.loc[name, 'saved']:.0f} % saved" for name in names[::-1]],
                padding=3, fontsize=7)  # fmt: skip
below.set(xlabel="energy of the month (kWh)", xlim=(0, 1.3 * energy.max()))
below.grid(axis="y", visible=False)

# %% [markdown]
# `optimum` knew the load in advance; no policy can do better. Before you believe it, run a busy hour
# packet by packet: `ebb.sim("router", engine="packet", ...)`.
