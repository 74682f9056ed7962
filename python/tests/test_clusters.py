"""Sweeps on schedulers that the tests start: SLURM, Dask, MPI."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import ebb

from .conftest import same_files
from .policies import Napi, PowerSave
from .test_sweeps import ORDER, OVER, SCENARIO, WORDS, check, figures, lines
from .test_traffic import free_port

pytestmark = pytest.mark.cluster
SLURM = Path(__file__).parent / "slurm" / "run"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def expected(run_command: Callable[..., Path], scenario: Path) -> Path:
    return run_command("sim", "noc", str(scenario), *WORDS)


def need(*programs: str, root: bool = False) -> None:
    missing = [name for name in programs if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
    reason = f"{', '.join(missing)} is not installed" if missing else ""
    if root and os.geteuid() != 0:
        reason = "namespaces need root"
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def run(*words: str, seconds: float = 100, **others: object) -> str:
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    outcome = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False,
                             env={**os.environ, "PATH": path})  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


def client(tmp_path: Path, text: str) -> str:
    """A program for the inside of a cluster."""
    head = f"import os, sys, time\nimport ebb\nover = {OVER!r}\nscenario, out = sys.argv[1:3]\n"
    path = tmp_path / "client.py"
    path.write_text(head + textwrap.dedent(text))
    return str(path)


def test_slurm_by_submitit_one_of_whose_tasks_is_killed(
    scenario: Path, expected: Path, tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    need("slurmctld", "slurmd", "sbatch", root=True)
    program = client(tmp_path, """
        import signal, subprocess, submitit
        executor = submitit.SlurmExecutor(folder=out + "-log")
        executor.update_parameters(array_parallelism=4, time=5)
        killed = []
        def kill(done, note):
            for task in subprocess.run(["pgrep", "-f", "submitit.core._submit"], stdout=-1).stdout.split():
                try:
                    killed or os.kill(int(task), signal.SIGKILL)
                    killed.append(task)
                except ProcessLookupError:
                    pass  # It ended meanwhile: the next one.
        result = ebb.sweep("noc", scenario, over=over, executor=executor, chunk=3, out=out, progress=kill)
        assert killed and not result.failed
    """)  # fmt: skip
    place = tmp_path / "python"
    run(str(SLURM), str(tmp_path / "slurm"), sys.executable, program, str(scenario), str(place))
    same_files(expected, place, but=ORDER)
    assert figures(place) == figures(expected)


def test_slurm_without_python(command: str, scenario: Path, expected: Path, tmp_path: Path) -> None:
    need("slurmctld", "slurmd", "sbatch", root=True)
    job = tmp_path / "job.sh"
    shards = tmp_path / "shards"
    shards.mkdir()
    words = " ".join(WORDS)
    job.write_text(f"#!/bin/sh\nexec {command} sim noc {scenario} {words} "
                   f"--shard $SLURM_ARRAY_TASK_ID/4 --out {shards}/$SLURM_ARRAY_TASK_ID\n")  # fmt: skip
    script = f"sbatch --wait --array=1-4 --output={shards}/log-%a {job}"
    run(str(SLURM), str(tmp_path / "slurm"), "sh", "-c", script)
    merged = tmp_path / "merged"
    run(
        command,
        "sweep",
        "merge",
        *(str(shards / str(number)) for number in range(1, 5)),
        "--out",
        str(merged),
    )
    same_files(expected, merged, but=ORDER)
    assert lines(merged) == lines(expected)


def test_slurm_controller_restarted(scenario: Path, expected: Path, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    need("slurmctld", "slurmd", "sbatch", root=True)
    program = client(tmp_path, """
        import signal, subprocess, submitit
        executor = submitit.SlurmExecutor(folder=out + "-log")
        executor.update_parameters(array_parallelism=1, time=5)
        restarted = []
        def restart(done, note):
            if not restarted:
                # An end that saves its state: what a killed one forgets, SLURM itself runs twice and drains the node.
                with open(os.path.join(os.path.dirname(os.environ["SLURM_CONF"]), "slurmctld.pid")) as file:
                    controller = int(file.read())
                os.kill(controller, signal.SIGTERM)
                while os.path.exists(f"/proc/{controller}"):
                    time.sleep(0.1)
                subprocess.run(["slurmctld"], check=True)
                restarted.append(True)
        result = ebb.sweep("noc", scenario, over=over, executor=executor, chunk=6, out=out, progress=restart)
        assert restarted and not result.failed
    """)  # fmt: skip
    place = tmp_path / "python"
    run(str(SLURM), str(tmp_path / "slurm"), sys.executable, program, str(scenario), str(place))
    same_files(expected, place, but=ORDER)


def test_dask_whose_worker_and_then_whose_scheduler_is_killed(
    scenario: Path, expected: Path, tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    place = tmp_path / "python"
    address = f"tcp://127.0.0.1:{free_port()}"

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "dask.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", *words, "--no-dashboard"], stdout=log, stderr=log)

    def scheduler() -> subprocess.Popen[bytes]:
        return start("distributed.cli.dask_scheduler", "--port", address.rpartition(":")[2], "--no-show")

    def worker() -> subprocess.Popen[bytes]:
        return start("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
                     "--local-directory", str(tmp_path))  # fmt: skip

    children = [scheduler(), worker(), worker(), worker()]
    killed: list[int] = []

    def kill(done: float, note: str) -> None:
        """A worker, and later the scheduler; workers of Dask end with it."""
        if done > 0.3 * len(killed) and len(killed) < 2:
            child = children[1 - len(killed)]
            child.kill()
            child.wait()
            killed.append(child.pid)
            if len(killed) == 2:
                children.extend([scheduler(), worker(), worker()])

    try:
        with distributed.Client(address, timeout=60) as client:
            client.wait_for_workers(3, timeout=60)
            assert len(set(client.run(os.getpid).values())) == 3
            result = ebb.sweep("noc", scenario, over=OVER, executor=client, out=place, chunk=1, progress=kill)
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert len(killed) == 2
    check(result, place, expected)


def test_mpi_with_three_processes(scenario: Path, expected: Path, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    need("mpirun")
    program = client(tmp_path, """
        import signal
        from mpi4py.futures import MPIPoolExecutor
        def kill(done, note):
            if out.endswith("killed") and done > 0.1:
                os.kill(worker, signal.SIGKILL)
                time.sleep(60)  # mpirun ends all others.
        if __name__ == "__main__":
            with MPIPoolExecutor() as executor:
                worker = executor.submit(os.getpid).result()
                assert not ebb.sweep("noc", scenario, over=over, executor=executor, out=out, chunk=1, progress=kill).failed
    """)  # fmt: skip
    mpirun = ["mpirun", "-n", "3", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader,tcp",
              "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]  # fmt: skip
    words = [*mpirun, sys.executable, "-m", "mpi4py.futures", program, str(scenario)]
    # MPI ends with any of its processes; what was finished is kept, and the next start goes on.
    killed = tmp_path / "killed"
    outcome = subprocess.run([*words, str(killed)], capture_output=True, text=True, check=False, timeout=100)
    assert outcome.returncode != 0
    kept = lines(killed)
    assert 0 < len(kept) < 12
    place = tmp_path / "python"
    shutil.copytree(killed, place)
    run(*words, str(place))
    assert set(kept) <= set(lines(place))
    same_files(expected, place, but=ORDER)


@pytest.mark.long  # Its start alone takes longer than all else here.
def test_ray_one_of_whose_workers_is_killed(scenario: Path, expected: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    place = tmp_path / "python"
    state = Path(f"/tmp/ebb-ray-{os.getpid()}")  # Short: the paths of its sockets have a limit.
    killed: list[int] = []
    try:
        with ebb.Ray(num_cpus=2, _temp_dir=str(state)) as executor:
            pid = executor.submit(os.getpid).result()

            def kill(done: float, note: str) -> None:
                if not killed:
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)

            result = ebb.sweep("noc", scenario, over=OVER, executor=executor, out=place, progress=kill)
    finally:
        shutil.rmtree(state, ignore_errors=True)
    assert killed
    check(result, place, expected)


ROUTER = Path(__file__).parent / "router" / "run"


def test_a_running_router_is_watched_and_its_record_replays(command: str, tmp_path: Path) -> None:
    """`ebb router run` between two hosts: snapshots of it, and its decisions shown to a policy of Python."""
    need("ip", "ping", "unshare", root=True)
    place = tmp_path / "router"
    program = tmp_path / "watch.py"
    program.write_text(textwrap.dedent("""
        import asyncio, json, os, signal, socket, sys, time
        import ebb
        router = ebb.connect(socket=sys.argv[1], every_s=0.1)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(2000):
            sender.sendto(bytes(100), ("10.77.1.2", 9))
            if number % 100 == 0:
                time.sleep(0.01)
        state = router.status()
        frame = router.frame(3)
        async def until_it_ends():
            found = []
            try:
                async for snapshot in router:
                    found.append(snapshot.data["metrics"])
                    if len(found) == 2:
                        os.kill(snapshot.data["pid"], signal.SIGINT)
            except ebb.DaemonError as error:
                assert "closed" in str(error) and len(found) >= 2, error
                return found
        metrics = asyncio.run(until_it_ends())
        try:
            ebb.connect(socket=sys.argv[1])
        except ebb.DaemonError as error:
            assert "is the daemon running" in str(error), error
        else:
            raise AssertionError("it has ended")
        print(json.dumps({"state": state, "rows": len(frame),
                          "times": sorted(set(frame["uptime_s"])), "metrics": sorted(set(frame["metric"])),
                          "last": {name: family["samples"] for name, family in metrics[-1].items()}}))
    """))  # fmt: skip
    said = json.loads(
        run(str(ROUTER), str(place), command, sys.executable, str(program), str(place / "router.sock"))
    )
    assert len(said["times"]) == 3 and said["rows"] >= 3 * len(said["metrics"])
    received = [name for name in said["last"] if "received" in name and "packets" in name]
    assert sum(sample["value"] for name in received for sample in said["last"][name]) >= 2000, received
    scenario = {"load": 0.1, "limits": {"cores": 2, "frequencies_ghz": [3.3]}}
    record = place / "decisions.jsonl"
    same = ebb.replay("router", record, scenario, policy=PowerSave)
    assert same.figures["differing"] == 0 and same.figures["decisions"] >= 20
    assert same.decisions is not None and same.decisions.decisions == same.figures["decisions"]
    assert ebb.replay("router", record, scenario, policy={"name": "powersave"}).figures["differing"] == 0
    assert ebb.replay("router", record, scenario, policy=Napi).figures["differing"] > 0
