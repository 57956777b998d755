"""Training settings: length, learning rates, precision, selection, and the rule for stopping early."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from srnet.config.fields import Described, option
from srnet.config.values import BatchSize, Count, MaxLength, Range, Rate, Seed, arguments_of
from srnet.core.errors import UserError

Precision = Literal["float32", "tf32", "bf16", "fp16"]
WeightDecay = Annotated[float, Range(0, 10)]
Selection = Literal["late", "published"]
Update = Literal["all", "head", "lora"]


@dataclass(frozen=True)
class TrainingSettings(Described):
    """AdamW, linear decay of the learning rate, clipping at 1.0 and no weight decay, as in the paper."""

    learning_rate: Rate = 5e-5
    """Peak learning rate."""
    epochs: Annotated[float, Range(1e-12, 1e6)] = 3.0
    """Passes over the training data, where the number of steps is not given."""
    steps: Count | None = None
    """Optimisation steps, instead of epochs."""
    batch_size: BatchSize = 32
    """Examples of an optimiser step."""
    warmup: Annotated[float, Range(0, 0.999)] = option(0.0, expert=True)
    """Share of the run in which the learning rate rises to its peak."""
    eval_every: Count = 1000
    """Steps between evaluations on ID dev. Each of them writes a checkpoint to resume from."""
    max_length: MaxLength = 128
    """Tokens after which texts are truncated: 128, for squad 384 in windows."""
    max_grad_norm: Annotated[float, Range(0, 1e9)] = option(1.0, expert=True)
    """Norm at which gradients are clipped."""
    patience: Count | None = option(None, expert=True)
    """Stop after this number of evaluations without a gain on ID dev. Default: train to the end."""
    min_gain: Annotated[float, Range(0, 1e9)] = option(0.5, expert=True)
    """Points on ID dev that count as a gain for --patience."""
    trace: Annotated[int, Range(0, 1e9)] = option(0, expert=True)
    """Examples of each OOD split that are scored at every evaluation, for curves. Never used for selection."""
    seed: Seed = 0
    """Seed of random initialisation, batches and dropout."""
    dev_rows: Count | None = option(None, expert=True)
    """Rows of ID dev for selecting checkpoints, always the same. Default: all. Results are always on all rows."""
    precision: Precision = "float32"
    """Precision of the layers in training; tf32 and fp16 need a GPU. Weights, scores, thresholds and the optimiser stay
    in float32."""
    compile: bool = option(False, expert=True)
    """Use torch.compile: faster steps after minutes of compilation."""
    score_rate: Rate | None = None
    """Peak learning rate of mask scores, where it differs from that of the weights."""
    selection: Selection = option("late", expert=True)
    """Which checkpoints may be the result with a debiasing objective: late, those of the last 30 % of the run, because
    ID dev favours early and still biased ones; published, any checkpoint of a full model."""
    update: Update = option("all", expert=True)
    """What fine-tuning updates: all weights, the head alone, or the head and low-rank matrices (lora, needs peft)."""
    accumulate: Count = 1
    """Parts in which a batch is computed, to save memory; their gradients are added. The batch stays the same."""
    checkpointing: bool = False
    """Gradient checkpointing, to save memory: the backward pass computes activations again. The result is the same."""
    weight_decay: WeightDecay = option(0.0, expert=True)
    """Weight decay of AdamW, on the weights; not on biases, norms and mask scores."""
    eval_precision: Precision = option("float32", expert=True, identifies=False)
    """Precision in which the result is evaluated. Evaluations in the course of a training have that of the training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # 3 and 3.0 are the same training with the same key, and epochs have no effect where steps are given
        epochs = float(self.epochs) if self.steps is None else type(self).epochs
        object.__setattr__(self, "epochs", epochs)
        self._check_parts()

    def _check_parts(self) -> None:
        rows, parts = self.batch_size, self.accumulate
        if parts > rows:
            raise UserError(f"accumulate {parts:,}, but a batch has {rows:,} rows", f"give at most {rows:,}")
        if rows % parts:
            fitting = max(each for each in range(1, parts) if rows % each == 0)
            raise UserError(f"accumulate {parts:,} does not divide a batch of {rows:,} rows", f"give {fitting:,}")

    @property
    def length_text(self) -> str:
        """The length of the training in words."""
        return f"{self.epochs:g} epochs" if self.steps is None else f"{self.steps:,} steps"

    @property
    def selects_late(self) -> bool:
        """Whether only late checkpoints are eligible. A run that may stop early has no planned end, so all are."""
        return self.selection == "late" and self.patience is None

    def lengthened(self, factor: float) -> TrainingSettings:
        """The same training, `factor` times as long."""
        if self.steps is None:
            return replace(self, epochs=factor * self.epochs)
        return replace(self, steps=max(1, round(factor * self.steps)))

    def changed(self, given: Mapping[str, Any]) -> TrainingSettings:
        """With other values. Epochs take the place of steps, so a user gives one of the two."""
        if "steps" in given and "epochs" in given:
            raise UserError("steps and epochs exclude each other", "keep one of them")
        base = replace(self, steps=None) if "epochs" in given else self
        return replace(base, **arguments_of(type(self), given))

    def total_steps(self, examples: int) -> int:
        """t_max: optimisation steps of the run."""
        return self.steps if self.steps is not None else math.ceil(self.epochs * examples / self.batch_size)

    def stops_after(self, scores: Iterable[float]) -> bool:
        """Whether the last `patience` of these evaluations had no significant gain (the paper's appendix E.1).

        A score counts as a gain if it beats the last one that counted by more than `min_gain` points.
        """
        if self.patience is None:
            return False
        reference, without_gain = -math.inf, 0
        for score in scores:
            if score > reference + self.min_gain:
                reference, without_gain = score, 0
            else:
                without_gain += 1
        return without_gain >= self.patience
