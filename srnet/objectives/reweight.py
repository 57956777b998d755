"""Example reweighting (Eq. 3): biased examples get a lower weight."""

from __future__ import annotations

from srnet.core.lazy import F, torch
from srnet.objectives.base import bias_degree, objective


@objective("reweight", needs=("bias",), debiases=True, by_rows=True)
def example_reweighting(logits: torch.Tensor, labels: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Biased examples get a lower weight: - (1 - beta) y log p_m.

    It is averaged over the batch, not divided by the sum of the weights.
    """
    weights = 1.0 - bias_degree(bias, labels)
    return weights * F.cross_entropy(logits, labels, reduction="none")
