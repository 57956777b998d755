"""How a shortcut is written: `kind` or `kind:argument`.

Several are a list, or one text with commas between them, in which one that has a comma itself is in double quotes.
"""

from __future__ import annotations

from collections.abc import Callable

from srnet.core.errors import UserError
from srnet.core.lists import at_commas, with_commas
from srnet.tasks.reading import SUFFIXES

Shortcut = str | tuple[str, ...]
"""What a bias model reads. `srnet/bias/shortcuts` has the kinds; a name that is none of them is a column."""
_FILES = (*SUFFIXES, ".npz", ".npy")
_OF_FILES = ("scores", "features")
"""The kinds that may read a file; `columns:data.csv` is a column of that name."""


def shortcut_texts(shortcut: Shortcut | list[str]) -> tuple[str, ...]:
    """The single shortcuts, each once."""
    given = at_commas(shortcut) if isinstance(shortcut, str) else shortcut
    texts = tuple(dict.fromkeys(text.strip() for text in given))
    if not texts or not all(texts):
        raise UserError(f"{shortcut!r:.80} names no shortcut", "give one, or several with commas between them")
    return texts


def canonical(shortcut: Shortcut | list[str]) -> Shortcut:
    """A text where there is one shortcut that needs no quotes, else a tuple."""
    texts = shortcut_texts(shortcut)
    return texts[0] if texts[0] == with_commas(texts) else texts


def written(shortcut: Shortcut | list[str]) -> str:
    """As it is given to --shortcut."""
    return with_commas(shortcut_texts(shortcut))


def with_file_paths(shortcut: Shortcut, change: Callable[[str], str]) -> Shortcut:
    """The same with every path of a file changed, such as that of `scores:FILE.csv`."""
    parted = [text.partition(":") for text in shortcut_texts(shortcut)]
    texts = (
        f"{kind}:{change(rest)}" if kind in _OF_FILES and is_file(rest) else f"{kind}{colon}{rest}"
        for kind, colon, rest in parted
    )
    return canonical(tuple(texts))


def is_file(argument: str) -> bool:
    """Whether the argument of a shortcut is a file and no column, by its ending: the file need not exist."""
    return argument.endswith(_FILES)
