"""The notebooks run from top to bottom and draw what they promise."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import pytest

from .conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python/notebooks").glob("*.py"))
#: What a notebook needs beside the package.
NEEDS = {"gating_program": "valgrind"}
PICTURES = ROOT / "target/python/notebooks"


def test_there_are_six_and_the_page_lists_them() -> None:
    page = (ROOT / "python/notebooks/README.md").read_text()
    assert len(NOTEBOOKS) == 6
    assert all(f"`{path.name}`" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    program = NEEDS.get(path.stem)
    if program and not shutil.which(program):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{program} is not installed")
        pytest.skip(f"{program} is not installed")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # The notebook's own draws into the page.
    notebook = jupytext.read(path)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "\n".join(output.get("text", "") for output in outputs if output.get("name") == "stderr")
    assert "Warning" not in said, said
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert pictures, "something is drawn"
    PICTURES.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, 1):
        (PICTURES / f"{path.stem}-{number}.png").write_bytes(base64.b64decode(picture))
