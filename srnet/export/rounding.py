"""Texts on which an exported model is compared with the original, and what rounding does to logits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srnet.lazy import no_grad

if TYPE_CHECKING:
    import torch

    from srnet.backbones import LoadedBackbone
    from srnet.subnetwork import Subnetwork
    from srnet.tasks.base import Task

EXACT = "float32"
SAMPLE_ROWS = 32
"""Rows of ID dev that are compared."""


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


def sample_of(task: Task | None) -> Sample:
    """Rows of ID dev; a few sentences for a model whose task is not at hand."""
    if task is None:
        return SENTENCES
    pairs = list(zip(task.dev.text_a, task.dev.text_b, strict=True))[:SAMPLE_ROWS]
    return Sample(f"{len(pairs)} rows of {task.dev.name}", pairs)


def encode_sample(sample: Sample, base: LoadedBackbone, max_length: int) -> dict[str, torch.Tensor]:
    """One batch, cut as in training."""
    first, second = (list(texts) for texts in zip(*sample.pairs, strict=True))
    # a text of a single-text task has an empty partner
    pairs = (first, second) if any(second) else (first,)
    length = base.max_length(max_length)
    return dict(
        base.tokenizer(*pairs, truncation="longest_first", max_length=length, padding=True, return_tensors="pt")
    )


def logits_moved(exact: Subnetwork, rounded: Subnetwork, sample: Sample) -> float:
    """The largest absolute difference between the logits of two models."""
    return float((_logits(exact, sample) - _logits(rounded, sample)).abs().max())


@no_grad
def _logits(subnetwork: Subnetwork, sample: Sample) -> torch.Tensor:
    base = subnetwork.base()
    batch = encode_sample(sample, base, subnetwork.max_length or 128)
    logits: torch.Tensor = subnetwork.model(base)(**batch).logits
    return logits
