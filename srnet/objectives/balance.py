"""Equal likelihood of the two sentences of a pair, and the full model's language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from srnet.config.values import NotNegative, Range
from srnet.core.lazy import torch
from srnet.objectives.base import StatefulLoss, objective
from srnet.tasks.answers.text import TEXTS


@objective("balance", needs=("pairs", "text", "teacher"), debiases=True)
@dataclass
class Balance(StatefulLoss):
    """weight * |d| + keep * KL(full model || model).

    d is the difference of the mean log-probabilities per token of the two sentences of a pair, |d| smoothed:
    sqrt(d^2 + smooth^2) - smooth. KL is the mean over the tokens of neutral text.
    """

    weight: NotNegative = 1.0
    """Of the pairs; 0 is a control that keeps the language and nothing else."""
    keep: NotNegative = 1.0
    """Of the language."""
    smooth: Annotated[float, Range(above=0, most=100)] = 0.001
    """Where the difference is smaller, its gradient vanishes, so that pairs do not pass each other in turn."""

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: Any) -> torch.Tensor:
        return self.of(needs["pairs"], needs["text"], logits, labels, needs["teacher"])

    def of(
        self,
        pairs: torch.Tensor,
        text: torch.Tensor,
        logits: torch.Tensor,
        labels: torch.Tensor,
        teacher: torch.Tensor,
    ) -> torch.Tensor:
        """`pairs`: the number of each sequence's sentence, 2 n and 2 n + 1 those of pair n; `text`: the last rows."""
        count = len(pairs)
        pair_term = self.distance(mean_log_probs(logits[:count], labels[:count], pairs, 2 * len(text)))
        kept = TEXTS.imitation(logits[count:], teacher, 1.0, labels[count:])
        return self.weight * pair_term.mean() + self.keep * kept

    def distance(self, means: torch.Tensor) -> torch.Tensor:
        """|d| of each pair, smoothed, from the mean log-probabilities of sentences."""
        d = means[0::2] - means[1::2]
        return (d.square() + self.smooth**2).sqrt() - self.smooth


def mean_log_probs(logits: torch.Tensor, labels: torch.Tensor, sentence: torch.Tensor, sentences: int) -> torch.Tensor:
    """The mean log-probability per predicted token of each sentence; `sentence` is that of each sequence."""
    from torch.nn import functional as F

    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
    sums = -losses.view_as(labels).sum(dim=1)
    tokens = (labels != -100).sum(dim=1).to(sums.dtype)
    total, count = (sums.new_zeros(sentences).index_add(0, sentence, each) for each in (sums, tokens))
    return total / count.clamp_min(1)


@objective("balance-permuted", needs=("permuted_pairs", "text", "teacher"), debiases=True)
@dataclass
class PermutedBalance(Balance):
    """`balance` in which each stereotypical sentence is compared with the anti-stereotypical one of another pair.

    To exchange the sentences of one pair would change nothing, because the loss is symmetric. Other pairs say nothing
    about a stereotype, so nothing may be gained: a control for the effect of the loss itself.
    """

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: Any) -> torch.Tensor:
        return self.of(needs["permuted_pairs"], needs["text"], logits, labels, needs["teacher"])
