"""The settings of pre-training, apart from it so that `--help` imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from srnet.config.fields import option
from srnet.core.errors import UserError, check_ranges

_RANGES = {
    "mlm_steps": (1, 1e9), "pair_steps": (1, 1e9), "compare_steps": (1, 1e9), "batch_size": (1, 2**16),
    "pair_share": (0.0, 1.0), "mask_share": (0.01, 1.0), "learning_rate": (1e-12, 1e3), "compare_rate": (1e-12, 1e3),
    "warmup": (1, 1e9), "hidden_size": (1, 8192), "layers": (1, 100), "heads": (1, 8192), "seed": (0, 2**32 - 1),
}  # fmt: skip


@dataclass(frozen=True)
class PretrainSettings:
    """The defaults are those of the shipped backbone."""

    mlm_steps: int = option(7_000, least=1)
    """Steps of the first phase: masked language modelling alone, until the roles are learned."""
    pair_steps: int = option(2_000, least=1)
    """Steps of the second phase: most batches ask whether the second sentence restates the first."""
    compare_steps: int = option(2_000, least=1)
    """Steps of the last phase: pairs that may differ in the roles alone, and how many words they share."""
    pair_share: float = 0.7
    """Share of such batches in the second and the last phase; the others are masked language modelling."""
    batch_size: int = 64
    """Texts in a batch."""
    learning_rate: float = 1e-3
    """Peak learning rate of the first two phases."""
    compare_rate: float = 5e-4
    """Peak learning rate of the last phase."""
    warmup: int = 200
    """Steps in which the learning rate of a phase rises to its peak."""
    mask_share: float = 0.2
    """Share of the tokens that are masked."""
    hidden_size: int = 128
    """Size of the hidden states."""
    layers: int = option(3, least=1)
    """Number of layers: 3 makes srnet-tiny, 4 srnet-small."""
    heads: int = 4
    """Attention heads of a layer."""
    seed: int = 0
    """Seed of weights and text."""

    def __post_init__(self) -> None:
        check_ranges(self, _RANGES)
        if self.hidden_size % self.heads:
            raise UserError(f"hidden_size {self.hidden_size} cannot be divided by {self.heads} heads", "choose others")
