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
# # Gating cores on your own program
#
# A core that waits for memory leaks. Would it pay to switch it off while it waits? That depends on the
# program: this page records one and lets every controller watch the same run. Recording needs the command
# `ebb` and valgrind.

# %%
import os
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import ebb

plt.style.use("paper.mplstyle")

# %% [markdown]
# The program sorts numbers by a text of 20,000 lines; the first million of its instructions is skipped.
# Put your own command in its place.

# %%
place = Path(tempfile.mkdtemp())
(place / "numbers").write_text("".join(f"{(number * 7919) % 20011}\n" for number in range(20_000)))
command = os.environ.get("EBB_COMMAND", "ebb")
trace = place / "sort.ebbmem"
recorded = subprocess.run([command, "trace", "record", "-o", trace, "--skip", "1", "--millions", "2", "--",
                           "sort", "-n", place / "numbers"], capture_output=True, text=True)  # fmt: skip
assert recorded.returncode == 0, recorded.stderr
print(f"{trace.stat().st_size / 1e6:.1f} MB")

# %% [markdown]
# The caches are small on purpose, as in an embedded router: with 8 MB this program would hardly ever wait.

# %%
caches = {
    "l1": {"kib": 8, "ways": 2}, "l1i": {"kib": 8, "ways": 2},
    "l2": {"kib": 16, "ways": 4}, "l3": {"kib": 64, "ways": 8},
}  # fmt: skip
result = ebb.sim("gating", trace=str(trace), caches=caches, core="io", controllers="all")
print(f"{100 * result.figures['stalled_share']:.0f} % of the time it waits for memory, "
      f"{result.figures['stall_ns']:.0f} ns each time")  # fmt: skip
result.tables[next(iter(result.tables))]

# %%
shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
names = ["oracle", "tap", "counter", "hybrid", "dvfs-oracle"]
rows = []
for share in shares:
    run = ebb.sim("gating", trace=str(trace), caches=caches, core="io", controllers=",".join(names),
                  leakage_share=share)  # fmt: skip
    for name in names:
        rows.append({"share": share, "controller": name, **run.figures["controllers"][name]})
frame = pd.DataFrame(rows)
frame.head()

# %%
figure, axes = plt.subplots()
for name, form in zip(names, ("k--", "o-", "s-", "^-", ":"), strict=True):
    part = frame[frame["controller"] == name]
    axes.plot(part["share"] * 100, part["energy_saved"] * 100, form, label=name)
axes.axhline(0, color="0.5", linewidth=0.6)
axes.set(xlabel="leakage (% of a core's power at work)", ylabel="energy saved (%)")
axes.legend(ncols=2)
