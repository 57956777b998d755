"""An executor by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from srnet.core.device import visible_gpus
from srnet.core.errors import UserError, choose
from srnet.core.progress import Reporter
from srnet.experiment.engines.scheduler import Executor, run
from srnet.experiment.nodes.base import Node, every_node
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.rebuild import StoredModels
from srnet.experiment.store import Store
from srnet.training.hardware import Ranks, connect

ENGINES = ("local", "pool", "ray")


def cores() -> int:
    """The cores that this process may use, fewer than the machine's in a container or a batch job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check(name: str, workers: int | None) -> None:
    choose("engine", name, ENGINES)
    if workers is not None and workers < 1:
        raise UserError(f"the number of workers is {workers}", "give at least 1")
    if name == "local" and workers not in (None, 1):
        raise UserError("engine 'local' has one process", "choose --engine pool or ray for several workers")


def make_executor(name: str, workers: int | None, store: Store, report_to: tuple[str, ...], ranks: Ranks) -> Executor:
    if ranks.world > 1:
        if name != "local":
            raise UserError(f"engine '{name}' cannot run under torchrun", "use --engine local there")
        from srnet.experiment.engines.local import DistributedExecutor

        return DistributedExecutor(ranks, store, report_to)
    if name == "pool":
        from srnet.experiment.engines.pool import Pool

        gpus = visible_gpus()
        return Pool(workers or len(gpus) or cores(), cores(), gpus, store, report_to)
    if name == "ray":
        from srnet.experiment.engines.ray import RayExecutor

        return RayExecutor(workers, store, report_to)
    from srnet.experiment.engines.local import Local

    return Local(store, report_to)


# --- the engine: plans which nodes an expression needs, and runs an executor on those that the store does not have ---


@dataclass
class Engine:
    """`name` is the executor: this process (local), a pool of processes, or Ray.

    A script that uses `pool` must be importable: keep its calls under `if __name__ == "__main__":`.
    """

    store: Store = field(default_factory=Store)
    reporter: Reporter = field(default_factory=Reporter)
    report_to: tuple[str, ...] = ()
    """Trackers for the trainings, as in `transformers.TrainingArguments`: tensorboard, wandb, ..."""
    name: str = "local"
    workers: int | None = None
    """How many trainings at once, for pool and ray; by default one per GPU, or per core without GPUs."""
    _heads: set[str] = field(default_factory=set, init=False, repr=False)
    """What was said about heads, each once however many trainings start from it."""

    def __post_init__(self) -> None:
        if self.report_to:
            from transformers.integrations import get_available_reporting_integrations  # not at the top: it is slow

            for tracker in self.report_to:
                choose("tracker", tracker, get_available_reporting_integrations())
        check(self.name, self.workers)

    @property
    def models(self) -> StoredModels:
        """The models of the store by key."""
        return StoredModels(self.store)

    def execute(self, targets: Iterable[Node]) -> None:
        """Compute the targets and all nodes that they need."""
        targets = list(targets)
        ranks = connect()
        keys = ranks.on_main(lambda: [node.key for node in self.plan(targets)])  # one state of the store for all
        every = every_node(targets)
        missing = [every[key] for key in keys]
        if not missing:
            self.store.tidy()
            return  # before `open`: a read-only store can still be read
        self.store.open()
        self._say_heads(missing)
        executor: Executor = make_executor(self.name, self.workers, self.store, self.report_to, ranks)
        with self.store.in_use(), self.reporter.session():
            run(missing, executor, self.reporter)

    def _say_heads(self, missing: Sequence[Node]) -> None:
        """One line for each head that is used; models that are trained already have a head of their own."""
        nodes = dict.fromkeys([*missing, *(parent for node in missing for parent in node.parents)])
        for raw in (node for node in nodes if isinstance(node, Pretrained)):
            line = f"head of {raw.backbone} for {raw.task.name}: {raw.head_text}"
            if line not in self._heads:
                self._heads.add(line)
                self.reporter.say(line)

    def plan(self, targets: Iterable[Node]) -> list[Node]:
        """The distinct nodes that have to be computed, in an order that respects their parents. Each is checked."""
        ordered: dict[str, Node] = {}
        seen: set[str] = set()

        def visit(node: Node) -> None:
            if node.key in seen:
                return
            seen.add(node.key)
            if self.store.has(node.key):
                return
            if node.key in self.store.corrupt:
                self.reporter.warn(
                    f"artifact {node.key} ({node.label}) is damaged: {self.store.corrupt[node.key]}; computing it again"
                )
            for parent in node.parents:
                visit(parent)
            ordered[node.key] = node

        for target in targets:
            visit(target)
        for node in ordered.values():
            node.check()
        return list(ordered.values())
