"""The executor that computes in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from srnet.experiment.compute_once import compute_once
from srnet.experiment.engines.scheduler import Outcome
from srnet.experiment.nodes import Node
from srnet.experiment.store import Busy, Store
from srnet.progress import Watch


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
