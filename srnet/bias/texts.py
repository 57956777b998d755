"""Texts as words: fast, and in chunks, so that a million texts need little memory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from srnet.tasks.base import Task

CHUNK = 8192
"""How many texts (or pairs of them) are held as words at a time."""

_WORD = re.compile(r"\w+")
_SPACE = ord(" ")
# In ASCII a word consists of letters, digits and underscores. Bytes from 128 on only come from `words`, so they stay.
_BETWEEN = bytes(byte for byte in range(128) if not _WORD.match(chr(byte)))
_TO_LOWER = bytes(_SPACE if byte in _BETWEEN else byte for byte in bytes(range(256)).lower())


def words(text: str) -> list[str]:
    """The words of one text, in lower case."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Tokens:
    """The words of some texts in one array, each as its index in `vocabulary`."""

    ids: np.ndarray
    counts: np.ndarray
    """How many words each text has."""
    vocabulary: list[str]

    @property
    def starts(self) -> np.ndarray:
        return np.asarray(np.cumsum(self.counts) - self.counts)


def _as_bytes(text: str) -> str:
    """The words in UTF-8, a character for each byte. Outside of ASCII, lower() and \\w need the text itself."""
    return " ".join(words(text)).encode().decode("latin-1")


def tokenise(texts: Sequence[str]) -> Tokens:
    """The same as `words` of each text, but fast: all texts are one array of bytes."""
    import pyarrow as pa  # not at the top: `--help` imports this module

    plain = [text if text.isascii() else _as_bytes(text) for text in texts]
    text_ends = np.cumsum(np.fromiter(map(len, plain), np.int64, len(plain)) + 1)
    raw = " ".join(("", *plain, "")).encode("latin-1")
    # it begins and ends with a space, so every word has two edges
    in_word = np.frombuffer(raw.translate(_TO_LOWER), np.uint8) != _SPACE
    edges = np.flatnonzero(in_word[1:] != in_word[:-1])
    starts, ends = edges[::2], edges[1::2]
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw.translate(_TO_LOWER, delete=_BETWEEN))]
    encoding = pa.Array.from_buffers(pa.string(), len(starts), buffers).dictionary_encode()
    counts = np.diff(np.searchsorted(starts, text_ends), prepend=0)
    return Tokens(encoding.indices.to_numpy(), counts, encoding.dictionary.to_pylist())


def chunks(size: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, size, CHUNK))


def for_each_chunk(size: int, function: Callable[[slice], None]) -> None:
    """Call `function` on as many threads as torch uses: most of the time is spent outside the GIL."""
    with ThreadPoolExecutor(_threads()) as pool:
        for _ in pool.map(function, chunks(size)):  # reads every result, so that an error is raised here
            pass


def _threads() -> int:
    """The threads of torch, without importing it, which takes longer than to read 100,000 texts."""
    if (torch := sys.modules.get("torch")) is not None:
        return int(torch.get_num_threads())
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return int(wished) if wished.isdecimal() and int(wished) > 0 else os.cpu_count() or 1


def task_vocabulary(task: Task) -> set[str]:
    """Every word of every split: the words to keep of a file of word vectors."""
    texts = [text for split in task.splits.values() for text in (*split.text_a, *split.text_b)]
    return {word for chunk in chunks(len(texts)) for word in tokenise(texts[chunk]).vocabulary}
