"""What a training asks of a GPU: `python -m benchmarks.syncs`, also in benchmarks/syncs.json.

A GPU computes what was sent to it while the CPU goes on, until the CPU needs a result or copies something to it. These
waits, and the operations that are sent, are counted on the simulated device of the tests, where they are the same as on
a GPU: in trainings of BERT-base's size, by our trainer, between two steps of the optimiser.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.models import bert, encoded
from srnet import __version__
from srnet.core.files import write_json
from srnet.objectives.base import OBJECTIVES
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.static import StaticLocal, StaticShared
from srnet.training.method import Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run, train
from tests.devices import counted_device

LAYERS, HIDDEN = 12, 768
STEPS, REFRESH = 12, 10
"""The steps that are taken, and the one with a refresh."""
PLAIN_SYNCS, REFRESH_SYNCS, STATIC_SYNCS, STATIC_OPERATIONS = 6, 10, 8, 1.3


@dataclass(frozen=True)
class Cost:
    """The most that a step of some kind took."""

    name: str
    syncs: int
    operations: int
    most_syncs: int | None = None
    most_operations: int | None = None

    @property
    def met(self) -> bool:
        return (self.most_syncs is None or self.syncs <= self.most_syncs) and (
            self.most_operations is None or self.operations <= self.most_operations
        )


class _Enough(Exception):
    """The steps that are measured were taken."""


def counted_steps(method: Method, layers: int, hidden: int) -> list[tuple[int, int]]:
    """Waits and operations from the end of each step to that of the next."""
    totals: list[tuple[int, int]] = []
    settings = TrainingSettings(learning_rate=1e-4, steps=4 * REFRESH, eval_every=4 * REFRESH, batch_size=2)
    data = encoded(np.full(8 * REFRESH, 9))
    with counted_device() as (_, counts), tempfile.TemporaryDirectory() as folder:

        def watch(step: int, total: int, figures: dict[str, float]) -> None:
            totals.append((counts.waits.total() + counts.uploads.total(), counts.operations.total()))
            if step == STEPS:
                raise _Enough

        model, loss = bert(layers, hidden).train(), OBJECTIVES["ce"].make({})
        with contextlib.suppress(_Enough):
            train(Run(model, method, loss, settings, data, data, lambda logits: 0.0, Path(folder), watch=watch))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(totals)]


def measured(layers: int = LAYERS, hidden: int = HIDDEN) -> Iterator[Cost]:
    def most(steps: list[tuple[int, int]]) -> tuple[int, int]:
        return max(syncs for syncs, _ in steps), max(operations for _, operations in steps)

    full = most(counted_steps(Method(), layers, hidden))
    yield Cost("fine-tuning", *full)
    found = counted_steps(MaskTraining(0.5).method(fine_tuned=True, eval_every=1000), layers, hidden)
    before, (refresh,), after = found[: REFRESH - 2], found[REFRESH - 2 : REFRESH - 1], found[REFRESH - 1 :]
    yield Cost("mask training, ordinary step", *most(before), PLAIN_SYNCS)
    yield Cost("mask training, refresh", *refresh, REFRESH_SYNCS)
    yield Cost("mask training, the step after it", *most(after), PLAIN_SYNCS)
    for pruner in (StaticLocal(0.9), StaticShared(0.9)):
        steps = counted_steps(pruner.method(fine_tuned=False, eval_every=1000), layers, hidden)
        yield Cost(pruner.name, *most(steps), STATIC_SYNCS, int(STATIC_OPERATIONS * full[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    given = parser.parse_args()
    title = f"srnet {__version__}, torch {torch.__version__}: a step of {given.layers} layers on a simulated GPU"
    table = Table(title=title)
    for name in ("step", "host syncs", "target", "operations", "target", "met"):
        table.add_column(name, justify="left" if name == "step" else "right")
    found = []
    for cost in measured(given.layers, given.hidden):
        found.append(cost)
        bars = [str(bar) if bar is None else f"<= {bar:,}" for bar in (cost.most_syncs, cost.most_operations)]
        bars = [bar.replace("None", "") for bar in bars]
        table.add_row(cost.name, str(cost.syncs), bars[0], f"{cost.operations:,}", bars[1], "yes" if cost.met else "NO")
    Console().print(table)
    result = {"torch": torch.__version__, "srnet": __version__, **vars(given)}
    costs = [{**asdict(cost), "met": cost.met} for cost in found]
    write_json(Path(__file__).parent / "syncs.json", {**result, "costs": costs})


if __name__ == "__main__":
    main()
