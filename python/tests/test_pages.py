"""The pages of docs: every example runs, and what stands below one is what it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

PAGES = sorted((ROOT / "docs/python").glob("*.md"))
#: An example, and what it prints.
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_system_has_a_page_that_is_linked() -> None:
    systems = {path.name for path in (ROOT / "systems").iterdir() if (path / "Cargo.toml").exists()}
    assert {path.stem for path in PAGES} == systems
    overview = (ROOT / "docs/python.md").read_text()
    assert all(f"(python/{path.name})" in overview for path in PAGES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_says_what_its_examples_print(path: Path, place: Path) -> None:
    """`EBB_WRITE_DOCS=1` writes what they print."""
    names: dict[str, Any] = {"__name__": "page"}

    def executed(block: re.Match[str]) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block["code"], str(path), "exec"), names)
        lines = "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())
        output = f"\n```text\n{lines}```\n" if lines else ""
        return f"```python\n{block['code']}```\n{output}"

    page = path.read_text()
    made = BLOCK.sub(executed, page)
    if os.environ.get("EBB_WRITE_DOCS"):
        path.write_text(made)
    else:
        assert made == page, "EBB_WRITE_DOCS=1 pytest tests/test_pages.py accepts a change"


def test_the_overview_runs(place: Path) -> None:
    """Every example of the page, in its order, in one program."""
    page = (ROOT / "docs/python.md").read_text()
    body = "\n".join(block["code"] for block in BLOCK.finditer(page))
    assert body
    program = place / "page.py"
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    program.write_text(f"if __name__ == '__main__':\n{indented}")
    outcome = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
