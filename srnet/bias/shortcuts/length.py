"""The length of the texts: in words and in characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srnet.bias.numbers import Numbers
from srnet.bias.shortcuts.base import FeatureOptions, Features, ShortcutKind, has_pairs, register
from srnet.bias.texts import chunks, tokenise
from srnet.tasks.base import Task
from srnet.tasks.splits import Split


@register
class Length(ShortcutKind):
    """Words and characters of each text."""

    name = "length"
    about = "the length of the texts in words and characters"
    sentence = "The suspected shortcut is length: short and long texts tend to have different labels."
    noun = "the length of a text"

    def fit(self, task: Task, argument: str, options: FeatureOptions) -> Features:
        texts = ("the first text", "the second text") if has_pairs(task) else ("the text",)
        names = [f"{unit} of {text}" for text in texts for unit in ("words", "characters")]

        def counts(split: Split) -> list[np.ndarray]:
            sides = (split.text_a, split.text_b)[: len(texts)]
            return [count(side) for side in sides for count in (_words, _characters)]

        fitted = [Numbers.of(name, each) for name, each in zip(names, counts(task.train), strict=True)]

        def matrix(split: Split) -> Any:
            from scipy.sparse import hstack

            return hstack([each.matrix(values) for each, values in zip(fitted, counts(split), strict=True)], "csr")

        return Features(tuple(name for each in fitted for name in each.names), matrix)


def _words(texts: Sequence[str]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(tokenise(texts[chunk]).counts for chunk in chunks(len(texts)))])


def _characters(texts: Sequence[str]) -> np.ndarray:
    return np.fromiter(map(len, texts), np.float64, len(texts))
