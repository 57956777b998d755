"""Sources of a task's splits: files with their own layout, and what descriptions of files have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from srnet.config.fields import Described
from srnet.config.values import Count
from srnet.core.errors import UserError, choose
from srnet.core.names import file_name
from srnet.tasks.base import Task
from srnet.tasks.reading import HUB
from srnet.tasks.shortcut import with_file_paths
from srnet.tasks.splits import Split, SplitKind

BadRows = Literal["refuse", "skip"]
_RESERVED = re.compile(r"train|dev|ood_train\d*")
S = TypeVar("S", bound=Split)


@dataclass(frozen=True)
class DataFile(Described):
    """One file, or one split of a Hub dataset, at `path`, where its columns or labels differ from the task's.

    `text_a`, `text_b`, `label` and `group` are columns. A column may be given as alternatives,
    `evidence|evidence_sentence`: the first that a row has is read.
    """

    path: str
    text_a: str | None = None
    text_b: str | None = None
    label: str | None = None
    group: str | tuple[str, ...] | None = None
    spellings: tuple[tuple[str, str], ...] = ()
    """Spellings of labels in this file, in addition to the task's: {"non-entailment": "contradiction"}."""
    bytes_literals: bool = False
    """Texts are written as Python bytes, b'...', as in the files of PAWS's own script."""
    classes: tuple[tuple[str, str], ...] = ()
    """For a test file with fewer classes than the task: what each label of the task counts as here."""
    columns: tuple[str, ...] = ()
    """For a csv, tsv or txt file without a header: the names of its columns, in order."""
    pair: str | None = None
    """The column that joins the rows of a pair. Every row must have it. It is kept as the metadata column `pair`."""


FileSource = str | DataFile


class OfFiles(Described):
    """What descriptions of files have in common: named splits, paths, and at most so many rows of a split."""

    name: str
    train: Any
    dev: Any
    ood: Any
    id_tests: Any = ()
    ood_train: Any = None
    rows: tuple[tuple[str, Count], ...]

    def load(self) -> Task:
        raise NotImplementedError

    def check_splits(self) -> list[str]:
        """The names of the test sets, after a check of names."""
        file_name("a task", self.name)
        tests = [file_name("a test set", name) for name, _ in (*self.id_tests, *self.ood)]
        taken = [name for n, name in enumerate(tests) if name in tests[:n] or _RESERVED.fullmatch(name)]
        if taken:
            raise UserError(f"a test file cannot be called '{taken[0]}': the name is taken", "choose another name")
        for name, _ in self.rows:
            choose("split under rows", name, ("train", "dev", *(["ood_train"] if self.ood_train else []), *tests))
        return tests

    @property
    def sources(self) -> dict[str, Any]:
        """Every source by the name of its split; further OOD training files are numbered."""
        extra = self.ood_train if isinstance(self.ood_train, tuple) else filter(None, [self.ood_train])
        numbered = {f"ood_train{n or ''}": source for n, source in enumerate(extra)}
        dev = {"dev": self.dev} if self.dev else {}  # without a file, dev is split off
        return {"train": self.train, **dev, **dict(self.id_tests), **dict(self.ood), **numbered}

    def kind_of(self, name: str) -> SplitKind:
        return "ID" if name in ("train", "dev", *dict(self.id_tests)) else "OOD"

    def resolved(self, folder: Path) -> Self:
        """The same with absolute paths; relative ones start at `folder`."""
        return self.with_paths(lambda path: str((folder / path).resolve()))

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """The same with every path of a file changed."""

        def changed(source: Any) -> Any:
            match source:
                case tuple():
                    return tuple(map(changed, source))
                case Described() if hasattr(source, "path"):
                    return replace(source, path=changed(source.path))  # type: ignore[type-var]
                case str() if source and not source.startswith(HUB):
                    return change(source)
            return source

        single = {name: changed(getattr(self, name)) for name in ("train", "dev", "ood_train") if name in vars(self)}
        named = {name: getattr(self, name) for name in ("ood", "id_tests") if name in vars(self)}
        pairs = {name: tuple((test, changed(source)) for test, source in of) for name, of in named.items()}
        given = {"shortcut": with_file_paths(shortcut, change)} if (shortcut := vars(self).get("shortcut")) else {}
        return replace(self, **single, **pairs, **given)  # type: ignore[type-var]

    def sampled(self, split: S, notes: list[str]) -> S:
        """At most as many rows as `rows` says, with a note."""
        wanted = dict(self.rows).get(split.name)
        if wanted is None or wanted >= len(split):
            return split
        notes.append(f"{split.name}: {wanted:,} of {len(split):,} rows")
        return split.sample(wanted)
