"""Masks as modules that are put on a weight (`srnet.masks.parametrization`), and the penalty on their scores."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from srnet.masks.scores import BETA, HIGH, LOW, Cut, cut_between


def _kept(values: torch.Tensor, scores: torch.Tensor, cut: float | torch.Tensor) -> torch.Tensor:
    """`values` where the score is above `cut`, else 0."""
    if isinstance(cut, torch.Tensor):
        return torch.where(scores > cut, values, 0.0)
    # the backward pass of a rectifier is exactly this, in one vectorised kernel; on the CPU `where` is 15 times slower
    return cast(torch.Tensor, torch.ops.aten.threshold_backward(values, scores.to(values.dtype), cut))


def _just_below(value: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(value, torch.full_like(value, -torch.inf))


class _StraightThrough(torch.autograd.Function):
    """Forward: W where score > cut, else 0. Backward: d score = W * dL/dW' for every entry, pruned ones included.

    If the weight trains as well, its gradient is dL/dW' where it is kept, else 0.
    """

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, weight: torch.Tensor, cut: float | torch.Tensor) -> torch.Tensor:
        ctx.cut, learns = cut, ctx.needs_input_grad[1]
        ctx.save_for_backward(*((weight, scores) if learns else (weight,)))
        return _kept(weight, scores, cut)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        (weight, *scores), gradient = ctx.saved_tensors, grads[0]
        of_weight = _kept(gradient, scores[0], ctx.cut) if scores else None
        if not gradient.is_contiguous():
            return weight * gradient, of_weight, None
        # in place: a layer's backward pass has just made this gradient, and nothing else refers to it
        return gradient.mul_(weight), of_weight, None


class ScoreMask(nn.Module):
    """A trainable mask: the weight, which may be frozen, is kept where score >= phi."""

    phi: torch.Tensor

    def __init__(self, scores: torch.Tensor, phi: float) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)
        self.register_buffer("phi", torch.tensor(phi, dtype=scores.dtype, device=scores.device))
        self._cut: tuple[torch.Tensor | None, int, float] = (None, 0, 0.0)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return self._traceable(weight)
        masked = _StraightThrough.apply(self.scores, weight, self._strict_cut())  # type: ignore[no-untyped-call]
        return cast(torch.Tensor, masked)

    def _traceable(self, weight: torch.Tensor) -> torch.Tensor:
        """The same values and gradients without reading `phi` in Python: a compiler would treat it as a constant.

        `scores - scores.detach()` is exactly zero and carries the gradient past the comparison.
        """
        keep = (self.scores.detach() >= self.phi).to(weight.dtype)
        return weight * (keep + (self.scores - self.scores.detach()).to(weight.dtype))

    def _strict_cut(self) -> float | torch.Tensor:
        """The largest float below phi, so that `score > cut` means `score >= phi`.

        A number on the CPU, cached until phi is changed or replaced. On a GPU reading it would make the CPU wait.
        """
        if self.phi.device.type != "cpu":
            return _just_below(self.phi)
        phi, version, cut = self._cut
        if phi is not self.phi or version != phi._version:
            cut = float(_just_below(self.phi))
            self._cut = (self.phi, self.phi._version, cut)
        return cut

    def binary(self) -> torch.Tensor:
        """The mask that the forward pass uses."""
        return self.scores.detach() >= self.phi

    @torch.no_grad()
    def set_cut(self, keep: torch.Tensor, cut: Cut = "middle") -> None:
        """Set phi (and move tied scores by one unit in the last place) so that exactly `keep` stays."""
        self.phi.copy_(cut_between(self.scores, keep.to(self.scores.device), cut))


class UnitMask(nn.Module):
    """A trainable mask over whole units, such as heads: the scores of `units` decide, one score a unit.

    Each index of dimension `dim` belongs to the unit that `unit_of` names. A unit's gradient is the sum over its
    weights in this matrix.
    """

    unit_of: torch.Tensor

    def __init__(self, units: ScoreMask, unit_of: torch.Tensor, dim: int) -> None:
        super().__init__()
        self.units, self.dim = units, dim
        self.register_buffer("unit_of", unit_of)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        gates = self.units(torch.ones_like(self.units.scores))
        return weight * self._along(gates.to(weight.dtype))

    def _along(self, values: torch.Tensor) -> torch.Tensor:
        return values[self.unit_of].unsqueeze(1 - self.dim)


class GateMask(nn.Module):
    """Hard concrete gates (Louizos et al. 2018): noisy while they train, fixed in evaluation; the gate may be partial.

    gate = clamp(sigmoid((log u - log(1 - u) + score) / beta) (r - l) + l, 0, 1), without noise and beta in evaluation.
    """

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.gate().to(weight.dtype)

    def gate(self) -> torch.Tensor:
        if not self.training:
            return self.without_noise()
        uniform = torch.rand_like(self.scores).clamp_(1e-6, 1.0 - 1e-6)  # log 0 has no gradient
        return self._stretched(torch.sigmoid((uniform.logit_() + self.scores) / BETA))

    def without_noise(self) -> torch.Tensor:
        """The gate without noise, as in evaluation."""
        return self._stretched(torch.sigmoid(self.scores))

    def _stretched(self, share: torch.Tensor) -> torch.Tensor:
        return (share * (HIGH - LOW) + LOW).clamp(0.0, 1.0)

    def binary(self) -> torch.Tensor:
        return self.without_noise().detach() > 0.0


class FixedMask(nn.Module):
    """A mask that does not train, over a weight that may."""

    keep: torch.Tensor

    def __init__(self, keep: torch.Tensor, like: torch.Tensor | None = None) -> None:
        super().__init__()
        # ones and zeros: a plain product is the fastest way to mask
        self.register_buffer("keep", keep.float() if like is None else keep.to(like))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.keep

    def binary(self) -> torch.Tensor:
        return self.keep.bool()


class MeanSigmoid(torch.autograd.Function):
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
