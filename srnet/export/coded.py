"""A subnetwork folder that holds only what is new; rounded values, if asked for, and what the rounding does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from srnet.errors import choose
from srnet.files import require_new
from srnet.subnetwork import DTYPES, Subnetwork

EXACT = "float32"


@dataclass(frozen=True)
class Sample:
    """Texts to compare logits on, and what they are: "32 rows of dev"."""

    name: str
    pairs: Sequence[tuple[str, str]]


SENTENCES = Sample(
    "4 pairs of sentences",
    (
        ("The lawyer saw the doctor.", "The doctor saw the lawyer."),
        ("How do I learn to play the piano?", "What is the best way to learn the piano?"),
        ("Three children are playing football in the rain.", "Nobody is outside."),
        ("The film opened in 1994 to good reviews.", "It was released in the nineties."),
    ),
)
"""For a model whose task is not at hand."""


def save_coded(subnetwork: Subnetwork, folder: Path, *, dtype: str = EXACT, sample: Sample = SENTENCES) -> None:
    """Write a folder for `load_subnetwork`. If values are rounded its JSON says by how much that moves the logits."""
    choose("dtype", dtype, DTYPES)
    base = subnetwork.base()
    fields = {}
    if dtype != EXACT:
        moved = logits_moved(subnetwork, subnetwork.rounded(base, dtype), sample)
        fields = {"logits_moved": {"by": moved, "on": sample.name}}
    subnetwork.save_coded(require_new(folder), base, dtype, **fields)


def logits_moved(exact: Subnetwork, rounded: Subnetwork, sample: Sample) -> float:
    """The largest absolute difference between the logits of two models."""
    return float((_logits(exact, sample) - _logits(rounded, sample)).abs().max())


@torch.no_grad()
def _logits(subnetwork: Subnetwork, sample: Sample) -> torch.Tensor:
    base = subnetwork.base()
    first, second = (list(texts) for texts in zip(*sample.pairs, strict=True))
    length = base.max_length(subnetwork.max_length or 128)
    # a text of a single-text task has an empty partner
    pairs = (first, second) if any(second) else (first,)
    tokens = base.tokenizer(*pairs, truncation="longest_first", max_length=length, padding=True, return_tensors="pt")
    logits: torch.Tensor = subnetwork.model(base)(**tokens).logits
    return logits
