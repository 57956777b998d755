"""Executes expressions in this process: what the store has is never computed again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from transformers.integrations import get_available_reporting_integrations

from srnet import __version__
from srnet.errors import choose
from srnet.experiment.compute import Context, compute
from srnet.experiment.identity import describe
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.progress import Reporter


@dataclass
class Engine:
    store: Store = field(default_factory=Store)
    reporter: Reporter = field(default_factory=Reporter)
    report_to: tuple[str, ...] = ()
    """Trackers for the trainings, as in `transformers.TrainingArguments`: tensorboard, wandb, ..."""

    def __post_init__(self) -> None:
        for tracker in self.report_to:
            choose("tracker", tracker, get_available_reporting_integrations())

    def execute(self, targets: Iterable[Node]) -> None:
        """Compute the targets and whatever they need, parents first."""
        self.store.open()
        missing = self.plan(targets)
        with self.reporter.session():
            for number, node in enumerate(missing, start=1):
                with self.reporter.step(number, len(missing), node.label):
                    self._ensure(node)

    def plan(self, targets: Iterable[Node]) -> list[Node]:
        """The distinct nodes that have to be computed, in an order that respects their parents."""
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
        return list(ordered.values())

    def _ensure(self, node: Node) -> None:
        def waiting() -> None:
            self.reporter.say(f"waiting for another process that computes {node.key}")

        with self.store.lock(node.key, on_wait=waiting):
            if self.store.has(node.key):  # another process was faster
                return
            context = Context(self.store, self.reporter, self.report_to)
            expression = describe(node)
            with self.store.writing(node.key, type(node).__name__, node.label, expression, __version__) as folder:
                compute(node, context, folder)
