"""The scheduler: parents first, each node once. A dead worker's node is retried; after an error others continue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from srnet.core.errors import UserError
from srnet.core.files import DiskFull
from srnet.core.progress import Reporter, Step, Watch
from srnet.experiment.nodes.base import Node

ATTEMPTS = 3
"""How often a node is tried if its worker dies. Each attempt continues from the last checkpoint."""


@dataclass(frozen=True)
class Outcome:
    """`busy`: another process computes the node. `died`: the worker process ended without a result."""

    node: Node
    status: Literal["done", "busy", "died", "failed"]
    error: BaseException | None = None


class Executor(Protocol):
    """Workers that compute nodes, each one at a time."""

    @property
    def size(self) -> int:
        """How many nodes can run at once."""
        ...

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        """Assign a node to a free worker. Unless `wait`, a node that another process computes is returned as busy."""
        ...

    def outcomes(self) -> Iterable[Outcome]:
        """The outcomes since the last call; waits until there is one."""
        ...

    def close(self) -> None:
        """Stop all workers at once."""
        ...


def retrying(node: Node) -> str:
    return f"the worker of {node.label} died; retrying from its last checkpoint"


def run(nodes: list[Node], executor: Executor, reporter: Reporter) -> None:
    """Compute `nodes`, which are in an order that respects their parents. Raises the first error at the end."""
    schedule = _Schedule(nodes, executor, reporter)
    try:
        schedule.run()
    finally:
        schedule.drop_bars()
        executor.close()
    schedule.raise_error()


class _Schedule:
    def __init__(self, nodes: list[Node], executor: Executor, reporter: Reporter) -> None:
        self.executor, self.reporter, self.total = executor, reporter, len(nodes)
        self.waiting = {node.key: node for node in nodes}
        planned = set(self.waiting)
        self.needs = {node.key: {p.key for p in node.parents} & planned for node in nodes}
        self.steps: dict[str, Step] = {}
        self.attempts: dict[str, int] = {}
        self.busy: set[str] = set()
        self.errors: dict[str, BaseException] = {}
        self.skipped: list[Node] = []
        self.numbers: dict[str, int] = {}
        self.stopped = False
        self.has_reported = False

    def run(self) -> None:
        while self.waiting or self.steps:
            self._start_ready()
            if not self.steps:
                return  # the nodes that are left need one that failed
            for outcome in self.executor.outcomes():
                self._handle(outcome)

    def _start_ready(self) -> None:
        while len(self.steps) < self.executor.size and not self.stopped:
            node = self._next()
            if node is None:
                return
            del self.waiting[node.key]
            self.attempts.setdefault(node.key, 1)
            number = self.numbers.setdefault(node.key, len(self.numbers) + 1)
            step = self.steps[node.key] = self.reporter.begin(number, self.total, node.label)
            self.executor.start(node, wait=node.key in self.busy, watch=step.advance, say=self.reporter.say)

    def _next(self) -> Node | None:
        """The first node whose parents are done; one that another process computes only if no other is left."""
        ready = [node for key, node in self.waiting.items() if not self.needs[key]]
        free = [node for node in ready if node.key not in self.busy]
        if free:
            return free[0]
        return ready[0] if ready and not self.steps else None

    def _handle(self, outcome: Outcome) -> None:
        node, step = outcome.node, self.steps.pop(outcome.node.key)
        if outcome.status == "done":
            step.finish()
            self.busy.clear()  # time has passed, so busy nodes may be free now
            for needs in self.needs.values():
                needs.discard(node.key)
            return
        step.drop()
        if outcome.status == "busy":
            self.busy.add(node.key)
            self.waiting[node.key] = node
        elif outcome.status == "died" and self.attempts[node.key] < ATTEMPTS:
            self.attempts[node.key] += 1
            self.reporter.warn(retrying(node))
            self.waiting = {node.key: node, **self.waiting}
        else:
            self._fail(node, outcome.error or UserError(f"{node.label}: its worker died {ATTEMPTS} times"))

    def _fail(self, node: Node, error: BaseException) -> None:
        self.errors[node.key] = error
        lost = {node.key}
        for key, other in list(self.waiting.items()):  # parents come before their children
            if any(parent.key in lost for parent in other.parents):
                lost.add(key)
                self.skipped.append(self.waiting.pop(key))
        self.stopped = self.stopped or isinstance(error, DiskFull)  # all others would fail too, after hours
        continues = (self.waiting or self.steps) and not self.stopped
        if continues or len(self.errors) > 1:  # otherwise the error itself is raised now
            self.has_reported = True
            self.reporter.warn(f"{node.label} failed: {(str(error) or repr(error)).splitlines()[0]}")

    def drop_bars(self) -> None:
        for step in self.steps.values():
            step.drop()

    def raise_error(self) -> None:
        if not self.errors:
            return
        if self.skipped and self.has_reported:
            self.reporter.warn(f"{len(self.skipped)} steps that depend on failed ones were skipped")
        raise next(iter(self.errors.values()))
