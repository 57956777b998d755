"""Common parts of methods that learn a score for every weight: score masks, a schedule, a penalty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn

from srnet.backbones import newly_initialised
from srnet.masks import Schedule, Targets, keep_largest
from srnet.masks.budget import kept_counts
from srnet.masks.parametrization import ScoreMask, attach, attached, current_mask, raw_weights
from srnet.masks.scores import estimated_cut, sampled
from srnet.training.method import Method


class Scored(Method, ABC):
    """Training of scores behind every mask. Subclasses define the initial masks and when they are updated."""

    def __init__(self, targets: Targets, schedule: Schedule, eval_every: int) -> None:
        super().__init__()
        self.targets, self.schedule, self.eval_every = targets, schedule, eval_every

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        self.model, self.total_steps = model, total_steps
        self.freeze(model)
        self.layers = self.targets.find(model)
        attach(self.layers, self.first_masks(raw_weights(self.layers)))

    def freeze(self, model: nn.Module) -> None:
        """Train only the scores. The movement-pruning family trains the weights as well."""
        for parameter in model.parameters():
            parameter.requires_grad = False

    @abstractmethod
    def first_masks(self, weights: Mapping[str, torch.Tensor]) -> Mapping[str, nn.Module]:
        """The masks before the first step, by weight name."""

    def masks(self) -> dict[str, ScoreMask]:
        return cast(dict[str, ScoreMask], attached(self.layers))

    def progress(self, step: int) -> float:
        return step / self.total_steps

    def is_due(self, step: int) -> bool:
        """Whether an evaluation may follow this step."""
        return step % self.eval_every == 0 or step == self.total_steps

    def may_select(self, step: int) -> bool:
        return self.schedule.reached(self.progress(step))


class Budgeted(Scored):
    """Scores that start at zero, under a budget that shrinks on the cubic schedule.

    After every step each threshold is estimated from a sample of its matrix, without sorting all scores. Before an
    evaluation it is set exactly, so that the budget is met to the weight.
    """

    def __init__(
        self,
        targets: Targets,
        schedule: Schedule,
        eval_every: int,
        penalty: float = 0.0,
        penalty_schedule: Schedule | None = None,
    ) -> None:
        super().__init__(targets, schedule, eval_every)
        self.final_penalty, self.penalty_schedule = penalty, penalty_schedule or schedule

    def first_masks(self, weights: Mapping[str, torch.Tensor]) -> Mapping[str, nn.Module]:
        return {name: ScoreMask(torch.zeros_like(weight), -torch.inf) for name, weight in weights.items()}

    def after_step(self, step: int) -> dict[str, float]:
        figures = {"mask/penalty": self.strength(step)} if self.final_penalty else {}
        if not self.is_due(step):
            self._estimate_thresholds(step)
            return figures
        drifted = current_mask(self.layers).sparsity
        self.set_exact_thresholds(step)
        sparsity = current_mask(self.layers).sparsity
        return {"mask/sparsity": sparsity, "mask/drift": drifted - sparsity, **figures}

    @torch.no_grad()
    def _estimate_thresholds(self, step: int) -> None:
        samples = {name: sampled(mask.scores, step) for name, mask in self.masks().items()}
        totals = {name: sample.numel() for name, sample in samples.items()}
        counts = self.counts(samples, totals, step)
        for name, mask in self.masks().items():
            mask.phi.copy_(estimated_cut(samples[name], counts[name] / totals[name]))

    @torch.no_grad()
    def set_exact_thresholds(self, step: int) -> None:
        """Set the thresholds one matrix at a time, so that no temporary is as large as the model."""
        scores = {name: mask.scores.detach() for name, mask in self.masks().items()}
        totals = {name: each.numel() for name, each in scores.items()}
        counts, weights = self.counts(scores, totals, step), raw_weights(self.layers)
        for name, mask in self.masks().items():
            ties = weights[name].detach().abs()
            mask.set_cut(keep_largest(scores[name], totals[name] - counts[name], ties))

    def counts(self, scores: Mapping[str, torch.Tensor], totals: Mapping[str, int], step: int) -> dict[str, int]:
        """How many weights each matrix keeps after `step`; by default the same share of each."""
        return kept_counts(totals, self.schedule.at(self.progress(step)))

    # --- the penalty -----------------------------------------------------------------------------------------------

    def strength(self, step: int) -> float:
        """lambda(t) = lambda (1 - (1 - t/T)^3), T being the end of the ramp or of the run."""
        return self.final_penalty * self.penalty_schedule.growth(self.progress(step))

    def penalty(self, done: int) -> torch.Tensor | None:
        strength = self.strength(done)
        if strength == 0.0:
            return None
        return strength * mean_sigmoid([mask.scores for mask in self.masks().values()])


def train_new_parameters(model: nn.Module) -> None:
    """Train randomly initialised parameters, such as a classifier or a pooler; pre-trained ones stay frozen."""
    new = newly_initialised(model)
    for name, parameter in model.named_parameters():
        if name in new:
            parameter.requires_grad = True


class _MeanSigmoid(torch.autograd.Function):
    """mean(sigmoid(x + shift)). Nothing as large as x is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shift: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.shift = shift
        return torch.sigmoid(x + shift if shift else x).mean()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,), gradient = ctx.saved_tensors, grads[0]
        share = torch.sigmoid(x + ctx.shift if ctx.shift else x)
        return torch.addcmul(share, share, share, value=-1.0).mul_(gradient / x.numel()), None  # s - s^2


def mean_sigmoid(scores: list[torch.Tensor], shift: float = 0.0) -> torch.Tensor:
    """The mean over matrices of the mean of sigmoid(S + shift)."""
    means = [cast(torch.Tensor, _MeanSigmoid.apply(each, shift)) for each in scores]  # type: ignore[no-untyped-call]
    return torch.stack(means).mean()
