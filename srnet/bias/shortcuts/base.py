"""The base class of the kinds of shortcuts, their registry, and how a written shortcut is read.

Kinds are listed by `--help`, so their modules import scikit-learn, scipy and pyarrow inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from srnet.core.errors import UserError, shortened
from srnet.tasks.base import Task
from srnet.tasks.shortcut import Shortcut, shortcut_texts
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from srnet.bias.vectors import WordVectors

FeatureMatrix: TypeAlias = "np.ndarray | csr_matrix"


@dataclass(frozen=True)
class FeatureOptions:
    """Options of the features: fields of `BiasSpec`."""

    vectors: WordVectors | None = None
    extended: bool = False


PLAIN = FeatureOptions()


@dataclass(frozen=True)
class Features:
    """Features that were fitted on the training split."""

    names: tuple[str, ...]
    """One for each column, in words."""
    of: Callable[[Split], FeatureMatrix]
    """A row for each example of a split. What is dense will be scaled, what is sparse is used as it is."""


class ShortcutKind:
    """A kind of shortcut: features of rows that a bias model reads. Subclasses are registered under `name`."""

    name: ClassVar[str]
    about: ClassVar[str]
    """What it reads, in a few words."""
    sentence: ClassVar[str]
    """The suspicion as a sentence, for a model card."""
    noun: ClassVar[str] = ""
    """The shortcut in a few words, as the subject of "misleads"; {} is the argument. Empty: as in `about`."""
    argument: ClassVar[str] = ""
    """What stands behind the colon, such as COLUMN; empty if nothing does."""
    options: ClassVar[tuple[str, ...]] = ()
    """The fields of `BiasSpec` that it uses."""
    of_texts: ClassVar[bool] = True
    """Whether it can be measured on two texts alone, without further columns or files."""
    of_pairs: ClassVar[bool] = False
    """Whether it needs a second text."""
    is_linear: ClassVar[bool] = True
    """Whether it is measured by a linear model on features."""
    gives_probabilities: ClassVar[bool] = False
    """Whether it holds probabilities of labels, which are used as they are where it stands alone."""
    without_vectors: ClassVar[str] = ""
    """A remark where it could read word vectors and has none."""

    def columns(self, argument: str) -> tuple[str, ...]:
        """The metadata columns that it reads."""
        return ()

    def files(self, argument: str) -> tuple[str, ...]:
        """The files that it reads."""
        return ()

    def problem(self, task: Task, argument: str) -> str | None:
        """Why it cannot be measured on a task, or None. A problem inside the data may also be a `UserError`."""
        if self.of_pairs and not has_pairs(task):
            return f"there is no second text, which the shortcut '{self.name}' is measured on"
        return None

    def notes(self, task: Task, argument: str) -> tuple[str, ...]:
        """What a user should know about this shortcut of a task."""
        return ()

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        """The features, fitted on the training split. Labels are not read."""
        raise NotImplementedError

    def identity(self, task: Task, argument: str) -> str:
        """The shortcut as part of a key: what is read from columns and files is in it by its content."""
        return f"{self.name}:{argument}" if argument else self.name

    def described(self, argument: str, vectors: str | None, extended: bool) -> str:
        """The features in words; `vectors` names the source of word vectors."""
        return self.about

    def log_probs(self, task: Task, argument: str) -> Mapping[str, np.ndarray]:
        """The log-probabilities of a kind that gives them, by split."""
        raise NotImplementedError


KINDS: dict[str, ShortcutKind] = {}
K = TypeVar("K", bound=type[ShortcutKind])


def register(kind: K) -> K:
    KINDS[kind.name] = kind()
    return kind


@dataclass(frozen=True)
class Part:
    """One shortcut: its kind, and what stands behind the colon."""

    kind: ShortcutKind
    argument: str = ""

    @property
    def text(self) -> str:
        return f"{self.kind.name}:{self.argument}" if self.argument else self.kind.name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.kind.columns(self.argument)

    @property
    def files(self) -> tuple[str, ...]:
        return self.kind.files(self.argument)


def parse_shortcut(shortcut: Shortcut) -> tuple[Part, ...]:
    """The parts of a written shortcut, in a fixed order. A name that is no kind is that of a column."""
    parts = {part.text: part for part in map(_part, shortcut_texts(shortcut))}
    alone = [text for text, part in parts.items() if not part.kind.is_linear]
    if alone and len(parts) > 1:
        raise UserError(f"shortcut '{alone[0]}' cannot be combined with others", "give it alone")
    return tuple(parts[text] for text in sorted(parts))


def _part(text: str) -> Part:
    name, _, argument = text.partition(":")
    if name not in KINDS:
        return Part(KINDS["columns"], text)
    kind = KINDS[name]
    if bool(kind.argument) != bool(argument):
        written = f"{name}:{kind.argument}" if kind.argument else name
        what = f"needs {kind.argument} behind it" if kind.argument else f"takes no '{shortened(argument, 80)}'"
        column = f", or columns:{shortened(text, 80)} for a column of that name" if argument else ""
        raise UserError(f"shortcut '{name}' {what}", f"write {written}{column}")
    return Part(kind, argument.strip())


def is_given(parts: tuple[Part, ...]) -> bool:
    """Whether the probabilities are given, so that no linear model is fitted."""
    return len(parts) == 1 and parts[0].kind.gives_probabilities


def kinds_in_words() -> str:
    """Every kind as one writes it."""
    return ", ".join(f"{name}:{kind.argument}" if kind.argument else name for name, kind in sorted(KINDS.items()))


def check_measurable(task: Task, parts: tuple[Part, ...]) -> None:
    """An error that says why a shortcut cannot be measured on a task."""
    for part in parts:
        if problem := part.kind.problem(task, part.argument):
            raise UserError(f"task '{task.name}': {problem}", "give another shortcut")


def side_by_side(features: list[Features], train: Split) -> Features:
    """Several features as one matrix. Dense ones beside sparse ones are scaled by the training split."""
    if len(features) == 1:
        return features[0]
    names = tuple(name for each in features for name in each.names)
    found = [each.of(train) for each in features]
    if all(isinstance(each, np.ndarray) for each in found):
        return Features(names, lambda split: np.hstack([each.of(split) for each in features]))
    scales = [_scale(each) if isinstance(each, np.ndarray) else None for each in found]
    del found

    def beside(split: Split) -> Any:
        from scipy.sparse import csr_matrix, hstack

        parts = [(each.of(split), scale) for each, scale in zip(features, scales, strict=True)]
        return hstack([x if scale is None else csr_matrix((x - scale[0]) / scale[1]) for x, scale in parts], "csr")

    return Features(names, beside)


def _scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations; a constant column is not divided."""
    deviations = x.std(axis=0)
    return x.mean(axis=0), np.where(deviations > 0, deviations, 1.0)


def has_pairs(task: Task) -> bool:
    """Whether training rows have a second text."""
    return any(task.train.text_b)
