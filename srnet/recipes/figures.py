"""Every figure and table of the paper, as lines over a task's setup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from srnet.errors import choose
from srnet.recipes.recipe import Axis, Line, Recipe, with_controls
from srnet.recipes.setup import Setup

T = TypeVar("T")

SOFT = ("init", "soft")
FULL_CE = Line("full model (CE)")
FULL_POE = Line("full model (PoE)", finetune="poe")

# the names of lines, which the claims look up
MASK_CE, MASK_POE = "mask training (CE)", "mask training (PoE)"
MASK_REWEIGHT, MASK_CONFREG = "mask training (reweighting)", "mask training (confidence reg.)"
IMP_CE, IMP_POE = "IMP (CE)", "IMP (PoE)"
ISOLATED_IMP_CE, ISOLATED_IMP_POE = "IMP (PoE), then fine-tuned (CE)", "IMP (PoE), then fine-tuned (PoE)"
ISOLATED_MASK_CE, ISOLATED_MASK_POE = "mask (PoE), then fine-tuned (CE)", "mask (PoE), then fine-tuned (PoE)"
RAW_CE, RAW_POE = "mask training (CE) of the raw model", "mask training (PoE) of the raw model"
OOD_A, OOD_B, OOD_C = "fine-tuned subnetwork", "raw subnetwork, then fine-tuned", "raw subnetwork"
START, AUTO_START = "mask training (PoE)", "mask training (PoE), start found by early stopping"
FIXED, GRADUAL = "fixed", "gradual, from 70 %"
STATIC_NAMES = {"smp-l": "SMP-L", "smp-s": "SMP-S"}
FAMILY_NAMES = {"movement": "movement", "soft-movement": "soft movement", "magnitude": "magnitude", "l0": "L0"}
DISTILLED = "{} + distillation"
DEBIASED = {"ce": "CE", "poe": "PoE", "reweight": "reweighting", "confreg": "confidence reg."}
_MASKS = {"ce": MASK_CE, "poe": MASK_POE, "reweight": MASK_REWEIGHT, "confreg": MASK_CONFREG}
_IMPS = {"ce": IMP_CE, "poe": IMP_POE}


@dataclass(frozen=True)
class Figure:
    """Which lines a figure has, and what is varied along them."""

    name: str
    title: str
    lines: Callable[[Setup, tuple[float, ...]], tuple[Line, ...]]
    axis: Axis = "sparsity"
    tasks: Literal["all", "main", "others"] = "all"
    """On which tasks the paper shows it: all three, inference alone, or the two others."""
    same_as: str | None = None
    """The figure that shows the same for the paper's main task."""
    family: Literal["srnet", "smp"] = "srnet"
    """Whose figure it is: that of mask training, or of static model pruning, which is trained otherwise."""
    needs_ood: bool = True

    def recipe(self, setup: Setup, seeds: tuple[int, ...], sparsities: tuple[float, ...] | None = None) -> Recipe:
        return Recipe(
            name=self.name,
            task=setup.task,
            lines=with_controls(self.lines(setup, sparsities or setup.shown(self.same_as or self.name))),
            backbone=setup.backbone,
            seeds=seeds,
            finetuning=setup.finetuning,
            finetuning_of=setup.finetuning_of,
            pruning=setup.pruning,
            stopping=setup.stopping,
            with_ood=setup.with_ood,
            pruning_of=setup.pruning_of,
            words=setup.words,
            bias=setup.bias,
            axis=self.axis,
            title=self.title,
        )


def get_figure(name: str) -> Figure:
    return FIGURES[choose("recipe", name, FIGURES)]


# --- lines that several figures share ------------------------------------------------------------------------------


def _mask(setup: Setup, objective: str, sparsities: tuple[float, ...], **more: Any) -> Line:
    """Mask training of the fine-tuned model; `more` is what a figure varies."""
    options = (*setup.mask_options, *more.pop("options", ()))
    label = more.pop("label", _MASKS[objective])
    paradigm = more.pop("paradigm", "a")
    return Line(label, paradigm, pruner="mask", prune=objective, sparsities=sparsities, options=options, **more)


def _imp(objective: str, sparsities: tuple[float, ...]) -> Line:
    return Line(_IMPS[objective], "a", pruner="imp", prune=objective, sparsities=sparsities)


def _gradual(setup: Setup, label: str, start: float, end: float, **more: Any) -> Line:
    options = (SOFT, ("initial_sparsity", start), *setup.gradual_options)
    return _mask(setup, "poe", (end,), label=label, options=options, **more)


# --- the figures ---------------------------------------------------------------------------------------------------


def _fig2(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    masks = [_mask(setup, objective, sparsities) for objective in ("ce", "poe")]
    return (FULL_CE, FULL_POE, *masks, *(_imp(objective, sparsities) for objective in ("ce", "poe")))


def _fig3(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return (
        FULL_CE,
        FULL_POE,
        _mask(setup, "poe", sparsities, label="mask training (PoE) of the PoE model", finetune="poe"),
        Line("IMP (PoE) of the PoE model", "a", finetune="poe", pruner="imp", prune="poe", sparsities=sparsities),
        _mask(setup, "poe", sparsities),
    )


def _fig4(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    def imp(label: str, objective: str) -> Line:
        return Line(label, "b", pruner="imp-rw", prune="poe", isolated=objective, sparsities=sparsities)

    def mask(label: str, objective: str) -> Line:
        return _mask(setup, "poe", sparsities, label=label, paradigm="b", isolated=objective)

    return (
        FULL_CE,
        FULL_POE,
        imp(ISOLATED_IMP_CE, "ce"),
        imp(ISOLATED_IMP_POE, "poe"),
        mask(ISOLATED_MASK_CE, "ce"),
        mask(ISOLATED_MASK_POE, "poe"),
    )


def _fig5(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return (
        FULL_CE,
        FULL_POE,
        _mask(setup, "ce", sparsities, label=RAW_CE, paradigm="c"),
        _mask(setup, "poe", sparsities, label=RAW_POE, paradigm="c"),
        _mask(setup, "poe", sparsities),
    )


def _fig6(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    longer = _at(setup.ood_lengths_at, sparsities)
    return (
        FULL_CE,
        _mask(setup, "ce", sparsities, label=OOD_A, data="id+ood", lengths_at=longer),
        _mask(setup, "ce", sparsities, label=OOD_B, paradigm="b", data="id+ood", lengths_at=longer),
        _mask(setup, "ce", sparsities, label=OOD_C, paradigm="c", data="id+ood"),
    )


def _fig7(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    steps = tuple(start for start in setup.starts if start != "auto")
    line, auto = (
        _mask(setup, "poe", (setup.timing_sparsity,), label=label, starts=starts)
        for label, starts in ((START, steps), (AUTO_START, ("auto",)))
    )
    return (FULL_CE, line, auto) if "auto" in setup.starts else (FULL_CE, line)


def _fig8(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    high = setup.high_sparsity
    return (
        FULL_CE,
        _mask(setup, "poe", (high,), label=FIXED, lengths=setup.lengths),
        _gradual(setup, GRADUAL, 0.7, high, lengths=setup.lengths),
    )


def _fig_a1(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return (FULL_CE, *(_mask(setup, objective, sparsities) for objective in ("ce", "poe", "reweight", "confreg")))


def _tab5(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    high, lengths = setup.high_sparsity, (setup.ablation_length,)
    gradual = (
        _gradual(setup, f"gradual, from {100 * start:g} %", start, high, lengths=lengths) for start in (0.2, 0.5, 0.7)
    )
    return (
        FULL_CE,
        _mask(setup, "poe", (high,), label="fixed, hard", lengths=lengths),
        _mask(setup, "poe", (high,), label="fixed, soft", lengths=lengths, options=(SOFT,)),
        *gradual,
    )


def _tab6(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    return tuple(line for name in setup.other_backbones for line in _on_backbone(setup, name))


def _on_backbone(setup: Setup, backbone: str) -> tuple[Line, ...]:
    short = backbone.rstrip("/").rsplit("/", 1)[-1]
    return (
        Line(f"{short}: full model (CE)", backbone=backbone),
        Line(f"{short}: full model (PoE)", finetune="poe", backbone=backbone),
        _mask(setup, "poe", (0.5, 0.7), label=f"{short}: mask training (PoE)", backbone=backbone),
        _gradual(setup, f"{short}: gradual, from 50 %", 0.5, 0.7, backbone=backbone),
    )


def _static(setup: Setup, pruner: str, sparsities: tuple[float, ...], **more: Any) -> Line:
    """Pruning of the raw model by a method of the SMP family; scores alone train, or weights as well."""
    options = setup.options_of.get(pruner, ())
    options_at = setup.options_at.get(pruner, ())
    if not more.get("distil"):
        options_at += setup.undistilled_at.get(pruner, ())
    lengths_at = setup.lengths_at if pruner in STATIC_NAMES else ()
    return Line(
        more.pop("label", {**STATIC_NAMES, **FAMILY_NAMES}[pruner]),
        "c",
        pruner=pruner,
        prune=more.pop("prune", "ce"),
        sparsities=sparsities,
        options=options,
        options_at=_at(options_at, sparsities),
        lengths_at=_at(lengths_at, sparsities),
        **more,
    )


def _at(values: tuple[tuple[float, T], ...], sparsities: tuple[float, ...]) -> tuple[tuple[float, T], ...]:
    """Those for sparsities that are shown: a line refuses values for others."""
    return tuple((sparsity, value) for sparsity, value in values if sparsity in sparsities)


def _smp(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    names = {**STATIC_NAMES, **FAMILY_NAMES}
    plain = [_static(setup, pruner, sparsities) for pruner in names]
    taught = [
        _static(setup, pruner, sparsities, label=DISTILLED.format(name), distil=True) for pruner, name in names.items()
    ]
    return (FULL_CE, *plain, *taught)


def _robust_smp(setup: Setup, sparsities: tuple[float, ...]) -> tuple[Line, ...]:
    debiased = [
        _static(setup, pruner, sparsities, label=f"{name} ({DEBIASED[objective]})", prune=objective)
        for pruner, name in STATIC_NAMES.items()
        for objective in DEBIASED
    ]
    return (FULL_CE, FULL_POE, *debiased)


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure("fig2", "Subnetworks of the CE-fine-tuned model", _fig2),
        Figure("fig3", "Subnetworks of the PoE-fine-tuned model", _fig3),
        Figure("fig4", "Subnetworks fine-tuned in isolation", _fig4),
        Figure("fig5", "Subnetworks without fine-tuning", _fig5),
        Figure("fig6", "With OOD training data: the upper bound", _fig6, tasks="main"),
        Figure("fig7", "When to start the search", _fig7, axis="start", tasks="main"),
        Figure("fig8", "Gradual against fixed sparsity, over the length of the search", _fig8, axis="length"),
        Figure("figA1", "Reweighting and confidence regularisation", _fig_a1),
        Figure(
            "figA2",
            "With OOD training data: the upper bound (appendix)",
            _fig6,
            tasks="others",
            same_as="fig6",
        ),
        Figure("figA3", "When to start the search (appendix)", _fig7, axis="start", tasks="others", same_as="fig7"),
        Figure("tab5", "Initialisation and schedule of the sparsity", _tab5),
        Figure("tab6", "Other backbones", _tab6, tasks="main"),
        Figure(
            "smp",
            "Static model pruning and its family, with and without distillation",
            _smp,
            axis="kept",
            tasks="main",
            family="smp",
            needs_ood=False,
        ),
        Figure("robust-smp", "Static model pruning with debiasing objectives", _robust_smp, axis="kept", family="smp"),
    )
}
