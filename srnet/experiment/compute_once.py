"""Computation of one node, under a lock, so that no two processes compute it. All engines use it."""

from __future__ import annotations

from collections.abc import Callable

from srnet import __version__
from srnet.experiment.compute import Context, compute
from srnet.experiment.identity import describe
from srnet.experiment.nodes import Node
from srnet.experiment.store import Store
from srnet.progress import Watch


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
