"""The package as a package: types, style, stubs, scenario classes, wheel, import time of nothing heavy."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


def test_the_classes_are_what_the_generator_makes(tmp_path: Path) -> None:
    tool("generate", str(tmp_path))
    tool("ruff", "format", "--quiet", "--config", "pyproject.toml", str(tmp_path))
    kept = PACKAGE / "ebb/scenarios"
    names = {path.name for place in (kept, tmp_path) for path in place.glob("*.py")}
    changed = [name for name in names if (kept / name).read_text() != (tmp_path / name).read_text()]
    assert not changed, "python generate.py && ruff format ebb/scenarios"


@pytest.mark.long
@pytest.mark.timeout(7200)  # Everything is compiled, and optimised.
def test_a_wheel_runs_where_there_is_no_rust(tmp_path: Path) -> None:
    """Builds the wheel as `make wheel` does and installs it where only Python is."""
    subprocess.run([str(ROOT / "scripts/wheel")], check=True)
    wheel = max((ROOT / "target/wheels").glob("ebb-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheel.stat().st_size < 40_000_000 and "manylinux_2_28" in wheel.name and "abi3" in wheel.name
    packed = zipfile.ZipFile(wheel)
    assert any(name.endswith("py.typed") for name in packed.namelist())
    (module,) = (packed.read(name) for name in packed.namelist() if name.endswith(".so"))
    wanted = {tuple(map(int, version.split(b"."))) for version in re.findall(rb"\0GLIBC_([0-9.]+)", module)}
    assert (2, 17) <= max(wanted) <= (2, 28), max(wanted)
    assert b"\0.debug_info\0" not in module and b"\0.symtab\0" not in module, "it is stripped"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    clean = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    assert not shutil.which("cargo", path=clean["PATH"])
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
