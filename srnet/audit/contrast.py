"""Rules that change rows of a task, each with the answer that the changed row must get.

A rule is a function of a `Row` that returns a `Changed` row, or None where it does not apply. `register` adds it to
those of every audit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from srnet.core.names import loose_name


class Expected(Enum):
    """What must become of an answer. Not a text, since a task may have a label "same"."""

    SAME = "same"
    """The model must answer as on the original row, whatever that answer was."""
    FLIP = "flip"
    """The model must not answer with the label of the original row."""


SAME, FLIP = Expected.SAME, Expected.FLIP

_FOLLOWS = {loose_name(each) for each in ("entailment", "entailed", "entails", "supports", "supported")}
_OPEN = {loose_name(each) for each in ("neutral", "not enough info", "NEI", "unknown")}
_ALIKE = {loose_name(each) for each in ("duplicate", "equivalent", "paraphrase", "is_duplicate", "similar")}


@dataclass(frozen=True)
class Row:
    """An example that a rule may change."""

    text_a: str
    text_b: str
    label: str
    """Its true label, as the task writes it."""
    labels: tuple[str, ...]
    """All labels of the task."""


@dataclass(frozen=True)
class Changed:
    """A changed row. `expected`: `SAME`, `FLIP`, or the label that is true of it."""

    text_a: str
    text_b: str
    expected: Expected | str = SAME


Change = Callable[[Row], Changed | None]
Applies = Callable[[tuple[str, ...]], bool]


def _every_task(labels: tuple[str, ...]) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """A named change of rows."""

    name: str
    says: str
    """What is changed, and which answer is right afterwards."""
    change: Change
    applies: Applies = _every_task
    """Whether the rule is for tasks with these labels."""


RULES: dict[str, Rule] = {}
"""The rules of every audit, by name."""


def register(name: str, says: str, applies: Applies = _every_task) -> Callable[[Change], Change]:
    """A decorator that registers a function as a rule; a rule of the same name is replaced."""

    def add(change: Change) -> Change:
        RULES[name] = Rule(name, says, change, applies)
        return change

    return add


# --- kinds of tasks, by their labels ---


def _entailed(labels: tuple[str, ...]) -> str | None:
    """The label of pairs whose second text follows from the first, if the task has one."""
    return next((label for label in labels if loose_name(label) in _FOLLOWS), None)


def _is_entailment(labels: tuple[str, ...]) -> bool:
    return _entailed(labels) is not None


def _is_paraphrase(labels: tuple[str, ...]) -> bool:
    """Whether the labels say if two texts mean the same, so that the order of the texts does not matter."""
    return any(loose_name(label) in _ALIKE for label in labels)


def _is_either(labels: tuple[str, ...]) -> bool:
    return _is_paraphrase(labels) or _is_entailment(labels)


# --- the rules -----------------------------------------------------------------------------------------------------


@register("swap-texts", "the two texts change places; the answer stays the same", _is_paraphrase)
def _swap_texts(row: Row) -> Changed | None:
    return Changed(row.text_b, row.text_a)


@register("repeat-claim", "the first text also says what the second says, so the second follows", _is_entailment)
def _repeat_claim(row: Row) -> Changed | None:
    """A changed row, unless it may be a contradiction: then the first text would contradict itself."""
    entailed = _entailed(row.labels)
    if not row.text_b.strip() or entailed is None or not (row.label == entailed or loose_name(row.label) in _OPEN):
        return None
    return Changed(f"{_ended(row.text_a)} {row.text_b}", row.text_b, entailed)


@register(
    "shared-clause", "a clause is added that shares words but says nothing; the answer stays the same", _is_either
)
def _shared_clause(row: Row) -> Changed | None:
    """A changed row. In entailment tasks the first text asks about the second, else both get the same clause."""
    question = _unended(row.text_b)
    if not question:
        return None
    if _is_entailment(row.labels):
        return Changed(f"{_ended(row.text_a)} Somebody asked whether {_decapitalised(question)}.", row.text_b)
    return Changed(f"{row.text_a} That is what was said.", f"{row.text_b} That is what was said.")


@register("case-and-punctuation", "letter case and final punctuation change; the answer stays the same")
def _case_and_punctuation(row: Row) -> Changed | None:
    return Changed(_restyled(row.text_a), _restyled(row.text_b))


@register("swap-names", "two names change places in both texts; the answer stays the same")
def _swap_names(row: Row) -> Changed | None:
    found = _names_in(row.text_a, row.text_b)
    if len(found) < 2:
        return None
    one, other = found[:2]
    return Changed(_exchanged(row.text_a, one, other), _exchanged(row.text_b, one, other))


# --- changes of a text ---------------------------------------------------------------------------------------------

_SIGNS = ".!?"
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b")
_NO_NAMES = frozenset(
    {
        *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
        *("November", "December", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        *("Christmas", "Easter", "English", "French", "German", "Spanish", "American", "British", "God", "Internet"),
        *("The", "An", "Is", "Are", "Was", "Do", "Does", "Did", "Can", "Will", "Should", "Has", "Have", "Be", "Not"),
        *("What", "How", "Why", "Which", "Who", "When", "Where", "If", "And", "Or", "But", "Of", "To", "In", "On"),
        *("At", "For", "With", "From", "By", "It", "He", "She", "They", "We", "You", "My", "Your", "This", "That"),
        *("Mr", "Mrs", "Ms", "Dr", "Sir", "Lord", "Lady", "Saint", "President", "Prime", "Minister", "King", "Queen"),
        "There",
    }
)
"""Words with a capital letter that are not names, or that the rest of a text may depend on."""


def _unended(text: str) -> str:
    """The text without final punctuation marks."""
    return text.rstrip().rstrip(_SIGNS).rstrip()


def _ended(text: str) -> str:
    """The text with a final punctuation mark."""
    stripped = text.rstrip()
    return stripped if not stripped or stripped[-1] in _SIGNS else f"{stripped}."


def _decapitalised(text: str) -> str:
    """The text without its capital letter; a first word that has further ones, or only one letter (`I`), keeps it."""
    first = text.split(" ", 1)[0]
    return text if not first[1:].islower() else text[:1].lower() + text[1:]


def _restyled(text: str) -> str:
    """The text in lower case, or capitalised if it was so before; its final mark is removed, or a full stop added."""
    lowered = text.lower()
    cased = lowered if lowered != text else text[:1].upper() + text[1:]
    bare = _unended(cased)
    return cased if not bare else bare if bare != cased.rstrip() else f"{bare}."


def _names_in(*texts: str) -> list[str]:
    """Names in order: capitalised words inside a sentence.

    The first word of a sentence always has a capital, so it counts only if it also stands inside one.
    """
    whole = list(dict.fromkeys(name for text in texts for name in _names(text)))
    # "Ann" beside "Ann Lee" may be the same person
    parts = {word for name in whole if " " in name for word in name.split()}
    return [name for name in whole if name not in parts]


def _names(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text):
        before, words = text[: found.start()].rstrip(), found.group().split()
        inside = words[1:] if not before or before[-1] in f'{_SIGNS}:"' else words
        if inside and not _NO_NAMES & set(inside):
            yield " ".join(inside)


def _exchanged(text: str, one: str, other: str) -> str:
    both = {one: other, other: one}
    either = "|".join(re.escape(each) for each in sorted(both, key=len, reverse=True))
    return re.sub(rf"\b(?:{either})\b", lambda found: both[found.group()], text)
