"""Every figure and table of the paper, as lines over a task's setup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from srnet.errors import choose
from srnet.recipes.recipe import Axis, Line, Recipe
from srnet.recipes.setup import Setup

SOFT = ("init", "soft")
FULL_CE = Line("full model (CE)")
FULL_POE = Line("full model (PoE)", finetune="poe")


@dataclass(frozen=True)
class Figure:
    """Which lines a figure has, and what is varied along them."""

    name: str
    title: str
    lines: Callable[[Setup, tuple[float, ...]], tuple[Line, ...]]
    axis: Axis = "sparsity"
    same_as: str | None = None
    """The figure that shows the same for the paper's main task."""

    def recipe(self, setup: Setup, seeds: tuple[int, ...], sparsities: tuple[float, ...] | None = None) -> Recipe:
        return Recipe(
            name=self.name,
            task=setup.task,
            lines=self.lines(setup, sparsities or setup.shown(self.same_as or self.name)),
            backbone=setup.backbone,
            seeds=seeds,
            finetuning=setup.finetuning,
            finetuning_of=setup.finetuning_of,
            pruning=setup.pruning,
            stopping=setup.stopping,
            with_ood=setup.with_ood,
            axis=self.axis,
            title=self.title,
        )


def get_figure(name: str) -> Figure:
    return FIGURES[choose("recipe", name, FIGURES)]


# --- lines that several figures share ------------------------------------------------------------------------------


def _mask(objective: str, sparsities: tuple[float, ...]) -> Line:
    label = {"ce": "CE", "poe": "PoE", "reweight": "reweighting", "confreg": "confidence reg."}[objective]
    return Line(f"mask training ({label})", "a", pruner="mask", prune=objective, sparsities=sparsities)


def _imp(objective: str, sparsities: tuple[float, ...]) -> Line:
    return Line(f"IMP ({objective.upper().replace('POE', 'PoE')})", "a", pruner="imp", prune=objective,
                sparsities=sparsities)  # fmt: skip


def _gradual(label: str, start: float, end: float, lengths: tuple[float, ...], backbone: str | None = None) -> Line:
    options = (SOFT, ("initial_sparsity", start))
    return Line(label, "a", pruner="mask", prune="poe", sparsities=(end,), options=options, lengths=lengths,
                backbone=backbone)  # fmt: skip


# --- the figures ---------------------------------------------------------------------------------------------------


def _fig2(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    pruned = [make(objective, sparsities) for make in (_mask, _imp) for objective in ("ce", "poe")]
    return (FULL_CE, FULL_POE, *pruned)


def _fig3(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    def from_poe(label: str, pruner: str) -> Line:
        return Line(label, "a", finetune="poe", pruner=pruner, prune="poe", sparsities=sparsities)

    return (
        FULL_CE,
        FULL_POE,
        from_poe("mask training (PoE) of the PoE model", "mask"),
        from_poe("IMP (PoE) of the PoE model", "imp"),
        _mask("poe", sparsities),
    )


def _fig4(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    def isolated(name: str, pruner: str, objective: str) -> Line:
        label = f"{name} (PoE), {'CE' if objective == 'ce' else 'PoE'} fine-tuned"
        return Line(label, "b", pruner=pruner, prune="poe", isolated=objective, sparsities=sparsities)

    subnetworks = [isolated(name, pruner, objective)
                   for name, pruner in (("IMP", "imp-rw"), ("mask training", "mask"))
                   for objective in ("ce", "poe")]  # fmt: skip
    return (FULL_CE, FULL_POE, *subnetworks)


def _fig5(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    def raw(objective: str, label: str) -> Line:
        return Line(label, "c", pruner="mask", prune=objective, sparsities=sparsities)

    return (
        FULL_CE,
        FULL_POE,
        raw("ce", "mask training (CE) of the raw model"),
        raw("poe", "mask training (PoE) of the raw model"),
        _mask("poe", sparsities),
    )


def _fig6(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    common = {"pruner": "mask", "prune": "ce", "sparsities": sparsities, "data": "id+ood"}
    return (
        FULL_CE,
        Line("fine-tuned subnetwork", "a", **common),  # type: ignore[arg-type]
        Line("raw subnetwork, then fine-tuned", "b", **common),  # type: ignore[arg-type]
        Line("raw subnetwork", "c", **common),  # type: ignore[arg-type]
    )


def _fig7(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    def started(label: str, *starts: float | str) -> Line:
        return Line(label, "a", pruner="mask", prune="poe", sparsities=(setup.timing_sparsity,), starts=starts)  # type: ignore[arg-type]

    fixed = tuple(start for start in setup.starts if start != "auto")
    return (FULL_CE, started("mask training (PoE) from step t", *fixed),
            started("mask training (PoE), start found by early stopping", "auto"))  # fmt: skip


def _fig8(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    high = setup.high_sparsity
    fixed = Line("fixed", "a", pruner="mask", prune="poe", sparsities=(high,), lengths=setup.lengths)
    return (FULL_CE, fixed, _gradual("gradual, from 70 %", 0.7, high, setup.lengths))


def _fig_a1(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return (FULL_CE, *(_mask(objective, sparsities) for objective in ("ce", "poe", "reweight", "confreg")))


def _tab5(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    high, lengths = setup.high_sparsity, (setup.ablation_length,)

    def fixed(label: str, *options: tuple[str, str]) -> Line:
        return Line(label, "a", pruner="mask", prune="poe", sparsities=(high,), options=options, lengths=lengths)

    gradual = (_gradual(f"gradual, from {100 * start:g} %", start, high, lengths) for start in (0.2, 0.5, 0.7))
    return (FULL_CE, fixed("fixed, hard"), fixed("fixed, soft", SOFT), *gradual)


def _tab6(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return tuple(line for name in setup.other_backbones for line in _on_backbone(name))


def _on_backbone(backbone: str) -> tuple[Line, ...]:
    short = backbone.rstrip("/").rsplit("/", 1)[-1]
    return (
        Line(f"{short}: full model (CE)", backbone=backbone),
        Line(f"{short}: full model (PoE)", finetune="poe", backbone=backbone),
        Line(f"{short}: mask training (PoE)", "a", pruner="mask", prune="poe", sparsities=(0.5, 0.7),
             backbone=backbone),
        _gradual(f"{short}: gradual, from 50 %", 0.5, 0.7, (1.0,), backbone),
    )  # fmt: skip


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("fig2", "Subnetworks of the CE-fine-tuned model", _fig2),
        Figure("fig3", "Subnetworks of the PoE-fine-tuned model", _fig3),
        Figure("fig4", "Subnetworks fine-tuned in isolation", _fig4),
        Figure("fig5", "Subnetworks without fine-tuning", _fig5),
        Figure("fig6", "With OOD training data: the upper bound", _fig6),
        Figure("fig7", "When to start the search", _fig7, axis="start"),
        Figure("fig8", "Gradual against fixed sparsity, over the length of the search", _fig8, axis="length"),
        Figure("figA1", "Reweighting and confidence regularisation", _fig_a1),
        Figure("figA2", "With OOD training data: the upper bound, on every task", _fig6, same_as="fig6"),
        Figure("figA3", "When to start the search, on every task", _fig7, axis="start", same_as="fig7"),
        Figure("tab5", "Initialisation and schedule of the sparsity", _tab5),
        Figure("tab6", "Other backbones", _tab6),
    )
}
