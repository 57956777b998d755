"""Group DRO (Sagawa et al. 2020, online): groups with a high loss gain weight during training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srnet.config.values import Positive
from srnet.core.lazy import F, dist, torch
from srnet.objectives.base import StatefulLoss, objective


@objective("group-dro", needs=("group",), debiases=True)
@dataclass
class GroupDRO(StatefulLoss):
    """Groups with a high loss gain weight.

    q_g <- q_g exp(eta loss_g) / Z, then sum_g q_g loss_g; loss_g is the mean CE of the group in the batch.
    """

    eta: Positive = 0.01
    """The step size of the group weights."""

    def prepare(self, labels: torch.Tensor, **needs: torch.Tensor) -> None:
        groups = int(needs["group"].max()) + 1
        # logarithms, so that a weight cannot underflow to 0
        self.log_q = torch.full((groups,), 1.0 / groups).log()

    def __call__(self, logits: torch.Tensor, labels: torch.Tensor, **needs: torch.Tensor) -> torch.Tensor:
        log_q = self.log_q.to(logits.device)
        # a row of no group has the number behind the last
        member = F.one_hot(needs["group"].long(), len(log_q) + 1)[:, :-1].to(logits.dtype)
        sums = F.cross_entropy(logits, labels, reduction="none") @ member
        # groups are counted over all processes that share the batch
        (totals, counts), processes = _over_ranks(torch.stack([sums, member.sum(0)]))
        counts = counts.clamp_min(1.0)  # the loss of a group without examples is 0
        self.log_q = F.log_softmax(log_q + self.eta * totals / counts, dim=0)
        return torch.mul((self.log_q.exp() * sums / counts).sum(), processes)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"log_q": self.log_q}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.log_q = state["log_q"]


def _over_ranks(values: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The sum over the processes that share a batch, and their number. It carries no gradient."""
    values = values.detach().clone()
    if not (dist.is_available() and dist.is_initialized()):
        return values, 1
    dist.all_reduce(values)
    return values, dist.get_world_size()
