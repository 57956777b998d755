"""The settings of a search for a model to deploy, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import check_seed_count, option
from srnet.core.errors import UserError
from srnet.evaluation import KEEPS_ID
from srnet.masks.granularity import WEIGHT, Granularity
from srnet.pruners.base import speedup_text
from srnet.recipes.order import TrainingOptions


@dataclass(frozen=True)
class FindSettings(TrainingOptions):
    """What is searched for, and how far."""

    keep_id: float = KEEPS_ID
    """Share of the full model's ID score that the subnetwork must keep, in the search and for the verdict."""
    sparsities: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9)
    """Shares of the weights to prune. They are tried from dense to sparse."""
    speedups: tuple[float, ...] = option((), name="--speedup", instead_of="sparsities")
    """Instead of --sparsities: how many times as fast the encoder is when its units are removed, by a latency table
    that is measured on this machine once. Several with commas are tried from dense to fast."""
    granularity: Granularity | None = None
    """What is pruned as a whole: weight; head, neuron, or head,neuron, which makes the model faster; layer. Default:
    weight, and head,neuron with --speedup."""
    seeds: int = option(3, least=1)
    """Seeds of the chosen subnetwork. With fewer than 3 there is no verdict."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed_count(self.seeds)
        if not 0.0 < self.keep_id <= 1.0:
            raise UserError(f"keep_id {self.keep_id:g} is out of range", "it is a share: 0 < keep_id <= 1")
        if not self.targets or len(set(self.targets)) != len(self.targets):
            raise UserError("at least one sparsity or speed-up is needed, each once", "give --sparsities 0.5,0.7")

    @property
    def targets(self) -> tuple[float, ...]:
        """Speed-ups or sparsities, from dense to sparse."""
        return tuple(sorted(self.speedups or self.sparsities))

    @property
    def units(self) -> Granularity:
        return self.granularity or (("head", "neuron") if self.speedups else WEIGHT)

    def text(self, target: float) -> str:
        return speedup_text(target) if self.speedups else f"{100 * target:g} %"
