"""Names that several rooms use, and the rule for names that users choose.

Imports nothing heavy, so that `srnet --help` is quick.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from srnet.core.errors import UserError, shortened

EMBEDDED = "srnet-tiny"
"""The backbone that ships with the package."""

EMBEDDED_OTHER = "srnet-small"
"""The other one, with one layer more: to check whether a finding depends on the backbone."""

EMBEDDED_DECODER = "srnet-decoder"
"""The language model that ships with the package, of a toy grammar with a planted stereotype."""

DOWNLOAD_VARIABLE = "SRNET_DOWNLOAD"
"""Set to 1 to allow downloads from the hub."""

AS_IS = "encodes_as_is"
"""An attribute of tokenizers: whether texts are encoded as plain transformers does, with nothing added to pairs."""

FILLS_MASKS = "fills_masks"
"""An attribute of tokenizers: whether their language model predicts masked tokens, not the next ones."""

LONGEST_NAME = 100
"""In bytes: file systems allow 255, and endings and temporary names are added."""
_FORBIDDEN = re.compile(r"""[/\\:*?"<>|]|[^ -~\w]|^[ .-]|[ .]$""")
_RESERVED = re.compile(r"(file|allow_pickle|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names of arguments of `numpy.savez`, and of devices."""


def file_name(what: str, name: str) -> str:
    """`name` if a file can be called that on every system, else an error."""
    if not isinstance(name, str):
        raise UserError(f"the name of {what} must be a string, not {name!r:.80}")
    if not name or _FORBIDDEN.search(name) or _RESERVED.fullmatch(name) or len(name.encode()) > LONGEST_NAME:
        raise UserError(
            f"{what} cannot be called '{name}': files are named after it",
            f"use at most {LONGEST_NAME} letters, digits, spaces, '.', '_' and '-', a letter or a digit first",
        )
    return name


# --- names of labels -----------------------------------------------------------------------------------------------

_NUMBERED = "LABEL_{}"
_UNNAMED = re.compile(r"label_\d+|\d+", re.IGNORECASE)
"""What Hugging Face calls an output without a name."""


def output_names(count: int, named: Mapping[int, str] | None = None) -> tuple[str, ...]:
    """The names of a model's outputs; those without one are numbered, as Hugging Face does."""
    return tuple(str((named or {}).get(index, _NUMBERED.format(index))) for index in range(count))


def are_unnamed(labels: Sequence[str]) -> bool:
    """Whether a model only numbers its outputs."""
    return all(map(_UNNAMED.fullmatch, labels))


def loose_name(label: str) -> str:
    """Without case, spaces, underscores and hyphens: `NOT ENOUGH INFO` and `not_enough_info` are one label.

    A label without letters is a number, whose hyphen is a sign: only spaces around it are ignored.
    """
    has_letters = any(map(str.isalpha, label))
    return re.sub(r"[\s_-]+", "", label).casefold() if has_letters else label.strip()


def renamed(what: str, theirs: Sequence[str], labels_are: Mapping[str, str]) -> tuple[str, ...]:
    """The labels of a model, those that `labels_are` names under the task's names. `what` names the model."""
    for name in labels_are:
        if name not in theirs:
            raise UserError(f"{what} has no label '{name[:80]}'", f"its labels: {shortened(', '.join(theirs), 200)}")
    return tuple(labels_are.get(name, name) for name in theirs)


def how_to_name(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """The option that names the labels of a model, as an example."""
    pairs = ",".join(f"{their}={own}" for their, own in zip(theirs, ours, strict=True))
    return f"--labels-are {shlex.quote(shortened(pairs, 200))}"


def match_names(
    theirs: Sequence[str], ours: Sequence[str], spellings: Mapping[str, str] | None = None
) -> tuple[int, ...] | None:
    """For each of our labels, the index of the one of theirs that means it; None unless they match one to one.

    Names, and then other spellings, are compared exactly. Only a name that equals none of them is compared loosely,
    and only if that is unambiguous. `LABEL_1` is a spelling of a label that is called `1`.
    """
    numbered = {_NUMBERED.format(label): label for label in ours if label.isdecimal()}
    exact = {**numbered, **(spellings or {}), **{label: label for label in ours}}
    loose: dict[str, set[str]] = {}
    for spelling, label in exact.items():
        loose.setdefault(loose_name(spelling), set()).add(label)

    def meaning(name: str) -> str | None:
        found = {exact[name]} if name in exact else loose.get(loose_name(name), set())
        return next(iter(found)) if len(found) == 1 else None

    meant = [meaning(name) for name in theirs]
    fits = len(theirs) == len(ours) == len(set(meant)) and set(meant) == set(ours)
    return tuple(meant.index(label) for label in ours) if fits else None
