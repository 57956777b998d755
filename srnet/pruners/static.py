"""Static model pruning (SMP): a frozen model is adapted by its mask alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from srnet.config.fields import option
from srnet.config.values import NotNegative, Positive, Share
from srnet.core.lazy import nn, torch
from srnet.masks.budget import Sparsity, divide_budget
from srnet.masks.granularity import WEIGHT
from srnet.masks.scores import Schedule
from srnet.masks.selection import in_stacks
from srnet.masks.targets import LAYERS, Targets
from srnet.models.backbones import newly_initialised
from srnet.pruners.base import OverFrozen, register
from srnet.pruners.scored import Budgeted
from srnet.training.method import Method

LOW_SPARSITY, LOW_SPARSITY_TEMPERATURE = 0.3, 4.0
"""SMP-S: the temperature where few weights are pruned (70 % kept or more)."""


@register
@dataclass(frozen=True)
class StaticLocal(OverFrozen):
    """SMP-L: only scores are trained; every matrix keeps the weights with the highest.

    The head of a masked language model stays as pre-trained; a randomly initialised classifier is trained.
    """

    name: ClassVar[str] = "smp-l"
    has_scores: ClassVar[bool] = True
    rate: ClassVar[float] = 1e-3
    score_rate: ClassVar[float] = 2e-2
    score_travel: ClassVar[float] = 60.0
    counts_units: ClassVar[bool] = True
    sparsity: Sparsity = 0.9
    ramp: Share = 0.6
    """Share of the run after which the final sparsity is held; only checkpoints after it count."""
    penalty: NotNegative = 400.0
    """Final lambda of the penalty on the mean of sigmoid(S), which grows on the cubic curve."""
    targets: Targets = LAYERS
    """Which matrices are masked."""
    penalty_until: Literal["ramp", "end"] = option("ramp", expert=True)
    """When the final lambda is reached: with the final sparsity (ramp), or at the end of the run, as published."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule()

    def schedule(self) -> Schedule:
        return Schedule(0.0, self.share, self.ramp)

    def penalty_schedule(self) -> Schedule:
        return Schedule(0.0, self.share, self.ramp if self.penalty_until == "ramp" else 1.0)

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Static(self, eval_every)


@register
@dataclass(frozen=True)
class StaticShared(StaticLocal):
    """SMP-S: like SMP-L, but matrices of one kind (all queries, ...) share a budget by the mean of sigmoid(S / p)."""

    name: ClassVar[str] = "smp-s"
    temperature: Positive | None = option(None, expert=True)
    """p, by which scores are divided to share the budget. Default 1, and 4 for a sparsity of 0.3 or less."""

    def smoothing(self) -> float:
        if self.temperature is not None:
            return self.temperature
        return LOW_SPARSITY_TEMPERATURE if self.share <= LOW_SPARSITY + 1e-9 else 1.0

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _StaticShared(self, eval_every)


class _Static(Budgeted):
    pruner: StaticLocal

    def freeze(self, model: nn.Module) -> None:
        """Exclude everything but scores and randomly initialised parameters, such as a classifier or a pooler."""
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name in newly_initialised(model)

    def after_step(self, step: int) -> dict[str, float]:
        figures = super().after_step(step)
        return figures | {"mask/penalty": self.strength(step)} if self.pruner.penalty else figures

    def strength(self, step: int) -> float:
        """lambda(t) = lambda (1 - (1 - t/T)^3), T being the end of the ramp or of the run."""
        return self.pruner.penalty * self.pruner.penalty_schedule().growth(self.progress(step))


class _StaticShared(_Static):
    pruner: StaticShared

    def counts(self, scores: Mapping[str, torch.Tensor], totals: Mapping[str, int], step: int) -> dict[str, int]:
        local = super().counts(scores, totals, step)
        least = 0 if self.pruner.granularity == WEIGHT else 1  # a block without any unit would be no block
        return _shared_counts(scores, local, totals, self.pruner.smoothing(), least)


def _matrix_kind(name: str) -> str:
    """The name of a matrix without its layer number, such as `encoder.layer.*.attention.self.query`."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


def _shared_counts(
    scores: Mapping[str, torch.Tensor],
    local: Mapping[str, int],
    totals: Mapping[str, int],
    temperature: float,
    least: int = 0,
) -> dict[str, int]:
    """The number of weights that each matrix keeps, at least `least`.

    Layer l keeps the share v L m_l / sum m of its matrix, with m_l = mean(sigmoid(S_l / p)), and at most all of it. The
    excess of a clipped layer goes to the others, so that each kind keeps as many weights as in `local`.
    """
    kinds: dict[str, list[str]] = {}
    for name in sorted(scores):
        kinds.setdefault(_matrix_kind(name), []).append(name)
    shares = dict(zip(scores, _mean_shares(list(scores.values()), temperature), strict=True))
    counts: dict[str, int] = {}
    for names in kinds.values():
        budget, open_ = sum(local[name] - least for name in names), {name: totals[name] - least for name in names}
        counts |= {name: least + count for name, count in divide_budget(budget, open_, shares).items()}
    return counts


def _mean_shares(scores: list[torch.Tensor], temperature: float) -> list[float]:
    """mean(sigmoid(S / p)) of each tensor."""
    places, means = list[int](), list[torch.Tensor]()
    for numbers, rows in in_stacks([each.reshape(-1) for each in scores]):
        places += numbers
        means.append(torch.sigmoid(rows / temperature).mean(1))
    found = torch.cat(means).tolist()  # at once: each `tolist` would wait for a GPU
    return [share for _, share in sorted(zip(places, found, strict=True))]
