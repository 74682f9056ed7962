"""Traffic of one's own past: every shape in which it is exported, files and a running Prometheus."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import ebb

#: What a day of quarters of an hour carries, in bytes a second; frames of 1000 bytes, so that packets are told.
RATES = [50e6 + 40e6 * ((number * 37) % 96) / 96 for number in range(96)]
MEAN_MPPS = sum(RATES) / len(RATES) / 1000 / 1e6
START = 1_772_409_600  # 2026-03-02 00:00 UTC
QUICK = {"policies": ["poll"], "simulated_s": 0.5, "rows": 1, "traffic__sizes": 1000}


def zoned(number: int, hours: int = 1) -> str:
    return datetime.fromtimestamp(START + 900 * number, timezone(timedelta(hours=hours))).isoformat()


def comma(value: float) -> str:
    return f"{value:.6f}".replace(".", ",")


def table(head: str, row: Any, mark: str = ",") -> str:
    return head + "\n" + "".join(mark.join(row(*pair)) + "\n" for pair in enumerate(RATES))


def without(line: int, text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:line] + lines[line + 1 :])


def sadf() -> str:
    def record(number: int, rate: float) -> dict[str, Any]:
        at = datetime.fromtimestamp(START + 900 * (number + 1), UTC)
        device = {"iface": "eth1", "rxpck": 1.0, "txpck": 1.0, "rxkB": rate / 1024, "txkB": 1.0}
        stamp = {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M:%S}", "utc": 1, "interval": 900}
        return {"timestamp": stamp, "network": {"net-dev": [device]}}

    statistics = [record(*pair) for pair in enumerate(RATES)]
    return json.dumps({"sysstat": {"hosts": [{"nodename": "r1", "statistics": statistics}]}})


def vnstat() -> str:
    def row(number: int, rate: float) -> dict[str, Any]:
        at = datetime.fromtimestamp(START + 300 * number, UTC)
        return {"id": number, "date": {"year": at.year, "month": at.month, "day": at.day},
                "time": {"hour": at.hour, "minute": at.minute}, "timestamp": START + 300 * number,
                "rx": int(rate * 300), "tx": 1}  # fmt: skip

    traffic = {"fiveminute": [row(*pair) for pair in enumerate(RATES)], "hour": [], "day": []}
    interface = {"name": "eth0", "updated": {"timestamp": START + 90_000}, "traffic": traffic}
    return json.dumps({"vnstatversion": "2.10", "jsonversion": "2", "interfaces": [interface]})


def rrd() -> str:
    rows = "".join(f"<row><v>{rate:.6e}</v></row>" for rate in RATES)
    return (f"<?xml version='1.0'?><rrd><version>0003</version><step>900</step><lastupdate>{START + 86_400}"
            "</lastupdate><ds><name> traffic_in </name><type> COUNTER </type></ds><rra><cf> AVERAGE </cf>"
            f"<pdp_per_row> 1 </pdp_per_row><database>{rows}</database></rra></rrd>")  # fmt: skip


def prometheus() -> str:
    values = [[START + 900 * number, str(rate)] for number, rate in enumerate(RATES)]
    series = [{"metric": {"device": "eth0", "instance": "r1"}, "values": values},
              {"metric": {"device": "eth1", "instance": "r1"}, "values": values[:2]}]  # fmt: skip
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


def long(mark: str = ",") -> str:
    rows = [mark.join(["Time", "Series", "Value (B/s)"])]
    for number, rate in enumerate(RATES):
        at = str(1000 * (START + 900 * number))
        rows += [mark.join([at, "r1 eth0 in", f"{rate:.3f}"]), mark.join([at, "r1 eth0 out", "7"])]
    return "\n".join(rows) + "\n"


#: Name of the file, content, settings, and what the report must say of it.
SHAPES: dict[str, tuple[str, str, dict[str, str], list[str]]] = {
    "prometheus": ("p.json", prometheus(), {"value": "eth0", "unit": "bytes-per-second"},
                   ['the series is {device="eth0", instance="r1"}', "bytes-per-second, as `unit` says"]),
    "rrd": ("r.xml", rrd(), {"unit": "bytes-per-second"}, ["the series is traffic_in, AVERAGE of 900 s"]),
    "sadf": ("s.json", sadf(), {"value": "eth1.rxkB"}, ["the series is eth1.rxkB", "as the file says"]),
    "vnstat": ("v.json", vnstat(), {"value": "rx"}, ["eth0.fiveminute.rx", "bytes-per-row, as the file says"]),
    "semicolons": ("a.csv", table("Zeit;Eingang [Mbit/s]", lambda n, r: [zoned(n), comma(r * 8 / 1e6)], ";"), {},
                   ["times are in column `Zeit`, values in column `Eingang [Mbit/s]`",
                    "megabits-per-second, as the file says"]),
    "tabs": ("a.tsv", table("timestamp\tin (kB/s)", lambda n, r: [str(START + 900 * n), comma(r / 1e3)], "\t"), {},
             ["column `timestamp`", "kilobytes-per-second, as the file says"]),
    "milliseconds": ("a.csv", table("Time,ifHCInOctets.1,ifHCInOctets.2",
                                    lambda n, r: [str(1000 * (START + 900 * n)), "1", str(int(r * 900))]),
                     {"value": "ifHCInOctets.2", "unit": "bytes-per-row"},
                     ["column `ifHCInOctets.2`", "bytes-per-row, as `unit` says"]),
    "assumed": ("a.csv", table("time,v", lambda n, r: [zoned(n, -5), str(r * 8)]), {},
                ["bits-per-second, which is assumed: set `unit` if they are not"]),
    "counter": ("c.csv", table("time,ifHCInOctets", lambda n, r: [zoned(n), str(int(sum(RATES[:n]) * 900))])
                + f"{zoned(96)},{int(sum(RATES) * 900)}\n", {"unit": "byte-counter"},
                ["column `ifHCInOctets`", "byte-counter, as `unit` says"]),
    # The row that is missing lies between its neighbours, as it happens.
    "gap": ("g.csv", without(41, table("time,in [B/s]", lambda n, r: [zoned(n), str(r)])), {},
            ["rows that are missing: 1,", "2026-03-02 09:45:00 UTC"]),
    "long": ("l.csv", long(), {"value": "r1 eth0 in"},
             ["the series is `r1 eth0 in`", "values in column `Value (B/s)`", "bytes-per-second, as the file says"]),
    "long with tabs": ("l.tsv", long("\t"), {"value": "in"}, ["the series is `r1 eth0 in`"]),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_and_the_report_says_what(shape: str, tmp_path: Path, command: str) -> None:
    name, text, settings, told = SHAPES[shape]
    path = tmp_path / name
    path.write_text(text)
    plan = ebb.plan("router", from_=path, **settings, **QUICK)
    assert plan.figures["offered_mpps"] == pytest.approx(MEAN_MPPS, rel=1e-4)
    step = 300 if shape == "vnstat" else 900
    assert plan.figures["span_s"] == pytest.approx(96 * step, rel=1e-6)
    report = " ".join(plan.report.split())
    for words in told:
        assert words in report, report
    flags = [word for key, value in settings.items() for word in (f"--{key}", value)]
    sets = ['policies=["poll"]', "simulated_s=0.5", "rows=1", "traffic.sizes=1000"]
    words = [command, "plan", "router", "--from", str(path), *flags, "--json"]
    words += [word for one in sets for word in ("--set", one)]
    if shape in ("rrd", "long"):
        outcome = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
        assert json.loads(outcome.stdout)["offered_mpps"] == plan.figures["offered_mpps"]


def test_what_is_ambiguous_is_asked_for() -> None:
    for name, text, remedy in (
        ("p.json", prometheus(), 'device="eth1"'),
        ("l.csv", long(), "r1 eth0 in, r1 eth0 out"),
        ("w.csv", "time,a,b\n0,1,2\n1,1,2\n", "time, a, b"),
        ("h.csv", "when,a\n0,1\n1,1\n", "when, a"),
        ("c.csv", "time,octets\n" + "".join(f"{n},{n * n}\n" for n in range(20)), "byte-counter"),
    ):
        with pytest.raises(ebb.ScenarioError) as caught:
            ebb.plan("router", from_=name, files={name: text})
        assert remedy in f"{caught.value.message} {caught.value.remedy}"
    with pytest.raises(
        ebb.ScenarioError, match=r"is bits-per-second, but the values .* are megabits-per-second"
    ):
        ebb.plan("router", from_="a.csv", unit="bits-per-second", files={"a.csv": "time,Mbit/s\n0,1\n1,1\n"})


#: As nfdump 1.7.1 writes it (-o csv), most of its columns left out; the last lines are of all flows together.
FLOWS = """\
ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt
2026-03-02 00:00:00,2026-03-02 00:02:00,120.000,198.51.100.1,203.0.113.9,1234,443,TCP,...AP...,0,0,400,600000,0,0
2026-03-02 00:01:00,2026-03-02 00:03:00,120.000,198.51.100.1,203.0.113.9,1234,443,TCP,...AP...,0,0,800,1200000,0,0
2026-03-02 00:01:40,2026-03-02 00:01:41,1.000,198.51.100.1,203.0.113.9,1234,443,TCP,...AP...,0,0,1,1000,0,0
Summary
flows,bytes,packets,avg_bps,avg_pps,avg_bpp
3,1801000,1201,80044,6,1499
"""


def test_flows_of_nfdump_become_a_rate() -> None:
    plan = ebb.plan("router", from_="f.csv", files={"f.csv": FLOWS}, **QUICK)
    assert plan.figures["span_s"] == 180
    assert plan.figures["offered_mpps"] == pytest.approx(1_801_000 / 1000 / 180 / 1e6)
    assert "3 flows" in plan.report and "column `ibyt`" in " ".join(plan.report.split())
    packets = ebb.plan("router", from_="f.csv", value="packets", files={"f.csv": FLOWS}, **QUICK)
    assert packets.figures["offered_mpps"] == pytest.approx(1201 / 180 / 1e6)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, float]]:
    """A Prometheus that has counted two interfaces for the last two days; its address and the mean rate."""
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        if os.environ.get("CI") == "true":
            pytest.fail("prometheus is not installed")
        pytest.skip("prometheus is not installed")
    place = tmp_path_factory.mktemp("prometheus")
    now = int(time.time()) // 300 * 300
    lines, total = ["# TYPE rx_bytes counter"], 0.0
    for number in range(577):
        at = now - (577 - number) * 300
        lines += [f'rx_bytes_total{{device="eth{card}"}} {total * (card + 1)} {at}' for card in (0, 1)]
        total += 300 * (50e6 + 25e6 * (number % 12))
    (place / "past").write_text("\n".join([*lines, "# EOF"]) + "\n")
    data = place / "data"
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", place / "past", data]
    subprocess.run(made, check=True, capture_output=True)
    (place / "prometheus.yml").write_text("scrape_configs: []\n")
    address = f"127.0.0.1:{free_port()}"
    with (place / "log").open("w") as log:
        child = subprocess.Popen(
            ["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={data}",
             f"--web.listen-address={address}", "--storage.tsdb.retention.time=10d"],
            stdout=log, stderr=log)  # fmt: skip
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{address}/-/ready").close()
                break
            except OSError:
                assert child.poll() is None, (place / "log").read_text()
                time.sleep(0.1)
        yield f"http://{address}", total / (577 * 300)
    finally:
        child.kill()
        child.wait()


def test_a_running_prometheus_is_asked(server: tuple[str, float], command: str, tmp_path: Path) -> None:
    address, mean = server
    query = 'rate(rx_bytes_total{device="eth0"}[10m])'
    plan = ebb.plan("router", from_=f"{address}?query={query}", unit="bytes-per-second", **QUICK)
    assert plan.figures["offered_mpps"] == pytest.approx(mean / 1000 / 1e6, rel=0.02)
    assert plan.figures["span_s"] == pytest.approx(2 * 86_400, rel=0.02)
    assert 'the series is {device="eth0"}' in " ".join(plan.report.split())
    # As browsers write it, and with a time of its own.
    end = int(time.time()) // 300 * 300
    whole = (f"{address}/api/v1/query_range?query=rate%28rx_bytes_total%5B10m%5D%29"
             f"&start={end - 86_400}&end={end - 3600}&step=600")  # fmt: skip
    words = [command, "plan", "router", "--from", whole, "--value", "eth1", "--unit", "bytes-per-second", "--json",
             "--set", 'policies=["poll"]', "--set", "simulated_s=0.5", "--set", "traffic.sizes=1000"]  # fmt: skip
    outcome = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["offered_mpps"] == pytest.approx(2 * mean / 1000 / 1e6, rel=0.05)
    for wrong, told in (
        (f"{address}?query=rate(", "parse error"),
        (f"{address}?query=nothing_of_that_name", "has 0 series"),
        (f"http://127.0.0.1:{free_port()}?query=x", "cannot be fetched"),
    ):
        with pytest.raises((ebb.ScenarioError, ebb.StudyError), match=told):
            ebb.plan("router", from_=wrong, **QUICK)


def test_arrays_frames_and_graphs_need_no_files() -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    networkx = pytest.importorskip("networkx")
    matrix = numpy.full((9, 9), 0.05)
    numpy.fill_diagonal(matrix, 0.0)
    text = "".join(",".join(map(repr, row)) + "\n" for row in matrix.tolist())
    by_file = ebb.plan("noc", mesh="3x3", traffic="csv:m.csv", files={"m.csv": text})
    by_value = ebb.plan("noc", mesh="3x3", traffic=matrix)
    assert by_value.figures["power_nodvfs"] == by_file.figures["power_nodvfs"]
    assert ebb.plan("noc", {"mesh": "3x3", "traffic": matrix}).figures["power_nodvfs"] > 0
    frame = pandas.DataFrame(matrix, columns=[f"rack{number}" for number in range(9)])
    circuit = ebb.plan("circuit", demand=frame, delta=0.01, window=1.0, scheduler="solstice")
    assert circuit.figures["ports"] == 9 and circuit.figures["demand_total"] == pytest.approx(matrix.sum())
    frames = 100 * matrix
    assert ebb.plan("circuit", demand=frames / frames.sum(), scheduler="tms-arbitrary").figures["ports"] == 9
    plan = ebb.plan("fabric", topology=networkx.cycle_graph(6), load=0.05, pattern={"kind": "uniform"})
    assert "6 switches" in plan.report or plan.figures
    traffic = pandas.DataFrame({"time": [900 * number for number in range(96)], "bytes_per_second": RATES})
    planned = ebb.plan("router", from_=traffic, **QUICK)
    assert planned.figures["offered_mpps"] == pytest.approx(MEAN_MPPS)
    assert "bytes-per-second, as the file says" in " ".join(planned.report.split())
    # A model of a machine is a table, such as tomllib reads from what `ebb calibrate` writes.
    points = [{"frequency_hz": 1_600_000_000, "idle_w": 1.5, "active_w": 5.0, "r_max_pps": 8e5},
              {"frequency_hz": numpy.int64(3_200_000_000), "idle_w": 2.5, "active_w": 14.0, "r_max_pps": 1.5e6}]  # fmt: skip
    model = {"base_w": 41.0, "chi": numpy.array([0.0, 1.0, 0, 0, 0, 0, 0, 0]), "point": points,
             "gain": [{"cores": 1, "gamma": 1.0}, {"cores": 2, "gamma": 1.9}], "name": "lab"}  # fmt: skip
    machine = ebb.sim("router", load=0.2, duration_s=0.001, server={"model_file": model})
    assert 41 < machine.figures["power_w"] < 41 + 2 * 14
    with pytest.raises(ebb.ScenarioError, match=r"server\.model_file.*chi"):
        ebb.sim("router", load=0.2, server={"model_file": {**model, "chi": "much"}})
    # Numbers of numpy are numbers.
    assert ebb.plan("noc", mesh="3x3", traffic="uniform", load=numpy.float64(0.3)).figures["power_nodvfs"] > 0
