"""Computation of one node, under a lock, so that no two processes compute it. All engines use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from srnet import __version__
from srnet.core.progress import Watch
from srnet.experiment import objective  # noqa: F401  it registers the needs of objectives
from srnet.experiment.compute import Context, SecondaryRankDone, compute
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.identity import describe
from srnet.experiment.nodes.base import Node
from srnet.experiment.store import Busy, Store
from srnet.training.hardware import Ranks


def compute_once(
    node: Node,
    store: Store,
    report_to: tuple[str, ...] = (),
    watch: Watch | None = None,
    on_wait: Callable[[], None] | None = None,
    before: Callable[[bool], None] | None = None,
    *,
    wait: bool = True,
) -> None:
    """Compute `node` unless the store has it. If another process computes it: wait, or raise `Busy`.

    `before` is called under the lock, with whether the node must be computed.
    """
    with store.lock(node.key, on_wait=on_wait, wait=wait):
        needed = not store.has(node.key)  # another process may have been faster
        if before is not None:
            before(needed)
        if not needed:
            return
        with store.writing(node.key, type(node).__name__, node.label, describe(node), __version__) as folder:
            compute(node, Context(store, report_to, watch), folder)


# --- the executor that computes in this process ---


class Local:
    size = 1

    def __init__(self, store: Store, report_to: tuple[str, ...]) -> None:
        self.store, self.report_to = store, report_to
        self._outcome: list[Outcome] = []

    def start(self, node: Node, *, wait: bool, watch: Watch, say: Callable[[str], None]) -> None:
        def waiting() -> None:
            say(f"waiting for another process that computes {node.key}")

        try:
            compute_once(node, self.store, self.report_to, watch, waiting, wait=wait)
            self._outcome.append(Outcome(node, "done"))
        except Busy:
            self._outcome.append(Outcome(node, "busy"))
        except Exception as error:
            self._outcome.append(Outcome(node, "failed", error))

    def outcomes(self) -> Iterable[Outcome]:
        done, self._outcome = self._outcome, []
        return done

    def close(self) -> None:
        pass


# --- several processes, started by `torchrun` or `accelerate launch`, that train one model together (DDP) ---


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
