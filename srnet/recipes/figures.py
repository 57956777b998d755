"""Every figure and table of the papers, as a function of a profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from srnet.experiment.nodes.base import answer_of_spec
from srnet.recipes.baselines import remarks, with_baselines
from srnet.recipes.paradigms import Axis, Point, Profile, Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.recipes.recipe import FULL, FULL_CE, Recipe
from srnet.tasks.answers.pairs import PAIRS

# labels, most of which claims look up
FULL_POE = "full model (PoE)"
_OBJECTIVES = {"ce": "CE", "poe": "PoE", "reweight": "reweighting", "confreg": "confidence reg."}
MASK, IMP = "mask training ({})", "IMP ({})"
MASK_CE, MASK_POE, MASK_REWEIGHT, MASK_CONFREG = map(MASK.format, _OBJECTIVES.values())
IMP_CE, IMP_POE = IMP.format("CE"), IMP.format("PoE")
ISOLATED_IMP_CE, ISOLATED_IMP_POE = "IMP (PoE), then fine-tuned (CE)", "IMP (PoE), then fine-tuned (PoE)"
ISOLATED_MASK_CE, ISOLATED_MASK_POE = "mask (PoE), then fine-tuned (CE)", "mask (PoE), then fine-tuned (PoE)"
RAW_CE, RAW_POE = f"{MASK_CE} of the raw model", f"{MASK_POE} of the raw model"
OOD_A, OOD_B, OOD_C = "fine-tuned subnetwork", "raw subnetwork, then fine-tuned", "raw subnetwork"
START, AUTO_START = MASK_POE, f"{MASK_POE}, start found by early stopping"
FIXED, GRADUAL = "fixed", "gradual, from 70 %"
STATIC = {"smp-l": "SMP-L", "smp-s": "SMP-S"}
BALANCED, UNPAIRED, PERMUTED = "mask training (balance)", "control: no pairs", "control: permuted pairs"
FULL_BALANCED, DISTILLED = "full model (balance)", "mask training (distilled)"
UNTRAINED = {"one-shot": "magnitude", "wanda": "Wanda"}
_METHODS = STATIC | {"movement": "movement", "soft-movement": "soft movement", "magnitude": "magnitude", "l0": "L0"}


@dataclass(frozen=True)
class Figure:
    """What belongs to a figure. As a decorator it registers the function that makes the figure's points."""

    name: str
    title: str
    axis: Axis = "sparsity"
    tasks: Literal["all", "main", "others"] = "all"
    """On which tasks the paper shows it: all three, inference alone, or the two others."""
    same_as: str | None = None
    """The figure that shows the same for the paper's main task."""
    family: Literal["srnet", "smp", "language"] = "srnet"
    """Whose figure it is: that of mask training, of static model pruning, which is trained differently, or ours for
    language models, which is in neither paper."""
    needs_ood: bool = True
    baselines_of: str | None = None
    """The line whose baselines may be added; None if the figure has none."""
    points: Callable[[Profile], list[Point]] = lambda profile: []

    def __call__(self, points: Callable[[Profile], list[Point]]) -> Callable[[Profile], list[Point]]:
        FIGURES[self.name] = replace(self, points=points)
        return points

    def recipe(
        self,
        profile: Profile,
        sparsities: tuple[float, ...] = (),
        lines: tuple[str, ...] = (),
        *,
        baselines: bool = False,
    ) -> Recipe:
        """What is computed for a profile; `baselines` adds lines where the figure has a line that they belong to."""
        shown = sparsities or profile.sparsities_of.get(self.same_as or self.name, profile.sparsities)
        profile = replace(profile, sparsities=shown)
        recipe = Recipe(self.name, profile, self.points, self.axis, self.title, lines=lines)
        if not baselines or self.baselines_of is None:
            return recipe
        points = partial(with_baselines, self.points, self.baselines_of, FULL_CE)
        return replace(recipe, figure=points, remarks=remarks())


FIGURES: dict[str, Figure] = {}
"""In the order of the papers."""


def _full_models(profile: Profile) -> list[Point]:
    return [*full(profile, FULL_CE), *full(profile, FULL_POE, finetune="poe")]


def _searches(profile: Profile, label: str, pruner: str, *objectives: str, kind: str = "") -> dict[str, Search]:
    """A search with each objective, by its label."""
    return {label.format(_OBJECTIVES[each]): profile.search(pruner, each, kind) for each in objectives}


def _gradual(profile: Profile, start: float, **more: Any) -> Search:
    return profile.search("mask", "poe", "gradual", options={"init": "soft", "initial_sparsity": start}, **more)


def _series(profile: Profile, searches: dict[str, Search], paradigm: Any = of_fine_tuned, **more: Any) -> list[Point]:
    return [point for label, search in searches.items() for point in paradigm(profile, label, search, **more)]


@Figure("fig2", "Subnetworks of the CE-fine-tuned model", baselines_of=MASK_POE)
def _fig2(profile: Profile) -> list[Point]:
    mask, imp = (_searches(profile, label, pruner, "ce", "poe") for label, pruner in ((MASK, "mask"), (IMP, "imp")))
    return _full_models(profile) + _series(profile, mask | imp)


@Figure("fig3", "Subnetworks of the PoE-fine-tuned model")
def _fig3(profile: Profile) -> list[Point]:
    mask = _searches(profile, MASK, "mask", "poe")
    of_poe_model = _searches(profile, f"{MASK} of the PoE model", "mask", "poe")
    of_poe_model |= _searches(profile, f"{IMP} of the PoE model", "imp", "poe")
    return _full_models(profile) + _series(profile, of_poe_model, finetune="poe") + _series(profile, mask)


@Figure("fig4", "Subnetworks fine-tuned in isolation")
def _fig4(profile: Profile) -> list[Point]:
    imp, mask = profile.search("imp-rw", "poe"), profile.search("mask", "poe")
    return [
        *_full_models(profile),
        *in_isolation(profile, ISOLATED_IMP_CE, imp, isolated="ce"),
        *in_isolation(profile, ISOLATED_IMP_POE, imp, isolated="poe"),
        *in_isolation(profile, ISOLATED_MASK_CE, mask, isolated="ce"),
        *in_isolation(profile, ISOLATED_MASK_POE, mask, isolated="poe"),
    ]


@Figure("fig5", "Subnetworks without fine-tuning")
def _fig5(profile: Profile) -> list[Point]:
    raw = _searches(profile, f"{MASK} of the raw model", "mask", "ce", "poe")
    mask = _searches(profile, MASK, "mask", "poe")
    return _full_models(profile) + _series(profile, raw, of_raw) + _series(profile, mask)


@Figure("fig6", "With OOD training data: the upper bound", tasks="main")
def _fig6(profile: Profile) -> list[Point]:
    of_fine_tuned_model = profile.search("mask", "ce", "id+ood", data="id+ood")
    return [
        *full(profile, FULL_CE),
        *of_fine_tuned(profile, OOD_A, of_fine_tuned_model),
        *in_isolation(profile, OOD_B, of_fine_tuned_model),
        *of_raw(profile, OOD_C, profile.search("mask", "ce", data="id+ood")),
    ]


@Figure("fig7", "When to start the search", axis="start", tasks="main")
def _fig7(profile: Profile) -> list[Point]:
    search = profile.search("mask", "poe", sparsities=(profile.timing_sparsity,))
    steps = tuple(start for start in profile.starts if start != "auto")
    points = full(profile, FULL_CE) + of_fine_tuned(profile, START, search, starts=steps)
    return points + of_fine_tuned(profile, AUTO_START, search, starts=("auto",)) * ("auto" in profile.starts)


@Figure("fig8", "Gradual against fixed sparsity, over the length of the search", axis="length")
def _fig8(profile: Profile) -> list[Point]:
    at: dict[str, Any] = {"sparsities": (profile.high_sparsity,), "lengths": profile.lengths}
    searches = {FIXED: profile.search("mask", "poe", **at), GRADUAL: _gradual(profile, 0.7, **at)}
    return full(profile, FULL_CE) + _series(profile, searches)


@Figure("figA1", "Reweighting and confidence regularisation")
def _fig_a1(profile: Profile) -> list[Point]:
    return full(profile, FULL_CE) + _series(profile, _searches(profile, MASK, "mask", *_OBJECTIVES))


Figure("figA2", "With OOD training data: the upper bound (appendix)", tasks="others", same_as="fig6")(_fig6)
Figure("figA3", "When to start the search (appendix)", axis="start", tasks="others", same_as="fig7")(_fig7)


@Figure("tab5", "Initialisation and schedule of the sparsity")
def _tab5(profile: Profile) -> list[Point]:
    at: dict[str, Any] = {"sparsities": (profile.high_sparsity,), "lengths": (profile.ablation_length,)}
    fixed = {f"fixed, {init}": profile.search("mask", "poe", options={"init": init}, **at) for init in ("hard", "soft")}
    gradual = {f"gradual, from {100 * start:g} %": _gradual(profile, start, **at) for start in (0.2, 0.5, 0.7)}
    return full(profile, FULL_CE) + _series(profile, fixed | gradual)


@Figure("tab6", "Other backbones", tasks="main")
def _tab6(profile: Profile) -> list[Point]:
    mask, gradual = profile.search("mask", "poe", sparsities=(0.5, 0.7)), _gradual(profile, 0.5, sparsities=(0.7,))
    points = []
    for backbone in profile.other_backbones:
        short = backbone.rstrip("/").rsplit("/", 1)[-1]
        points += full(profile, f"{short}: {FULL_CE}", backbone=backbone)
        points += full(profile, f"{short}: {FULL_POE}", finetune="poe", backbone=backbone)
        searches = {f"{short}: {MASK_POE}": mask, f"{short}: gradual, from 50 %": gradual}
        points += _series(profile, searches, backbone=backbone)
    return points


_static = partial(Figure, axis="kept", family="smp")


@_static("smp", "Static model pruning and its family, with and without distillation", tasks="main", needs_ood=False)
def _smp(profile: Profile) -> list[Point]:
    plain = {name: profile.search(each, "ce", f"{each} without distillation") for each, name in _METHODS.items()}
    distilled = {f"{name} + distillation": profile.search(each, "ce", distil=True) for each, name in _METHODS.items()}
    return full(profile, FULL_CE) + _series(profile, plain | distilled, of_raw)


@_static("robust-smp", "Static model pruning with debiasing objectives")
def _robust_smp(profile: Profile) -> list[Point]:
    points = _full_models(profile)
    for pruner, name in STATIC.items():
        searches = _searches(profile, f"{name} ({{}})", pruner, *_OBJECTIVES, kind=f"{pruner} without distillation")
        points += _series(profile, searches, of_raw)
    return points


@Figure("generation", "Subnetworks of a language model", family="language", needs_ood=False)
def _generation(profile: Profile) -> list[Point]:
    """On pairs of sentences: balanced masks, their controls, and untrained masks. On text: masks for size alone."""
    mask = partial(profile.search, "mask")
    untrained = {name: profile.search(each, None) for each, name in UNTRAINED.items()}
    if answer_of_spec(profile.task) is not PAIRS:
        distilled = {DISTILLED: mask("ce", distil=True)}
        return full(profile, FULL) + _series(profile, distilled | untrained, of_raw)
    controls = {UNPAIRED: mask("balance:weight=0"), PERMUTED: mask("balance-permuted")} | untrained
    found = full(profile, FULL) + _series(profile, {BALANCED: mask("balance")}, of_raw)
    found += [replace(each, is_control=True) for each in _series(profile, controls, of_raw)]
    dense = full(profile, FULL_BALANCED, finetune="balance")
    return found + [replace(each, is_baseline=True, is_control=True) for each in dense]
