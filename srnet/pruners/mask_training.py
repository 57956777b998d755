"""Mask training: the weights are frozen, only the scores behind the mask are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from srnet.config.fields import option
from srnet.config.values import Count, Positive, Range, Share
from srnet.core.lazy import nn, torch
from srnet.masks.budget import Scope, Sparsity
from srnet.masks.granularity import Values
from srnet.masks.mask import Mask
from srnet.masks.scores import Cut, Init, Schedule, initial_scores
from srnet.pruners.base import OfUnits, register
from srnet.pruners.scored import Scored
from srnet.training.method import LATE, Method


@register
@dataclass(frozen=True)
class MaskTraining(OfUnits):
    """Mask training (Algorithm 2): scores behind the mask are trained, the weights are frozen.

    `initial_sparsity` below `sparsity` turns on the cubic schedule, which the paper uses with `init="soft"`.
    """

    name: ClassVar[str] = "mask"
    has_scores: ClassVar[bool] = True
    score_rate: ClassVar[float] = 5e-5
    score_travel: ClassVar[float] = 0.1
    sparsity: Sparsity = 0.5
    init: Init = "hard"
    """Initial scores: hard, two values by magnitude; soft, the magnitudes themselves."""
    initial_sparsity: Sparsity | None = None
    """Sparsity at the start, from which the cubic schedule leads to the final one. Default: the final one."""
    ramp: Share = 0.7
    """Share of the run after which the final sparsity is reached; only checkpoints after it count."""
    scope: Scope = "local"
    """local: every matrix has the sparsity; global: all of them together."""
    phi: Positive = option(0.01, expert=True)
    """Initial threshold: weights with scores of at least phi are kept."""
    alpha: Annotated[float, Range(1.0)] = option(2.0, expert=True)
    """Hard initialisation: the score of a kept weight, as a multiple of phi."""
    refresh_every: Count = option(10, expert=True)
    """Steps between two updates of the threshold. It is also updated before every evaluation."""
    cut: Cut = option("middle", expert=True)
    """Where the threshold is: in the middle between pruned and kept scores, which keeps the sparsity nearly constant
    until the next update; or, as published, at the k-th score: of the matrix, or with scope global of all matrices."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule()

    def schedule(self) -> Schedule:
        start = self.share if self.initial_sparsity is None else self.initial_sparsity
        return Schedule(start, self.share, self.ramp)

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        # On a fine-tuned model ID dev favours early, biased masks: only the last 30 % of the run is eligible (B.3.3).
        return _Training(self, select_after=LATE if fine_tuned else 0.0, eval_every=eval_every)


class _Training(Scored):
    pruner: MaskTraining

    def __init__(self, pruner: MaskTraining, select_after: float, eval_every: int) -> None:
        super().__init__(pruner, eval_every)
        self.select_after = select_after

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        self._previous, self._refreshed = self._refresh(0), 0

    def first_masks(self) -> dict[str, Any]:
        magnitudes = self.groups.magnitudes()
        start = self.groups.keep(magnitudes, self.schedule.at(0.0), self.pruner.scope)
        return {name: self._score_mask(each, start[name]) for name, each in magnitudes.items()}

    def _score_mask(self, magnitude: torch.Tensor, keep: torch.Tensor) -> Any:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        keep = keep.to(magnitude.device)
        scores = initial_scores(magnitude, keep, self.pruner.init, self.pruner.phi, self.pruner.alpha)
        return ScoreMask(scores, self.pruner.phi)

    def _refresh(self, step: int) -> Mask:
        """Set the thresholds so that the sparsity scheduled for `step` is met to the weight."""
        sparsity = self.schedule.at(self.progress(step))
        keep = self.groups.keep(self.groups.scores(), sparsity, self.pruner.scope, self.groups.magnitudes())
        if step or self.pruner.init == "soft" or self.pruner.cut == "middle":
            self._set_thresholds(keep)
        # else: Eq. 1 puts all scores well away from phi, and the published code first moves phi at an evaluation
        return self.groups.expand(keep)

    def _set_thresholds(self, keep: Values) -> None:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        if self.pruner.cut == "kth" and self.pruner.scope == "global":
            ScoreMask.set_shared_cut(self.masks(), keep)
        else:
            for name, mask in self.masks().items():
                mask.set_cut(keep[name], self.pruner.cut)

    def settle(self, step: int) -> None:
        self._refresh(step)

    def after_step(self, step: int) -> dict[str, float]:
        if step % self.pruner.refresh_every and not self.is_due(step):
            return {}
        drifted = self.current_mask().sparsity
        keep = self._refresh(step)
        flips = self._flips(keep) / (step - self._refreshed)
        self._refreshed = step
        return {"mask/sparsity": keep.sparsity, "mask/drift": drifted - keep.sparsity, "mask/flips_per_step": flips}

    def _flips(self, keep: Mask) -> int:
        before, self._previous = self._previous, keep
        return sum(int((keep[name] != before[name]).sum()) for name in keep)

    def may_select(self, step: int) -> bool:
        return self.progress(step) >= self.select_after and super().may_select(step)
