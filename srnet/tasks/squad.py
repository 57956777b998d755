"""SQuAD v1.1 and data in its format: the original JSON files, or rows as on the Hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np

from srnet.config.fields import Described
from srnet.config.values import Count, OneOf
from srnet.core.errors import UserError, choose
from srnet.core.files import open_data
from srnet.core.names import file_name
from srnet.tasks.answers.spans import SPANS, SpanSplit
from srnet.tasks.base import Metric, Shortcut, Task
from srnet.tasks.files import BadRows
from srnet.tasks.layout import refuse_list
from srnet.tasks.reading import DAMAGED, HUB, SUFFIXES, brief, literal, read_rows, suffix_of
from srnet.tasks.splits import Kind

SQUAD = "squad"
HUB_SPLITS = {"train": "hub:rajpurkar/squad:plain_text:train", "dev": "hub:rajpurkar/squad:plain_text:validation"}
STEMS = {"train": ("train-v1.1", "train"), "dev": ("dev-v1.1", "dev", "validation")}
NESTED = (".json", ".json.gz")
"""Endings of SQuAD's own files, one JSON document each; other files have one question per row."""
ENDINGS = (*NESTED, *SUFFIXES)
NEAR = 20
"""The largest distance of an answer from its stated position: some tools count bytes, others collapse spaces."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class SquadTask(Described):
    """Questions answered by a span of their context. Everything under `ood` is scored, and never trained on."""

    answer: ClassVar = SPANS.name
    labels: ClassVar = SPANS.outputs
    label_words: ClassVar = ("Yes", "No")
    """The words whose logits, at each token, are those of the answer's start and end (SMP)."""

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

    def __post_init__(self) -> None:
        super().__post_init__()
        file_name("a task", self.name)
        tests = [file_name("a test set", name) for name, _ in self.ood]
        taken = [name for n, name in enumerate(tests) if name in ("train", "dev", *tests[:n])]
        if taken:
            raise UserError(f"a test file cannot be called '{taken[0]}': the name is taken", "choose another name")
        for name, _ in self.rows:
            choose("split under rows", name, ("train", "dev", *tests))

    @property
    def shortcut(self) -> Shortcut:
        return "unknown"

    @property
    def files(self) -> dict[str, str]:
        """Every file by the name of its split."""
        return {"train": self.train, "dev": self.dev, **dict(self.ood)}

    def resolved(self, folder: Path) -> SquadTask:
        """The same with absolute paths; relative ones start at `folder`."""

        def place(source: str) -> str:
            return source if source.startswith(HUB) else str((folder / source).resolve())

        ood = tuple((name, place(source)) for name, source in self.ood)
        return replace(self, train=place(self.train), dev=place(self.dev), ood=ood)

    def load(self) -> Task:
        notes: list[str] = []
        splits = {name: self._read(name, notes) for name in self.files}
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

    def _read(self, name: str, notes: list[str]) -> SpanSplit:
        columns = _Columns(self.files[name], skip=self.bad_rows == "skip")
        for question in _questions(self.files[name]):
            columns.add(question)
        split = columns.split(name, "ID" if name in ("train", "dev") else "OOD")
        notes += [f"{name}: {note}" for note in columns.notes()]
        wanted = dict(self.rows).get(name, len(split))
        if wanted >= len(split):
            return split
        notes.append(f"{name}: {wanted:,} of {len(split):,} rows")
        return split.sample(wanted)


def squad_task(folder: Path | None = None, ood: Mapping[str, str] | None = None, **options: Any) -> SquadTask:
    """SQuAD v1.1 from `folder`, or from the Hub without one. `ood` adds test files by name."""
    if folder is None:
        files = HUB_SPLITS
    else:  # perhaps a folder of several datasets
        folder = next((folder / each for each in ("squad", "SQuAD") if (folder / each).is_dir()), folder)
        files = {split: _found(split, folder) for split in STEMS}
    return SquadTask(files["train"], files["dev"], tuple((ood or {}).items()), **options)


def _found(split: str, folder: Path) -> str:
    paths = (folder / f"{stem}{ending}" for stem in STEMS[split] for ending in ENDINGS)
    if path := next((path for path in paths if path.is_file()), None):
        return str(path)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder", "give the folder with the files of squad")
    wanted = " or ".join(f"{stem}.json" for stem in STEMS[split])
    raise UserError(f"{folder} has no {split} file of squad", f"it must be called {wanted}")


# --- from a question to a row --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    id: str
    text: str
    context: str
    answers: tuple[tuple[str, int], ...]
    """(text, first character) of each."""


class _Columns:
    """The columns of one file."""

    def __init__(self, source: str, skip: bool) -> None:
        self.source, self.skip = source, skip
        self.ids: list[str] = []
        self.questions: list[str] = []
        self.contexts: list[str] = []
        self.references: list[tuple[str, ...]] = []
        self.spans: list[tuple[int, int]] = []
        self.realigned = 0
        self.skipped: list[str] = []
        self._seen: dict[str, str] = {}

    def add(self, question: _Question) -> None:
        where = f"{self.source}, question '{brief(question.id)}'"
        texts = tuple(text for text, _ in question.answers)
        if not texts:
            raise UserError(
                f"{where} has no answer, as in SQuAD v2: unanswerable questions are not supported",
                "give files of SQuAD v1.1",
            )
        if problem := _problem(question):
            return self._bad(question, f"{where}: {problem}")
        found = _answer_in(question)
        if found is None:
            return self._bad(question, f"{where}: the answer '{brief(texts[0])}' is not in the context")
        span, as_stated = found
        self.realigned += not as_stated
        self.ids.append(question.id)
        self.questions.append(question.text.strip())
        self.contexts.append(self._seen.setdefault(question.context, question.context))
        self.references.append(texts)
        self.spans.append(span)
        return None

    def _bad(self, question: _Question, problem: str) -> None:
        if not self.skip:
            raise UserError(problem, "correct it, or leave such questions out: bad_rows: skip (--bad-rows skip)")
        self.skipped.append(question.id)

    def split(self, name: str, kind: Kind) -> SpanSplit:
        if not self.ids:
            raise UserError(f"{self.source} holds no questions with answers", "is it a file of SQuAD v1.1?")
        return SpanSplit(
            name=name,
            kind=kind,
            ids=tuple(self.ids),
            text_a=tuple(self.questions),
            text_b=tuple(self.contexts),
            labels=np.array(self.spans, dtype=np.int64),
            groups=("",) * len(self.ids),
            references=tuple(self.references),
        )

    def notes(self) -> list[str]:
        notes = []
        if self.realigned:
            notes.append(f"{self.realigned:,} answers are not at the stated position; found elsewhere")
        if self.skipped:
            ids = ", ".join(self.skipped[:5]) + (", ..." if len(self.skipped) > 5 else "")
            notes.append(f"{len(self.skipped):,} questions that cannot be read were left out ({ids})")
        return notes


def _problem(question: _Question) -> str | None:
    texts = tuple(text for text, _ in question.answers)
    if not question.text.strip():
        return "the question is empty"
    if not all(map(str.strip, texts)):
        return "an answer is empty"
    if _SURROGATE.search("".join((question.text, question.context, *texts))):
        return "half a character (\\ud800 to \\udfff), which no model can read"
    return None


def _answer_in(question: _Question) -> tuple[tuple[int, int], bool] | None:
    """The characters of the first answer that is in the context, and whether it is at the stated position."""
    for text, start in question.answers:
        start += len(text) - len(text.lstrip())
        if span := _located(question.context, text.strip(), start):
            return span, span[0] == start
    return None


def _located(context: str, text: str, start: int) -> tuple[int, int] | None:
    """The answer at its stated position, else its nearest occurrence within `NEAR`, or its only one.

    Its whitespace may differ from that of the context.
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    found = [match.span() for match in re.finditer(r"\s+".join(map(re.escape, text.split())), context)]
    nearest = min(found, key=lambda span: abs(span[0] - start), default=None)
    return nearest if nearest and (len(found) == 1 or abs(nearest[0] - start) <= NEAR) else None


# --- from a file to questions --------------------------------------------------------------------------------------


def _questions(source: str) -> Iterator[_Question]:
    if not source.startswith(HUB) and suffix_of(source) in NESTED:
        yield from _nested(source)
    elif source.startswith(HUB) or suffix_of(source) in SUFFIXES:
        yield from _flat(source)
    else:
        raise UserError(f"{source} has an unknown ending", f"give a file that ends in {', '.join(ENDINGS)}")


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
    where = f"{place}, question '{brief(id)}'"
    text = _get(found, "question", str, where)
    if found.get("is_impossible"):
        return _Question(id, text, context, ())
    answers = tuple(
        (_get(answer, "text", str, where), _get(answer, "answer_start", int, where))
        for answer in _get(found, "answers", list, where)
    )
    return _Question(id, text, context, answers)


def _get(holder: Any, key: str, kind: type[_Kind], where: str) -> _Kind:
    value = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(value, kind):
        return value
    wanted = {list: "a list", str: "a text", int: "a number"}[kind]
    raise UserError(f"{where}: '{key}' is missing or not {wanted}", "give a file in the format of SQuAD v1.1")


def _json(source: str) -> Any:
    try:
        with open_data(source) as file:
            return json.loads(file.read().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UserError(f"{source}, line {error.lineno}: not JSON ({error.msg})", "is it complete?") from None
    except UnicodeDecodeError:
        raise UserError(f"{source}: not UTF-8 text", "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{source}: not JSON ({brief(str(error))})", "is it complete?") from None
    except DAMAGED as error:
        raise UserError(f"{source} is a damaged or truncated gzip file ({error})", "fetch it again") from None
    except FileNotFoundError:
        raise UserError(f"{source} does not exist", "check the path") from None
    except OSError as error:
        raise UserError(f"{source} cannot be read ({error.strerror or error})", "check the path") from None


def _flat(source: str) -> Iterator[_Question]:
    """One question per row; `answers` is {"text": [...], "answer_start": [...]}."""
    for line, row in read_rows(source):
        where = f"{source}, line {line}"
        missing = [name for name in ("id", "question", "context", "answers") if name not in row]
        if missing:
            raise UserError(f"{where}: no column '{missing[0]}'; columns here: {brief(', '.join(row), 500)}")
        for name in ("question", "context"):
            refuse_list("text", row[name], source, line, name)
        answers = _answers(row["answers"], where)
        yield _Question(row["id"], row["question"], row["context"], answers)


def _answers(cell: str, where: str) -> tuple[tuple[str, int], ...]:
    """The answers of a cell, which is text. Only plain literals are accepted, and nothing is executed."""
    try:
        match literal(cell):
            case {"text": [*texts], "answer_start": [*starts]} if (
                len(texts) == len(starts)
                and all(isinstance(text, str) for text in texts)
                and all(isinstance(start, int) for start in starts)
            ):
                return tuple(zip(texts, starts, strict=True))
    except ValueError:
        pass
    shape = '{"text": [...], "answer_start": [...]}'
    raise UserError(f"{where}: the answers are not {shape}, but {brief(cell)}", "see rajpurkar/squad on the Hub")
