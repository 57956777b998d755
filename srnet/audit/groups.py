"""Worst-group and pair accuracy of the models of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from srnet.audit.rows import Judged
from srnet.evaluation.evidence import Evidence
from srnet.evaluation.groups import GroupFigures
from srnet.report.groups import left_out
from srnet.tasks.base import Task


@dataclass(frozen=True)
class ModelGroups:
    """Worst-group and pair accuracy of a model on a split; of B also minus those of A."""

    split: str
    model: str
    """A or B."""
    figures: GroupFigures


class _Letter(NamedTuple):
    key: str


def model_groups(task: Task, splits: Sequence[Judged]) -> tuple[tuple[ModelGroups, ...], str]:
    """The figures of each split that has groups or pairs, and a sentence on groups that are too small."""
    by_name = {each.split.name: each for each in splits}

    def read(letter: _Letter) -> dict[str, np.ndarray]:
        return {name: each.models["AB".index(letter.key)].answers for name, each in by_name.items()}

    def shortcut_right(split: str) -> np.ndarray | None:
        bias = by_name[split].bias
        return None if bias is None else np.asarray(bias.answers == by_name[split].labels)

    evidence = Evidence(task, read, shortcut_right=shortcut_right)
    found = [
        ModelGroups(name, letter, evidence.group_figures([_Letter(letter)], [_Letter("A")], name))
        for name, each in by_name.items()
        for letter in "AB"[: len(each.models)]
    ]
    return tuple(each for each in found if each.figures.worst or each.figures.pairs), left_out(evidence, [*by_name])
