"""How the real-valued mask starts: by the magnitude of the weights."""

from __future__ import annotations

from typing import Literal

import torch

Init = Literal["hard", "soft"]


def initial_scores(weight: torch.Tensor, keep: torch.Tensor, init: Init, phi: float, alpha: float) -> torch.Tensor:
    """`hard` (Eq. 1): 0 where pruned, alpha * phi where kept. `soft` (Eq. 2): the magnitude itself."""
    if init == "soft":
        return weight.detach().abs().float()
    return keep.float() * (alpha * phi)


def cut_between(scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The threshold phi that separates `keep` from the rest, as `scores >= phi`.

    It lies halfway between the two, so that neither side flips at the slightest update; for scores fresh from Eq. 1
    with alpha = 2 that is phi itself. Pruned entries tied with the lowest kept one are lowered in place by one unit in
    the last place: the cheap compare in the forward pass then gives the exact budget.
    """
    infinity = torch.full((), torch.inf, dtype=scores.dtype, device=scores.device)
    if not bool(keep.any()):
        return infinity
    if bool(keep.all()):
        return -infinity
    lowest_kept = scores[keep].min()
    scores[(scores >= lowest_kept) & ~keep] = torch.nextafter(lowest_kept, -infinity)
    highest_pruned = scores[~keep].max()
    middle = highest_pruned + (lowest_kept - highest_pruned) / 2
    return torch.where(middle > highest_pruned, middle, lowest_kept)  # neighbouring floats have nothing in between
