"""The one thread on which all models run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np

from srnet.audit import Classifier

P = ParamSpec("P")
T = TypeVar("T")

CHARACTERS = 800
"""Characters that a model reads at a time in the background, padding included. A typed pair waits for no more."""


class ModelThread:
    """Calls one after another, in the order in which they came.

    Models are not made for several threads at once, and each further thread would keep memory of its own.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="models")
        self.stopped = False

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._executor.submit(function, *args, **kwargs).result()

    async def call_async(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._executor.submit(function, *args, **kwargs))

    def stop(self) -> None:
        """Cancel what waits. Further calls are errors."""
        self.stopped = True
        self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Background:
    """A classifier that reads a few rows at a time on the model thread, so that other calls come in between."""

    classifier: Classifier
    thread: ModelThread
    advance: Callable[[int], None] = lambda rows: None
    """Called with the number of rows that were read."""

    @property
    def name(self) -> str:
        return self.classifier.name

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classifier.labels

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        result = np.empty((len(text_a), len(self.labels)), dtype=np.float32)
        lengths = np.array([len(a) + len(b) for a, b in zip(text_a, text_b, strict=True)], dtype=np.int64)
        for rows in small_parts(lengths):
            some = [text_a[row] for row in rows], [text_b[row] for row in rows]
            result[rows] = self.thread.call(self.classifier.logits, *some)
            self.advance(len(rows))
        return result


def small_parts(lengths: np.ndarray, most: int = CHARACTERS) -> Iterator[list[int]]:
    """Every row once, those of about equal length together; a part has at most `most` characters, or one row."""
    part: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if part and lengths[row] * (len(part) + 1) > most:  # shorter texts are padded to the longest
            yield part
            part = []
        part.append(row)
    if part:
        yield part
