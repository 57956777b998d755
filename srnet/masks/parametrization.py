"""The mask inside a model: a parametrisation of the weight, so that any architecture works unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.nn.utils import parametrize

from srnet.masks.mask import Mask
from srnet.masks.scores import Cut, cut_between


def _kept(values: torch.Tensor, scores: torch.Tensor, cut: float) -> torch.Tensor:
    """`values` where the score is above `cut`, else 0."""
    return cast(torch.Tensor, torch.ops.aten.threshold_backward(values, scores.to(values.dtype), cut))


class _StraightThrough(torch.autograd.Function):
    """Forward: W where score > cut, else 0. Backward: d score = W * dL/dW' for every entry, pruned ones included.

    If the weight trains as well, its gradient is dL/dW' where it is kept, else 0.
    """

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, weight: torch.Tensor, cut: float) -> torch.Tensor:
        ctx.cut, learns = cut, ctx.needs_input_grad[1]
        ctx.save_for_backward(*((weight, scores) if learns else (weight,)))
        # the backward pass of a rectifier is exactly this, in one vectorised kernel; `torch.where` is 15 times slower
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
        self._cut: tuple[int, float] = (-1, 0.0)

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

    def _strict_cut(self) -> float:
        """The largest float below phi, so that `score > cut` means `score >= phi`. Cached until phi changes."""
        if self._cut[0] != self.phi._version:
            below = torch.nextafter(self.phi, torch.full_like(self.phi, -torch.inf))
            self._cut = (self.phi._version, float(below))
        return self._cut[1]

    def binary(self) -> torch.Tensor:
        """The mask that the forward pass uses."""
        return self.scores.detach() >= self.phi

    @torch.no_grad()
    def set_cut(self, keep: torch.Tensor, cut: Cut = "middle") -> None:
        """Set phi (and move tied scores by one unit in the last place) so that exactly `keep` stays."""
        self.phi.copy_(cut_between(self.scores, keep.to(self.scores.device), cut))


class GateMask(nn.Module):
    """Hard concrete gates (Louizos et al. 2018): noisy while they train, fixed in evaluation; the gate may be partial.

    gate = clamp(sigmoid((log u - log(1 - u) + score) / beta) (r - l) + l, 0, 1), without noise and beta in evaluation.
    """

    BETA, LOW, HIGH = 2.0 / 3.0, -0.1, 1.1

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.gate().to(weight.dtype)

    def gate(self) -> torch.Tensor:
        if not self.training:
            return self.without_noise()
        uniform = torch.rand_like(self.scores).clamp_(1e-6, 1.0 - 1e-6)  # log 0 has no gradient
        return self._stretched(torch.sigmoid((uniform.logit_() + self.scores) / self.BETA))

    def without_noise(self) -> torch.Tensor:
        """The gate without noise, as in evaluation."""
        return self._stretched(torch.sigmoid(self.scores))

    def _stretched(self, share: torch.Tensor) -> torch.Tensor:
        return (share * (self.HIGH - self.LOW) + self.LOW).clamp(0.0, 1.0)

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


def weight_name(module_name: str) -> str:
    return f"{module_name}.weight"


def attach(layers: Mapping[str, nn.Module], masks: Mapping[str, nn.Module]) -> None:
    """Put each layer's mask (by weight name) on its weight."""
    for name, layer in layers.items():
        # unsafe: skips a check that would run the mask on the weight once more; shapes are equal by construction
        parametrize.register_parametrization(layer, "weight", masks[weight_name(name)], unsafe=True)


def set_fixed(layers: Mapping[str, nn.Module], keep: Mapping[str, torch.Tensor]) -> None:
    """Replace the values of attached `FixedMask`s."""
    for name, module in attached(layers).items():
        cast(FixedMask, module).keep.copy_(keep[name])


def detach(layers: Mapping[str, nn.Module], *, bake: bool) -> None:
    """Remove the masks. With `bake` the weight is then m * W, otherwise the original W."""
    for layer in layers.values():
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=bake)


def attached(layers: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Weight name -> the mask module on it."""
    found = {}
    for name, layer in layers.items():
        if parametrize.is_parametrized(layer, "weight"):
            found[weight_name(name)] = cast(Any, layer).parametrizations["weight"][0]
    return found


def raw_weights(layers: Mapping[str, nn.Module]) -> dict[str, torch.Tensor]:
    """Weight name -> the unmasked weight, with or without a mask on it."""
    result: dict[str, torch.Tensor] = {}
    for name, layer in layers.items():
        masked = parametrize.is_parametrized(layer, "weight")
        result[weight_name(name)] = (
            cast(Any, layer).parametrizations["weight"].original if masked else cast(torch.Tensor, layer.weight)
        )
    return result


def current_mask(layers: Mapping[str, nn.Module]) -> Mask:
    """The mask that the attached modules apply."""
    return Mask(
        {name: cast(ScoreMask | GateMask | FixedMask, module).binary() for name, module in attached(layers).items()}
    )
