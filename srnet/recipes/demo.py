"""The demonstration: a shortcut, a model that falls for it however long it trains, and the subnetwork that does not."""

from __future__ import annotations

from dataclasses import replace

from srnet.recipes.figures import FULL_CE, MASK_CE, MASK_POE
from srnet.recipes.recipe import Line, Recipe, with_controls
from srnet.recipes.toy import FINETUNING, PRUNING
from srnet.tasks.synthetic import SyntheticTask

SPARSITIES = (0.5, 0.7)
SEEDS = 3
"""With fewer there is no verdict."""


def demo_recipe(
    task: SyntheticTask | None = None,
    seeds: int = SEEDS,
    sparsities: tuple[float, ...] = SPARSITIES,
    steps: int | None = None,
) -> Recipe:
    """`steps` shortens (or lengthens) every training alike."""
    finetuning, pruning = FINETUNING, PRUNING
    if steps is not None:
        finetuning, pruning = (replace(s, steps=steps, eval_every=max(1, steps // 5)) for s in (FINETUNING, PRUNING))
    lines = (
        FULL_CE,
        # is it the objective or the pruning? One sparsity is enough to tell
        Line(MASK_CE, "a", pruner="mask", prune="ce", sparsities=sparsities[:1]),
        Line(MASK_POE, "a", pruner="mask", prune="poe", sparsities=sparsities),
    )
    return Recipe(
        name="demo",
        task=task or SyntheticTask("inference"),
        lines=with_controls(lines),
        seeds=tuple(range(seeds)),
        finetuning=finetuning,
        pruning=pruning,
    )
