"""From a split to a model's inputs, with one encoder for each kind of input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from srnet.backbones import LoadedBackbone
from srnet.errors import UserError
from srnet.tasks.answers import AnswerKind
from srnet.tasks.splits import Split
from srnet.training.data import Encoded, encode
from srnet.training.spans import encode_windows

Extras = dict[str, np.ndarray]
"""Additional inputs of an objective: one row per example, or for windows one row per token."""
SHARED = 3
"""Neighbouring windows of a long context share a third of their tokens: 128 of 384, as in the published recipes."""


def inputs_for(
    answer: AnswerKind, split: Split, base: LoadedBackbone, max_length: int, extras: Extras | None = None
) -> Encoded:
    return ENCODINGS[answer.encoding](split, base.tokenizer, base.max_length(max_length), extras or {})


def _windows(split: Any, tokenizer: Any, length: int, extras: Extras) -> Encoded:
    windows = encode_windows(split, tokenizer, length, length // SHARED)
    if any(len(each) != len(windows.offsets) for each in extras.values()):
        raise UserError(
            "the teacher used different windows of the contexts",
            "train it on the same backbone with the same max_length",
        )
    return replace(windows, token_extras=extras)


ENCODINGS: dict[str, Callable[[Any, Any, int, Extras], Encoded]] = {"rows": encode, "windows": _windows}
"""(split, tokenizer, length, extras) -> inputs, by the names that kinds of answers use."""
