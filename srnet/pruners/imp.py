"""Iterative magnitude pruning, with and without rewinding. One run yields every sparsity level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from srnet.config.fields import option
from srnet.config.values import Range, Share
from srnet.core.errors import UserError
from srnet.core.lazy import nn, torch
from srnet.masks.budget import Scope, Sparsity
from srnet.masks.granularity import Values
from srnet.masks.mask import Mask
from srnet.pruners.base import OfUnits, register, speedup_text
from srnet.training.method import Method

LEVEL_DIGITS, LEVEL_ERROR = 6, 1e-6


def _floored(value: float) -> int:
    """Rounded down, with a tolerance for floating-point error."""
    return int(value + 1e-9)


@register
@dataclass(frozen=True)
class IMP(OfUnits):
    """Iterative magnitude pruning (Algorithm 1): prune some of the smallest weights, train, and repeat."""

    name: ClassVar[str] = "imp"
    rewinds: ClassVar[bool] = False
    sparsity: Sparsity = 0.5
    step_sparsity: Annotated[float, Range(above=0.0, below=1.0)] = option(0.1, expert=True)
    """Share of the original weights that each step prunes."""
    interval: Share = option(0.1, expert=True)
    """Share of the run between two steps."""
    scope: Scope = "local"
    """local: every matrix has the sparsity; global: all of them together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share not in self.levels():
            if self.needs_units:
                aim = f"at sparsity {self.sparsity:g}" if self.speedup is None else speedup_text(self.speedup)
                raise UserError(
                    f"{self.name} is not {aim} at the end of a run", "give a larger step or a shorter interval"
                )
            raise UserError(
                f"{self.name} cannot stop at sparsity {self.sparsity:g} in steps of {self.step_sparsity:g}",
                f"choose one of: {', '.join(f'{level:g}' for level in self.levels())}",
            )

    def levels(self) -> tuple[float, ...]:
        """10 %, 20 %, ... 90 %: every level below 100 % that fits into the run.

        Units end at what is requested: a block cannot lose all of its units, so later levels may be out of reach.
        """
        steps = math.ceil(1.0 / self.step_sparsity - 1e-9) if self.needs_units else round(1.0 / self.step_sparsity)
        count = min(steps, _floored(1.0 / self.interval))
        levels = tuple(round(n * self.step_sparsity, LEVEL_DIGITS) for n in range(1, count + 1))
        if not self.needs_units:
            return tuple(level for level in levels if level < 1.0)
        before = tuple(level for level in levels if level < self.share - LEVEL_ERROR)
        return before if len(before) == len(levels) else (*before, self.share)

    def check_steps(self, total_steps: int) -> None:
        if _floored(self.interval * total_steps) < 1:
            least = math.ceil(1.0 / self.interval - 1e-9)
            raise UserError(
                f"{total_steps} steps are too few for {self.name}", f"give at least {least}, one for each level"
            )

    def shared_run(self) -> IMP:
        """The one run that yields this and every other level."""
        return self if self.needs_units else replace(self, sparsity=self.levels()[-1])

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        return _Iterations(self)


@register
@dataclass(frozen=True)
class RewoundIMP(IMP):
    """Iterative magnitude pruning with rewinding: the same masks, on the weights that the run started from."""

    name: ClassVar[str] = "imp-rw"
    rewinds: ClassVar[bool] = True


class _Iterations(Method):
    """At t = 0, dt, 2 dt, ...: emit the level that was just trained, then prune to the next one."""

    def __init__(self, pruner: IMP) -> None:
        super().__init__()
        self.pruner, self.keeps_weights = pruner, pruner.rewinds

    def prepare(self, model: nn.Module, total_steps: int) -> None:
        super().prepare(model, total_steps)
        self.pruner.check_steps(total_steps)
        self.interval = _floored(self.pruner.interval * total_steps)
        self.levels = [level for level in self.pruner.levels() if level <= self.pruner.share + LEVEL_ERROR]
        self.original = {name: t.detach().clone() for name, t in self.state().items()}
        self.groups = self.pruner.groups(model)
        self.attach_fixed(self.groups.layers)
        self._prune(0)

    def stop_at(self) -> int:
        # a rewound level is complete when it is pruned, so the training after the last prune is not needed
        return max(1, self.interval * (len(self.levels) - self.pruner.rewinds))

    def after_step(self, step: int) -> dict[str, float]:
        if step % self.interval or step > self.stop_at():
            return {}
        done = step // self.interval
        if not self.pruner.rewinds:
            self.emit(self.levels[done - 1], self.snapshot())
        if done < len(self.levels):
            self._prune(done)
        return {"mask/sparsity": self.fixed_sparsity()}

    def _prune(self, index: int) -> None:
        level = self.levels[index]
        self.set_fixed(self._smallest_pruned(level))
        if self.pruner.rewinds:
            self.emit(level, self.snapshot())

    def result(self) -> tuple[dict[str, torch.Tensor], Mask | None]:
        return self.original if self.pruner.rewinds else self.state(), self.current_mask()

    def _smallest_pruned(self, sparsity: float) -> Values:
        """The mask at `sparsity`, without the smallest of the remaining weights or units; pruned ones stay pruned."""
        remaining = self.groups.pool({name: keep.float() for name, keep in self.fixed().items()})
        magnitudes = self.groups.magnitudes()
        scores = {name: each.masked_fill(remaining[name] == 0.0, -1.0) for name, each in magnitudes.items()}
        return self.groups.over_weights(self.groups.keep(scores, sparsity, self.pruner.scope))

    def may_select(self, step: int) -> bool:
        return False  # Algorithm 1 returns each level at a fixed step: there is nothing to select
