"""Common parts of methods that learn a score for every weight: score masks, a schedule, a penalty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from srnet.core.lazy import nn, no_grad, torch
from srnet.masks.budget import keep_largest
from srnet.masks.granularity import WEIGHT, Granularity
from srnet.masks.mask import Mask
from srnet.masks.scores import Schedule, estimated_cut, sampled
from srnet.masks.targets import Targets
from srnet.masks.timed import Latency, budgeted_groups
from srnet.models.backbones import newly_initialised
from srnet.training.method import Method, Snapshot, plain_state, snapshot_of

if TYPE_CHECKING:
    from srnet.masks.modules import ScoreMask


class Scored(Method, ABC):
    """Training of scores behind every mask. Subclasses define the initial masks and when they are updated."""

    def __init__(
        self,
        targets: Targets,
        schedule: Schedule,
        eval_every: int,
        granularity: Granularity = WEIGHT,
        latency: Latency | None = None,
    ) -> None:
        super().__init__()
        self.targets, self.schedule, self.eval_every = targets, schedule, eval_every
        self.granularity, self.latency = granularity, latency

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        self.model, self.total_steps = model, total_steps
        self.freeze(model)
        self.groups = budgeted_groups(model, self.targets.find(model), self.granularity, self.latency)
        self.layers = self.groups.layers
        self.groups.attach(self.first_masks())

    def freeze(self, model: nn.Module) -> None:
        """Train only the scores. The movement-pruning family trains the weights as well."""
        for parameter in model.parameters():
            parameter.requires_grad = False

    @abstractmethod
    def first_masks(self) -> dict[str, Any]:
        """The masks before the first step, by group."""

    def masks(self) -> dict[str, ScoreMask]:
        return self.groups.masks

    def current_mask(self) -> Mask:
        return self.groups.mask()

    def progress(self, step: int) -> float:
        return step / self.total_steps

    def is_due(self, step: int) -> bool:
        """Whether an evaluation may follow this step."""
        return step % self.eval_every == 0 or step == self.total_steps

    def may_select(self, step: int) -> bool:
        return self.schedule.reached(self.progress(step))

    def snapshot(self) -> Snapshot:
        return snapshot_of(plain_state(self.model), self.current_mask())


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
        granularity: Granularity = WEIGHT,
        latency: Latency | None = None,
    ) -> None:
        super().__init__(targets, schedule, eval_every, granularity, latency)
        self.final_penalty, self.penalty_schedule = penalty, penalty_schedule or schedule

    def first_masks(self) -> dict[str, Any]:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        return {name: ScoreMask(torch.zeros_like(self.groups.magnitude(name)), -torch.inf) for name in self.groups}

    def after_step(self, step: int) -> dict[str, float]:
        figures = {"mask/penalty": self.strength(step)} if self.final_penalty else {}
        if not self.is_due(step):
            self._estimate_thresholds(step)
            return figures
        drifted = self.current_mask().sparsity
        self.set_exact_thresholds(step)
        sparsity = self.current_mask().sparsity
        return {"mask/sparsity": sparsity, "mask/drift": drifted - sparsity, **figures}

    @no_grad
    def _estimate_thresholds(self, step: int) -> None:
        samples = {name: sampled(mask.scores, step) for name, mask in self.masks().items()}
        totals = {name: sample.numel() for name, sample in samples.items()}
        counts = self.counts(samples, totals, step)
        for name, mask in self.masks().items():
            mask.phi.copy_(estimated_cut(samples[name], counts[name] / totals[name]))

    @no_grad
    def set_exact_thresholds(self, step: int) -> None:
        """Set the thresholds one group at a time, so that no temporary is as large as the model."""
        scores = self.groups.scores()
        totals = {name: each.numel() for name, each in scores.items()}
        counts = self.counts(scores, totals, step)
        for name, mask in self.masks().items():
            mask.set_cut(keep_largest(scores[name], totals[name] - counts[name], self.groups.magnitude(name)))

    def counts(self, scores: Mapping[str, torch.Tensor], totals: Mapping[str, int], step: int) -> dict[str, int]:
        """How many scores each group keeps after `step`; by default the same share of each."""
        return self.groups.counts(totals, self.schedule.at(self.progress(step)))

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


def mean_sigmoid(scores: list[torch.Tensor], shift: float = 0.0) -> torch.Tensor:
    """The mean over matrices of the mean of sigmoid(S + shift)."""
    from srnet.masks.modules import MeanSigmoid  # not at the top: it imports torch

    means = [cast(torch.Tensor, MeanSigmoid.apply(each, shift)) for each in scores]  # type: ignore[no-untyped-call]
    return torch.stack(means).mean()
