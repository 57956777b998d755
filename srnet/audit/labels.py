"""Which output of a model stands for which label of a task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srnet.errors import UserError, shortened

_UNNAMED = re.compile(r"label_\d+|\d+")
"""What Hugging Face calls outputs without names."""


@dataclass(frozen=True)
class LabelMatch:
    """For each label of the task, the output that stands for it. `note`: what had to be assumed."""

    order: tuple[int, ...]
    note: str = ""


def normalised(label: str) -> str:
    """Without case, spaces, underscores and hyphens: `NOT ENOUGH INFO` and `not_enough_info` are one label."""
    return re.sub(r"[\s_-]+", "", label).casefold()


def match_labels(
    model: str, theirs: Sequence[str], ours: Sequence[str], spellings: Mapping[str, str] | None = None
) -> LabelMatch:
    """Match by name, then by the task's other spellings; outputs without names are taken in the task's order."""
    known = {normalised(spelling): label for spelling, label in (spellings or {}).items()}
    known |= {normalised(label): label for label in ours}
    meant = [known.get(normalised(label)) for label in theirs]
    if len(theirs) == len(ours) and set(meant) == set(ours):
        return LabelMatch(tuple(meant.index(label) for label in ours))
    if len(theirs) == len(ours) and all(_UNNAMED.fullmatch(label.casefold()) for label in theirs):
        return LabelMatch(
            tuple(range(len(ours))),
            f"{model} does not name its outputs; they are taken in the order of the task: {', '.join(ours)}",
        )
    listed = [shortened(", ".join(labels), 80) for labels in (theirs, ours)]
    raise UserError(
        f"{model} tells {listed[0]} apart, the task {listed[1]}",
        "audit models of one task, or name the labels alike (id2label in config.json)",
    )
