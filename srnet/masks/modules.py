"""Masks as modules that are attached to a weight (`srnet.masks.parametrization`), and the penalty on their scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from srnet.masks.scores import BETA, HIGH, LOW, Cut
from srnet.masks.selection import Selection, kth_each

SAMPLE = 32_768
"""Scores from which a threshold is estimated: the error of the share above it is then a few thousandths."""
AT_ONCE = 2**26
"""Scores whose penalty is computed together on a GPU, so that what is in between takes little of its memory."""


def _kept(values: torch.Tensor, scores: torch.Tensor, cut: float | torch.Tensor) -> torch.Tensor:
    """`values` where the score is above the number `cut`, or at least the tensor `cut`, else 0."""
    if isinstance(cut, torch.Tensor):
        return values.masked_fill(scores < cut, 0.0)
    if values.itemsize < scores.itemsize:  # rounded scores would move past the cut
        return torch.where(scores > cut, values, 0.0)
    # the backward pass of a rectifier is exactly this, in one vectorised kernel; on the CPU `where` is 15 times slower
    return cast(torch.Tensor, torch.ops.aten.threshold_backward(values, scores.to(values.dtype), cut))


def _just_below(value: torch.Tensor) -> torch.Tensor:
    return torch.nextafter(value, torch.full_like(value, -torch.inf))


def _is_unshared(gradient: Any) -> bool:
    """Whether nothing else refers to a gradient, so that it may be changed.

    The gradient of `weight + update`, for example, is also that of the update.
    """
    base = gradient._base  # its view and this name refer to it
    is_alone = gradient._use_count() == 1 and (base is None or base._use_count() == 2)
    return is_alone and bool(gradient.is_contiguous())


class _StraightThrough(torch.autograd.Function):
    """Forward: W where score > cut, else 0. Backward: d score = W * dL/dW' for every entry, pruned ones included.

    If the weight trains as well, its gradient is dL/dW' where it is kept, else 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        scores: torch.Tensor,
        weight: torch.Tensor,
        cut: float | torch.Tensor,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        ctx.cut, learns = cut, ctx.needs_input_grad[1]
        ctx.save_for_backward(*((weight, scores) if learns else (weight,)))
        return _kept(weight if dtype is None else weight.to(dtype), scores, cut)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, None, None]:
        (weight, *scores), gradient = ctx.saved_tensors, grads[0]
        of_weight = _kept(gradient, scores[0], ctx.cut) if scores else None
        weight = weight.to(gradient.dtype)  # a product of two types is slow on the CPU
        scored = gradient.mul_(weight) if _is_unshared(gradient) else weight * gradient
        return scored, of_weight, None, None


class _Scores(nn.Module):
    """A mask with a trainable score for each weight or unit."""

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        # half precision would round away the small steps of training
        self.scores = nn.Parameter(scores.float() if scores.itemsize < 4 else scores)

    def sample(self, turn: int) -> torch.Tensor:
        """Every n-th score, others each turn. n is coprime to a row's length, or it would miss columns."""
        flat = self.scores.detach().reshape(-1)
        stride = max(1, flat.numel() // SAMPLE)
        while math.gcd(stride, self.scores.shape[-1]) > 1:
            stride += 1
        return flat[turn % stride :: stride]


class ScoreMask(_Scores):
    """A trainable mask: the weight, which may be frozen, is kept where score >= phi."""

    phi: torch.Tensor
    computes_in: torch.dtype | None = None
    """The type of the masked weight, where the weight itself is kept in another."""

    def __init__(self, scores: torch.Tensor, phi: float) -> None:
        super().__init__(scores)
        self.register_buffer("phi", torch.tensor(phi, dtype=self.scores.dtype, device=scores.device))
        self._cut: tuple[torch.Tensor | None, int, float] = (None, 0, 0.0)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return self._traceable(weight if self.computes_in is None else weight.to(self.computes_in))
        given = self.scores, weight, self._strict_cut(), self.computes_in
        return cast(torch.Tensor, _StraightThrough.apply(*given))  # type: ignore[no-untyped-call]

    def sources(self) -> tuple[torch.Tensor, ...]:
        """What the masked weight is computed from, beside the weight."""
        return self.scores, self.phi

    def _traceable(self, weight: torch.Tensor) -> torch.Tensor:
        """The same values and gradients without reading `phi` in Python: a compiler would treat it as a constant.

        `scores - scores.detach()` is exactly zero and carries the gradient past the comparison.
        """
        keep = (self.scores.detach() >= self.phi).to(weight.dtype)
        return weight * (keep + (self.scores - self.scores.detach()).to(weight.dtype))

    def _strict_cut(self) -> float | torch.Tensor:
        """The largest float below phi, so that `score > cut` means `score >= phi`: a number, cached until phi changes.

        On a GPU it is phi itself, because reading it would make the CPU wait.
        """
        if self.phi.device.type != "cpu":
            return self.phi
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
        self.phi.copy_(_cut_between(self.scores, keep.to(self.scores.device), cut))

    @staticmethod
    @torch.no_grad()
    def set_cuts(masks: Mapping[str, ScoreMask], selected: Mapping[str, Selection], cut: Cut = "middle") -> None:
        """`set_cut` of several masks. Where no scores are tied, the edges of the selection are all that is needed."""
        between = {name: each.edges for name, each in selected.items() if each.edges is not None}
        for name in selected.keys() - between.keys():
            masks[name].set_cut(selected[name].keep, cut)
        if between:
            highest, lowest = torch.stack(list(between.values())).unbind(1)
            _set_thresholds([masks[name] for name in between], list(_threshold(highest, lowest, cut).unbind()))

    def estimate_cut(self, sample: torch.Tensor, kept: float) -> None:
        """Set phi so that about the share `kept` of the scores stays. Where scores are tied, more stay."""
        self.estimate_cuts([self], [sample], [kept])

    @staticmethod
    @torch.no_grad()
    def estimate_cuts(masks: Sequence[ScoreMask], samples: Sequence[torch.Tensor], kept: Sequence[float]) -> None:
        """`estimate_cut` of several masks, all of one device."""
        sizes = [sample.numel() for sample in samples]
        pruned = [round((1.0 - share) * size) for share, size in zip(kept, sizes, strict=True)]
        inside = [number for number, size in enumerate(sizes) if 0 < pruned[number] < size]
        found = kth_each([samples[number] for number in inside], [pruned[number] for number in inside])
        cuts = dict(zip(inside, found, strict=True))
        for number in set(range(len(masks))) - set(inside):  # keep every score, also those outside the sample, or none
            infinity = math.inf if pruned[number] > 0 else -math.inf
            cuts[number] = torch.full_like(masks[number].phi, infinity)
        _set_thresholds(masks, [cuts[number] for number in range(len(masks))])

    @staticmethod
    @torch.no_grad()
    def set_shared_cut(masks: Mapping[str, ScoreMask], keep: Mapping[str, torch.Tensor]) -> None:
        """Set the thresholds of all groups by the published rule for a global budget: the k-th value of all scores.

        It is one number, the next float above the highest pruned score, also for groups of which everything or nothing
        stays. Kept scores that are tied with that score are raised to it in place. Only a group that keeps its best
        unit although it lies below has a threshold of its own.
        """
        kept = {name: keep[name].to(mask.scores.device) for name, mask in masks.items()}
        pruned = [mask.scores.masked_fill(kept[name], -torch.inf).max() for name, mask in masks.items()]
        highest = torch.stack(pruned).max()
        shared = torch.nextafter(highest, torch.full_like(highest, torch.inf))
        below = torch.stack([(kept[name] & (mask.scores < highest)).any() for name, mask in masks.items()])
        # at once: each `bool` would wait for a GPU
        for (name, mask), has_own in zip(masks.items(), below.tolist(), strict=True):
            if has_own:
                mask.set_cut(kept[name], "kth")
            else:
                mask.scores.copy_(shared.where(kept[name] & (mask.scores == highest), mask.scores))
                mask.phi.copy_(shared)


def _cut_between(scores: torch.Tensor, keep: torch.Tensor, cut: Cut) -> torch.Tensor:
    """The threshold phi that separates `keep` from the rest, as `scores >= phi`.

    Pruned entries that are not below the lowest kept one are lowered in place, to one unit in the last place below it:
    the comparison in the forward pass then gives the exact budget.
    """
    lowest = scores.masked_fill(~keep, torch.inf).amin()
    scores.copy_(scores.where(keep, scores.clamp(max=_just_below(lowest))))
    phi = _threshold(scores.masked_fill(keep, -torch.inf).amax(), lowest, cut)
    # nothing is pruned, or nothing is kept
    return torch.where(keep.all(), -torch.inf, torch.where(keep.any(), phi, torch.inf))


def _threshold(highest_pruned: torch.Tensor, lowest_kept: torch.Tensor, cut: Cut) -> torch.Tensor:
    """`middle` lies halfway between the two, so that small updates flip neither side; for the initial scores of Eq. 1
    with alpha = 2 that is phi itself. `kth` is the published rule, `scores > k-th value` for k pruned weights: the next
    float above the highest pruned score, which any increase of that score crosses.
    """
    if cut == "kth":
        return torch.nextafter(highest_pruned, torch.full_like(highest_pruned, torch.inf))
    middle = highest_pruned + (lowest_kept - highest_pruned) / 2
    return torch.where(middle > highest_pruned, middle, lowest_kept)  # adjacent floats have no middle


def _set_thresholds(masks: Sequence[ScoreMask], cuts: Sequence[torch.Tensor]) -> None:
    """One operation for all masks on a GPU."""
    if cuts and cuts[0].device.type != "cpu":
        torch._foreach_copy_([mask.phi for mask in masks], list(cuts))
    else:
        for mask, cut in zip(masks, cuts, strict=True):
            mask.phi.copy_(cut)


class UnitMask(nn.Module):
    """A trainable mask over whole units, such as heads, each with a score in `units`.

    Each index of dimension `dim` belongs to the unit `unit_of[index]`. A unit's gradient is the sum over its weights in
    this matrix.
    """

    unit_of: torch.Tensor

    units: ScoreMask

    def __init__(self, units: ScoreMask, unit_of: torch.Tensor, dim: int, *, owns: bool = True) -> None:
        """Of several masks with the same scores one owns them: in a saved model they have one name."""
        super().__init__()
        self.dim = dim
        if owns:
            self.units = units
        else:
            self.__dict__["units"] = units
        self.register_buffer("unit_of", unit_of)

    def sources(self) -> tuple[torch.Tensor, ...]:
        return self.units.sources()

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        gates: torch.Tensor = self.units(torch.ones_like(self.units.scores)).to(weight.dtype)
        return weight * gates[self.unit_of].unsqueeze(1 - self.dim)


class GateMask(_Scores):
    """Hard concrete gates (Louizos et al. 2018): noisy while they train, fixed in evaluation; the gate may be partial.

    gate = clamp(sigmoid((log u - log(1 - u) + score) / beta) (r - l) + l, 0, 1), without noise and beta in evaluation.
    """

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.gate().to(weight.dtype)

    def sources(self) -> None:
        """Nothing alone: its noise is not drawn twice."""

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

    def sources(self) -> tuple[torch.Tensor, ...]:
        return (self.keep,)

    def binary(self) -> torch.Tensor:
        return self.keep.bool()


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


class _SumOfMeans(torch.autograd.Function):
    """The sum over matrices of weight * sum(sigmoid(S + shift)), in few operations whatever the number of matrices."""

    @staticmethod
    def forward(ctx: Any, shift: float, weights: list[float], *scores: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*scores)
        ctx.shift, ctx.weights = shift, weights
        sums = torch._foreach_norm(_sigmoids(scores, shift), 1)  # of what is positive: its sum
        return torch.stack(torch._foreach_mul(sums, weights)).sum()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        shares = _sigmoids(ctx.saved_tensors, ctx.shift)
        torch._foreach_addcmul_(shares, shares, shares, value=-1.0)  # s - s^2
        torch._foreach_mul_(shares, ctx.weights)
        torch._foreach_mul_(shares, grads[0])
        return None, None, *shares


def _sigmoids(scores: Sequence[torch.Tensor], shift: float) -> list[torch.Tensor]:
    return list(torch._foreach_sigmoid(torch._foreach_add(list(scores), shift) if shift else list(scores)))


def mean_sigmoid(scores: list[torch.Tensor], shift: float = 0.0) -> torch.Tensor:
    """The mean over matrices of the mean of sigmoid(S + shift)."""
    if scores[0].device.type == "cpu":
        means = [cast(torch.Tensor, _MeanSigmoid.apply(each, shift)) for each in scores]  # type: ignore[no-untyped-call]
        return torch.stack(means).mean()
    parts = []
    for some in _parts(scores):
        weights = [1.0 / (each.numel() * len(scores)) for each in some]
        parts.append(cast(torch.Tensor, _SumOfMeans.apply(shift, weights, *some)))  # type: ignore[no-untyped-call]
    return torch.stack(parts).sum()


def _parts(scores: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """The matrices in few parts of at most AT_ONCE scores, or of one matrix."""
    part: list[torch.Tensor] = []
    for each in scores:
        if part and sum(other.numel() for other in part) + each.numel() > AT_ONCE:
            yield part
            part = []
        part.append(each)
    yield part
