"""Cross-entropy in which the groups of label and shortcut count equally (the balancing of Kirichenko et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srnet.core.lazy import F, torch
from srnet.objectives.base import StatefulLoss, objective


@objective("balanced", needs=("bias",), debiases=True)
@dataclass
class Balanced(StatefulLoss):
    """Cross-entropy with weights: each label, with the bias model right and with it wrong, has the same total weight.

    With `update: head` on a fine-tuned model it is last-layer retraining on balanced groups (DFR). Its authors take a
    balanced sample; weights have the same expectation and leave no row out.
    """

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        groups = _groups(labels, needs["bias"])
        counts = torch.bincount(groups, minlength=2 * needs["bias"].shape[1]).double()
        shares = counts / counts.sum()
        # groups without a row have no weight; the mean of the weights over all rows is 1
        self.weights = torch.where(counts > 0, 1.0 / (shares * (counts > 0).sum()), 0.0).float()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.weights = state["weights"]

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        self.weights = self.weights.to(logits.device)
        weights = self.weights[_groups(labels, needs["bias"])]
        return (weights * F.cross_entropy(logits, labels, reduction="none")).mean()


def _groups(labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The number of each row's group: label, and whether the bias model's answer is right."""
    return 2 * labels + (bias.argmax(1) == labels).long()
