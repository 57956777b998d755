"""Several processes, started by `torchrun` or `accelerate launch`, that train one model together (DDP)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from srnet.experiment.compute import Context, Helped, compute
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.experiment.work import ensure
from srnet.training.distributed import Ranks
from srnet.training.trainer import Watch


class DistributedExecutor:
    """Every process goes through the same plan. The main one holds the lock and writes; the others help to train."""

    size = 1

    def __init__(self, ranks: Ranks, store: Store, report_to: tuple[str, ...]) -> None:
        self.ranks, self.store, self.report_to = ranks, store, report_to
        self._outcome: list[Outcome] = []

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        # an error is not caught: a process that fails ends all of them, which the launcher takes care of
        if self.ranks.is_main:
            ensure(node, self.store, self.report_to, watch, before=self._call_the_others)
        elif self._called(node):
            self._help(node)
        self.ranks.wait()
        self._outcome.append(Outcome(node, "done"))

    def _call_the_others(self, needed: bool) -> None:
        self.ranks.on_main(lambda: needed)

    def _called(self, node: Node) -> bool:
        return self.ranks.on_main(lambda: False) and node.trains

    def _help(self, node: Node) -> None:
        with TemporaryDirectory() as nowhere:
            try:
                compute(node, Context(self.store, helps=True), Path(nowhere))
            except Helped:
                return

    def outcomes(self) -> Iterable[Outcome]:
        done, self._outcome = self._outcome, []
        return done

    def close(self) -> None:
        pass
