"""Pages of a running cluster and of running circuits in a browser: what they show is what the daemons say; a back-end
is drained and given back.

usage: fleet.py ADDRESS-WITH-TOKEN PROFILE-DIRECTORY [--screenshots DIRECTORY]
"""

import json
import time
import urllib.request

from page import BASE, browser, carry_out, keep, look, open_page, press, say, script, text, there, wait

UNITS = {"pps": 1, "kpps": 1e3, "Mpps": 1e6, "/s": 1}


def said(daemon, metric):
    """Sum of a metric, and of its rate, as the dashboard was told last."""
    with urllib.request.urlopen(f"{BASE}api/daemons/{daemon}/snapshot") as answer:
        samples = json.load(answer)["metrics"][metric]["samples"]
    return sum(one["value"] for one in samples), sum(one.get("per_second") or 0 for one in samples)


def tile(label):
    return script("""
      const name = [...document.querySelectorAll('.tiles dt')].find((one) => one.textContent.trim() === arguments[0]);
      return name?.parentElement.querySelector('dd').firstChild.textContent.trim();""", label)


def row(table, name):
    """Cells of a row by the names of their columns."""
    return script("""
      const table = [...document.querySelectorAll('table')].find((one) => one.caption.textContent === arguments[0]);
      const named = (one) => one.querySelector('button')?.firstChild.textContent ?? one.textContent;
      const names = [...table?.querySelectorAll('thead th') ?? []].map((one) => named(one).trim());
      const found = [...table?.querySelectorAll('tbody tr') ?? []].find((one) => one.cells[0].textContent === arguments[1]);
      return found ? Object.fromEntries([...found.cells].map((one, at) => [names[at], one.textContent.trim()])) : null;""", table, name)


def number(words):
    """A rate with its unit, as a number."""
    value, unit = words.split(" ")
    return float(value) * UNITS[unit]


def near(shown, daemon, metric):
    """Waits until a rate on the page is that of the daemon, which goes on meanwhile."""
    def holds():
        words, rate = shown(), said(daemon, metric)[1]
        return words and rate > 100 and abs(number(words) - rate) < 0.2 * rate and (words, rate)

    words, rate = wait(holds, f"{metric} of {daemon}")
    say(f"{daemon}: {metric} {words}, told {rate:.0f}")


def plots(least):
    wait(lambda: script("return document.querySelectorAll('.uplot').length") >= least, f"{least} plots")


def cluster():
    open_page("#/live/cluster")
    there("Back-ends on")
    plots(4)
    wait(lambda: (row("Back-ends", "r0") or {}).get("up") == "yes", "a back-end that is up")
    cells = row("Back-ends", "r0")
    assert (cells["power"], cells["share"], cells["held off"]) == ("on", "100 %", "no"), cells
    assert tile("Back-ends on") == "1 of 1" and tile("Store") == "answers", text()
    near(lambda: tile("To back-ends"), "cluster", "ebb_cluster_balanced_total")
    near(lambda: tile("To the outside"), "cluster", "ebb_cluster_returned_total")
    time.sleep(1.5)
    look("live-cluster")
    press("Drain")
    there("Drain r0?")
    keep("drain-question")
    press("Drain", "document.querySelector('dialog')")
    wait(lambda: row("Back-ends", "r0")["held off"] == "yes", "the drain")
    assert said("cluster", "ebb_cluster_back_end_held")[0] == 1
    press("Give back")
    press("Give back", "document.querySelector('dialog')")
    wait(lambda: row("Back-ends", "r0")["held off"] == "no", "its end")
    assert said("cluster", "ebb_cluster_back_end_held")[0] == 0
    say("drained and given back")


def circuits():
    open_page("#/live/tor")
    there("Sent to circuits")
    plots(4)
    assert "controller's days" in text() and "sealed" in text(), text()[:600]
    near(lambda: tile("Sent to circuits"), "tor", "ebb_circuit_rack_sent_total")
    near(lambda: row("Racks", "0")["to circuits"], "tor", "ebb_circuit_rack_sent_total")
    time.sleep(1.5)
    look("live-tor")
    for daemon, title in (("ocs", "Optical switch"), ("control", "Controller of circuits")):
        open_page(f"#/live/{daemon}")
        there(title)
        wait(lambda: len(browser.find_elements("css selector", "table tbody tr")) > 5, "its metrics")
        look(f"live-{daemon}")


def main():
    for daemon in ("cluster", "tor", "ocs", "control"):
        there(daemon)
    wait(lambda: "Not running" not in text(), "all daemons")
    look("fleet-all")
    cluster()
    circuits()


carry_out(main)
