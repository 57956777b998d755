"""A span of the second text, found by its first and last token and scored as in SQuAD v1.1."""

from __future__ import annotations

import hashlib
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from srnet.tasks.answers.base import AnswerKind, Judge, Measure, divergence, register
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    import torch

_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def _normalised(text: str) -> str:
    """SQuAD's normalisation: lower case, then without ASCII punctuation, articles and extra whitespace.

    The order matters: "a." becomes an article without its full stop, and "L.A." becomes the word "la".
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _overlap(answer: list[str], reference: list[str]) -> float:
    """The F1 of two bags of words. As in SQuAD v1.1 it is 0 where both are empty, though these match exactly."""
    common = (Counter(answer) & Counter(reference)).total()
    return 2.0 * common / (len(answer) + len(reference)) if common else 0.0


@dataclass(frozen=True)
class SpanSplit(Split):
    """Questions (`text_a`) about contexts (`text_b`).

    `labels` has shape (n, 2): the first character of the answer in the context, and the one after its last.
    """

    references: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """Every accepted answer of each question."""

    @cached_property
    def _accepted(self) -> tuple[tuple[str, ...], ...]:
        """Normalised once, because a training run scores many times."""
        return tuple(tuple(dict.fromkeys(map(_normalised, texts))) for texts in self.references)

    def take(self, rows: np.ndarray) -> Self:
        return replace(super().take(rows), references=tuple(self.references[row] for row in rows))

    def answers(self, spans: np.ndarray) -> np.ndarray:
        """(n, 2) scores in 0..1, exact match and F1, of (n, 2) character spans; (0, 0) is the empty answer.

        Each is the best over the references, as in SQuAD's own evaluation.
        """
        scores = np.zeros((len(self), 2))
        for row, (context, (start, end), accepted) in enumerate(
            zip(self.text_b, spans.tolist(), self._accepted, strict=True)
        ):
            answer = _normalised(context[start:end])
            words = answer.split()
            scores[row] = answer in accepted, max(_overlap(words, text.split()) for text in accepted)
        return scores

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((super().fingerprint(), self.references)).encode()).hexdigest()


# --- the kind ------------------------------------------------------------------------------------------------------


def _mean_of(column: int) -> Measure:
    """The mean of one of the two scores of `SpanSplit.answers`."""

    def judge(models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
        scores = np.stack([model[:, column] for model in models], axis=1).astype(np.float64)
        return lambda drawn: np.asarray(drawn @ scores / drawn.sum(axis=1, keepdims=True))

    return Measure(lambda answers, labels: float(answers[:, column].mean()), judge)


class _Spans(AnswerKind):
    """The model gives two logits per token, for the start and the end; the classes of the loss are positions.

    `decode` gets the characters of the best span instead of logits, see `srnet.training.spans`.
    """

    name, plural = "span", "spans"
    metrics: ClassVar = {"exact_match": _mean_of(0), "span_f1": _mean_of(1)}
    outputs = ("start", "end")
    in_cells = False
    max_length = 384
    per_token = True
    encoding = "windows"

    def parse(self, cell: str, labels: Mapping[str, int]) -> None:
        """A span does not fit into one cell."""

    def problem(self, labels: np.ndarray, names: Sequence[str]) -> str | None:
        return None if labels.ndim == 2 else "does not hold spans"

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean over the two ends."""
        from torch.nn import functional as F

        return F.cross_entropy(logits, labels, reduction="none").mean(dim=1)

    def imitation(
        self, logits: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0, labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        start, end = (divergence(logits[..., n], teacher[..., n], temperature) for n in (0, 1))
        return (start + end) / 2

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        assert isinstance(split, SpanSplit), "only such a split has the accepted answers"
        return split.answers(logits)


SPANS = register(_Spans())
