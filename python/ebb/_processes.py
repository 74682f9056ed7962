"""Processes that compute tasks; one that ends loses its task alone and is replaced."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from typing import Any, ParamSpec, TypeVar

from ._errors import WorkerLost

_P = ParamSpec("_P")
_T = TypeVar("_T")


#: What a worker begins with: where modules are found is told by whoever started it.
_START = """\
import sys
from multiprocessing import spawn
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
prepared, main = pipe.recv()
spawn.prepare(prepared)
from ebb._processes import serve
serve(pipe, main)
"""


class _Main(types.ModuleType):
    """The program that started the worker, run again under another name once something of it is needed.

    Whoever sends what a module holds needs no `if __name__ == "__main__"`.
    """

    def __init__(self, main: dict[str, Any]) -> None:
        super().__init__("__main__")
        self._main = main

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        process: Any = multiprocessing.current_process()
        process._inheriting = True  # A program that starts workers without asking is told so.
        try:
            spawn.prepare(self._main)
        finally:
            del process._inheriting
        return getattr(sys.modules["__main__"], name)


def serve(pipe: Connection, main: dict[str, Any]) -> None:
    """Compute what comes through the pipe until it is closed."""
    sys.modules["__main__"] = _Main(main)
    while True:
        answer: tuple[bool, Any]
        try:
            data = pipe.recv_bytes()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            function, arguments, keywords = pickle.loads(data)
            answer = True, function(*arguments, **keywords)
        except BaseException as error:
            answer = False, error
        pipe.send(answer)


class _Worker:
    def __init__(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        told = spawn.get_preparation_data("ebb")
        del told["authkey"]  # Is not sent, and nothing of it is needed.
        main = {name: told.pop(name) for name in list(told) if name.startswith("init_main")}
        command = [os.fsdecode(spawn.get_executable()), "-c", _START, str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.pipe.send((told, main))
        self.task: Future[Any] | None = None

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Processes(Executor):
    """So many processes, or one per processor.

    Unlike `concurrent.futures.ProcessPoolExecutor` it goes on when one of them is killed: the task that
    it worked on fails with `WorkerLost`, and another process takes its place.
    """

    def __init__(self, count: int | None = None) -> None:
        """Start the processes."""
        self._waiting: deque[tuple[Future[Any], tuple[Any, ...]]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        self._workers = [_Worker() for _ in range(count or os.cpu_count() or 1)]
        self._thread = threading.Thread(target=self._run, name="ebb-processes", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Let a process call a function."""
        future: Future[_T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these processes are closed")
            self._waiting.append((future, (fn, args, kwargs)))
        os.write(self._wake_write, b".")
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End when all tasks are done, or at once where they are to be cancelled."""
        if wait and not cancel_futures:
            with self._lock:
                open_tasks = [future for future, _ in self._waiting]
            open_tasks += [worker.task for worker in self._workers if worker.task is not None]
            for future in open_tasks:
                future.exception()
        self.close()

    def close(self) -> None:
        """End at once; tasks that wait are cancelled."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
        for future, _ in waiting:
            future.cancel()
        os.write(self._wake_write, b".")
        atexit.unregister(self.close)
        self._thread.join()
        for worker in self._workers:
            worker.end()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
            for worker in self._workers:
                self._feed(worker)
            busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
            for ready in wait([*busy, self._wake_read]):
                if isinstance(ready, Connection):
                    self._take(busy[ready])
                else:
                    os.read(self._wake_read, 4096)

    def _feed(self, worker: _Worker) -> None:
        while worker.task is None:
            with self._lock:
                if not self._waiting:
                    return
                future, call = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                worker.pipe.send(call)
                worker.task = future
            except OSError:  # It was killed while it was idle: the task is as it was.
                self._replace(worker)
                again: Future[Any] = future
                worker = self._workers[-1]
                worker.pipe.send(call)
                worker.task = again
            except Exception as error:  # What cannot be sent is the task's fault.
                future.set_exception(error)

    def _take(self, worker: _Worker) -> None:
        future, worker.task = worker.task, None
        assert future is not None
        try:
            good, value = worker.pipe.recv()
        except (EOFError, OSError):
            try:
                code: int | None = worker.process.wait(5)
            except subprocess.TimeoutExpired:
                code = None
            self._replace(worker)
            future.set_exception(WorkerLost(f"process {worker.process.pid} ended with status {code}"))
            return
        if good:
            future.set_result(value)
        else:
            future.set_exception(value)

    def _replace(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)
        self._workers.append(_Worker())
