"""What a profile says about one task: the data, the backbone, and every setting that a figure needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from srnet.experiment import BiasSpec
from srnet.experiment.nodes import TaskSpec
from srnet.recipes.recipe import Start
from srnet.training import TrainingSettings


@dataclass(frozen=True)
class Setup:
    """Sparsities, starts and lengths are what the paper's figures vary; the rest is how to train."""

    task: TaskSpec
    backbone: str
    finetuning: TrainingSettings
    pruning: TrainingSettings
    stopping: TrainingSettings
    """Fine-tuning that ends by the early-stopping rule."""
    with_ood: TrainingSettings
    """Pruning with OOD training data."""
    finetuning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    sparsities: tuple[float, ...] = (0.2, 0.5, 0.7, 0.9)
    sparsities_of: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """By figure, where it shows others."""
    starts: tuple[Start, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, "auto")
    timing_sparsity: float = 0.7
    lengths: tuple[float, ...] = (1 / 3, 2 / 3, 1.0)
    ablation_length: float = 1.0
    """How long the runs of the initialisation and schedule ablation are."""
    high_sparsity: float = 0.9
    other_backbones: tuple[str, ...] = ()
    pruning_of: tuple[tuple[str, TrainingSettings], ...] = ()
    """By pruner, where it trains otherwise than with `pruning`: scores are not weights."""
    bias: BiasSpec = field(default_factory=BiasSpec)
    """How the shortcut is measured."""
    mask_options: tuple[tuple[str, Any], ...] = ()
    """Options of every mask training."""
    gradual_options: tuple[tuple[str, Any], ...] = ()
    """Further ones where the sparsity is gradual."""
    options_of: dict[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    """Options of the other pruners, by name."""
    options_at: dict[str, tuple[tuple[float, tuple[tuple[str, Any], ...]], ...]] = field(default_factory=dict)
    """And at one sparsity, by name."""
    undistilled_at: dict[str, tuple[tuple[float, tuple[tuple[str, Any], ...]], ...]] = field(default_factory=dict)
    """Those of them that hold only without distillation."""
    lengths_at: tuple[tuple[float, float], ...] = ()
    """How much longer static pruning trains at a sparsity."""
    ood_lengths_at: tuple[tuple[float, float], ...] = ()
    """How much longer the pruning of a fine-tuned model with OOD training data trains at a sparsity."""
    words: tuple[str, ...] = ()
    """Label words, for models with the backbone's own language-model head."""

    def shown(self, figure: str) -> tuple[float, ...]:
        return self.sparsities_of.get(figure, self.sparsities)
