"""What a notebook's kernel completes and shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

RUN = """
import ebb
short = {"warmup": 200, "sample": 500, "samples_max": 3}
result = ebb.sim("noc", mesh="3x3", traffic="uniform", load=0.1, runs=1, run=short)
scenario = ebb.scenarios.NocSim(mesh="3x3", traffic="uniform")
result
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    pytest.importorskip("ipykernel")
    manager = pytest.importorskip("jupyter_client.manager")
    started, client = manager.start_new_kernel(kernel_name="python3")
    try:
        yield client
    finally:
        client.stop_channels()
        started.shutdown_kernel(now=True)


def test_a_result_is_shown_as_a_page_and_names_are_completed(kernel: Any) -> None:
    shown: list[Any] = []

    def hear(message: Any) -> None:
        if message["msg_type"] == "execute_result":
            shown.append(message["content"]["data"])

    said = kernel.execute_interactive(RUN, output_hook=hear, timeout=60)
    assert said["content"]["status"] == "ok", said
    assert "<iframe" in shown[0]["text/html"] and "<Result: " in shown[0]["text/plain"]

    def completed(text: str) -> set[str]:
        reply = kernel.complete(text, reply=True, timeout=60)["content"]
        return {text[: reply["cursor_start"]] + match for match in reply["matches"]}

    for text, whole in (
        ("ebb.sim", "ebb.sim"),
        ("ebb.scenarios.Noc", "ebb.scenarios.NocSim"),
        ("ebb.scenarios.NocSim(me", "ebb.scenarios.NocSim(mesh="),
        ("scenario.ro", "scenario.router"),
        ("result.tab", "result.tables"),
        ('result.figures["latency_cycles.me', 'result.figures["latency_cycles.mean'),
        ('result.tables["the-24', 'result.tables["the-24-fullest-links'),
    ):
        found = completed(text)
        assert any(match.startswith(whole) for match in found), (text, found)
    said = kernel.inspect("ebb.scenarios.NocSim", reply=True, timeout=60)["content"]["data"]["text/plain"]
    assert "load: " in said and "traffic" in said
