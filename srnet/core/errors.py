"""The exception for errors that a user can correct."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 600
"""Characters of a problem or a fix. Both quote the input, which may be a megabyte."""
BELONG = "its weights, configuration and tokenizer must belong together"
_JOINERS = "\u200c\u200d"
"""Invisible, but words of some languages need them."""


class UserError(Exception):
    """An error that the user can correct. The message is one line: the `problem`, where it is, and the `fix`."""

    def __init__(self, problem: str, fix: str | None = None) -> None:
        super().__init__("; ".join(shortened(part) for part in (problem, fix) if part is not None))

    def _render_traceback_(self) -> list[str]:
        """What a notebook prints instead of a traceback."""
        return [f"UserError: {self}"]


UserError.__module__ = "srnet"  # the last line of a script's traceback: srnet.UserError


def shortened(text: str, longest: int = LONGEST) -> str:
    """`text` on one line, without control characters, and without its middle where it is too long."""
    half = longest // 2
    return printable(text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}")


def printable(text: str) -> str:
    """`text` on one line, without control characters, which a terminal would obey."""
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else "\ufffd"


def reason(error: BaseException) -> str:
    """The first line of what an exception says, or its type if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def running(model: object) -> Iterator[None]:
    """One line for a model or tokenizer of someone else's that fails on its inputs."""
    try:
        with catching_panics():
            yield
    except UserError:
        raise
    except Exception as error:  # configurations, torch and onnxruntime have many names for it
        fix = "use a machine with more memory" if _out_of_memory(error) else BELONG
        raise UserError(f"{model} cannot be run ({reason(error)})", fix) from error


def _out_of_memory(error: Exception) -> bool:
    """torch and onnxruntime have no common class for it."""
    return isinstance(error, MemoryError) or bool(re.search("out of memory|allocate", str(error), re.IGNORECASE))


@contextmanager
def catching_panics() -> Iterator[None]:
    """A panic of a library in Rust, such as tokenizers, as an ordinary exception. It is none, and has no module."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RuntimeError(reason(error)) from error
        raise


def choose(kind: str, name: str, known: object) -> str:
    """`name` if it is one of `known`, else an error that lists them."""
    names = sorted(str(each) for each in known)  # type: ignore[attr-defined]
    if name not in names:
        raise UserError(f"unknown {kind} '{name}'", f"choose one of: {', '.join(names)}")
    return name
