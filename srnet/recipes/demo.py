"""The demonstration: a shortcut, a model that falls for it, and the subnetwork inside that does not."""

from __future__ import annotations

from dataclasses import replace

from srnet.recipes.recipe import Line, Recipe
from srnet.recipes.toy import FINETUNING, PRUNING
from srnet.tasks.synthetic import SyntheticTask

SPARSITIES = (0.5, 0.7, 0.9)


def demo_recipe(
    task: SyntheticTask | None = None,
    seeds: int = 1,
    sparsities: tuple[float, ...] = SPARSITIES,
    steps: int | None = None,
) -> Recipe:
    """`steps` shortens (or lengthens) every training alike."""
    finetuning, pruning = FINETUNING, PRUNING
    if steps is not None:
        finetuning, pruning = (replace(s, steps=steps, eval_every=max(1, steps // 5)) for s in (FINETUNING, PRUNING))
    return Recipe(
        name="demo",
        task=task or SyntheticTask("inference"),
        lines=(
            Line("full model (CE)"),
            Line("full model (PoE)", finetune="poe"),
            Line("mask training (CE)", "a", pruner="mask", prune="ce", sparsities=sparsities),
            Line("mask training (PoE)", "a", pruner="mask", prune="poe", sparsities=sparsities),
            Line("IMP (PoE)", "a", pruner="imp", prune="poe", sparsities=sparsities),
        ),
        seeds=tuple(range(seeds)),
        finetuning=finetuning,
        pruning=pruning,
    )
