"""The package as a package: types, style, stubs, import time of nothing heavy, daemons."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import ebb

from .conftest import ROOT

PACKAGE = ROOT / "python"


def tool(*words: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, cwd=PACKAGE, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_types_and_style() -> None:
    tool("mypy", "ebb")
    tool("ruff", "check", ".")
    tool("ruff", "format", "--check", ".")


def test_the_stub_says_what_the_module_has(tmp_path: Path) -> None:
    # Alone, so that nothing else is read.
    alone = tmp_path / "ebb"
    alone.mkdir()
    for name in ("_ebb.pyi", "_ebb.abi3.so"):
        (alone / name).symlink_to((PACKAGE / "ebb" / name).resolve())
    (alone / "__init__.py").write_text("")
    words = [sys.executable, "-m", "mypy.stubtest", "ebb._ebb", "--ignore-disjoint-bases"]
    here = {**os.environ, "PYTHONPATH": str(tmp_path), "MYPYPATH": str(tmp_path)}
    outcome = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=here, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_importing_loads_nothing_that_is_not_needed() -> None:
    code = "import sys, ebb; print([name for name in ('numpy', 'pandas', 'matplotlib', 'tqdm') if name in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_the_page_runs(tmp_path: Path) -> None:
    """Every example of the page, in its order, in one program."""
    page = (ROOT / "docs/python.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    assert blocks
    program = tmp_path / "page.py"
    body = "\n".join(blocks)
    program.write_text(
        "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in body.splitlines())
    )
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    outcome = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


SNAPSHOT = {
    "protocol": 1, "daemon": "router", "version": "0", "pid": 1, "uptime_seconds": 2.5, "facts": {"mode": "napi"},
    "metrics": {"ebb_power_watts": {"kind": "gauge", "help": "Power", "samples": [{"labels": {"core": "0"}, "value": 3.5}]}},
    "notes": [],
}  # fmt: skip


@pytest.fixture
def daemon(tmp_path: Path) -> Path:
    """A stand-in that speaks the daemons' protocol as docs/telemetry.md describes it."""
    path = tmp_path / "router.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            client, _ = listener.accept()
            with client, client.makefile("rw") as file:
                for line in file:
                    request = json.loads(line)
                    count = 3 if "subscribe" in request else 1
                    for _ in range(count):
                        file.write(
                            json.dumps({"ok": SNAPSHOT if "subscribe" in request else {"state": "fine"}})
                            + "\n"
                        )
                    file.flush()
                    if count > 1:
                        break

    threading.Thread(target=serve, daemon=True).start()
    return path


def test_snapshots_of_a_daemon(daemon: Path, tmp_path: Path) -> None:
    connection = ebb.connect(socket=daemon, every_s=0.1)
    assert connection.status() == {"state": "fine"}
    frame = connection.frame(2)
    assert list(frame["value"]) == [3.5, 3.5] and list(frame["core"]) == ["0", "0"]

    async def first() -> ebb.Snapshot:
        async for snapshot in ebb.connect(socket=daemon):
            return snapshot
        raise AssertionError

    snapshot = asyncio.run(first())
    assert snapshot.value("ebb_power_watts", core="0") == 3.5 and snapshot.facts["mode"] == "napi"
    with pytest.raises(ebb.DaemonError, match="closed"):
        for _ in connection:
            pass
    with pytest.raises(ebb.DaemonError, match="is the daemon running"):
        ebb.connect(socket=tmp_path / "none.sock")


@pytest.mark.long
def test_a_wheel_runs_where_there_is_no_rust(tmp_path: Path) -> None:
    """Builds the wheel as `make wheel` does and installs it where only Python is."""
    subprocess.run([str(ROOT / "scripts/wheel")], check=True)
    wheel = max((ROOT / "target/wheels").glob("ebb-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheel.stat().st_size < 40_000_000 and "manylinux" in wheel.name and "abi3" in wheel.name
    assert any(name.endswith("py.typed") for name in zipfile.ZipFile(wheel).namelist())
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    clean = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", str(wheel)], check=True, env=clean)
    code = "import ebb; print(ebb.plan('noc', mesh='4x4', traffic='transpose').title)"
    outcome = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, env=clean, cwd=tmp_path
    )
    assert "4x4" in outcome.stdout


@pytest.mark.long
def test_the_benchmark_runs() -> None:
    program = ROOT / "bench/python/run.py"
    outcome = subprocess.run(
        [sys.executable, str(program), "--small"], capture_output=True, text=True, check=True
    )
    assert json.loads(outcome.stdout.splitlines()[-1])["two_cores_times_one"] > 0
