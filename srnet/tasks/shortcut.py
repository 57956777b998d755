"""How a shortcut is written: `kind` or `kind:argument`; several are a list, or have commas between them."""

from __future__ import annotations

from collections.abc import Callable

from srnet.core.errors import UserError
from srnet.tasks.reading import SUFFIXES

Shortcut = str | tuple[str, ...]
"""What a bias model reads. `srnet/bias/shortcuts` has the kinds; a name that is none of them is a column."""
_FILES = (*SUFFIXES, ".npz")


def shortcut_texts(shortcut: Shortcut | list[str]) -> tuple[str, ...]:
    """The single shortcuts, each once."""
    given = (shortcut,) if isinstance(shortcut, str) else shortcut
    texts = tuple(dict.fromkeys(part.strip() for text in given for part in text.split(",")))
    if not texts or not all(texts):
        raise UserError(f"{shortcut!r:.80} names no shortcut", "give one, or several with commas between them")
    return texts


def canonical(shortcut: Shortcut | list[str]) -> Shortcut:
    """One text where there is one shortcut, else a tuple."""
    texts = shortcut_texts(shortcut)
    return texts if len(texts) > 1 else texts[0]


def with_file_paths(shortcut: Shortcut, change: Callable[[str], str]) -> Shortcut:
    """The same with every path of a file changed, such as that of `scores:FILE.csv`."""
    parted = [text.partition(":") for text in shortcut_texts(shortcut)]
    texts = (f"{kind}:{change(rest)}" if is_file(rest) else f"{kind}{colon}{rest}" for kind, colon, rest in parted)
    return canonical(tuple(texts))


def is_file(argument: str) -> bool:
    """Whether the argument of a shortcut is a file and no column, by its ending: the file need not exist."""
    return argument.endswith(_FILES)
