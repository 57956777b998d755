"""Several processes, started by `torchrun` or `accelerate launch`, that train one model together (DDP)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from srnet.experiment.compute import Context, SecondaryRankDone, compute
from srnet.experiment.compute_once import compute_once
from srnet.experiment.engines.local import Local
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.progress import Watch
from srnet.training.distributed import Ranks


class DistributedExecutor(Local):
    """Every process runs the same plan. The main one holds the lock and writes; the others only train."""

    def __init__(self, ranks: Ranks, store: Store, report_to: tuple[str, ...]) -> None:
        super().__init__(store, report_to)
        self.ranks = ranks

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        # errors are not caught: if one process fails, the launcher ends all of them
        if self.ranks.is_main:
            compute_once(node, self.store, self.report_to, watch, before=self._announce)
        elif self._is_needed() and node.trains:
            self._take_part(node)
        self.ranks.wait()
        self._outcome.append(Outcome(node, "done"))

    def _announce(self, needed: bool) -> None:
        """Called by the main process; `_is_needed` of the others then returns `needed`."""
        self.ranks.on_main(lambda: needed)

    def _is_needed(self) -> bool:
        return self.ranks.on_main(lambda: False)

    def _take_part(self, node: Node) -> None:
        with TemporaryDirectory() as unused, suppress(SecondaryRankDone):
            compute(node, Context(self.store, secondary_rank=True), Path(unused))
