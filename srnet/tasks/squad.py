"""SQuAD v1.1 and data in its format: the original JSON files, or rows as on the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from srnet.config.values import Count, OneOf
from srnet.core.errors import UserError, shortened
from srnet.tasks.answers.spans import SPANS, SpanSplit
from srnet.tasks.base import DATASETS, Metric, Task, register_task
from srnet.tasks.layout import columns_here, refuse_list
from srnet.tasks.published import SplitLocation, dataset_folder
from srnet.tasks.reading import HUB, SUFFIXES, broken_character, open_source, python_literal, read_rows
from srnet.tasks.sources import BadRows, OfFiles
from srnet.tasks.splits import SplitKind

SQUAD = "squad"
_NESTED = (".json", ".json.gz")
"""Endings of SQuAD's own files, one JSON document each; other files have one question per row."""
_ENDINGS = (*_NESTED, *SUFFIXES)
_HUB = "hub:rajpurkar/squad:plain_text"
_SPLITS = {
    "train": SplitLocation(("train-v1.1", "train"), f"{_HUB}:train", _ENDINGS),
    "dev": SplitLocation(("dev-v1.1", "dev", "validation"), f"{_HUB}:validation", _ENDINGS),
}
_NEAR = 20
"""The largest distance of an answer from its stated position: some tools count bytes, others collapse spaces."""
V = TypeVar("V")


@register_task(
    reads=lambda values: values.get("answer") == SPANS.name,
    changeable=("metric", "rows", "bad_rows"),
)
@dataclass(frozen=True)
class SquadTask(OfFiles):
    """Questions whose `answer` is a span of their context: the task `name`, its files `train`, `dev`, its `metric`."""

    labels: ClassVar = SPANS.outputs
    label_words: ClassVar = ("Yes", "No")
    """The words whose logits, at each token, are those of the answer's start and end (SMP)."""
    shortcut: ClassVar = "unknown"

    train: str
    dev: str
    ood: tuple[tuple[str, str], ...] = ()
    """(name, file) of each out-of-distribution test set, in the same format."""
    name: str = SQUAD
    metric: Annotated[Metric, OneOf(SPANS.metrics)] = "span_f1"
    rows: tuple[tuple[str, Count], ...] = ()
    """At most so many questions of a split, always the same ones: {"train": 20000}."""
    bad_rows: BadRows = "refuse"
    """`skip` leaves out questions whose answer is not in their context, and counts them."""
    answer: Literal["span"] = "span"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_splits()

    def load(self) -> Task:
        notes: list[str] = []
        splits = {name: self._read(name, source, notes) for name, source in self.sources.items()}
        return Task(
            name=self.name,
            labels=self.labels,
            metric=self.metric,
            shortcut=self.shortcut,
            train=splits["train"],
            dev=splits["dev"],
            ood={name: splits[name] for name, _ in self.ood},
            notes=tuple(notes),
            answer=self.answer,
            label_words=self.label_words,
        )

    def _read(self, name: str, source: str, notes: list[str]) -> SpanSplit:
        rows: list[_Row] = []
        skipped: list[str] = []
        contexts: dict[str, str] = {}  # one copy of each
        for question in _questions(source):
            row = _row(question, f"{source}, question '{shortened(question.id, 80)}'", contexts)
            if isinstance(row, _Row):
                rows.append(row)
            elif self.bad_rows == "skip":
                skipped.append(question.id)
            else:
                raise UserError(row, "correct it, or leave such questions out: bad_rows: skip (--bad-rows skip)")
        if not rows:
            raise UserError(f"{source} holds no questions with answers", "is it a file of SQuAD v1.1?")
        notes += [f"{name}: {note}" for note in _notes(sum(not row.as_stated for row in rows), skipped)]
        return self.sampled(_split(name, self.kind_of(name), rows), notes)


def squad_task(folder: Path | None = None, ood: Mapping[str, str] | None = None, **options: Any) -> SquadTask:
    """SQuAD v1.1 from `folder` or the Hub. `ood` adds test files by name; `options` are those of `SquadTask`."""
    folder = dataset_folder(folder, "squad", "SQuAD")
    train, dev = (location.require(SQUAD, split, folder) for split, location in _SPLITS.items())
    return SquadTask(train, dev, tuple((ood or {}).items()), **options)


DATASETS[SQUAD] = squad_task


# --- from a question to a row --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    id: str
    text: str
    context: str
    answers: tuple[tuple[str, int], ...]
    """(text, first character) of each."""


class _Row(NamedTuple):
    id: str
    question: str
    context: str
    references: tuple[str, ...]
    span: tuple[int, int]
    as_stated: bool
    """Whether the answer is at its stated position."""


def _row(question: _Question, where: str, contexts: dict[str, str]) -> _Row | str:
    """The row of a question, or the problem with it."""
    texts = tuple(text for text, _ in question.answers)
    if not texts:
        raise UserError(
            f"{where} has no answer, as in SQuAD v2: unanswerable questions are not supported",
            "give files of SQuAD v1.1",
        )
    if problem := _problem(question):
        return f"{where}: {problem}"
    if (found := _answer_in(question)) is None:
        return f"{where}: the answer '{shortened(texts[0], 80)}' is not in the context"
    context = contexts.setdefault(question.context, question.context)
    return _Row(question.id, question.text.strip(), context, texts, *found)


def _split(name: str, kind: SplitKind, rows: list[_Row]) -> SpanSplit:
    ids, questions, contexts, references, spans, _ = zip(*rows, strict=True)
    labels, groups = np.array(spans, dtype=np.int64), ("",) * len(rows)
    return SpanSplit(name, kind, ids, questions, contexts, labels, groups, references=references)


def _notes(realigned: int, skipped: list[str]) -> Iterator[str]:
    if realigned:
        yield f"{realigned:,} answers are not at the stated position; found elsewhere"
    if skipped:
        ids = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        yield f"{len(skipped):,} questions that cannot be read were left out ({ids})"


def _problem(question: _Question) -> str | None:
    texts = tuple(text for text, _ in question.answers)
    if not question.text.strip():
        return "the question is empty"
    if not all(map(str.strip, texts)):
        return "an answer is empty"
    return broken_character("".join((question.text, question.context, *texts)))


def _answer_in(question: _Question) -> tuple[tuple[int, int], bool] | None:
    """The characters of the first answer that is in the context, and whether it is at the stated position."""
    for text, start in question.answers:
        start += len(text) - len(text.lstrip())
        if span := _located(question.context, text.strip(), start):
            return span, span[0] == start
    return None


def _located(context: str, text: str, start: int) -> tuple[int, int] | None:
    """The answer at its stated position, else its nearest occurrence within `_NEAR`, or its only one.

    Its whitespace may differ from that of the context.
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    found = [match.span() for match in re.finditer(r"\s+".join(map(re.escape, text.split())), context)]
    nearest = min(found, key=lambda span: abs(span[0] - start), default=None)
    return nearest if nearest and (len(found) == 1 or abs(nearest[0] - start) <= _NEAR) else None


# --- from a file to questions --------------------------------------------------------------------------------------


def _questions(source: str) -> Iterator[_Question]:
    if not source.startswith(HUB) and not source.endswith(_ENDINGS):
        raise UserError(f"{source} has an unknown ending", f"give a file that ends in {', '.join(_ENDINGS)}")
    return _nested(source) if source.endswith(_NESTED) else _flat(source)


def _nested(source: str) -> Iterator[_Question]:
    """SQuAD's own format: articles, their paragraphs, and questions about each."""
    for number, article in enumerate(_get(_json(source), "data", list, source), start=1):
        place = f"{source}, article {number}"
        for paragraph in _get(article, "paragraphs", list, place):
            context = _get(paragraph, "context", str, place)
            for question in _get(paragraph, "qas", list, place):
                yield _question(question, context, place)


def _question(found: Any, context: str, place: str) -> _Question:
    id = _get(found, "id", str, f"{place}, a question")
    where = f"{place}, question '{shortened(id, 80)}'"
    text = _get(found, "question", str, where)
    if found.get("is_impossible"):
        return _Question(id, text, context, ())
    answers = tuple(
        (_get(answer, "text", str, where), _get(answer, "answer_start", int, where))
        for answer in _get(found, "answers", list, where)
    )
    return _Question(id, text, context, answers)


def _get(holder: Any, key: str, kind: type[V], where: str) -> V:
    value = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(value, kind):
        return value
    wanted = {list: "a list", str: "a text", int: "a number"}[kind]
    raise UserError(f"{where}: '{key}' is missing or not {wanted}", "give a file in the format of SQuAD v1.1")


def _json(source: str) -> Any:
    with open_source(source) as file:
        text = file.read().decode("utf-8-sig")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(f"{source}{line}: not JSON ({shortened(str(error), 80)})", "is it complete?") from None


def _flat(source: str) -> Iterator[_Question]:
    """One question per row; `answers` is {"text": [...], "answer_start": [...]}."""
    for line, row in read_rows(source):
        where = f"{source}, line {line}"
        missing = [name for name in ("id", "question", "context", "answers") if name not in row]
        if missing:
            raise UserError(f"{where}: no column '{missing[0]}'", columns_here(row))
        for name in ("question", "context"):
            refuse_list("text", row[name], source, line, name)
        answers = _answers(row["answers"], where)
        yield _Question(row["id"], row["question"], row["context"], answers)


def _answers(cell: str, where: str) -> tuple[tuple[str, int], ...]:
    """The answers of a cell, which is text. Only plain literals are accepted, and nothing is executed."""
    try:
        match python_literal(cell):
            case {"text": [*texts], "answer_start": [*starts]} if (
                len(texts) == len(starts)
                and all(isinstance(text, str) for text in texts)
                and all(isinstance(start, int) for start in starts)
            ):
                return tuple(zip(texts, starts, strict=True))
    except ValueError:
        pass
    shape = '{"text": [...], "answer_start": [...]}'
    raise UserError(
        f"{where}: the answers are not {shape}, but {shortened(cell, 80)}", "see rajpurkar/squad on the Hub"
    )
