"""The settings of pre-training, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from srnet.config.fields import Described
from srnet.config.values import BatchSize, Count, Range, Rate, Seed
from srnet.core.errors import UserError

_Width = Annotated[int, Range(1, 8192)]


@dataclass(frozen=True)
class PretrainSettings(Described):
    """The defaults are those of the shipped backbone."""

    mlm_steps: Count = 7_000
    """Steps of the first phase: masked language modelling alone, until the roles are learned."""
    pair_steps: Count = 2_000
    """Steps of the second phase: most batches ask whether the second sentence restates the first."""
    compare_steps: Count = 2_000
    """Steps of the last phase: pairs that may differ in the roles alone, and how many words they share."""
    pair_share: Annotated[float, Range(0, 1)] = 0.7
    """Share of such batches in the second and the last phase; the others are masked language modelling."""
    batch_size: BatchSize = 64
    """Texts in a batch."""
    learning_rate: Rate = 1e-3
    """Peak learning rate of the first two phases."""
    compare_rate: Rate = 5e-4
    """Peak learning rate of the last phase."""
    warmup: Count = 200
    """Steps in which the learning rate of a phase rises to its peak."""
    mask_share: Annotated[float, Range(0.01, 1)] = 0.2
    """Share of the tokens that are masked."""
    hidden_size: _Width = 128
    """Size of the hidden states."""
    layers: Annotated[int, Range(1, 100)] = 3
    """Number of layers: 3 makes srnet-tiny, 4 srnet-small."""
    heads: _Width = 4
    """Attention heads of a layer."""
    seed: Seed = 0
    """Seed of weights and text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % self.heads:
            raise UserError(f"hidden_size {self.hidden_size} cannot be divided by {self.heads} heads", "choose others")
