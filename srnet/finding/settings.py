"""The settings of a search for a model to deploy, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import option
from srnet.config.values import SeedCount, Share
from srnet.core.errors import UserError
from srnet.evaluation import KEEPS_ID
from srnet.masks.budget import Sparsity
from srnet.masks.granularity import WEIGHT, Granularity
from srnet.pruners.base import Speedup, TimedOn, speedup_text
from srnet.recipes.order import TrainingOptions


@dataclass(frozen=True)
class FindSettings(TrainingOptions):
    """What is searched for, and how far."""

    keep_id: Share = KEEPS_ID
    """Share of the full model's ID score that the subnetwork must keep, in the search and for the verdict."""
    sparsities: tuple[Sparsity, ...] = (0.3, 0.5, 0.7, 0.9)
    """Shares of the weights to prune. They are tried from dense to sparse."""
    speedups: tuple[Speedup, ...] = option((), name="--speedup", instead_of="sparsities")
    """Instead of --sparsities: how many times as fast the encoder is when its units are removed, by a latency table
    that is measured on this machine once. Several with commas are tried from dense to fast."""
    timed_on: TimedOn = option("device", name="--speedup-on")
    """Where --speedup counts: device is that of the run; cpu is for a model that is used on a CPU."""
    granularity: Granularity | None = None
    """What is pruned as a whole: weight; head, neuron, or head,neuron, which makes the model faster; layer. Default:
    weight, and head,neuron with --speedup."""
    seeds: SeedCount = 3
    """Seeds of the chosen subnetwork. With fewer than 3 there is no verdict."""
    lengthen: bool = True
    """Train three times as long, once, if scores on ID dev say that the first full model is undertrained, the budget
    allows it and no --scale is given."""

    baselines: bool = option(False, alone=True)
    """Train baselines beside the chosen subnetwork, with its steps and seeds, and compare all in one table: a new head,
    LoRA, pruning of the debiased model, int8 weights."""
    control: bool = option(False, alone=True)
    """Also search in a copy of the data with a planted shortcut of known strength: if that is not removed, a negative
    answer on yours says little. It takes about as long again; half of a --budget is for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
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
