"""What a run leaves behind: tables on the terminal, one JSON line each, a directory."""

import datetime
import json
import os
import platform
import re
import statistics
import subprocess


def cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            return re.search(r"model name\s*:\s*(.*)", file.read()).group(1)
    except (OSError, AttributeError):
        return platform.machine()


def version(*words):
    try:
        text = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    except OSError:
        return None
    return text.splitlines()[0] if text else None


def machine():
    """What figures depend on besides the program."""
    with open("/proc/meminfo") as file:
        memory_kb = int(file.readline().split()[1])
    with open("/proc/cpuinfo") as file:
        virtual = "hypervisor" in file.read()
    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "virtual": virtual,
        "memory_gib": round(memory_kb / 2**20, 1),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "rustc": version("rustc", "--version"),
        "dpdk": version("pkg-config", "--modversion", "libdpdk"),
        "compiler": version("cc", "--version"),
    }


def label(facts):
    return f"{facts['cpus']}core-{'vm' if facts['virtual'] else facts['architecture']}"


class Record:
    """The directory of one run, or nothing but the terminal."""

    def __init__(self, root, command, keep):
        self.facts = machine()
        self.directory = None
        if keep:
            day = datetime.date.today().isoformat()
            base = os.path.join(root, "runs", f"{day}-{label(self.facts)}")
            self.directory, number = base, 1
            while os.path.exists(self.directory):
                number += 1
                self.directory = f"{base}-{number}"
            os.makedirs(self.directory)
        revision = version("git", "-C", root, "rev-parse", "HEAD")
        self.facts |= {"command": command, "revision": revision}
        self.facts["started"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.write("machine.json", json.dumps(self.facts, indent=2) + "\n")

    def write(self, name, text):
        if self.directory:
            with open(os.path.join(self.directory, name), "w") as file:
                file.write(text)

    def result(self, name, table, summary, raw=None):
        """Prints and keeps one benchmark's outcome."""
        text = render(table)
        line = json.dumps({"benchmark": name, **summary})
        print(f"\n== {name}\n{text}\n{line}", flush=True)
        self.write(f"{name}.txt", text + "\n")
        self.write(f"{name}.json", json.dumps({**summary, "raw": raw}, indent=1) + "\n")


def render(rows):
    """Rows of words and numbers as columns; the first row is the heading."""
    shown = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in shown) for place in range(len(shown[0]))]
    align = lambda place, text: text.ljust(widths[place]) if place == 0 else text.rjust(widths[place])
    return "\n".join("  ".join(align(*cell) for cell in enumerate(row)).rstrip() for row in shown)


def number(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"


def spread(values):
    """Median, least and greatest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def verdict(seen):
    """What became of the packets, in words: a loss must be seen without comparing columns."""
    wrong = [f"{seen[key]:,} {key.upper()}" for key in ("lost", "misrouted", "reordered", "duplicated") if seen.get(key)]
    return ", ".join(wrong) or "none lost, all in order"
