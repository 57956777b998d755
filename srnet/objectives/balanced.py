"""Cross-entropy in which the groups of label and shortcut count equally (the balancing of Kirichenko et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srnet.core.lazy import F, torch
from srnet.objectives.base import StatefulLoss, objective


@objective("balanced", needs=("bias",), debiases=True, by_rows=True)
@dataclass
class Balanced(StatefulLoss):
    """Cross-entropy with weights: each label, with the bias model right and with it wrong, has the same total weight.

    With `update: head` on a fine-tuned model it is last-layer retraining on balanced groups (DFR). Its authors take a
    balanced sample; weights have the same expectation and leave no row out.
    """

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        classes = needs["bias"].shape[1]
        self.weights = group_weights(torch.bincount(_groups(labels, needs["bias"]), minlength=2 * classes))

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.weights = state["weights"]

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        return self.losses(logits, labels, **needs).mean()

    def losses(self, logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """The loss of each row."""
        weights = self.weights.to(logits.dtype).to(logits.device)[_groups(labels, bias)]
        return weights * F.cross_entropy(logits, labels, reduction="none")


def group_weights(counts: torch.Tensor) -> torch.Tensor:
    """The weight of each group's rows, of which there are `counts`: their mean over all rows is 1.

    Groups without a row have no weight.
    """
    counts = counts.double()
    return torch.where(counts > 0, counts.sum() / (counts * (counts > 0).sum()), 0.0)


def _groups(labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The number of each row's group: label, and whether the bias model's answer is right; -100 counts as class 0."""
    labels = labels.clamp_min(0)
    return 2 * labels + (bias.argmax(1) == labels).long()
