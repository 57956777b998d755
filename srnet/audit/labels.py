"""Which output of a model stands for which label of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srnet.errors import UserError, shortened
from srnet.names import are_unnamed, match_names


@dataclass(frozen=True)
class LabelMatch:
    """For each label of the task, the output that stands for it. `note`: what had to be assumed."""

    order: tuple[int, ...]
    note: str = ""


def match_labels(
    model: str, theirs: Sequence[str], ours: Sequence[str], spellings: Mapping[str, str] | None = None
) -> LabelMatch:
    """Match by name, then by the task's other spellings; outputs without names are taken in the task's order."""
    order = match_names(theirs, ours, spellings)
    if order is not None:
        return LabelMatch(order)
    if len(theirs) == len(ours) and are_unnamed(theirs):
        return LabelMatch(
            tuple(range(len(ours))),
            f"{model} does not name its outputs; they are taken in the order of the task: {', '.join(ours)}",
        )
    listed = [shortened(", ".join(labels), 80) for labels in (theirs, ours)]
    raise UserError(
        f"{model} tells {listed[0]} apart, the task {listed[1]}",
        "audit models of one task, or name the labels alike (id2label in config.json)",
    )
