"""Full models and the paper's three paradigms: functions from a profile to the points of one series.

A line of a YAML recipe is a call of one of these functions. Its keys are the fields of `Search` and the function's own
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from srnet.errors import UserError
from srnet.experiment import ModelNode, Moment, Pretrained, Rewind, Trajectory
from srnet.recipes.points import Place, Point, Start
from srnet.recipes.profile import Profile, Search


def full(profile: Profile, label: str, *, finetune: str = "ce", backbone: str | None = None) -> list[Point]:
    """A full model, fine-tuned with the objective `finetune`."""
    return [Point(label, Place(), seed, profile.full(seed, finetune, backbone)) for seed in profile.seeds]


def of_fine_tuned(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    starts: tuple[Start, ...] = (1.0,),
    backbone: str | None = None,
) -> list[Point]:
    """(a) Prune the model as it is after each of `starts`, shares of its fine-tuning with `finetune`."""
    search.check()
    if not (search.sparsities and search.lengths and starts):
        raise UserError(f"'{label}' has no models", "name sparsities, and starts and lengths or none of them")
    if not all(start == "auto" or 0.0 <= start <= 1.0 for start in starts):
        raise UserError("starts are shares of the fine-tuning, from 0 to 1, or auto")
    return [
        Point(label, Place(sparsity, start, length), seed, profile.pruned(model, search, sparsity, length))
        for seed in profile.seeds
        for start, model in _started(profile, profile.raw(seed, backbone), finetune, starts)
        for sparsity in search.sparsities
        for length in search.lengths
    ]


def _started(
    profile: Profile, raw: Pretrained, objective: str, starts: tuple[Start, ...]
) -> Iterator[tuple[Start, ModelNode]]:
    """The model that each search starts from. Those in the course of the fine-tuning share one run."""
    full = profile.fine_tuned(raw, objective)
    steps = {start: max(1, round(start * full.length)) for start in starts if start != "auto" and 0.0 < start < 1.0}
    for start in starts:
        if start in steps:
            run = Trajectory(raw, full.objective, full.training, tuple(sorted(set(steps.values()))))
            yield start, Moment(run, steps[start])
        elif start != "auto":
            yield start, full if start == 1.0 else raw
        elif profile.stopping is None or profile.stopping.patience is None:
            raise UserError("a search starts auto, but nothing says when", "set stopping: patience")
        else:
            yield start, profile.fine_tuned(raw, objective, profile.stopping)


def in_isolation(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    isolated: str = "ce",
    backbone: str | None = None,
) -> list[Point]:
    """(b) Find a mask, apply it to the raw weights and fine-tune them with `isolated`.

    IMP with rewinding trains from the raw weights. Other pruners learn the structure from the fine-tuned model.
    """
    from_raw = search.pruner == "imp-rw"
    if from_raw and finetune != "ce":
        raise UserError("imp-rw in paradigm b starts from the raw model", "leave finetune out")
    starts = (0.0,) if from_raw else (1.0,)
    return [
        Point(label, point.place._replace(start=None), point.seed, profile.fine_tuned(rewound, isolated))
        for point in of_fine_tuned(profile, label, search, finetune=finetune, starts=starts, backbone=backbone)
        for rewound in [Rewind(point.node, point.node.pretrained)]
    ]


def of_raw(profile: Profile, label: str, search: Search, *, backbone: str | None = None) -> list[Point]:
    """(c) Prune the raw model; nothing is fine-tuned."""
    points = of_fine_tuned(profile, label, search, starts=(0.0,), backbone=backbone)
    return [replace(point, place=point.place._replace(start=None)) for point in points]


PARADIGMS: dict[str, Callable[..., list[Point]]] = {
    "full": full,
    "a": of_fine_tuned,
    "b": in_isolation,
    "c": of_raw,
}
