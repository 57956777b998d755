"""What a survey of shortcuts looks at: every kind that features alone can measure, and every column of metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from srnet.bias.shortcuts.base import KINDS, Part, parse_shortcut
from srnet.core.errors import UserError, shortened
from srnet.core.lists import with_commas
from srnet.tasks.base import Task
from srnet.tasks.splits import PAIR

_IDENTIFIER = 0.5
"""A column is an identifier if more than this share of its cells are different."""
_TEXT_WORDS = 5
"""Cells with more words than this, on average, are texts."""


@dataclass(frozen=True)
class Candidate:
    """A shortcut to measure."""

    parts: tuple[Part, ...]
    task: Task
    """The task, without the test sets on which the shortcut cannot be measured."""
    obstacle: str = ""
    """Why `--shortcut` would refuse it, although train and dev can be measured."""

    @property
    def shortcut(self) -> str:
        """As it is given to --shortcut."""
        return with_commas(part.text for part in self.parts)

    @property
    def about(self) -> str:
        """What it reads, in words."""
        if len(self.parts) > 1:
            return f"the columns {', '.join(repr(part.argument) for part in self.parts)} together"
        kind, argument = self.parts[0].kind, self.parts[0].argument
        return kind.described(argument, None, False) if argument else kind.about


@dataclass(frozen=True)
class LeftOut:
    """Something that was not measured."""

    name: str
    why: str
    is_label: bool = False
    """Whether it is a column that equals the label."""


def candidates_of(task: Task) -> tuple[list[Candidate], list[LeftOut]]:
    """What can be measured on a task, and what cannot, with the reason."""
    found = [*_of_texts(task), *_of_columns(task)]
    candidates = [each for each in found if isinstance(each, Candidate)]
    columns = [each for each in candidates if each.parts[0].kind.name == "columns"]
    if len(columns) > 1:
        together = _candidate(task, tuple(part for each in columns for part in each.parts))
        candidates += [together] if isinstance(together, Candidate) else []
    return candidates, [each for each in found if isinstance(each, LeftOut)]


def _of_texts(task: Task) -> Iterator[Candidate | LeftOut]:
    for name, kind in KINDS.items():
        if not kind.is_linear:
            yield LeftOut(name, "not fitted here: it needs a model that is trained")
        elif not kind.argument:
            yield _candidate(task, (Part(kind),))
        elif name != "columns":
            yield LeftOut(f"{name}:{kind.argument}", "not fitted here: it needs what you give it")


def _of_columns(task: Task) -> Iterator[Candidate | LeftOut]:
    for column, cells in task.train.columns.items():
        if column == PAIR:
            yield LeftOut(f"columns:{column}", "it joins the rows of a pair")
        elif _equals_label(cells, task.train.labels.tolist()):
            yield LeftOut(f"columns:{column}", "it equals the label, so it is the answer and not a shortcut", True)
        elif why := _no_metadata(cells):
            yield LeftOut(f"columns:{column}", why)
        else:
            yield _candidate(task, (Part(KINDS["columns"], column),))


def _candidate(task: Task, parts: tuple[Part, ...]) -> Candidate | LeftOut:
    """ID data decide what is measured; a problem on other splits is an obstacle to its use."""
    on_id = replace(task, ood={}, id_tests={})
    candidate = Candidate(parts, task)
    if why := _problem(on_id, parts):
        return LeftOut(candidate.shortcut, why)
    if why := _problem(task, parts):
        return replace(candidate, task=on_id, obstacle=why)
    return (
        candidate if _is_writable(candidate) else replace(candidate, obstacle="rename it: no such name can be written")
    )


def _problem(task: Task, parts: tuple[Part, ...]) -> str:
    """Why the first part that cannot be measured cannot; empty if all can."""
    try:
        return next(filter(None, (part.kind.problem(task, part.argument) for part in parts)), "")
    except UserError as error:
        return str(error)


def _is_writable(candidate: Candidate) -> bool:
    """Whether the written shortcut is read as the same: not if a name has line breaks, or spaces around it."""
    try:
        return set(parse_shortcut(candidate.shortcut)) == set(candidate.parts)
    except UserError:
        return False


# --- columns that are no metadata ----------------------------------------------------------------------------------


def _equals_label(cells: Sequence[str], labels: Sequence[int]) -> bool:
    """Whether every value stands for one label, and every label for one value."""
    pairs = set(zip(cells, labels, strict=True))
    return len(pairs) == len({cell for cell, _ in pairs}) == len({label for _, label in pairs}) > 1


def _no_metadata(cells: Sequence[str]) -> str:
    """Why a column is an identifier or a text; empty if it is neither."""
    different, example = len(set(cells)), shortened(cells[0], 40)
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    if words > _TEXT_WORDS:
        return f"it looks like a text: '{example}'"
    are_integers = all(cell.strip().lstrip("-").isdecimal() for cell in cells)
    if _are_numbers(cells) and not (different == len(cells) and are_integers):
        return ""
    if different > _IDENTIFIER * len(cells) and different > 2:
        return f"it looks like an identifier: {different:,} values in {len(cells):,} rows, such as '{example}'"
    return ""


def _are_numbers(cells: Sequence[str]) -> bool:
    try:
        return all(float(cell or "nan") is not None for cell in cells)
    except ValueError:
        return False
