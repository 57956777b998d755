"""A pool of processes on this machine, which share its cores; each has a GPU of its own, if there are any.

A process that dies is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from srnet.core.device import VISIBLE
from srnet.core.errors import UserError
from srnet.core.processes import environment, run_with_parent
from srnet.core.progress import Watch
from srnet.experiment.compute import Context, Outcome, compute_once
from srnet.experiment.nodes.base import Node
from srnet.experiment.store import Store

SPAWN = multiprocessing.get_context("spawn")  # after a fork torch may deadlock in its threads
PROGRESS_SECONDS = 0.2


class Pool:
    def __init__(self, workers: int, cores: int, gpus: Sequence[str], store: Store, report_to: tuple[str, ...]) -> None:
        threads = max(1, cores // workers)
        own: Sequence[str | None] = gpus or [None] * workers
        self._workers = [_Worker(index, threads, own[index], store.root, report_to) for index in range(workers)]

    @property
    def size(self) -> int:
        return len(self._workers)

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        next(worker for worker in self._workers if worker.node is None).assign(node, wait, watch, say)

    def outcomes(self) -> Iterable[Outcome]:
        while True:
            running = {worker.connection: worker for worker in self._workers if worker.node is not None}
            found = [outcome for ready in wait(list(running)) for outcome in running[ready].read()]  # type: ignore[index]
            if found:
                return found

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()


class _Worker:
    """One process, as its parent sees it. It is started when first needed, and again if it died."""

    def __init__(self, index: int, threads: int, gpu: str | None, root: Path, report_to: tuple[str, ...]) -> None:
        self.index, self.threads, self.gpu, self.root, self.report_to = index, threads, gpu, root, report_to
        self.node: Node | None = None
        self.connection: Connection
        self._process: Any = None
        self._watch: Watch
        self._say: Callable[[str], None]

    def assign(self, node: Node, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        if self._process is None or not self._process.is_alive():
            self._start()
        self.node, self._watch, self._say = node, watch, say
        with contextlib.suppress(BrokenPipeError):  # it has just died; `read` will notice
            self.connection.send((node, wait))

    def _start(self) -> None:
        self.connection, theirs = SPAWN.Pipe()
        arguments = (__name__, serve.__name__, theirs, self.root, self.report_to, self.threads)
        name = f"srnet-worker-{self.index}"
        self._process = SPAWN.Process(target=run_with_parent, args=arguments, daemon=True, name=name)
        with environment(self._variables), _sigint_blocked():
            self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    @property
    def _variables(self) -> dict[str, str]:
        """The variables that a worker needs before it imports torch: its share of the cores, and its GPU."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        return threads if self.gpu is None else {**threads, VISIBLE: self.gpu}

    def read(self) -> list[Outcome]:
        """Handle one message: an outcome, which is returned, a line for the user, or the progress."""
        node = self.node
        assert node is not None
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            message = Outcome(node, "died")
        if isinstance(message, Outcome):
            self.node = None
            return [message]
        if isinstance(message, str):
            self._say(message)
        else:
            self._watch(*message)
        return []

    def stop(self) -> None:
        if self._process is None:
            return
        if self.node is None:
            with contextlib.suppress(OSError):
                self.connection.send(None)
            self._process.join(timeout=2)
        self._process.terminate()
        self._process.join()
        self.connection.close()


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C in a child, which inherits the signal mask, until its imports are done and it ignores the signal."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the worker -------------------------------------------------------------------------------------------------


def serve(connection: Connection, root: Path, report_to: tuple[str, ...], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is sent to all processes; the parent decides
    import torch

    torch.set_num_threads(threads)
    store = Store(root).open()
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if message is None:
            return
        node, may_wait = message
        connection.send(_compute(node, may_wait, store, report_to, connection))


def _compute(node: Node, may_wait: bool, store: Store, report_to: tuple[str, ...], connection: Connection) -> Outcome:
    last = 0.0

    def watch(done: int, total: int, figures: dict[str, float]) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            connection.send((done, total, figures))

    return picklable(compute_once(node, Context(store, report_to, watch), connection.send, wait=may_wait))


def picklable(outcome: Outcome) -> Outcome:
    """The outcome with an error that can be sent to another process."""
    error = outcome.error
    if error is None or isinstance(error, UserError):
        return outcome
    return replace(outcome, error=RuntimeError(f"{error!r}\n{''.join(traceback.format_exception(error))}"))
