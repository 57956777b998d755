"""Mask training: the weights are frozen, only the scores behind the mask are trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from srnet.config.fields import option
from srnet.config.values import Count, Positive, Range, Share
from srnet.core.lazy import nn, torch
from srnet.masks.bits import pack_bits, unpack_bits
from srnet.masks.budget import Scope, Sparsity
from srnet.masks.granularity import Values
from srnet.masks.mask import share_pruned
from srnet.masks.scores import Cut, Init, Schedule, initial_scores
from srnet.masks.selection import Selection, brought_to
from srnet.pruners.base import OverFrozen, register
from srnet.pruners.scored import Scored
from srnet.training.method import LATE, Method


@register
@dataclass(frozen=True)
class MaskTraining(OverFrozen):
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
        self._previous, self._refreshed = _packed(self._refresh(0)), 0
        """What was kept after the last refresh, as bits, and its step."""

    def first_masks(self) -> dict[str, Any]:
        magnitudes = self.groups.magnitudes()
        start = self.groups.keep(magnitudes, self.schedule.at(0.0), self.pruner.scope)
        return {name: self._score_mask(each, start[name]) for name, each in magnitudes.items()}

    def _score_mask(self, magnitude: torch.Tensor, keep: torch.Tensor) -> Any:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        keep = keep.to(magnitude.device)
        scores = initial_scores(magnitude, keep, self.pruner.init, self.pruner.phi, self.pruner.alpha)
        return ScoreMask(scores, self.pruner.phi)

    def _refresh(self, step: int) -> Values:
        """Set the thresholds so that the sparsity scheduled for `step` is met to the weight; return what is kept."""
        sparsity = self.schedule.at(self.progress(step))
        selected = self.groups.select(self.groups.scores(), sparsity, self.pruner.scope, self.groups.ties())
        keep = {name: each.keep for name, each in selected.items()}  # before tied scores move
        if step or self.pruner.init == "soft" or self.pruner.cut == "middle":
            self._set_thresholds(selected, keep)
        # else: Eq. 1 puts all scores well away from phi, and the published code first moves phi at an evaluation
        return keep

    def _set_thresholds(self, selected: Mapping[str, Selection], keep: Values) -> None:
        from srnet.masks.modules import ScoreMask  # not at the top: it imports torch

        if self.pruner.cut == "kth" and self.pruner.scope == "global":
            ScoreMask.set_shared_cut(self.masks(), keep)
        else:
            ScoreMask.set_cuts(self.masks(), selected, self.pruner.cut)

    def settle(self, step: int) -> None:
        self._refresh(step)

    def after_step(self, step: int) -> dict[str, float]:
        if step % self.pruner.refresh_every and not self.is_due(step):
            return {}
        drifted = self.kept()
        keep = self._refresh(step)
        figures = torch.stack([drifted, self.groups.kept(keep.items()), self._flips(keep)])
        before, after, flips = figures.tolist()  # at once: each number would wait for a GPU
        per_step, self._refreshed = flips / (step - self._refreshed), step
        sparsity, drift = share_pruned(after, self.groups.weights), share_pruned(before, self.groups.weights)
        return {"mask/sparsity": sparsity, "mask/drift": drift - sparsity, "mask/flips_per_step": per_step}

    def _flips(self, keep: Values) -> torch.Tensor:
        """How many weights were kept at the last refresh and are not now, or the reverse."""
        device = next(iter(keep.values())).device  # the model may have moved since it got its masks
        before = brought_to(device, [self._previous[name] for name in keep])
        self._previous = _packed(keep)
        pairs = zip(keep.items(), before, strict=True)
        changes = ((name, now != unpack_bits(each, now.shape)) for (name, now), each in pairs)
        return self.groups.count(changes)

    def may_select(self, step: int) -> bool:
        return self.progress(step) >= self.select_after and super().may_select(step)


def _packed(keep: Values) -> Values:
    return {name: pack_bits(each) for name, each in keep.items()}
