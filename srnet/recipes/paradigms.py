"""Full models and the paper's three paradigms: functions from a profile to the points of one series.

A line of a YAML recipe is a call of one of these functions. Its keys are the fields of `Search` and the function's own
parameters.
"""

from __future__ import annotations

from collections.abc import Callable
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
        raise UserError(
            f"no model of '{label}' is named", "sparsities, lengths and starts have at least one value each"
        )
    if not all(start == "auto" or 0.0 <= start <= 1.0 for start in starts):
        raise UserError("starts are shares of the fine-tuning, from 0 to 1, or auto")
    return [
        Point(label, Place(sparsity, start, length), seed, profile.pruned(model, search, sparsity, length))
        for seed in profile.seeds
        for start in starts
        for model in [_started(profile, profile.raw(seed, backbone), finetune, start, starts)]
        for sparsity in search.sparsities
        for length in search.lengths
    ]


def _started(profile: Profile, raw: Pretrained, objective: str, start: Start, starts: tuple[Start, ...]) -> ModelNode:
    """The model that a search starts from. Those in the course of the fine-tuning share one run."""
    full = profile.fine_tuned(raw, objective)
    if start in (0.0, 1.0):
        return full if start else raw
    if start != "auto":
        steps = {each: max(1, round(each * full.length)) for each in starts if each != "auto" and 0.0 < each < 1.0}
        return Moment(Trajectory(raw, full.objective, full.training, tuple(sorted({*steps.values()}))), steps[start])
    if profile.stopping is None or profile.stopping.patience is None:
        raise UserError("a search starts auto, but nothing says when", "set stopping: patience")
    return profile.fine_tuned(raw, objective, profile.stopping)


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
    start = 0.0 if search.pruner == "imp-rw" else 1.0
    if start == 0.0 and finetune != "ce":
        raise UserError("imp-rw in paradigm b starts from the raw model", "leave finetune out")
    found = of_fine_tuned(profile, label, search, finetune=finetune, starts=(start,), backbone=backbone)
    rewound = [(point, Rewind(point.node, point.node.pretrained)) for point in found]
    return [_without_start(replace(point, node=profile.fine_tuned(node, isolated))) for point, node in rewound]


def of_raw(profile: Profile, label: str, search: Search, *, backbone: str | None = None) -> list[Point]:
    """(c) Prune the raw model; nothing is fine-tuned."""
    return [_without_start(point) for point in of_fine_tuned(profile, label, search, starts=(0.0,), backbone=backbone)]


def _without_start(point: Point) -> Point:
    return replace(point, place=point.place._replace(start=None))


PARADIGMS: dict[str, Callable[..., list[Point]]] = {"full": full, "a": of_fine_tuned, "b": in_isolation, "c": of_raw}
