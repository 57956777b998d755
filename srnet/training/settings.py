"""How long and how fast to train."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from srnet.errors import UserError, choose

Precision = Literal["float32", "bf16"]
Selection = Literal["late", "published"]


@dataclass(frozen=True)
class TrainingSettings:
    """AdamW without weight decay, linear decay, clipping at 1.0, as in the paper."""

    learning_rate: float = 5e-5
    """Peak learning rate."""
    epochs: float = 3.0
    """Passes over the training data, where the number of steps is not given."""
    steps: int | None = None
    """Optimisation steps, instead of epochs."""
    batch_size: int = 32
    """Examples in a batch."""
    warmup: float = 0.0
    """Share of the run in which the learning rate rises to its peak."""
    eval_every: int = 1000
    """Steps between evaluations on ID dev. Each of them writes a checkpoint to resume from."""
    max_length: int = 128
    """Tokens after which texts are truncated: 128, for squad 384 in windows."""
    max_grad_norm: float = 1.0
    """Norm at which gradients are clipped."""
    patience: int | None = None
    """Stop after so many evaluations in a row without a gain on ID dev. Default: train to the end."""
    min_gain: float = 0.5
    """Points on ID dev that count as a gain for --patience."""
    trace: int = 0
    """Examples of each OOD split that are scored at every evaluation, for curves. They never choose anything."""
    seed: int = 0
    """Seed of random initialisation, batches and dropout."""
    dev_rows: int | None = None
    """Choose checkpoints on so many rows of ID dev, always the same. Default: all. Results are always on all rows."""
    precision: Precision = "float32"
    """Precision of the layers in training. Weights, scores, thresholds and the optimiser stay in float32."""
    compile: bool = False
    """Use torch.compile: faster steps after minutes of compilation."""
    score_rate: float | None = None
    """Peak learning rate of mask scores, where it differs from that of the weights."""
    selection: Selection = "late"
    """Which checkpoints may be the result with a debiasing objective: late, those of the last 30 % of the run, because
    ID dev favours early and still biased ones; published, any checkpoint of a full model."""

    def __post_init__(self) -> None:
        choose("selection", self.selection, ("late", "published"))
        for name in ("learning_rate", "epochs", "batch_size", "eval_every", "max_length"):
            if getattr(self, name) <= 0:
                raise UserError(f"{name} must be positive, not {getattr(self, name):g}")
        # 3 and 3.0 are the same training with the same key, and epochs have no effect where steps are given
        epochs = float(self.epochs) if self.steps is None else type(self).epochs
        object.__setattr__(self, "epochs", epochs)
        if not math.isfinite(self.learning_rate) or not math.isfinite(self.epochs):
            raise UserError("learning_rate and epochs must be finite")
        if self.score_rate is not None and not 0.0 < self.score_rate < math.inf:
            raise UserError(f"score_rate must be positive and finite, not {self.score_rate:g}")
        for name in ("patience", "dev_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.min_gain >= 0.0 or self.trace < 0:  # not: NaN is no bar either
            raise UserError("min_gain and trace cannot be negative")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed {self.seed} is out of range", "give a whole number from 0 to 4294967295")
        if self.steps is not None and self.steps < 1:
            raise UserError(f"steps must be at least 1, not {self.steps}")
        choose("precision", self.precision, ("float32", "bf16"))
        if not 0.0 <= self.warmup < 1.0:
            raise UserError(f"warmup {self.warmup:g} is out of range", "it is a share of the run: 0 <= warmup < 1")

    @property
    def length(self) -> str:
        """In words."""
        return f"{self.epochs:g} epochs" if self.steps is None else f"{self.steps:,} steps"

    @property
    def selects_late(self) -> bool:
        """A run that may stop early has no planned end to be late in: it begins with the best model so far."""
        return self.selection == "late" and self.patience is None

    def total_steps(self, examples: int) -> int:
        """t_max: optimisation steps of the whole run."""
        return self.steps if self.steps is not None else math.ceil(self.epochs * examples / self.batch_size)
