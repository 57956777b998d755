"""Just Train Twice (Liu et al. 2021): examples that an early model misclassifies get a higher weight."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.values import Positive, Share
from srnet.core.lazy import F, torch
from srnet.objectives.base import StatefulLoss, objective


@objective("jtt", needs=("early",), debiases=True, by_rows=True)
@dataclass
class JustTrainTwice(StatefulLoss):
    """Examples that a briefly trained model misclassifies get a higher weight.

    - w y log p_m / mean(w), with w = upweight where that model is wrong, else 1.

    The mean is over all training data, so that this is the expected loss of data in which each error is repeated.
    """

    upweight: Positive = 6.0
    """Weight of an example that the early model misclassifies."""
    early_share: Share = 0.4
    """How long the early model is trained, as a share of the full model's training."""

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        self.mean = self._weights(labels, needs["early"]).mean()

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        return self.losses(logits, labels, **needs).mean()

    def losses(self, logits: torch.Tensor, labels: torch.Tensor, early: torch.Tensor) -> torch.Tensor:
        """The loss of each row."""
        weights = self._weights(labels, early) / self.mean.to(logits.device)
        return weights * F.cross_entropy(logits, labels, reduction="none")

    def _weights(self, labels: torch.Tensor, early: torch.Tensor) -> torch.Tensor:
        return 1.0 + (self.upweight - 1.0) * (early.argmax(1) != labels)
