"""Changes of a task's own rows, each with the answer that it must keep or get.

A rule is a small function of a row that returns the changed row, or None where it has nothing to say. `@rule` makes a
`Rule` of it, `register` adds it to those that every audit knows.
"""

from __future__ import annotations

import importlib.util
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType

from srnet.core.errors import UserError
from srnet.core.files import require_readable
from srnet.core.names import loose_name


class Expected(Enum):
    """What must become of an answer. No text, for a task may have a label called "same"."""

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
    """An example as a rule sees it."""

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


@dataclass(frozen=True)
class Rule:
    name: str
    says: str
    """What is done, and what must come of it."""
    change: Change
    applies: Applies
    """Whether tasks with these labels have rows for it."""


def any_task(labels: tuple[str, ...]) -> bool:
    return True


def follows(labels: tuple[str, ...]) -> str | None:
    """The label that says that the second text follows from the first, if the task has one."""
    return next((label for label in labels if loose_name(label) in _FOLLOWS), None)


def asks_what_follows(labels: tuple[str, ...]) -> bool:
    return follows(labels) is not None


def symmetric(labels: tuple[str, ...]) -> bool:
    """Whether the task asks if two texts mean the same, so that their order is of no importance."""
    return any(loose_name(label) in _ALIKE for label in labels)


def pairs(labels: tuple[str, ...]) -> bool:
    return symmetric(labels) or asks_what_follows(labels)


def rule(name: str, says: str, applies: Applies = any_task) -> Callable[[Change], Rule]:
    """Make a rule of a function; `applies` is given the labels of the task."""
    return lambda change: Rule(name, says, change, applies)


def told(error: BaseException) -> str:
    """The type and the text of an exception that a rule raised; the type alone where its `__str__` fails too.

    The caller reports it. Only an error in writing the report of an error is left out.
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the class is the user's own code
        return type(error).__name__


RULES: dict[str, Rule] = {}
"""Those that every audit knows, by name."""


def register(new: Rule) -> Rule:
    RULES[new.name] = new
    return new


# --- the rules -----------------------------------------------------------------------------------------------------


@register
@rule("swap-texts", "the two texts change places; the answer stays the same", symmetric)
def swap_texts(row: Row) -> Changed | None:
    return Changed(row.text_b, row.text_a)


@register
@rule("repeat-claim", "the first text also says what the second says, so the second follows", asks_what_follows)
def repeat_claim(row: Row) -> Changed | None:
    """Not for rows that may be contradictions: then the first text would contradict itself."""
    entailed = follows(row.labels)
    if not row.text_b.strip() or entailed is None or not (row.label == entailed or loose_name(row.label) in _OPEN):
        return None
    return Changed(f"{ended(row.text_a)} {row.text_b}", row.text_b, entailed)


@register
@rule("shared-clause", "a clause is added that shares words but says nothing; the answer stays the same", pairs)
def shared_clause(row: Row) -> Changed | None:
    """Where one text may follow from the other, the first asks about the second; else both get the same clause."""
    question = unended(row.text_b)
    if not question:
        return None
    if asks_what_follows(row.labels):
        return Changed(f"{ended(row.text_a)} Somebody asked whether {decapitalised(question)}.", row.text_b)
    return Changed(f"{row.text_a} That is what was said.", f"{row.text_b} That is what was said.")


@register
@rule("case-and-punctuation", "letter case and final punctuation change; the answer stays the same")
def case_and_punctuation(row: Row) -> Changed | None:
    return Changed(restyled(row.text_a), restyled(row.text_b))


@register
@rule("swap-names", "two names change places in both texts; the answer stays the same")
def swap_names(row: Row) -> Changed | None:
    found = names_in(row.text_a, row.text_b)
    if len(found) < 2:
        return None
    one, other = found[:2]
    return Changed(exchanged(row.text_a, one, other), exchanged(row.text_b, one, other))


# --- what they do with a text --------------------------------------------------------------------------------------

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


def unended(text: str) -> str:
    return text.rstrip().rstrip(_SIGNS).rstrip()


def ended(text: str) -> str:
    """With a final sign."""
    stripped = text.rstrip()
    return stripped if not stripped or stripped[-1] in _SIGNS else f"{stripped}."


def decapitalised(text: str) -> str:
    """Without the capital letter of a sentence; a word that has others, or stands alone as `I`, keeps it."""
    first = text.split(" ", 1)[0]
    return text if not first[1:].islower() else text[:1].lower() + text[1:]


def restyled(text: str) -> str:
    """In lower case, or capitalised if it was so before; without its final sign, or with a stop if it had none."""
    lowered = text.lower()
    cased = lowered if lowered != text else text[:1].upper() + text[1:]
    bare = unended(cased)
    return cased if not bare else bare if bare != cased.rstrip() else f"{bare}."


def names_in(*texts: str) -> list[str]:
    """Names in order: capitalised words inside a sentence. The first word of a sentence is none, for any has a capital.

    It is found all the same if it also stands inside a sentence.
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


def exchanged(text: str, one: str, other: str) -> str:
    both = {one: other, other: one}
    either = "|".join(re.escape(each) for each in sorted(both, key=len, reverse=True))
    return re.sub(rf"\b(?:{either})\b", lambda found: both[found.group()], text)


# --- rules of the user's own, from a Python file that is named on the command line ---


def load_rules(path: Path) -> list[Rule]:
    """Every `Rule` that the file defines, in its order."""
    if not path.exists():
        raise UserError(f"{path} does not exist", "check the path")
    if path.suffix != ".py":
        raise UserError(f"{path} is not a Python file", "give a file of rules, NAME.py")
    require_readable(path)
    defined = (each for each in vars(_run(path)).values() if isinstance(each, Rule))
    found = [each for each in defined if all(each is not known for known in RULES.values())]
    if not found:
        raise UserError(f"{path} defines no rule", "decorate a function with @srnet.audit.contrast.rule(...)")
    for each in found:
        if not isinstance(each.name, str) or not isinstance(each.says, str):
            raise UserError(f"{path}: the name of a rule and what it says must be text", "correct the file")
    names = [*RULES, *(each.name for each in found)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{path}: there are two rules called '{twice}'", "give each a name of its own")
    return found


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"srnet_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be read as Python", "give a file of rules, NAME.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}{_line_in(path, error)}: {told(error)}", "correct the file") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """The last line of the file that took part in the error, if any did: a file that is no text has no lines."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.absolute())]
    line = lines[-1] if lines else getattr(error, "lineno", None)  # of a SyntaxError
    return f", line {line}" if line else ""
