"""Every figure and table of the papers, as a function of a profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from srnet.errors import choose
from srnet.recipes.paradigms import FULL_CE, FULL_POE, Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.recipes.points import Axis, Point
from srnet.recipes.profile import Profile
from srnet.recipes.recipe import Recipe

T = TypeVar("T")
Shares = tuple[float, ...]

SOFT = ("init", "soft")

# the labels that claims look up
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


@dataclass(frozen=True)
class Figure:
    """A function of a profile and the sparsities to show, and what belongs to it."""

    name: str
    title: str
    points: Callable[[Profile, Shares], list[Point]]
    axis: Axis = "sparsity"
    tasks: Literal["all", "main", "others"] = "all"
    """On which tasks the paper shows it: all three, inference alone, or the two others."""
    same_as: str | None = None
    """The figure that shows the same for the paper's main task."""
    family: Literal["srnet", "smp"] = "srnet"
    """Whose figure it is: that of mask training, or of static model pruning, which is trained otherwise."""
    needs_ood: bool = True

    def recipe(self, profile: Profile, sparsities: Shares = ()) -> Recipe:
        shown = sparsities or profile.shown(self.same_as or self.name)
        return Recipe(self.name, profile, lambda profile: self.points(profile, shown), self.axis, self.title)


def get_figure(name: str) -> Figure:
    return FIGURES[choose("recipe", name, FIGURES)]


# --- searches that several figures share ---------------------------------------------------------------------------


def mask_search(profile: Profile, objective: str, sparsities: Shares, *options: tuple[str, Any], **more: Any) -> Search:
    return Search("mask", objective, sparsities, (*profile.mask_options, *options), **more)


def _gradual(profile: Profile, start: float, end: float, **more: Any) -> Search:
    options = (SOFT, ("initial_sparsity", start), *profile.gradual_options)
    return mask_search(profile, "poe", (end,), *options, **more)


def _full_models(profile: Profile) -> list[Point]:
    return [*full(profile, FULL_CE), *full(profile, FULL_POE, finetune="poe")]


def _masks(profile: Profile, sparsities: Shares, *objectives: str) -> list[Point]:
    """Mask training of the fine-tuned model, with each objective."""
    searches = {_MASKS[each]: mask_search(profile, each, sparsities) for each in objectives}
    return [point for label, search in searches.items() for point in of_fine_tuned(profile, label, search)]


def _at(values: tuple[tuple[float, T], ...], sparsities: Shares) -> tuple[tuple[float, T], ...]:
    """Those for sparsities that are shown: a search refuses values for others."""
    return tuple((sparsity, value) for sparsity, value in values if sparsity in sparsities)


# --- the figures ---------------------------------------------------------------------------------------------------


def _fig2(profile: Profile, sparsities: Shares) -> list[Point]:
    return [
        *_full_models(profile),
        *_masks(profile, sparsities, "ce", "poe"),
        *of_fine_tuned(profile, IMP_CE, Search("imp", "ce", sparsities)),
        *of_fine_tuned(profile, IMP_POE, Search("imp", "poe", sparsities)),
    ]


def _fig3(profile: Profile, sparsities: Shares) -> list[Point]:
    mask, imp = mask_search(profile, "poe", sparsities), Search("imp", "poe", sparsities)
    return [
        *_full_models(profile),
        *of_fine_tuned(profile, "mask training (PoE) of the PoE model", mask, finetune="poe"),
        *of_fine_tuned(profile, "IMP (PoE) of the PoE model", imp, finetune="poe"),
        *_masks(profile, sparsities, "poe"),
    ]


def _fig4(profile: Profile, sparsities: Shares) -> list[Point]:
    imp, mask = Search("imp-rw", "poe", sparsities), mask_search(profile, "poe", sparsities)
    return [
        *_full_models(profile),
        *in_isolation(profile, ISOLATED_IMP_CE, imp, isolated="ce"),
        *in_isolation(profile, ISOLATED_IMP_POE, imp, isolated="poe"),
        *in_isolation(profile, ISOLATED_MASK_CE, mask, isolated="ce"),
        *in_isolation(profile, ISOLATED_MASK_POE, mask, isolated="poe"),
    ]


def _fig5(profile: Profile, sparsities: Shares) -> list[Point]:
    return [
        *_full_models(profile),
        *of_raw(profile, RAW_CE, mask_search(profile, "ce", sparsities)),
        *of_raw(profile, RAW_POE, mask_search(profile, "poe", sparsities)),
        *_masks(profile, sparsities, "poe"),
    ]


def _fig6(profile: Profile, sparsities: Shares) -> list[Point]:
    search = mask_search(profile, "ce", sparsities, data="id+ood")
    longer = mask_search(profile, "ce", sparsities, data="id+ood", lengths_at=_at(profile.ood_lengths_at, sparsities))
    return [
        *full(profile, FULL_CE),
        *of_fine_tuned(profile, OOD_A, longer),
        *in_isolation(profile, OOD_B, longer),
        *of_raw(profile, OOD_C, search),
    ]


def _fig7(profile: Profile, sparsities: Shares) -> list[Point]:
    search = mask_search(profile, "poe", (profile.timing_sparsity,))
    steps = tuple(start for start in profile.starts if start != "auto")
    points = [*full(profile, FULL_CE), *of_fine_tuned(profile, START, search, starts=steps)]
    return points + of_fine_tuned(profile, AUTO_START, search, starts=("auto",)) * ("auto" in profile.starts)


def _fig8(profile: Profile, sparsities: Shares) -> list[Point]:
    high, lengths = profile.high_sparsity, profile.lengths
    return [
        *full(profile, FULL_CE),
        *of_fine_tuned(profile, FIXED, mask_search(profile, "poe", (high,), lengths=lengths)),
        *of_fine_tuned(profile, GRADUAL, _gradual(profile, 0.7, high, lengths=lengths)),
    ]


def _fig_a1(profile: Profile, sparsities: Shares) -> list[Point]:
    return [*full(profile, FULL_CE), *_masks(profile, sparsities, "ce", "poe", "reweight", "confreg")]


def _tab5(profile: Profile, sparsities: Shares) -> list[Point]:
    high, lengths = (profile.high_sparsity,), (profile.ablation_length,)
    searches = {
        "fixed, hard": mask_search(profile, "poe", high, lengths=lengths),
        "fixed, soft": mask_search(profile, "poe", high, SOFT, lengths=lengths),
    }
    for start in (0.2, 0.5, 0.7):
        searches[f"gradual, from {100 * start:g} %"] = _gradual(profile, start, *high, lengths=lengths)
    series = [of_fine_tuned(profile, label, search) for label, search in searches.items()]
    return [*full(profile, FULL_CE), *(point for points in series for point in points)]


def _tab6(profile: Profile, sparsities: Shares) -> list[Point]:
    return [point for name in profile.other_backbones for point in _on_backbone(profile, name)]


def _on_backbone(profile: Profile, backbone: str) -> list[Point]:
    short = backbone.rstrip("/").rsplit("/", 1)[-1]
    mask, gradual = mask_search(profile, "poe", (0.5, 0.7)), _gradual(profile, 0.5, 0.7)
    return [
        *full(profile, f"{short}: {FULL_CE}", backbone=backbone),
        *full(profile, f"{short}: {FULL_POE}", finetune="poe", backbone=backbone),
        *of_fine_tuned(profile, f"{short}: {MASK_POE}", mask, backbone=backbone),
        *of_fine_tuned(profile, f"{short}: gradual, from 50 %", gradual, backbone=backbone),
    ]


def _static(profile: Profile, pruner: str, sparsities: Shares, objective: str = "ce", distil: bool = False) -> Search:
    """Pruning of the raw model by a method of the SMP family; scores alone train, or weights as well."""
    options_at = profile.options_at.get(pruner, ())
    if not distil:
        options_at += profile.undistilled_at.get(pruner, ())
    return Search(
        pruner,
        objective,
        sparsities,
        profile.options_of.get(pruner, ()),
        _at(options_at, sparsities),
        lengths_at=_at(profile.lengths_at, sparsities) if pruner in STATIC_NAMES else (),
        distil=distil,
    )


def _smp(profile: Profile, sparsities: Shares) -> list[Point]:
    points = full(profile, FULL_CE)
    for distil, label in ((False, "{}"), (True, DISTILLED)):
        for pruner, name in {**STATIC_NAMES, **FAMILY_NAMES}.items():
            points += of_raw(profile, label.format(name), _static(profile, pruner, sparsities, distil=distil))
    return points


def _robust_smp(profile: Profile, sparsities: Shares) -> list[Point]:
    points = _full_models(profile)
    for pruner, name in STATIC_NAMES.items():
        for objective, short in DEBIASED.items():
            points += of_raw(profile, f"{name} ({short})", _static(profile, pruner, sparsities, objective))
    return points


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
