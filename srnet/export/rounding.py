"""What rounding does to the logits of a subnetwork."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srnet.lazy import no_grad

if TYPE_CHECKING:
    import torch

    from srnet.subnetwork import Subnetwork

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


def logits_moved(exact: Subnetwork, rounded: Subnetwork, sample: Sample) -> float:
    """The largest absolute difference between the logits of two models."""
    return float((_logits(exact, sample) - _logits(rounded, sample)).abs().max())


@no_grad
def _logits(subnetwork: Subnetwork, sample: Sample) -> torch.Tensor:
    base = subnetwork.base()
    first, second = (list(texts) for texts in zip(*sample.pairs, strict=True))
    length = base.max_length(subnetwork.max_length or 128)
    # a text of a single-text task has an empty partner
    pairs = (first, second) if any(second) else (first,)
    tokens = base.tokenizer(*pairs, truncation="longest_first", max_length=length, padding=True, return_tensors="pt")
    logits: torch.Tensor = subnetwork.model(base)(**tokens).logits
    return logits
