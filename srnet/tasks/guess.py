"""Which columns of a file are its texts and its label: by their names, and by what they contain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

from srnet.core.errors import UserError, shortened
from srnet.tasks.reading import is_table, read_rows

_FIRST = {
    "hypothesis": ("premise", "context", "evidence"),
    "claim": ("evidence", "evidencesentence", "evidencetext", "context", "article", "document", "passage", "premise"),
    "question": ("passage", "context", "paragraph"),
    "summary": ("document", "article"),
    "statement": ("context", "evidence", "passage"),
    "response": ("context", "prompt"),
    "sentence": ("question",),
    "answer": ("question",),
}
"""The second text of a pair, and the names that its first text may have. The second is what is judged."""
_NUMBERED = ("text", "sentence", "question", "sent", "string", "s", "q", "document", "input", "comment", "phrase")
"""Pairs whose names differ in a number or a letter: sentence1 and sentence2, text_a and text_b."""
_TEXTS = (
    ("text", "texts", "review", "reviewtext", "reviewbody", "sentence", "comment", "commenttext", "content", "tweet",
     "body", "message", "utterance", "post", "sms", "query", "question", "document", "phrase", "input", "article"),
    ("claim", "statement", "headline", "title", "description", "summary", "abstract", "subject", "passage"),
)  # fmt: skip
"""Names of a single text; a title stands beside the text."""
_LABELS = (
    ("goldlabel",),
    ("label", "labels"),
    ("class", "target", "sentiment", "category", "verdict", "y", "gold", "stance", "polarity", "intent", "topic",
     "emotion", "toxic", "toxicity", "istoxic", "spam", "isspam", "isduplicate", "duplicate", "relation", "quality",
     "score", "similarity", "rating", "stars", "labelname", "labeltext", "outcome", "entailmentjudgment"),
)  # fmt: skip
_SAMPLE = 2000
"""Rows whose texts are looked at."""
_FEW = 100
"""Different values of a label column, at most."""
_FEWER = 20
"""The same where the name of the column says nothing."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Columns(NamedTuple):
    """The columns that are read."""

    text_a: str
    text_b: str | None
    """None: single texts."""
    label: str
    unread: tuple[str, ...] = ()
    """Further columns that contain texts."""

    @property
    def fields(self) -> dict[str, Any]:
        """Those of a `FilesTask`."""
        return {"text_a": self.text_a, "text_b": self.text_b, "label": self.label}


@dataclass
class _Column:
    """What is known of a column."""

    name: str
    rows: int = 0
    values: Counter[str] = field(default_factory=Counter)
    """Its values, if they are few; the first of them otherwise."""
    sample: list[str] = field(default_factory=list)

    def add(self, cell: str) -> None:
        self.rows += 1
        if len(self.values) <= _FEW or cell in self.values:
            self.values[cell] += 1
        if len(self.sample) < _SAMPLE:
            self.sample.append(cell)

    @property
    def plain(self) -> str:
        """Its name without case, spaces and signs; an index that pandas wrote has none."""
        return re.sub(r"[\W_]+", "", self.name).casefold()

    @property
    def is_numeric(self) -> bool:
        return all(_NUMBER.fullmatch(cell.strip()) for cell in self.sample)

    @property
    def is_text(self) -> bool:
        """Whether the cells are texts rather than names, numbers or categories: several words, and mostly distinct."""
        words = sum(map(_words, self.sample)) / len(self.sample)
        distinct = len(set(self.sample))
        return words >= 2 and distinct >= max(2, 0.1 * len(self.sample)) and not self.is_numeric

    def is_label(self, most: int) -> bool:
        return 2 <= len(self.values) <= min(most, self.rows // 2)


def _words(cell: str) -> float:
    """Scripts without spaces have about two characters a word."""
    return len(cell.split()) if cell.isascii() else max(len(cell.split()), len(cell) / 6)


def guess_columns(
    source: str,
    names: tuple[str, ...] = (),
    *,
    text_a: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    numbers: bool = False,
) -> Columns:
    """The columns of a file, where they are not given. `text_b` is empty for single texts, `numbers`: for scores.

    `names` are those of a file without a header. What is ambiguous is an error that lists the columns.
    """
    if label and text_a and text_b is not None:
        return Columns(text_a, text_b or None, label)
    table = _Table.of(source, names)
    table.require(text_a, text_b, label)
    named = label or table.label_by_name(numbers)
    texts = table.without(named).texts(text_a, text_b)
    rest = table.without(named, *texts)
    found = named or rest.label_by_content(numbers)
    read = [each.sample for each in table.columns if each.name in texts]
    unread = (each.name for each in rest.columns if each.name != found and each.is_text and each.sample not in read)
    return Columns(*texts, found, tuple(unread))


@dataclass(frozen=True)
class _Table:
    """A file and those of its columns that are still to be chosen from."""

    source: str
    columns: Sequence[_Column]
    every: Sequence[_Column]

    @classmethod
    def of(cls, source: str, names: tuple[str, ...]) -> _Table:
        found: dict[str, _Column] = {}
        for _, row in read_rows(source, lambda *_: None, names):
            for name, cell in row.items():
                if cell.strip():
                    found.setdefault(name, _Column(name)).add(cell)
        columns = list(found.values())
        if not columns:
            raise UserError(f"{source} holds no rows", "give it a header and at least one example")
        if not names and is_table(source):
            _require_header(source, columns)
        return cls(source, columns, columns)

    def without(self, *names: str | None) -> _Table:
        return replace(self, columns=[each for each in self.columns if each.name not in names])

    def require(self, *given: str | None) -> None:
        """Refuse columns that are given and not there. Alternatives, `a|b`, are looked for in each file."""
        for name in given:
            if name and "|" not in name and name not in [each.name for each in self.columns]:
                raise self.unclear(f"no column '{shortened(name, 80)}'")

    def unclear(self, problem: str) -> UserError:
        names = shortened(", ".join(each.name for each in self.every), 300)
        return UserError(
            f"{self.source}: {problem}; its columns: {names}",
            "name them: --text COLUMN, or --text-a and --text-b COLUMN for pairs, and --label COLUMN",
        )

    def may_be(self, what: str, names: Iterable[str]) -> UserError:
        candidates = " or ".join(names)
        return self.unclear(f"{candidates} may be {what}" if candidates else f"no column looks like {what}")

    # --- the label -------------------------------------------------------------------------------------------------

    def label_by_name(self, numbers: bool) -> str | None:
        for names in _LABELS:
            called = [each for each in self.columns if each.plain in names and not each.is_text]
            usable = [each for each in called if (each.is_numeric if numbers else each.is_label(_FEW))]
            if len(usable) > 1:
                raise self.may_be("the label", (each.name for each in usable))
            if usable or (called and names is not _LABELS[-1]):  # what a column called label holds is refused as such
                return (usable or called)[0].name
            if not numbers and (of_numbers := [each.name for each in called if each.is_numeric]):
                raise self.unclear(f"'{of_numbers[0]}' has many numbers (--answer score predicts them)")
        return None

    def label_by_content(self, numbers: bool) -> str:
        usable = [each.name for each in self.columns if not numbers and each.is_label(_FEWER) and not each.is_text]
        if len(usable) != 1:
            raise self.may_be("the label", usable)
        return usable[0]

    # --- the texts -------------------------------------------------------------------------------------------------

    def texts(self, text_a: str | None, text_b: str | None) -> tuple[str, str | None]:
        if text_a and text_b is not None:
            return text_a, text_b or None
        if text_b:
            raise self.unclear("the first text of the pairs is not given")
        pairs = self.pairs() if text_b is None else []
        if text_a:
            pairs = [pair for pair in pairs if pair[0] == text_a]
            if not pairs:
                raise self.unclear(f"the second text is not given (--text {text_a}: there is none)")
        if len(pairs) > 1:
            raise self.may_be("the texts", (" and ".join(pair) for pair in pairs))
        return pairs[0] if pairs else (self.single(), None)

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of columns whose names say that they belong together; of two with the same content, the first."""
        of_content = [each for each in self.columns if each.is_text]
        not_numbers = [each for each in self.columns if not each.is_numeric]
        found = [pair for each in combinations(not_numbers, 2) if (pair := _known_pair(*each))]
        found = found or [pair for each in combinations(of_content, 2) if (pair := _numbered_pair(*each))]
        content = {each.name: tuple(each.sample) for each in self.columns}
        distinct = {tuple(content[name] for name in pair): pair for pair in reversed(found)}
        return list(reversed(distinct.values()))

    def single(self) -> str:
        for names in _TEXTS:
            called = [each.name for each in self.columns if each.plain in names and not each.is_numeric]
            if len(called) > 1:
                raise self.may_be("the text", called)
            if called:
                return called[0]
        texts = [each.name for each in self.columns if each.is_text]
        if len(texts) != 1:
            raise self.may_be("the text", texts)
        return texts[0]


def _require_header(source: str, columns: Sequence[_Column]) -> None:
    """Refuse a file whose first line is an example: a name is then also a value, or a text."""
    for each in columns:
        if (len(each.values) <= _FEW and each.name in each.values) or len(each.name.split()) > 8:
            fix = f"without a header, name its {len(columns)} columns: --columns A,B,...; with one: --text and --label"
            raise UserError(f"{source}: '{shortened(each.name, 80)}' in its first line looks like a value", fix)


def _known_pair(one: _Column, other: _Column) -> tuple[str, str] | None:
    for first, second in ((one, other), (other, one)):
        if first.plain in _FIRST.get(second.plain, ()):
            return first.name, second.name
    return _numbered_pair(one, other, _NUMBERED)


def _numbered_pair(one: _Column, other: _Column, stems: Sequence[str] = ()) -> tuple[str, str] | None:
    """The columns if their names differ in 1 and 2 or in a and b alone, the rest being one of `stems`, if any."""
    for first, second in ((one, other), (other, one)):
        for place, character in enumerate(first.plain):
            before, after = first.plain[:place], first.plain[place + 1 :]
            following = {"1": "2", "a": "b"}.get(character)
            if following and second.plain == before + following + after and (not stems or before + after in stems):
                return first.name, second.name
    return None
