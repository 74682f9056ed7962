"""What all tests share: the command to compare with, and directories."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "long" in item.keywords and not os.environ.get("EBB_LONG"):
            item.add_marker(pytest.mark.skip(reason="minutes: EBB_LONG=1 runs it"))


@pytest.fixture(scope="session")
def command() -> str:
    """The command `ebb` that this package was built beside."""
    found = os.environ.get("EBB_COMMAND") or shutil.which("ebb")
    if not found:
        pytest.fail("EBB_COMMAND is to name the command to compare with")
    return found


@pytest.fixture
def run_command(command: str, tmp_path: Path) -> Callable[..., Path]:
    """Run the command with a directory of its own for what it writes, which is returned."""

    def run(*words: str) -> Path:
        place = tmp_path / "command"
        plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        outcome = subprocess.run([command, *words, "--out", str(place)], capture_output=True, text=True,
                                 cwd=ROOT, check=False, env=plain)  # fmt: skip
        assert outcome.returncode == 0, outcome.stderr
        (place / "stdout").write_text(outcome.stdout)
        return place

    return run


def same_files(left: Path, right: Path, *, but: tuple[str, ...] = ()) -> None:
    """Compare all files of two directories byte for byte."""
    names = {path.name for path in (*left.iterdir(), *right.iterdir()) if path.is_file()} - set(but)
    assert names
    for name in sorted(names):
        assert (left / name).read_bytes() == (right / name).read_bytes(), name
