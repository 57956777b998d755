"""The engine: which nodes an expression needs, in which order, and the executor that computes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, Protocol

from srnet.config.fields import Described
from srnet.config.values import Count
from srnet.core.device import check_workers, visible_gpus
from srnet.core.errors import UserError, choose
from srnet.core.files import DiskFull
from srnet.core.processes import require_main_guard
from srnet.core.progress import Reporter, Step, Watch
from srnet.experiment.nodes.base import Node, every_node
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.rebuild import StoredModels
from srnet.experiment.store import Store
from srnet.training.hardware import Ranks, check_for_cpu, connect

if TYPE_CHECKING:
    from srnet.experiment.compute import Outcome

EngineName = Literal["local", "pool", "ray"]
ATTEMPTS = 3
"""How often a node is tried if its worker dies. Each attempt continues from the last checkpoint."""


def _cores() -> int:
    """The cores that this process may use, fewer than the machine's in a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Engine(Described):
    """Computes expressions, keeps the results in `store`, and tells `reporter` how far it is.

    `name` is the executor: this process (local), a pool of processes, or Ray. Workers of `pool` import the script that
    starts them, so that its calls must be under `if __name__ == "__main__":`.
    """

    store: Store = field(default_factory=Store)
    reporter: Reporter = field(default_factory=Reporter)
    report_to: str | tuple[str, ...] = ()
    """Trackers for the trainings, as in `transformers.TrainingArguments`: tensorboard, wandb, ..."""
    name: EngineName = "local"
    workers: Count | None = None
    """How many trainings at once, for pool and ray; by default one per GPU, which is the most, or per core without
    GPUs."""
    _heads: set[str] = field(default_factory=set, init=False, repr=False)
    """The lines about heads that were shown, each once however many trainings start from it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == "local" and self.workers not in (None, 1):
            raise UserError("engine 'local' has one process", "choose --engine pool or ray for several workers")
        for name in self.trackers:
            from transformers import integrations  # not at the top: it is slow

            known = {*integrations.INTEGRATION_TO_CALLBACK} - {"flyte"}  # which is used in another way
            if choose("tracker", name, known) not in integrations.get_available_reporting_integrations():
                package = {"azure_ml": "azureml-sdk"}.get(name, name)
                raise UserError(f"tracker '{name}' is not available", f"install it: pip install {package}")

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names in `report_to`."""
        return (self.report_to,) if isinstance(self.report_to, str) else self.report_to

    @property
    def models(self) -> StoredModels:
        """The models of the store by key."""
        return StoredModels(self.store)

    def execute(self, targets: Node | Iterable[Node]) -> None:
        """Compute the targets and all nodes that they need."""
        if self.name == "pool":
            require_main_guard()
        targets = [targets] if isinstance(targets, Node) else list(targets)
        ranks = connect()
        keys = ranks.on_main(lambda: [node.key for node in self.plan(targets)])  # one state of the store for all
        every = every_node(targets)
        missing = [every[key] for key in keys]
        if not missing:
            self.store.tidy()
            return  # before `open`: a read-only store can still be read
        self._check_device(missing)
        self.store.open()
        self._show_heads(missing)
        executor = self.executor(ranks)
        with self.store.in_use(), self.reporter.session():
            _Schedule(missing, executor, self.reporter).run()

    def _check_device(self, nodes: Iterable[Node]) -> None:
        """Refuse, before anything is computed, what only a GPU can do; the machines of a cluster may have one."""
        if self.name != "ray":
            for precision in {each for node in nodes for each in node.precisions}:
                check_for_cpu(precision)

    def executor(self, ranks: Ranks) -> Executor:
        if ranks.world > 1:
            if self.name != "local":
                raise UserError(f"engine '{self.name}' cannot run under torchrun", "use --engine local there")
            return _Distributed(self.store, self.trackers, ranks)
        if self.name == "pool":
            from srnet.experiment.pool import Pool

            gpus = visible_gpus()
            if gpus:
                check_workers(self.workers or 1, len(gpus))
            return Pool(self.workers or len(gpus) or _cores(), _cores(), gpus, self.store, self.trackers)
        if self.name == "ray":
            from srnet.experiment.ray import RayExecutor

            return RayExecutor(self.workers, self.store, self.trackers)
        return _Local(self.store, self.trackers)

    def _show_heads(self, missing: Sequence[Node]) -> None:
        """One line for each head that is used; models that are trained already have a head of their own."""
        nodes = dict.fromkeys([*missing, *(parent for node in missing for parent in node.parents)])
        for raw in (node for node in nodes if isinstance(node, Pretrained)):
            line = f"head of {raw.backbone} for {raw.task.name}: {raw.head_text}"
            if line not in self._heads:
                self._heads.add(line)
                self.reporter.say(line)

    def plan(self, targets: Iterable[Node]) -> list[Node]:
        """The distinct nodes that have to be computed, in an order that respects their parents. Each is checked."""
        missing = list(every_node(targets, leave_out=self._is_stored).values())
        for node in missing:
            node.check()
        return missing

    def _is_stored(self, node: Node) -> bool:
        stored = self.store.has(node.key)
        if not stored and (problem := self.store.corrupt.get(node.key)):
            self.reporter.warn(f"artifact {node.key} ({node.label}) is damaged: {problem}; computing it again")
        return stored


# --- the schedule ----------------------------------------------------------------------------------------------------


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


class _Schedule:
    """Parents first, each node once. A dead worker's node is retried; after an error others continue."""

    def __init__(self, nodes: Sequence[Node], executor: Executor, reporter: Reporter) -> None:
        """`nodes` are in an order that respects their parents."""
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
        """Compute the nodes. The first error is raised at the end."""
        try:
            while self.waiting or self.steps:
                for node, step in self._ready():
                    self.executor.start(node, wait=node.key in self.busy, watch=step.advance, say=self.reporter.say)
                if not self.steps:
                    break  # the nodes that are left need one that failed
                for outcome in self.executor.outcomes():
                    self._handle(outcome)
        finally:
            for step in self.steps.values():
                step.drop()
            self.executor.close()
        if self.skipped and self.has_reported:
            self.reporter.warn(f"{len(self.skipped)} steps that depend on failed ones were skipped")
        for error in self.errors.values():
            raise error

    def _ready(self) -> Iterator[tuple[Node, Step]]:
        """The next nodes, as long as a worker is free."""
        while len(self.steps) < self.executor.size and not self.stopped:
            node = self._next()
            if node is None:
                return
            del self.waiting[node.key]
            self.attempts.setdefault(node.key, 1)
            number = self.numbers.setdefault(node.key, len(self.numbers) + 1)
            step = self.steps[node.key] = self.reporter.begin(number, self.total, node.label)
            yield node, step

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
            self.reporter.warn(f"the worker of {node.label} died; retrying from its last checkpoint")
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


# --- executors in this process ---------------------------------------------------------------------------------------


class _Local:
    size = 1

    def __init__(self, store: Store, report_to: tuple[str, ...]) -> None:
        self.store, self.report_to = store, report_to
        self._outcomes: list[Outcome] = []

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        from srnet.experiment.compute import Context, compute_once  # not at the top: it imports torch

        self._outcomes.append(compute_once(node, Context(self.store, self.report_to, watch), say, wait=wait))

    def outcomes(self) -> Iterable[Outcome]:
        done, self._outcomes = self._outcomes, []
        return done

    def close(self) -> None:
        pass


class _Distributed(_Local):
    """Processes that `torchrun` or `accelerate launch` started, and that train one model together (DDP).

    Every process runs the same plan. The main one holds the lock and writes; the others only train.
    """

    def __init__(self, store: Store, report_to: tuple[str, ...], ranks: Ranks) -> None:
        super().__init__(store, report_to)
        self.ranks = ranks

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        from srnet.experiment.compute import Context, Outcome, compute_once  # not at the top: it imports torch

        if self.ranks.is_main:
            outcome = compute_once(node, Context(self.store, self.report_to, watch), before=self._announce)
            if outcome.error is not None:
                raise outcome.error  # now: if one process fails, the launcher ends all of them
        elif self._is_needed() and node.trains:
            self._take_part(node)
        self.ranks.wait()
        self._outcomes.append(Outcome(node, "done"))

    def _announce(self, needed: bool) -> None:
        """Called by the main process; `_is_needed` of the others then returns `needed`."""
        self.ranks.on_main(lambda: needed)

    def _is_needed(self) -> bool:
        return self.ranks.on_main(lambda: False)

    def _take_part(self, node: Node) -> None:
        from srnet.experiment.compute import Context, SecondaryRankDone, compute

        with TemporaryDirectory() as unused, suppress(SecondaryRankDone):
            compute(node, Context(self.store, secondary_rank=True), Path(unused))
