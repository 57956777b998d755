"""From a split to what a model reads, whatever its answers are, and back from logits to answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srnet.backbones import LoadedBackbone
from srnet.errors import UserError
from srnet.tasks.base import Answer, Split
from srnet.tasks.spans import SpanSplit
from srnet.training.data import Encoded, encode
from srnet.training.spans import Windows, best_spans, encode_windows

LENGTHS: dict[Answer, int] = {"class": 128, "score": 128, "span": 384}
"""Where texts are cut if nobody says otherwise: a question comes with a whole paragraph."""
SHARED = 3
"""Neighbouring windows of a long context share a third of their tokens: 128 of 384, as in the published recipes."""


def length_for(answer: Answer) -> int:
    return LENGTHS[answer]


def inputs_for(
    split: Split, base: LoadedBackbone, max_length: int, extras: dict[str, np.ndarray] | None = None
) -> Encoded:
    """`extras` are what an objective learns from: a row an example, or for spans a row a token."""
    length = base.max_length(max_length)
    if not isinstance(split, SpanSplit):
        return encode(split, base.tokenizer, length, extras)
    windows = encode_windows(split, base.tokenizer, length, length // SHARED)
    if any(len(each) != len(windows.offsets) for each in (extras or {}).values()):
        raise UserError(
            "the teacher has read other windows of the contexts",
            "train it on the same backbone with the same max_length",
        )
    return replace(windows, token_extras=extras or {})


def outputs_of(data: Encoded, logits: np.ndarray) -> np.ndarray:
    """What a split reads its answers from: logits, or of spans the characters that they choose."""
    return best_spans(data, logits) if isinstance(data, Windows) else logits
