"""The text itself: a language model gives each token a probability, and is scored by the mean log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from srnet.tasks.answers.base import AnswerKind, Judge, Measure, divergence, judge_sums, quotient, register
from srnet.tasks.splits import Split

if TYPE_CHECKING:
    import torch

IGNORED = -100
"""The label of positions at which nothing is predicted."""
OfSums = Callable[[np.ndarray], np.ndarray]


def of_sums(value: OfSums, scale: float, gain: Callable[[float], float]) -> Measure:
    """A metric that is a function of the sums of the columns of the answers."""

    def judge(models: Sequence[np.ndarray], labels: np.ndarray) -> Judge:
        return judge_sums(models, value)

    def score(answers: np.ndarray, labels: np.ndarray) -> float:
        return float(value(answers.sum(axis=0, dtype=np.float64)))

    return Measure(score, judge, scale=scale, gain=gain)


def lower(score: float) -> float:
    """The gain of a metric whose smallest value is the best."""
    return -score


def _nll_of(sums: np.ndarray) -> np.ndarray:
    """The mean negative log-likelihood per token, from the sums of log-probabilities and of tokens."""
    return quotient(-sums[..., 0], sums[..., 1])


LIKELIHOOD: dict[str, Measure] = {
    "perplexity": of_sums(lambda sums: np.exp(_nll_of(sums)), 1.0, lower),
    "nll": of_sums(_nll_of, 1.0, lower),
}
"""The metrics of text. The first two columns of answers are the log-probability of a text, summed, and its tokens."""


class LanguageAnswer(AnswerKind):
    """What kinds of answers of language models have in common.

    `logits` of a batch have shape (sequences, tokens, vocabulary). `labels` (sequences, tokens) are the tokens that
    are predicted at each position, `IGNORED` where none is.
    """

    outputs = ("token",)
    in_cells = False
    language = True

    def parse(self, cell: str, labels: Mapping[str, int]) -> None:
        """A text has no label."""

    def problem(self, labels: np.ndarray, names: Sequence[str]) -> str | None:
        return None if labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer) else f"holds no {self.plural}"

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """- log p of each sequence, over the mean number of tokens: their mean is that over all tokens of the batch."""
        from torch.nn import functional as F

        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none")
        tokens = (labels != IGNORED).sum().clamp_min(1)
        return losses.view_as(labels).sum(dim=1) * (len(labels) / tokens)

    def imitation(
        self, logits: torch.Tensor, teacher: torch.Tensor, temperature: float = 2.0, labels: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mean over the predicted tokens."""
        each = divergence(logits, teacher, temperature, "none").sum(-1)
        if labels is None:
            return each.mean()
        predicted = labels != IGNORED
        return (each * predicted).sum() / predicted.sum().clamp_min(1)

    def constant(self, labels: np.ndarray) -> None:
        """There is no constant language model."""

    def decode(self, split: Split, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits, dtype=np.float64)


class _Texts(LanguageAnswer):
    """Texts, read from left to right, or for a masked language model with each token masked in turn."""

    name, plural = "text", "texts"
    metrics: ClassVar[Mapping[str, Measure]] = LIKELIHOOD
    encoding = "text"


TEXTS = register(_Texts())
