"""Pairs of a stereotypical and an anti-stereotypical sentence: CrowS-Pairs, StereoSet, and files of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from srnet.config.fields import Described
from srnet.config.values import Count, OneOf
from srnet.core.errors import UserError, shortened
from srnet.tasks.answers.pairs import OF_PAIRS, OF_UNRELATED, PAIR_ONLY, PAIRS, WITH_UNRELATED, PairSplit
from srnet.tasks.base import Metric, Task, register_task
from srnet.tasks.files import DevShare
from srnet.tasks.layout import BadRow, SplitFile, alternatives, cell_of, columns_here
from srnet.tasks.reading import open_source
from srnet.tasks.sources import BadRows, OfFiles
from srnet.tasks.splits import LEVELS, Split, SplitKind
from srnet.tasks.tables import Bad, Row
from srnet.tasks.text import read_each, text_split, texts_of, with_dev

NEUTRAL = "neutral"
"""The name of the test set of neutral text."""
_LANGUAGE = "language"
"""What verdicts call the condition on the language."""
_NESTED = (".json", ".json.gz")
"""Endings of StereoSet's own file, one JSON document."""
_GOLD = {"stereotype": "stereotype", "anti-stereotype": "anti_stereotype", "unrelated": "unrelated"}
Scored = Literal["auto", "sum", "mean"]


@dataclass(frozen=True)
class PairFile(Described):
    """One file of pairs at `path`, or some of its rows."""

    path: str
    where: tuple[tuple[str, str], ...] = ()
    """Only rows with these cells: {"split": "train", "bias_type": "gender"}."""
    scoring: Scored | None = None
    """How its pairs are compared, where that differs from the task's."""


PairSource = str | PairFile


@register_task(
    reads=lambda values: values.get("answer") == PAIRS.name, changeable=("metric", "rows", "bad_rows", "dev_share")
)
@dataclass(frozen=True)
class PairsTask(OfFiles):
    """Pairs of sentences under `name`: the files `train`, `dev`, and tests by name; its `metric`; `neutral` text.

    Files are csv, tsv, jsonl or parquet with named columns, as those of CrowS-Pairs, or StereoSet's own JSON file, of
    which the intrasentence part is read.
    """

    labels: ClassVar = PAIRS.outputs
    shortcut: ClassVar = "unknown"

    train: PairSource
    dev: PairSource = ""
    """Pairs that choose checkpoints. Default: some of the training file (`dev_share`), which are not trained on."""
    ood: tuple[tuple[str, PairSource], ...] = ()
    """(name, file) of each test set with other targets, another type of bias, or of another benchmark."""
    id_tests: tuple[tuple[str, PairSource], ...] = ()
    """(name, file) of further in-distribution test sets: scored, and never used for selection."""
    name: str = "pairs"
    stereotype: str = "stereotype|sent_more|more"
    """Column of the stereotypical sentence, or of the more stereotypical one."""
    anti_stereotype: str = "anti_stereotype|sent_less|less"
    """Column of the other sentence."""
    unrelated: str = "unrelated"
    """Column of a sentence without meaning; files need not have it."""
    bias_type: str = "bias_type|type"
    """Column of the type of bias; files need not have it. Each type has its own score."""
    target: str = "target|stereo_antistereo|direction"
    """Column of the target, the second level of sub-cases; files need not have it."""
    neutral: str = ""
    """A file of neutral text: most of it is for objectives that keep the language, the rest is scored as `neutral`."""
    neutral_text: str = "text"
    """Column of that text, if the file has columns."""
    neutral_share: DevShare = 0.2
    """The share of the neutral texts that is scored, at most 2,000 texts, and not trained on."""
    scoring: Scored = "auto"
    """What is compared: `sum`, the summed log-probability, as CrowS-Pairs; `mean`, that per token, as StereoSet;
    `auto`: mean where there are unrelated sentences."""
    metric: Annotated[Metric, OneOf(OF_PAIRS | OF_UNRELATED)] = "ss"
    """ss, gap; with unrelated sentences lms, icat."""
    rows: tuple[tuple[str, Count], ...] = ()
    """At most so many pairs of a split, always the same ones: {"train": 500}."""
    dev_share: DevShare = 0.2
    """Without a dev file: the share of the training file that is split off as dev, at most 2,000 pairs."""
    bad_rows: BadRows = "refuse"
    """`skip` leaves out rows that cannot be read, and counts them."""
    answer: Literal["pairs"] = "pairs"
    """pairs: what makes a description one of pairs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for taken in {NEUTRAL, _LANGUAGE} & set(self.check_splits()):
            raise UserError(f"a test file cannot be called '{taken}': the name is taken", "choose another name")

    def load(self) -> Task:
        files = with_dev({name: self._read(name, source) for name, source in self.sources.items()}, self.dev_share)
        notes = [f"{name}: {note}" for name, each in files.items() for note in each.all_notes]
        splits: dict[str, Any] = {name: self.sampled(each.split, notes) for name, each in files.items()}
        tests = {name: each for name, each in splits.items() if name != "train"}
        notes += [f"{name}: compared by the {_MEANING[each.scoring]}" for name, each in tests.items()]
        notes += [f"{name}: {_NOISY}" for name, each in files.items() if _CROWS in Path(each.path).name.lower()]
        self._check_unrelated(splits["dev"])
        kept, tested = self._neutral(notes)
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=replace(splits["train"], neutral=kept),
            dev=splits["dev"],
            ood={name: splits[name] for name, _ in self.ood},
            id_tests={name: splits[name] for name, _ in self.id_tests} | tested,
            notes=tuple(notes),
            answer=self.answer,
        )

    def with_paths(self, change: Any) -> PairsTask:
        found = super().with_paths(change)
        return replace(found, neutral=change(found.neutral)) if found.neutral else found

    def _check_unrelated(self, dev: PairSplit) -> None:
        if self.metric in OF_UNRELATED and (dev.labels < WITH_UNRELATED).any():
            problem = f"task '{self.name}': metric '{self.metric}' needs unrelated sentences, and dev has none"
            raise UserError(problem, f"choose one of: {', '.join(OF_PAIRS)}")

    def _neutral(self, notes: list[str]) -> tuple[tuple[str, ...], dict[str, Split]]:
        """Neutral texts for training, and those that are scored."""
        if not self.neutral:
            return (), {}
        texts, bad = texts_of(self.neutral, self.neutral_text, self.bad_rows)
        whole = SplitFile(self.neutral, text_split(PairSplit, "train", "ID", texts), bad_rows=bad)
        train, test = with_dev({"train": whole}, self.neutral_share).values()
        said = (*train.all_notes, *test.all_notes)
        notes += [f"{NEUTRAL}: {note.replace('training file', 'file of neutral text')}" for note in said]
        ids = tuple(f"{NEUTRAL}-{n}" for n in range(len(test.split)))
        return train.split.text_a, {NEUTRAL: replace(test.split, name=NEUTRAL, ids=ids)}

    def _read(self, name: str, source: PairSource) -> SplitFile:
        file = PairFile(source) if isinstance(source, str) else source
        rows: list[_Pair] = []
        seen: dict[str, set[str]] = {column: set() for column, _ in file.where}

        def add(line: int, row: Mapping[str, str], bad: Bad) -> None:
            if self._is_wanted(file, line, row, seen):
                found = self._pair(row)
                if isinstance(found, str):
                    bad(line, found)
                else:
                    rows.append(found)

        nested = file.path.endswith(_NESTED)
        bad = read_each(file.path, (lambda bad: _stereoset(file.path)) if nested else None, add, self.bad_rows)
        if not rows:
            raise _no_rows(file, bad, seen)
        return SplitFile(file.path, _split(name, self.kind_of(name), rows, file.scoring or self.scoring), bad_rows=bad)

    def _is_wanted(self, file: PairFile, line: int, row: Mapping[str, str], seen: dict[str, set[str]]) -> bool:
        for column, value in file.where:
            if column not in row:
                raise UserError(f"{file.path}, line {line}: no column '{column}'; {columns_here(row)}", "correct where")
            seen[column].add(row[column])
            if row[column] != value:
                return False
        return True

    def _pair(self, row: Mapping[str, str]) -> _Pair | str:
        """The pair in a row, or the problem with it."""
        for column in (self.stereotype, self.anti_stereotype):
            cell = cell_of(row, column)
            if cell is None:
                names = " or ".join(f"'{name}'" for name in alternatives(column))
                return f"no column {names}; {columns_here(row)}"
            if not cell.strip():
                return f"an empty sentence under '{alternatives(column)[0]}'"
        columns = (self.stereotype, self.anti_stereotype, self.unrelated, self.bias_type, self.target)
        stereotype, opposite, unrelated, bias_type, target = ((cell_of(row, each) or "").strip() for each in columns)
        if stereotype == opposite:
            return f"the two sentences are equal: '{shortened(stereotype, 80)}'"
        return _Pair(stereotype, opposite, unrelated, LEVELS.join(filter(None, (bias_type, target))))


@dataclass(frozen=True)
class _Pair:
    stereotype: str
    opposite: str
    unrelated: str
    group: str


_CROWS = "crows"
_NOISY = "the authors of CrowS-Pairs note noise and unreliable pairs, and do not recommend it as a measure"
_MEANING = {"sum": "summed log-probability (CrowS-Pairs)", "mean": "log-probability per token (StereoSet)"}


def _split(name: str, kind: SplitKind, rows: list[_Pair], scoring: Scored) -> PairSplit:
    labels = np.array([WITH_UNRELATED if row.unrelated else PAIR_ONLY for row in rows])
    automatic: Any = "mean" if (labels == WITH_UNRELATED).all() else "sum"
    return PairSplit(
        name=name,
        kind=kind,
        ids=tuple(f"{name}-{n}" for n in range(len(rows))),
        text_a=tuple(row.stereotype for row in rows),
        text_b=tuple(row.opposite for row in rows),
        labels=labels,
        groups=tuple(row.group for row in rows),
        unrelated=tuple(row.unrelated for row in rows),
        scoring=automatic if scoring == "auto" else scoring,
    )


def _no_rows(file: PairFile, bad: tuple[BadRow, ...], seen: Mapping[str, set[str]]) -> UserError:
    if bad:
        first = f"line {bad[0].line}: {bad[0].what}"
        return UserError(f"{file.path} holds no pairs that can be read; {first}", "check its columns")
    for column, value in file.where:
        if value not in seen[column]:
            has = shortened(", ".join(sorted(seen[column])), 200)
            return UserError(f"{file.path}: no row has '{value}' under '{column}'", f"it has: {has}")
    return UserError(f"{file.path} holds no pairs", "give it a header and at least one pair")


# --- StereoSet's own file ------------------------------------------------------------------------------------------


def _stereoset(source: str) -> Iterator[Row]:
    """The intrasentence part, one row per context. The number of a row is that of its context."""
    with open_source(source) as file:
        text = file.read().decode("utf-8-sig")
    try:
        contexts = json.loads(text)["data"]["intrasentence"]
        rows = [_context(each) for each in contexts]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = shortened(f"{type(error).__name__}: {error}", 80)
        raise UserError(f"{source} is not StereoSet's JSON file ({why})", "give its dev.json, or a csv file") from None
    yield from enumerate(rows, start=1)


def _context(found: Mapping[str, Any]) -> dict[str, str]:
    sentences = {_GOLD[each["gold_label"]]: str(each["sentence"]) for each in found["sentences"]}
    return {"bias_type": str(found["bias_type"]), "target": str(found["target"]), **sentences}
