"""Methods that train a score for every weight or unit: score masks on a schedule, and a penalty on the scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from srnet.core.lazy import nn, no_grad, torch
from srnet.masks.mask import Mask, share_pruned
from srnet.masks.selection import select
from srnet.pruners.base import OverFrozen, Pruner
from srnet.training.method import Method

if TYPE_CHECKING:
    from srnet.masks.modules import ScoreMask


class Scored(Method, ABC):
    """Training of scores behind every mask. Subclasses define the initial masks and when they are updated."""

    trains_weights: ClassVar[bool] = False
    shift: ClassVar[float] = 0.0
    """The penalty is on sigmoid(S + shift)."""

    def __init__(self, pruner: Pruner, eval_every: int) -> None:
        super().__init__()
        self.pruner, self.schedule, self.eval_every = pruner, pruner.schedule(), eval_every

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        if not self.trains_weights:
            self.freeze(model)
        self.groups = self.pruner.groups(model)
        self.layers = self.groups.layers
        self.groups.attach(self.first_masks())
        if isinstance(self.pruner, OverFrozen) and self.pruner.frozen == "bf16":
            from srnet.masks.frozen import round_frozen  # not at the top: it imports torch

            self.rounded = round_frozen(model, self.layers)  # after the first masks, which rank exact magnitudes

    def freeze(self, model: nn.Module) -> None:
        """Exclude everything but scores from the training."""
        for parameter in model.parameters():
            parameter.requires_grad = False

    @abstractmethod
    def first_masks(self) -> dict[str, Any]:
        """The masks before the first step, by group."""

    def state(self) -> dict[str, torch.Tensor]:
        return {name: each.float() if name in self.rounded else each for name, each in super().state().items()}

    def masks(self) -> dict[str, ScoreMask]:
        return self.groups.masks

    def current_mask(self) -> Mask:
        return self.groups.mask()

    def kept(self) -> torch.Tensor:
        """The number of weights that the masks keep, counted where they are."""
        return self.groups.kept((name, mask.binary()) for name, mask in self.masks().items())

    def is_due(self, step: int) -> bool:
        """Whether an evaluation may follow this step."""
        return step % self.eval_every == 0 or step == self.total_steps

    def may_select(self, step: int) -> bool:
        return self.schedule.reached(self.progress(step))

    def strength(self, step: int) -> float:
        """lambda: the weight of the penalty after `step` steps; none by default."""
        return 0.0

    def penalty(self, done: int) -> torch.Tensor | None:
        from srnet.masks.modules import mean_sigmoid  # not at the top: it imports torch

        strength = self.strength(done)
        if strength == 0.0:
            return None
        return strength * mean_sigmoid([mask.scores for mask in self.masks().values()], self.shift)


class Budgeted(Scored):
    """Training of scores that start at zero, under a budget that shrinks on the cubic schedule.

    After every step each threshold is estimated from a sample of its matrix, without sorting all scores. Before an
    evaluation it is set exactly, so that the budget is met to the weight.
    """

    def first_masks(self) -> dict[str, Any]:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        return {name: ScoreMask(torch.zeros_like(self.groups.magnitude(name)), -torch.inf) for name in self.groups}

    def settle(self, step: int) -> None:
        self._set_thresholds(step, self.groups.scores(), exact=True)

    def after_step(self, step: int) -> dict[str, float]:
        if not self.is_due(step):
            self._set_thresholds(step, {name: mask.sample(step) for name, mask in self.masks().items()}, exact=False)
            return {}
        drifted = self.kept()
        self.settle(step)
        figures = torch.stack([drifted, self.kept()]).tolist()  # at once: each number would wait for a GPU
        drift, sparsity = (share_pruned(kept, self.groups.weights) for kept in figures)
        return {"mask/sparsity": sparsity, "mask/drift": drift - sparsity}

    @no_grad
    def _set_thresholds(self, step: int, scores: Mapping[str, torch.Tensor], *, exact: bool) -> None:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        names, masks = list(scores), self.masks()
        totals = {name: each.numel() for name, each in scores.items()}
        counts = self.counts(scores, totals, step)
        if exact:
            pruned, ties = [totals[name] - counts[name] for name in names], self.groups.ties()
            selected = select(list(scores.values()), pruned, lambda number: ties[names[number]])
            ScoreMask.set_cuts(masks, dict(zip(names, selected, strict=True)))
        else:
            kept = [counts[name] / totals[name] for name in names]
            ScoreMask.estimate_cuts([masks[name] for name in names], list(scores.values()), kept)

    def counts(self, scores: Mapping[str, torch.Tensor], totals: Mapping[str, int], step: int) -> dict[str, int]:
        """The number of scores that each group keeps after `step`; by default the same share of each."""
        return self.groups.counts(totals, self.schedule.at(self.progress(step)))
